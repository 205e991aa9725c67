"""A crash matrix that misses a planted fault would be worse than none."""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time

import pytest

from effectlog import Destination, Retry, durable_task, effect, operation_id
from effectlog.testing import CountingDestination, crash_matrix, run_matrix
from effectlog.testing.destinations import send

FAST = Retry(delay=0.0, jitter=0.0)
KEYED = Destination("tests/keyed", key_field="Idempotency-Key")


@effect(key="charge:{order}", destination=KEYED)
def charge(order: str) -> str:
    return f"{order}:{operation_id()}"


@effect(key="mail:{order}", in_doubt="resend")
async def mail(order: str) -> None: ...


@effect(key="page:{order}", in_doubt="hold")
async def page(order: str) -> None: ...


@durable_task(retry=FAST)
async def sound(order: str) -> str:
    charge_id = charge(order)
    await mail(order)
    return charge_id


@durable_task(retry=FAST)
async def careful(order: str) -> None:
    await page(order)


def test_a_sound_task_passes_every_round() -> None:
    report = crash_matrix(sound, "A")
    report.raise_if_unsafe()
    faults = [result.fault for result in report.results]
    assert faults[:1] == ["none"]
    for where in ("before started", "after started", "before completed", "after completed"):
        assert f"crash {where} charge:A" in faults
        assert f"crash {where} mail:A" in faults
    assert "crash before the end" in faults
    by_fault = {result.fault: result for result in report.results}
    assert by_fault["crash before completed charge:A"].effects["charge:A"].requests == 2
    assert by_fault["crash before completed charge:A"].effects["charge:A"].accepted == 1
    assert by_fault["crash before completed mail:A"].effects["mail:A"].accepted == 2
    assert by_fault["crash after completed charge:A"].effects["charge:A"].requests == 1
    assert by_fault["lost answer charge:A"].effects["charge:A"].requests == 2
    assert by_fault["destination down mail:A"].attempts == 2


def test_a_hold_effect_is_never_asked_twice() -> None:
    report = crash_matrix(careful, "A")
    report.raise_if_unsafe()
    held = [result for result in report.results if result.state == "held"]
    assert {"crash before completed page:A", "lost answer page:A"} <= {result.fault for result in held}
    assert all(result.effects["page:A"].requests <= 1 for result in report.results)


async def test_it_works_inside_a_running_loop() -> None:
    (await run_matrix(sound, "B")).raise_if_unsafe()
    crash_matrix(sound, "C").raise_if_unsafe()


# --- planted faults ----------------------------------------------------------------------------


@effect(key="bare:{order}")
def bare(order: str) -> str:
    return order


@durable_task(retry=FAST)
def forgets_the_key(order: str) -> str:
    return bare(order)


@effect(key=lambda order: f"timed:{order}:{time.time_ns()}", destination=KEYED)
def timed(order: str) -> str:
    return order


@durable_task(retry=FAST)
def keyed_by_time(order: str) -> str:
    return timed(order)


counter = itertools.count()


@effect(key="nth:{order}:{nth}", destination=KEYED)
def nth(order: str, nth: int) -> str:
    return f"{order}{nth}"


@durable_task(retry=FAST)
def keyed_by_attempt(order: str) -> str:
    return nth(order, next(counter))


@durable_task(retry=FAST)
def sends_beside_its_effects(order: str, port: int) -> str:
    with socket.create_connection(("127.0.0.1", port)):
        pass
    return charge(order)


@effect(key="odd:{order}", destination=KEYED)
def odd(order: str) -> object:
    return threading.Lock()


@durable_task(retry=FAST)
def returns_what_cannot_be_stored(order: str) -> None:
    odd(order)


chance = random.Random(7)


@durable_task(retry=FAST)
async def tosses_a_coin(order: str) -> None:
    if chance.random() < 0.5:
        charge(order)
    else:
        await mail(order)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (forgets_the_key, "would happen 2 times"),
        (keyed_by_time, "must not depend on time"),
        (keyed_by_attempt, "must not depend on time"),
        (returns_what_cannot_be_stored, "can't be stored"),
        (tosses_a_coin, "another branch"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_found_and_named(task, words: str) -> None:
    report = crash_matrix(task, "A")
    assert not report.ok
    assert any(words in problem for problem in report.problems), report
    with pytest.raises(AssertionError, match="crash matrix of"):
        report.raise_if_unsafe()


def test_a_send_outside_any_effect_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        report = crash_matrix(sends_beside_its_effects, "A", server.getsockname()[1])
    assert any("outside any effect" in problem for problem in report.problems), report


@effect(key="order:{order}", destination=KEYED)
def place_order(order: str, url: str) -> dict[str, object]:
    return send(url, {"operation": order}, key=operation_id())


@durable_task(retry=FAST)
def orders(order: str, url: str) -> object:
    return place_order(order, url)["operation"]


def test_a_real_destination_counts_what_the_matrix_says() -> None:
    with CountingDestination("replay") as destination:
        report = crash_matrix(orders, "A", destination.url, faults=("crash",))
        report.raise_if_unsafe()
        made = sum(result.effects["order:A"].requests for result in report.results)
        assert len(destination.requests()) == made


def test_a_real_kill_tells_the_same_as_a_simulated_crash() -> None:
    killed = crash_matrix(forgets_the_key, "A", faults=("crash",), kill=True)
    simulated = crash_matrix(forgets_the_key, "A", faults=("crash",))
    assert not killed.ok
    assert not simulated.ok
    for real, imagined in zip(killed.results, simulated.results, strict=True):
        assert real.fault.removeprefix("kill ") == imagined.fault.removeprefix("crash ")
        assert (real.state, real.attempts) == (imagined.state, imagined.attempts), real.fault
        assert {k: n.accepted for k, n in real.effects.items()} == {
            k: n.accepted for k, n in imagined.effects.items()
        }, real.fault
