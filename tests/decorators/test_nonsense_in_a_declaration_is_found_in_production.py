"""A declaration that can't work is refused where it is written, with what would be accepted."""

import math
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from effectlog import ConfigurationError, EffectLog, Retry, durable_task, effect
from effectlog.clients.failures import NOT_SENT_HTTPX
from effectlog.store.rows import NewRun

ANY: Any = "a text where something else is wanted"


def send(to: str) -> None: ...


@durable_task
def waits() -> None: ...


def later(**options: Any) -> Callable[[], object]:
    return lambda: waits.with_options(**options)


def declared(**options: Any) -> Callable[[], object]:
    return lambda: durable_task(name="never", **options)(send)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "not_applied of no type": (lambda: effect("k", not_applied=(ANY,))(send), "not_applied=.*exception type"),
    "not_applied of no exception": (
        lambda: effect("k", not_applied=int)(send),
        "not_applied=.*exception type",
    ),  # type: ignore[type-var]
    "final of no type": (lambda: effect("k", final=ANY)(send), "final=.*exception type"),
    "final of an instance": (lambda: effect("k", final=(ValueError(),))(send), "final=.*exception type"),  # type: ignore[arg-type]
    "give_up_on of no type": (lambda: Retry(give_up_on=(ANY,)), "give_up_on=.*exception type"),
    "max_attempts as a truth value": (lambda: Retry(max_attempts=True), "max_attempts=True.*whole number"),
    "max_crashes as a truth value": (lambda: Retry(max_crashes=True), "max_crashes=True.*whole number"),
    "retry delay as a truth value": (lambda: Retry(delay=True), "delay=True.*number"),
    "jitter as a truth value": (lambda: Retry(jitter=False), "jitter=False.*number"),
    "retry delay as text": (lambda: Retry(delay=ANY), "delay=.*number"),
    "retry delay not a number": (lambda: Retry(delay=math.nan), "delay=.*number"),
    "retry of an effect as a number": (lambda: effect("k", retry=3)(send), "effect .*retry=3; give a Retry"),  # type: ignore[arg-type]
    "retry of a task as a number": (declared(retry=3), "task never: retry=3; give a Retry"),
    "retry delay endless": (lambda: Retry(delay=math.inf), "delay=.*number"),
    "backoff endless": (lambda: Retry(backoff=math.inf, delay=0.0), "backoff=.*number"),
    "timeout as text": (lambda: effect("k", timeout=ANY)(send), "timeout=.*seconds"),
    "timeout not a number": (lambda: effect("k", timeout=math.nan)(send), "timeout=.*seconds"),
    "timeout endless": (lambda: effect("k", timeout=math.inf)(send), "timeout=.*seconds"),
    "budget below 0": (lambda: effect("k", lookup_budget=-1)(send), "lookup_budget=.*seconds"),
    "budget as text": (lambda: effect("k", lookup_budget=ANY)(send), "lookup_budget=.*seconds"),
    "lease as text": (lambda: EffectLog("x.db", lease=ANY), "lease=.*seconds"),
    "lease not a number": (lambda: EffectLog("x.db", lease=math.nan), "lease=.*seconds"),
    "lease too short to be kept": (lambda: EffectLog("x.db", lease=0.001), r"lease=.*at least 0\.05 s"),
    "delay not a number": (later(delay=math.nan), "delay=.*seconds"),
    "delay endless": (later(delay=math.inf), "delay=.*seconds"),
    "delay past every calendar": (later(delay=1e300), "delay=.*century"),
    "delay below 0": (later(delay=-1), "delay=.*seconds from 0 on"),
    "delay as text": (later(delay=ANY), "delay=.*seconds"),
    "at as text": (later(at=ANY), "at=.*datetime with a time zone"),
    "at as a number": (later(at=5.0), "at=.*datetime with a time zone"),
    "at without a time": (later(at=date(2030, 1, 1)), "at=.*datetime with a time zone"),
    "task timeout as text": (declared(timeout=ANY), "timeout=.*seconds"),
    "task timeout endless": (declared(timeout=math.inf), "timeout=.*seconds"),
    "concurrency as text": (declared(concurrency=ANY), "concurrency=.*from 1 on"),
    "concurrency as a yes": (declared(concurrency=True), "task never .concurrency=True.*from 1 on"),
    "a destination as a number": (lambda: effect("k", destination=5)(send), "destination=5 is no contract"),  # type: ignore[arg-type]
    "events as a number": (declared(on=5), "task never: on=5; give a text"),
    "aliases of numbers": (declared(aliases=[5]), r"task never: aliases=\[5\]; give a text"),
    "no store": (lambda: EffectLog(None), "EffectLog.None.: give a path"),  # type: ignore[arg-type]
    "a store that is none": (lambda: EffectLog(5), "EffectLog.5.: give a path"),  # type: ignore[arg-type]
    "values of no bytes": (lambda: EffectLog("x.db", max_value_bytes=0), "max_value_bytes=0.*from 1 on"),
    "values of a text": (lambda: EffectLog("x.db", max_value_bytes=ANY), "max_value_bytes="),
    "a worker for nothing": (lambda: EffectLog("x.db").worker(concurrency=0), "concurrency=0.*from 1 on"),
    "a retention as text": (lambda: EffectLog("x.db").worker(retention=ANY), "retention="),
    "heartbeat as text": (lambda: EffectLog("x.db", heartbeat=ANY), "heartbeat=.*seconds"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_advice(what: str) -> None:
    declare, advice = REFUSED[what]
    with pytest.raises(ConfigurationError, match=advice):
        declare()


def test_what_is_meant_is_accepted() -> None:
    errors: Any = [OSError, NOT_SENT_HTTPX]
    effect(
        "k", name="sane", not_applied=errors, final=ValueError, timeout=timedelta(seconds=3), lookup_budget=0
    )(send)  # type: ignore[arg-type]
    assert Retry(give_up_on=OSError).give_up_on == (OSError,)  # type: ignore[arg-type]


@pytest.mark.parametrize("due", [{"delay": math.nan}, {"delay": math.inf}, {"due_at": math.nan}])
def test_no_run_that_is_never_due_gets_as_far_as_a_store(due: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="can't be due"):
        NewRun(id="x", task="t", args=b"{}", **due)


def test_one_old_name_is_one_alias_and_not_its_letters() -> None:
    declared_task = durable_task(name="renamed", aliases="shop.old_name")(send)
    assert declared_task.spec.aliases == ("shop.old_name",)


def test_a_delay_may_be_a_timedelta() -> None:
    delay: Any = timedelta(minutes=1)
    assert waits.with_options(delay=delay).options.delay == 60.0


def test_a_retry_without_a_longest_delay_stays_a_moment_that_can_be_stored() -> None:
    assert Retry(max_delay=math.inf, backoff=10.0).delay_after(5_000) < 101 * 366 * 86_400
