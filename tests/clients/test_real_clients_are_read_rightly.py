"""Danger: the client libraries raise something else than we think they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import peers

from effectlog.clients.failures import CARD_DECLINED_STRIPE, NOT_SENT, NOT_SENT_AIOHTTP, NOT_SENT_STRIPE
from effectlog.contract import Verdict
from effectlog.destinations import GOCARDLESS, RESEND, SES, STRIPE

if TYPE_CHECKING:
    from collections.abc import Iterator

stripe = pytest.importorskip("stripe")
aiohttp = pytest.importorskip("aiohttp")
botocore_session = pytest.importorskip("botocore.session")


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(stripe, "max_network_retries", 0)
    return


def charge(url: str) -> BaseException:
    client = stripe.StripeClient(
        "sk_test_x", base_addresses={"api": url}, http_client=stripe.RequestsClient(timeout=1)
    )
    with pytest.raises(stripe.StripeError) as caught:
        client.v1.payment_intents.create({"amount": 1999, "currency": "eur"})
    client._requestor._client.close()
    return caught.value


@pytest.mark.parametrize(
    ("status", "error", "verdict", "declined"),
    [
        (409, {"type": "invalid_request_error", "code": "idempotency_key_in_use"}, Verdict.IN_FLIGHT, False),
        (400, {"type": "idempotency_error"}, Verdict.KEY_MISUSED, False),
        (401, {"type": "invalid_request_error"}, Verdict.NOT_APPLIED, False),
        (402, {"type": "card_error", "code": "card_declined"}, Verdict.UNKNOWN, True),
        (500, {"type": "api_error"}, Verdict.UNKNOWN, False),
    ],
)
@pytest.mark.usefixtures("no_retries")
def test_stripes_answers(status: int, error: dict[str, str], verdict: Verdict, declined: bool) -> None:
    with peers.answering(status, {"error": error}) as (url, _):
        raised = charge(url)
    assert STRIPE.classify(raised) is verdict
    assert isinstance(raised, CARD_DECLINED_STRIPE) is declined


@pytest.mark.usefixtures("no_retries")
def test_stripes_one_connection_error_is_told_apart_by_its_cause() -> None:
    with peers.refusing() as port:
        assert isinstance(charge(f"http://127.0.0.1:{port}"), (NOT_SENT_STRIPE, ValueError))
    with peers.resetting() as port:
        assert not isinstance(charge(f"http://127.0.0.1:{port}"), NOT_SENT)


def test_a_connect_that_failed_after_stripes_own_retries_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stripe, "max_network_retries", 1)
    monkeypatch.setattr(stripe._http_client.HTTPClient, "INITIAL_DELAY", 0.0)
    monkeypatch.setattr(stripe._http_client.HTTPClient, "MAX_DELAY", 0.0)
    with peers.refusing() as port:
        assert not isinstance(charge(f"http://127.0.0.1:{port}"), NOT_SENT)


async def test_aiohttps_failures() -> None:
    timeout = aiohttp.ClientTimeout(total=5, sock_connect=0.15, sock_read=0.15)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def post(port: int) -> BaseException:
            with pytest.raises(Exception) as caught:
                await session.post(f"http://127.0.0.1:{port}")
            return caught.value

        for peer, not_sent in (
            (peers.refusing, True),
            (peers.overfull, True),
            (peers.silent, False),
            (peers.resetting, False),
        ):
            with peer() as port:
                error = await post(port)
            assert isinstance(error, NOT_SENT_AIOHTTP) is not_sent, repr(error)
            assert isinstance(error, NOT_SENT) is not_sent


def send_email(url: str, attempts: int = 1) -> BaseException:
    from botocore.config import Config

    session = botocore_session.get_session()
    session.set_credentials("id", "secret")
    config = Config(
        retries={"total_max_attempts": attempts, "mode": "standard"}, connect_timeout=1, read_timeout=0.2
    )
    client = session.create_client("sesv2", region_name="eu-west-1", endpoint_url=url, config=config)
    with pytest.raises(Exception) as caught:
        client.send_email(Content={"Raw": {"Data": b"x"}})
    client.close()
    return caught.value


AWS_ERROR = {"x-amzn-errortype": "MessageRejected"}


def test_botocores_failures() -> None:
    with peers.answering(400, {"message": "spam"}, AWS_ERROR) as (url, _):
        assert SES.classify(send_email(url)) is Verdict.NOT_APPLIED
    with peers.answering(500, {"message": "oh"}, {"x-amzn-errortype": "InternalFailure"}) as (url, _):
        assert SES.classify(send_email(url)) is Verdict.UNKNOWN
    with peers.refusing() as port:
        assert isinstance(send_email(f"http://127.0.0.1:{port}"), NOT_SENT)
    with peers.silent() as port:
        assert not isinstance(send_email(f"http://127.0.0.1:{port}"), NOT_SENT)


def test_a_refusal_after_botocores_own_retry_proves_nothing() -> None:
    too_many = {"x-amzn-errortype": "TooManyRequestsException"}
    with peers.answering(429, {"message": "slow down"}, too_many) as (url, received):
        once, twice = send_email(url), send_email(url, attempts=2)
    assert len(received) == 3
    assert SES.classify(once) is Verdict.NOT_APPLIED
    assert SES.classify(twice) is Verdict.UNKNOWN


def test_gocardless_names_the_payment_that_exists() -> None:
    errors = pytest.importorskip("gocardless_pro.errors")
    reason = {"reason": "idempotent_creation_conflict", "links": {"conflicting_resource_id": "PM1"}}
    body: dict[str, Any] = {"type": "invalid_state", "code": 409, "message": "exists", "errors": [reason]}
    error = errors.IdempotentCreationConflictError(body)
    assert GOCARDLESS.classify(error) is Verdict.APPLIED
    assert GOCARDLESS.existing(error) == "PM1"


def test_resends_two_conflicts_are_told_apart() -> None:
    exceptions = pytest.importorskip("resend.exceptions")
    for kind, verdict in (
        ("concurrent_idempotent_requests", Verdict.IN_FLIGHT),
        ("invalid_idempotent_request", Verdict.KEY_MISUSED),
    ):
        assert RESEND.classify(exceptions.ResendError(409, kind, "no", "")) is verdict
