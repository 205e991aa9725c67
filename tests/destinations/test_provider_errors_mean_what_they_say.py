"""Danger: an answer such as a bare 409 is taken for success, or a success for a failure."""

from __future__ import annotations

import json
import urllib.error
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests

from effectlog.contract import Destination, Verdict
from effectlog.destinations import (
    ADYEN,
    ALL,
    BRAINTREE,
    CHECKOUT_COM,
    GOCARDLESS,
    PAYPAL_ORDERS,
    PAYPAL_PAYMENTS,
    RESEND,
    SES,
    SHOPIFY,
    SQUARE,
    STRIPE,
    STRIPE_V2,
    Answer,
    by_code,
    read_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

APPLIED, NOT_APPLIED, IN_FLIGHT, UNKNOWN, KEY_MISUSED = (
    Verdict.APPLIED,
    Verdict.NOT_APPLIED,
    Verdict.IN_FLIGHT,
    Verdict.UNKNOWN,
    Verdict.KEY_MISUSED,
)


def graphql(extensions: dict[str, str]) -> dict[str, Any]:
    return {"data": None, "errors": [{"message": "no", "extensions": extensions}]}


def shopify(code: str) -> dict[str, Any]:
    return {"data": {"refundCreate": {"userErrors": [{"code": code, "field": None}]}}}


GOCARDLESS_BODY = {
    "error": {
        "type": "invalid_state",
        "code": 409,
        "errors": [
            {"reason": "idempotent_creation_conflict", "links": {"conflicting_resource_id": "PM0000ABC"}}
        ],
    }
}

TABLE: list[tuple[Destination, int, Any, Verdict]] = [
    (STRIPE, 409, {"error": {"type": "invalid_request_error", "code": "idempotency_key_in_use"}}, IN_FLIGHT),
    (STRIPE, 400, {"error": {"type": "idempotency_error", "message": "…"}}, KEY_MISUSED),
    (STRIPE, 401, {"error": {"type": "invalid_request_error"}}, NOT_APPLIED),
    (STRIPE, 402, {"error": {"type": "card_error", "code": "card_declined"}}, UNKNOWN),
    (STRIPE, 400, {"error": {"type": "invalid_request_error"}}, UNKNOWN),
    (STRIPE, 429, {"error": {"code": "rate_limit"}}, UNKNOWN),
    (STRIPE, 500, {"error": {"type": "api_error"}}, UNKNOWN),
    (STRIPE, 400, {"error": {"type": "x"}, "metadata": {"type": "idempotency_error"}}, UNKNOWN),
    (STRIPE_V2, 409, {"error": {"code": "idempotency_key_in_use"}}, IN_FLIGHT),
    (ADYEN, 422, {"status": 422, "errorCode": "704", "errorType": "validation"}, IN_FLIGHT),
    (ADYEN, 409, {"status": 409, "errorCode": "704"}, IN_FLIGHT),
    (ADYEN, 422, {"status": 422, "errorCode": "130"}, UNKNOWN),
    (ADYEN, 503, {"status": 503, "errorCode": "703"}, UNKNOWN),
    (
        PAYPAL_PAYMENTS,
        409,
        {"name": "RESOURCE_CONFLICT", "details": [{"issue": "PREVIOUS_REQUEST_IN_PROGRESS"}]},
        IN_FLIGHT,
    ),
    (PAYPAL_PAYMENTS, 409, {"name": "RESOURCE_CONFLICT"}, UNKNOWN),
    (PAYPAL_ORDERS, 422, {"name": "UNPROCESSABLE_ENTITY"}, UNKNOWN),
    (SQUARE, 400, {"errors": [{"code": "IDEMPOTENCY_KEY_REUSED"}]}, KEY_MISUSED),
    (BRAINTREE, 200, graphql({"legacyCode": "915233"}), IN_FLIGHT),
    (BRAINTREE, 200, graphql({"legacyCode": "915232"}), KEY_MISUSED),
    (BRAINTREE, 200, graphql({"legacyCode": "915234"}), NOT_APPLIED),
    (CHECKOUT_COM, 409, None, IN_FLIGHT),
    (CHECKOUT_COM, 422, {"error_type": "request_invalid", "error_codes": ["amount_invalid"]}, UNKNOWN),
    (GOCARDLESS, 409, GOCARDLESS_BODY, APPLIED),
    (GOCARDLESS, 409, {"error": {"type": "invalid_state", "errors": []}}, UNKNOWN),
    (SHOPIFY, 200, shopify("IDEMPOTENCY_CONCURRENT_REQUEST"), IN_FLIGHT),
    (SHOPIFY, 200, shopify("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"), KEY_MISUSED),
    (RESEND, 409, {"statusCode": 409, "name": "concurrent_idempotent_requests"}, IN_FLIGHT),
    (RESEND, 409, {"statusCode": 409, "name": "invalid_idempotent_request"}, KEY_MISUSED),
    (RESEND, 409, {"statusCode": 409, "name": "another"}, UNKNOWN),
]


def from_httpx(status: int, body: Any) -> BaseException:
    response = httpx.Response(status, content=json.dumps(body), request=httpx.Request("POST", "https://x"))
    return httpx.HTTPStatusError("refused", request=response.request, response=response)


def from_requests(status: int, body: Any) -> BaseException:
    response = requests.Response()
    response.status_code, response._content = status, json.dumps(body).encode()
    return requests.HTTPError("refused", response=response)


def from_own_class(status: int, body: Any) -> BaseException:
    error = RuntimeError("refused")
    error.status, error.body = status, json.dumps(body)  # type: ignore[attr-defined]
    return error


def wrapped(status: int, body: Any) -> BaseException:
    try:
        raise ValueError("payment failed") from from_httpx(status, body)
    except ValueError as error:
        return error


SHAPES = [from_httpx, from_requests, from_own_class, wrapped]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("contract", "status", "body", "verdict"), TABLE)
def test_a_documented_error_is_recognised_whatever_the_client(
    shape: Callable[[int, Any], BaseException],
    contract: Destination,
    status: int,
    body: Any,
    verdict: Verdict,
) -> None:
    assert contract.classify(shape(status, body)) is verdict


@pytest.mark.parametrize("contract", [c for c in ALL if c is not CHECKOUT_COM], ids=lambda c: c.name)
def test_a_bare_409_means_nothing(contract: Destination) -> None:
    assert contract.classify(from_httpx(409, {})) is UNKNOWN
    assert contract.classify(from_httpx(409, {"error": {"code": "conflict"}})) is UNKNOWN


@pytest.mark.parametrize("contract", ALL, ids=lambda c: c.name)
@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), ValueError("x"), SystemExit(1)])
def test_a_lost_answer_is_unknown(contract: Destination, error: BaseException) -> None:
    assert contract.classify(error) is UNKNOWN


def test_the_error_that_proves_existence_names_the_thing() -> None:
    assert GOCARDLESS.existing(from_httpx(409, GOCARDLESS_BODY)) == "PM0000ABC"
    assert GOCARDLESS.existing(TimeoutError()) is None


class Hostile(Exception):
    """Everything one reads from it fails."""

    @property
    def response(self) -> Any:
        raise RuntimeError("no response")

    @property
    def status_code(self) -> Any:
        raise KeyError("no status")


class Strange(Exception):
    def __init__(self) -> None:
        self.response = {"Error": "not a mapping", "ResponseMetadata": None}
        self.body = b"{not json"
        self.code = object()
        self.errors = [[[[[[[[[{"code": "idempotency_key_in_use"}]]]]]]]]]


class Asynchronous(Exception):
    class response:
        status = 409

        @staticmethod
        async def json() -> Any:
            return {}


@pytest.mark.parametrize("error", [Hostile(), Strange(), Asynchronous()])
@pytest.mark.parametrize("contract", [STRIPE, SES, BRAINTREE], ids=lambda c: c.name)
def test_reading_an_exception_never_raises(contract: Destination, error: BaseException) -> None:
    assert contract.classify(error) is UNKNOWN


def test_an_unread_streaming_response_is_not_read() -> None:
    response = requests.Response()
    response.status_code = 409
    response.raw = None  # reading it would fail, or block on the network
    assert read_answer(requests.HTTPError(response=response)) == Answer(409, frozenset(), [], {})


def test_a_cycle_of_causes_ends() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert read_answer(first) == Answer()


def test_the_status_of_urllib_is_read_but_not_its_stream() -> None:
    error = urllib.error.HTTPError("https://x", 401, "no", None, None)  # type: ignore[arg-type]
    assert STRIPE.classify(error) is NOT_APPLIED


def test_a_contract_of_ones_own_takes_the_same_table() -> None:
    shop = Destination("shop", classify=by_code((APPLIED, 409, "order_exists")))
    assert shop.classify(from_httpx(409, {"code": "order_exists"})) is APPLIED
    assert shop.classify(from_httpx(400, {"code": "order_exists"})) is UNKNOWN
