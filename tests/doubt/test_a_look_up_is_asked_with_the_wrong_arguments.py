"""A look-up gets what its effect was called with, a method's object included, or is refused when it is declared."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from effectlog import (
    Applied,
    ConfigurationError,
    EffectLog,
    NotApplied,
    Retry,
    RunHeld,
    durable_task,
    effect,
)

LOST = Retry(max_attempts=2, delay=0.0)


class Mailer:
    host = "h"

    def __init__(self, account: str) -> None:
        self.account = account

    async def find(self, to: str) -> Applied:
        return Applied(f"{self.account} {to}")

    def find_now(self, to: str) -> Applied:
        return Applied(f"{self.account} {to}")

    @effect(key="async:{to}", in_doubt=find)
    async def send(self, to: str) -> str:
        raise OSError("lost")

    @effect(key="sync:{to}", in_doubt=find_now)
    def send_now(self, to: str) -> str:
        raise OSError("lost")

    @effect(key="without:{to}", in_doubt=lambda to: Applied(f"-> {to}"))
    def send_alone(self, to: str) -> str:
        raise OSError("lost")

    @classmethod
    @effect(key="class:{to}", in_doubt=lambda cls, to: Applied(f"{cls.host} {to}"))
    def send_by_class(cls, to: str) -> str:
        raise OSError("lost")

    @staticmethod
    @effect(key="static:{to}", in_doubt=lambda to: Applied(f"-> {to}"))
    def send_by_nobody(to: str) -> str:
        raise OSError("lost")


@effect(key="swapped:{to}", in_doubt=lambda text, to: Applied(f"{to} {text}"))
def swapped(to: str, text: str = "hello") -> str:
    raise OSError("lost")


@effect(key="other names:{to}", in_doubt=lambda a, b: Applied(f"{a} {b}"))
def other_names(to: str, text: str = "hello") -> str:
    raise OSError("lost")


@effect(key="many", in_doubt=lambda *args, **kwargs: Applied(f"{args} {kwargs}"))
def many(*args: str, text: str = "hello", **more: str) -> str:
    raise OSError("lost")


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "a method": (lambda: Mailer("m").send_now("bob"), "m bob"),
    "a method by name": (lambda: Mailer("m").send_now(to="bob"), "m bob"),
    "a method, look-up without self": (lambda: Mailer("m").send_alone("bob"), "-> bob"),
    "a class method": (lambda: Mailer.send_by_class("bob"), "h bob"),
    "a class method of an object": (lambda: Mailer("m").send_by_class(to="bob"), "h bob"),
    "a static method": (lambda: Mailer.send_by_nobody("bob"), "-> bob"),
    "names in another order": (lambda: swapped("bob"), "bob hello"),
    "other names": (lambda: other_names(to="bob"), "bob hello"),
    "any": (lambda: many("a", "b", other="c"), "('a', 'b') {'text': 'hello', 'other': 'c'}"),
}


@durable_task(retry=LOST)
def calls(what: str) -> Any:
    return CALLS[what][0]()


@durable_task(retry=LOST)
async def calls_async() -> str:
    return await Mailer("m").send("bob")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EffectLog]:
    async with EffectLog(str(tmp_path / "runs.db"), check_store=False) as opened, opened.worker():
        yield opened


@pytest.mark.parametrize("what", CALLS)
async def test_the_look_up_gets_what_the_effect_was_called_with(log: EffectLog, what: str) -> None:
    run = await log.enqueue(calls, what)
    assert await run.result(timeout=10) == CALLS[what][1]


async def test_the_look_up_of_an_async_method_gets_its_object(log: EffectLog) -> None:
    assert await (await log.enqueue(calls_async)).result(timeout=10) == "m bob"


def yields(to: str) -> Iterator[NotApplied]:
    yield NotApplied()


async def yields_async(to: str) -> AsyncIterator[NotApplied]:
    yield NotApplied()


def takes_nothing() -> NotApplied:
    return NotApplied()


def takes_two(to: str, who: str) -> NotApplied:
    return NotApplied()


def takes_another(*, who: str) -> NotApplied:
    return NotApplied()


REFUSED: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "too few": (takes_nothing, ConfigurationError, r"parameters, which are: to"),
    "too many": (takes_two, ConfigurationError, r"parameters, which are: to"),
    "by another name": (takes_another, ConfigurationError, r"parameters, which are: to"),
    "a generator": (yields, TypeError, "generator"),
    "an async generator": (yields_async, TypeError, "generator"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_look_up_that_can_not_answer_is_refused_when_it_is_declared(kind: str) -> None:
    look_up, error, text = REFUSED[kind]
    with pytest.raises(error, match=text):

        @effect(key="x", in_doubt=look_up)
        def send(to: str) -> None: ...


def fails() -> NotApplied:
    raise LookupError("no such index")


@effect(key="unanswered", in_doubt=fails, lookup_budget=0.0)
def unanswered() -> None:
    raise OSError("lost")


@durable_task(retry=LOST)
def asks_in_vain() -> None:
    unanswered()


async def test_a_held_run_tells_what_its_look_up_failed_with(log: EffectLog) -> None:
    run = await log.enqueue(asks_in_vain)
    with pytest.raises(RunHeld):
        await run.result(timeout=10)
    error = (await run.record()).error
    assert error is not None
    assert "LookupError: no such index" in error.message
