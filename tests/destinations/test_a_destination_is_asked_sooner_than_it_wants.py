"""Danger: a 429 says when to come back, the next try comes at once, and the destination locks the account."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
from support import peers

from effectlog import Applied, EffectLog, Retry, RunFailed, RunState, durable_task, effect
from effectlog.clients.retry_after import pause_asked_by
from effectlog.model import AttemptOutcome

if TYPE_CHECKING:
    from pathlib import Path

stripe = pytest.importorskip("stripe")
aiohttp = pytest.importorskip("aiohttp")
botocore_session = pytest.importorskip("botocore.session")
botocore_config = pytest.importorskip("botocore.config")

AT_ONCE = Retry(max_attempts=2, delay=0.0, jitter=0.0)
SOON = 0.3


class BusyError(Exception):
    def __init__(self, retry_after: Any) -> None:
        super().__init__("come back later")
        self.retry_after = retry_after


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (7, 7.0),
        (0.25, 0.25),
        ("7", 7.0),
        (timedelta(minutes=2), 120.0),
        (in_an_hour(), 3600.0),
        (in_an_hour().replace(tzinfo=None), 3600.0),
        (format_datetime(in_an_hour(), usegmt=True), 3600.0),
        (datetime.now(UTC) - timedelta(hours=1), 0.0),
        (None, 0.0),
        (True, 0.0),
        (-5, 0.0),
        (float("nan"), 0.0),
        (float("inf"), 0.0),
        ("soon", 0.0),
        (1_764_547_200, 0.0),  # The time since 1970, which some put there.
        (object(), 0.0),
    ],
    ids=lambda value: (
        type(value).__name__ if isinstance(value, str) else None
    ),  # No time of day: all processes of a run collect the same.
)
def test_what_an_error_asks_for(said: Any, seconds: float) -> None:
    assert pause_asked_by(BusyError(said)) == pytest.approx(seconds, abs=600.0 if seconds > 600 else 0.0)


def test_what_is_raised_from_it_and_what_holds_it_ask_for_the_same() -> None:
    mine = ValueError("mine")
    mine.__cause__ = BusyError(7)
    assert pause_asked_by(mine) == 7.0
    assert pause_asked_by(ExceptionGroup("several", [ValueError(), BusyError(3), mine])) == 7.0
    assert pause_asked_by(ValueError()) == 0.0

    class AngryError(Exception):
        @property
        def retry_after(self) -> float:
            raise RuntimeError("nobody reads this")

    assert pause_asked_by(AngryError()) == 0.0


def _by_httpx(url: str) -> None:
    httpx.post(url).raise_for_status()


def _by_requests(url: str) -> None:
    requests.post(url, timeout=5).raise_for_status()


def _by_stripe(url: str) -> None:
    client = stripe.StripeClient(
        "sk_test_x", base_addresses={"api": url}, http_client=stripe.RequestsClient(timeout=5)
    )
    try:
        client.v1.payment_intents.create({"amount": 1999, "currency": "eur"})
    finally:
        client._requestor._client.close()


def _by_botocore(url: str) -> None:
    config = botocore_config.Config(retries={"total_max_attempts": 1})
    client = botocore_session.get_session().create_client(
        "sqs",
        region_name="eu-west-1",
        endpoint_url=url,
        config=config,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    try:
        client.send_message(QueueUrl=f"{url}/1/q", MessageBody="x")
    finally:
        client.close()


CLIENTS = {"httpx": _by_httpx, "requests": _by_requests, "stripe": _by_stripe, "botocore": _by_botocore}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_answers_header_is_read_off_what_the_client_raises(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stripe, "max_network_retries", 0)
    with peers.answering(429, {"error": {"type": "x"}}, {"Retry-After": "42"}) as (url, _):
        with pytest.raises(Exception) as caught:
            CLIENTS[client](url)
        assert pause_asked_by(caught.value) == 42.0


async def test_aiohttps_too_and_a_date_counts_by_the_clock_of_the_answer() -> None:
    # Its clock is hours ahead of ours, and the pause it means is a minute.
    sent = datetime.now(UTC) + timedelta(hours=5)
    headers = {"Retry-After": format_datetime(sent + timedelta(minutes=1), usegmt=True)}
    with peers.answering(503, {}, headers, sent_at=sent) as (url, _):
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                response.raise_for_status()
    assert pause_asked_by(caught.value) == 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return str(request.getfixturevalue("postgres_database"))


_asked: list[float] = []


@effect(key="inside:{said}", retry=AT_ONCE)
async def asks_twice(said: float) -> int:
    _asked.append(time.monotonic())
    if len(_asked) == 1:
        raise BusyError(said)
    return len(_asked)


@effect(key="once:{said}")
def asks(said: float) -> None:
    raise BusyError(said)


async def _told(_: float) -> Applied:
    _asked.append(time.monotonic())
    if len(_asked) == 1:
        raise BusyError(SOON)
    return Applied(len(_asked))


@effect(key="looked:{said}", in_doubt=_told, retry=AT_ONCE)
async def looks(said: float) -> int:
    raise ConnectionResetError(f"after {said}")


@durable_task(name="tries inside")
async def tries_inside(said: float) -> int:
    return await asks_twice(said)


@durable_task(name="looks up")
async def looks_up(said: float) -> int:
    return await looks(said)


@durable_task(name="tries again", retry=AT_ONCE)
def tries_again(said: float) -> None:
    asks(said)


async def test_a_tasks_next_attempt_comes_no_sooner(store: str) -> None:
    async with EffectLog(store) as log, log.worker():
        late, soon = await log.enqueue(tries_again, 3600.0), await log.enqueue(tries_again, SOON)
        with pytest.raises(RunFailed):
            await soon.result(20)
        first, second = (await soon.record()).attempts
        assert first.ended_at is not None
        assert (second.started_at - first.ended_at).total_seconds() >= SOON
        record = await late.record()
        (only,) = record.attempts
        assert (record.state, only.outcome) == (RunState.PENDING, AttemptOutcome.ERROR)
        assert only.ended_at is not None
        assert (record.due_at - only.ended_at).total_seconds() >= 3600.0


@pytest.mark.parametrize("task", [tries_inside, looks_up], ids=["request", "look-up"])
async def test_an_effects_next_request_and_a_look_ups_next_question_come_no_sooner(
    tmp_path: Path, task: Any
) -> None:
    _asked.clear()
    async with EffectLog(tmp_path / "runs.db") as log, log.worker():
        assert await (await log.enqueue(task, SOON)).result(20) == 2
    assert _asked[1] - _asked[0] >= SOON


async def test_who_goes_on_after_a_release_keeps_the_pause(store: str) -> None:
    _asked.clear()
    async with EffectLog(store) as log:
        worker = log.worker()
        async with worker:
            run = await log.enqueue(tries_inside, 3600.0)
            while not any(effect.error for effect in (await run.record()).effects):
                pass
            await worker.release()
        record = await run.record()
        assert (record.state, record.attempts[0].outcome) == (RunState.PENDING, AttemptOutcome.RELEASED)
        assert (record.due_at - datetime.now(UTC)).total_seconds() > 3500.0
