"""Danger: a client helper leaks a key outside its effect, replaces the user's own, or drops it."""

from __future__ import annotations

import base64
import pickle
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import TYPE_CHECKING

import httpx
import pytest
import requests
from support import peers

from effectlog.clients.httpx import AsyncEffectKeyTransport, EffectKeyAuth, EffectKeyTransport
from effectlog.clients.requests import EffectKeyAdapter, carry_key
from effectlog.clients.smtp import stamp
from effectlog.clients.stripe import request_options
from effectlog.context import Request, place
from effectlog.contract import EXAMPLE_OPERATION_ID, Destination
from effectlog.destinations import CHECKOUT_COM, SES, SQUARE, STRIPE
from effectlog.store.rows import RequestClock

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = RequestClock(datetime(2026, 11, 5, 12, 30, 15, tzinfo=UTC).timestamp(), boot=1.0, boot_id="a boot")


@pytest.fixture
def inside(request: pytest.FixtureRequest) -> Iterator[Request | None]:
    """Be in the function of an effect with the given contract, or outside any."""
    current = None
    if request.param != "outside":
        current = Request(None, "mail", request.param, FIRST, EXAMPLE_OPERATION_ID)
    token = place.set(current)
    yield current
    place.reset(token)


def effect_with(*contracts: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "inside", contracts, indirect=True, ids=lambda c: c.name if isinstance(c, Destination) else str(c)
    )


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, str]]]]:
    with peers.answering(200, {}) as running:
        yield running


async def every_client(url: str, headers: dict[str, str] | None = None) -> None:
    for client in (httpx.Client(auth=EffectKeyAuth()), httpx.Client(transport=EffectKeyTransport())):
        with client:
            client.post(url, headers=headers)
    for asynchronous in (
        httpx.AsyncClient(auth=EffectKeyAuth()),
        httpx.AsyncClient(transport=AsyncEffectKeyTransport()),
    ):
        async with asynchronous:
            await asynchronous.post(url, headers=headers)
    with carry_key(requests.Session()) as session:
        session.post(url, headers=headers)


@effect_with(STRIPE, CHECKOUT_COM)
async def test_every_client_sends_the_contracts_header(
    inside: Request, server: tuple[str, list[dict[str, str]]]
) -> None:
    url, received = server
    await every_client(url)
    assert inside.destination is not None
    header = inside.destination.key_field or ""
    assert [headers[header] for headers in received] == [EXAMPLE_OPERATION_ID] * 5


@effect_with("outside", None, SES, SQUARE)
async def test_nothing_is_sent_outside_or_where_no_header_carries_the_key(
    inside: Request | None, server: tuple[str, list[dict[str, str]]]
) -> None:
    url, received = server
    await every_client(url)
    assert len(received) == 5
    for headers in received:
        assert EXAMPLE_OPERATION_ID not in headers.values()


@effect_with(STRIPE)
async def test_a_key_of_the_users_own_is_left_alone(
    inside: Request, server: tuple[str, list[dict[str, str]]]
) -> None:
    url, received = server
    await every_client(url, {"idempotency-key": "mine"})
    assert [headers.get_all("Idempotency-Key") for headers in received] == [["mine"]] * 5  # type: ignore[attr-defined]


@effect_with(None)
def test_a_default_header_serves_effects_without_a_contract(
    inside: Request, server: tuple[str, list[dict[str, str]]]
) -> None:
    url, received = server
    with httpx.Client(auth=EffectKeyAuth(default_header="X-Key")) as client:
        client.post(url)
    with carry_key(requests.Session(), default_header="X-Key") as session:
        session.post(url)
    assert [headers["X-Key"] for headers in received] == [EXAMPLE_OPERATION_ID] * 2


class Challenged(httpx.Auth):
    """Asks twice, as a digest login does."""

    def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def]
        yield request
        request.headers["X-Second"] = "1"
        yield request


@effect_with(STRIPE)
async def test_another_authentication_still_runs_to_its_end(
    inside: Request, server: tuple[str, list[dict[str, str]]]
) -> None:
    url, received = server
    with httpx.Client(auth=EffectKeyAuth(httpx.BasicAuth("me", "secret"))) as client:
        client.post(url)
    async with httpx.AsyncClient(auth=EffectKeyAuth(Challenged())) as asynchronous:
        await asynchronous.post(url)
    assert received[0]["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
    assert [headers["X-Second"] for headers in received] == [None, None, "1"]
    assert {headers["Idempotency-Key"] for headers in received} == {EXAMPLE_OPERATION_ID}


def test_a_pickled_adapter_keeps_its_header() -> None:
    copy = pickle.loads(pickle.dumps(EffectKeyAdapter(pool_maxsize=3, default_header="X-Key")))
    assert vars(copy)["_default_header"] == "X-Key"
    assert vars(copy)["_pool_maxsize"] == 3


@effect_with(STRIPE)
def test_stripes_options_take_the_key_unless_there_is_one(inside: Request) -> None:
    assert request_options(stripe_account="a") == {
        "idempotency_key": EXAMPLE_OPERATION_ID,
        "stripe_account": "a",
    }
    assert request_options(idempotency_key="mine") == {"idempotency_key": "mine"}


@effect_with("outside")
def test_outside_an_effect_options_and_mails_stay_as_they_are(inside: None) -> None:
    assert request_options(stripe_account="a") == {"stripe_account": "a"}
    assert stamp(EmailMessage()).items() == []


@effect_with(None)
def test_a_mail_has_one_identity_in_every_attempt(inside: Request) -> None:
    def mail(sender: str) -> EmailMessage:
        message = EmailMessage()
        message["From"] = sender
        return message

    stamped = stamp(mail("Shop <shop@example.org>"))
    assert stamped["Message-ID"] == f"<{EXAMPLE_OPERATION_ID}@example.org>"
    assert stamped["Date"] == "Thu, 05 Nov 2026 12:30:15 +0000"
    assert stamp(mail("Shop <shop@example.org>")).items() == stamped.items()
    assert stamp(stamped).items() == stamped.items()
    assert stamp(mail("nobody"))["Message-ID"].endswith("@effectlog.invalid>")
    assert stamp(mail("a@b.org"), domain="c.org")["Message-ID"].endswith("@c.org>")
