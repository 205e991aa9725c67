"""Results and errors on the first execution and on replay: the same, or refused once and never sent again."""

import socket
from pathlib import Path
from typing import Any

import pytest
from support.executing import executed, outcomes

from effectlog import (
    Applied,
    EffectFailed,
    EffectLog,
    EncodingError,
    JsonCodec,
    NotApplied,
    Retry,
    RunHeld,
    current_attempt,
    durable_task,
    effect,
)

calls: list[str] = []
seen: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    seen.clear()


AGAIN = Retry(max_attempts=2, delay=0)


@effect(key="data")
def data() -> dict[Any, Any]:
    calls.append("data")
    value = {1: ("a", b"b"), ("x", 2): {3}}
    seen.append(value)
    return value


@durable_task(retry=AGAIN)
def reads_data() -> bool:
    value = data()
    assert value == seen[0]
    assert value is not seen[0]
    value[1] = "changed by the caller"
    if current_attempt().number == 1:
        raise OSError("again")
    return True


async def test_the_caller_gets_a_decoded_copy_each_time(log: EffectLog) -> None:
    record = await executed(log, reads_data)
    assert outcomes(record) == ["error", "succeeded"]
    assert calls == ["data"]


class Raises:
    def __reduce__(self) -> Any:
        raise RuntimeError("not to be asked")


UNSTORABLE: dict[str, Any] = {
    "generator": lambda: (n for n in range(3)),
    "socket": socket.socket,
    "lambda": lambda: lambda: None,
    "object": Raises,
    "too large": lambda: "x" * 2_000_000,
    "too deep": lambda: __import__("functools").reduce(lambda inner, _: [inner], range(100_000), []),
}


@effect(key="odd")
def odd(kind: str) -> Any:
    calls.append(kind)
    value = UNSTORABLE[kind]()
    if isinstance(value, socket.socket):
        value.close()
    return value


@durable_task(retry=AGAIN)
def returns_odd(kind: str) -> Any:
    return odd(kind)


@pytest.mark.parametrize("kind", UNSTORABLE)
async def test_a_result_that_cannot_be_stored_is_completed_and_never_sent_again(
    log: EffectLog, kind: str
) -> None:
    record = await executed(log, returns_odd, kind)
    assert calls == [kind]
    assert record.state == "failed"
    assert outcomes(record) == ["error"], "no other attempt could help"
    (stored,) = record.effects
    assert (stored.state, stored.requests, stored.in_doubt) == ("completed", 1, False)
    assert record.error is not None
    assert record.error.type.endswith("EncodingError")


class OddCodec(JsonCodec):
    """Somebody's own codec, with errors of its own."""

    def encode(self, value: Any) -> bytes:
        if value == "odd when encoded":
            raise ZeroDivisionError("in the codec")
        return super().encode(value)

    def decode(self, data: bytes, annotation: Any = None) -> Any:
        if data == b'"odd when decoded"':
            raise ZeroDivisionError("in the codec")
        return super().decode(data, annotation)


@effect(key="says")
def says(text: str) -> str:
    calls.append(text)
    return text.replace("_", " ")


@durable_task(retry=AGAIN)
def says_it(text: str) -> str:
    return says(text)


@pytest.mark.parametrize("text", ["odd_when_encoded", "odd_when_decoded"])
async def test_an_error_of_the_codec_itself_does_not_send_it_again(tmp_path: Path, text: str) -> None:
    async with EffectLog(str(tmp_path / "odd.db"), codec=OddCodec(), check_store=False) as odd:
        record = await executed(odd, says_it, text)
    assert calls == [text]
    assert record.state == "failed"
    assert record.effects[0].state == "completed"
    assert record.error is not None
    assert "in the codec" in record.error.message


async def test_a_person_may_supply_the_value_later(log: EffectLog) -> None:
    record = await executed(log, returns_odd, "lambda")
    await log.resolve(record.id, "odd", Applied("by hand"), by="me")
    run = await log.get_run(record.id)
    await run.retry()
    async with log.worker():
        assert await run.result(timeout=20) == "by hand"
    assert calls == ["lambda"]


class Declined(Exception):
    def __init__(self, status: int, *, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class HardDeclined(Declined):
    pass


@effect(key="card", final=Declined)
def card() -> None:
    calls.append("card")
    raise HardDeclined(402, detail="no money")


@durable_task(retry=AGAIN)
def pays_by_card() -> str:
    try:
        card()
    except Declined as error:
        kinds = (isinstance(error, EffectFailed), isinstance(error, HardDeclined))
        seen.append((str(error), *kinds, error.type_name, "Traceback" in error.traceback))
    if current_attempt().number == 1:
        raise OSError("again")
    return "told the customer"


async def test_a_final_error_is_raised_the_same_on_replay(log: EffectLog) -> None:
    record = await executed(log, pays_by_card)
    assert record.result == "told the customer"
    assert calls == ["card"]
    assert seen[0] == seen[1]
    assert seen[0][:3] == ("no money", True, True)
    assert seen[0][4]
    assert record.effects[0].final


@durable_task(retry=Retry(max_attempts=5, delay=0))
def gives_up() -> None:
    card()


async def test_a_final_error_uncaught_ends_the_run_at_once(log: EffectLog) -> None:
    record = await executed(log, gives_up)
    assert outcomes(record) == ["error"]
    assert record.state == "failed"
    assert record.dead_letter
    assert record.error is not None
    assert record.error.message == "no money"


class NeedsArguments(Exception):
    def __new__(cls, code: int, text: str) -> "NeedsArguments":
        return super().__new__(cls)

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class NeedsArgumentsToo(OSError):
    def __new__(cls, code: int, text: str, path: str) -> "NeedsArgumentsToo":
        return super().__new__(cls, code, text, path)


class HasNoSubclasses(Exception):
    def __init_subclass__(cls) -> None:
        raise ValueError("final")


FINAL: dict[str, BaseException] = {
    "new": NeedsArguments(402, "no money"),
    "system": NeedsArgumentsToo(13, "no money", "x"),
    "group": ExceptionGroup("no money", [ValueError(1), ExceptionGroup("inner", [OSError()])]),
    "layout": MemoryError("no money"),
    "text": UnicodeDecodeError("utf-8", b"", 0, 1, "no money"),
}


@effect(
    key="final:{kind}", final=(NeedsArguments, NeedsArgumentsToo, ExceptionGroup, MemoryError, UnicodeError)
)
def refuses(kind: str) -> None:
    calls.append(kind)
    raise FINAL[kind]


@durable_task(retry=AGAIN)
def is_refused(kind: str) -> str:
    try:
        refuses(kind)
    except type(FINAL[kind]) as error:
        seen.append((str(error), isinstance(error, EffectFailed)))
    if current_attempt().number == 1:
        raise OSError("again")
    refuses(kind)
    return "never"


@pytest.mark.parametrize("kind", FINAL)
async def test_a_final_type_that_can_not_be_built_like_others_is_still_caught_as_declared(
    log: EffectLog, kind: str
) -> None:
    record = await executed(log, is_refused, kind)
    assert calls == [kind]
    assert seen[0] == seen[1]
    assert "no money" in seen[0][0]
    assert seen[0][1]
    assert record.state == "failed"
    assert outcomes(record) == ["error", "error"]


@effect(key="closed", final=HasNoSubclasses)
def closed() -> None:
    raise HasNoSubclasses("no money")


@durable_task(retry=AGAIN)
def meets_a_closed_type() -> None:
    closed()


async def test_a_final_type_without_subclasses_is_a_plain_failure_and_final(log: EffectLog) -> None:
    record = await executed(log, meets_a_closed_type)
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("effectlog.EffectFailed", "no money")
    assert outcomes(record) == ["error"]


class Refused(Exception):
    pass


@effect(key="flaky", not_applied=Refused)
def flaky(times: int) -> str:
    calls.append("flaky")
    if len(calls) <= times:
        raise Refused("nothing happened")
    return "done"


@durable_task(retry=Retry(max_attempts=3, delay=0))
def asks_again() -> str:
    return flaky(2)


async def test_a_request_that_did_nothing_leaves_no_doubt(log: EffectLog) -> None:
    record = await executed(log, asks_again)
    assert record.result == "done"
    assert outcomes(record) == ["error", "error", "succeeded"]
    assert record.effects[0].requests == 3


@effect(key="lost", not_applied=Refused, in_doubt="hold")
def lost_then_refused() -> str:
    calls.append("lost")
    raise TimeoutError("no answer") if len(calls) == 1 else Refused("second")


@durable_task(retry=Retry(max_attempts=3, delay=0))
def loses_an_answer() -> str:
    return lost_then_refused()


async def test_a_lost_answer_of_a_hold_effect_holds_and_not_applied_lets_it_go_on(log: EffectLog) -> None:
    record = await executed(log, loses_an_answer)
    assert record.state == "held"
    assert calls == ["lost"]
    await log.resolve(record.id, "lost", NotApplied(), by="me")
    run = await log.get_run(record.id)
    async with log.worker():
        with pytest.raises(Exception, match=r"Refused|held"):
            await run.result(timeout=20)
    assert len(calls) >= 2
    assert (await run.record()).effects[0].state == "failed"


@effect(key="resent", not_applied=Refused)
def unknown_then_refused() -> str:
    calls.append("resent")
    raise TimeoutError("no answer") if len(calls) == 1 else Refused("second")


@durable_task(retry=Retry(max_attempts=2, delay=0))
def resends() -> str:
    return unknown_then_refused()


async def test_a_proof_about_one_request_proves_nothing_about_an_earlier_one(log: EffectLog) -> None:
    record = await executed(log, resends)
    assert record.state == "failed"
    (stored,) = record.effects
    assert (stored.state, stored.in_doubt, stored.requests) == ("started", True, 2)
    first = record.attempts[0]
    assert first.ended_at is not None
    assert first.started_at <= stored.started_at <= first.ended_at


@durable_task
def returns_unstorable() -> Any:
    return socket.socket


async def test_a_run_whose_result_cannot_be_stored_tells_its_waiter_soon(log: EffectLog) -> None:
    record = await executed(log, returns_unstorable)
    assert record.state == "failed"
    assert record.error is not None
    assert record.error.type.endswith("EncodingError")


async def test_values_the_record_cannot_hold_do_not_hide_behind_other_errors(log: EffectLog) -> None:
    with pytest.raises(EncodingError):
        await log.enqueue(returns_odd, lambda: None)
    with pytest.raises(RunHeld):
        run = await log.enqueue(loses_an_answer)
        async with log.worker():
            await run.result(timeout=20)
