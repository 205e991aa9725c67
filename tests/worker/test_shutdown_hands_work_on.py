"""Leaving: the first signal drains, the second gives back, and what cannot be stopped is not handed on while it lives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.whole_records import whole_records, whole_records_sync
from support.worker_processes import completed
from worker_app import blocking, slow, threaded, two

from effectlog import (
    AttemptOutcome,
    ConfigurationError,
    EffectLog,
    RunState,
    current_attempt,
    durable_task,
    effect,
)

if TYPE_CHECKING:
    from support.worker_processes import Field


SOON = 10.0
"""Seconds, on a busy machine: what waits for the end of a lease, or of the code that blocks, takes 30."""


@durable_task(name="naps")
async def naps(seconds: float) -> int:
    _inside.set()
    await asyncio.sleep(seconds)
    return current_attempt().number


@durable_task(name="waits for the event")
def waits_for(what: str) -> int:
    return _block(what)


def _mine(number: int, frame: object) -> None:
    """A handler of somebody else's."""


_go = threading.Event()
_inside = threading.Event()


@effect(key="block:{what}")
def _block(what: str) -> int:
    _inside.set()
    _go.wait(15)
    return current_attempt().number


@pytest.mark.paced
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_finishes_what_runs_and_keeps_its_lease(
    field: Field, log: EffectLog, number: int
) -> None:
    leaving = field.worker(lease=0.9)
    run = await log.enqueue(two, "a", 1.5)
    await completed(run, 1)
    leaving.signal(number)
    waiting = await log.enqueue(two, "b", 0.0)
    async with EffectLog(field.db, lease=0.9) as peer, peer.worker():
        assert await waiting.result(10) == "b:2"
        assert await run.result(10) == "a:2"
    assert leaving.wait() == 0
    assert sorted(field.whats()) == ["a:1", "a:2", "b:1", "b:2"]
    assert len((await run.record()).attempts) == 1


@pytest.mark.timed
async def test_the_second_signal_gives_back_and_a_peer_goes_on_within_a_tenth_of_a_second(
    field: Field, log: EffectLog
) -> None:
    leaving = field.worker(tasks=["two"])
    run = await log.enqueue(two, "a", 20.0)
    await completed(run, 1)
    field.worker(tasks=["two"])
    leaving.signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    assert (await run.record()).state is RunState.RUNNING
    second = leaving.signal(signal.SIGTERM)
    assert leaving.wait() == 0
    assert time.monotonic() - second < SOON
    while len((record := await run.record()).attempts) < 2:
        await asyncio.sleep(0.005)
    released, next_one = record.attempts
    assert released.outcome is AttemptOutcome.RELEASED
    assert released.ended_at is not None
    gap = (next_one.started_at - released.ended_at).total_seconds()
    print(f"taken over {gap * 1000:.0f} ms after the release")
    assert gap < 0.1
    await run.cancel(force=True)
    assert field.whats() == ["a:1"]


@pytest.mark.paced
async def test_a_thread_that_will_not_end_does_not_keep_the_process_and_is_taken_over_when_it_is_gone(
    field: Field, log: EffectLog
) -> None:
    leaving = field.worker()
    run = await log.enqueue(threaded, "a", 30.0)
    field.wait_for(lambda all_: len(all_) == 1)
    field.worker()
    leaving.signal(signal.SIGTERM)
    second = leaving.signal(signal.SIGINT)  # Another one: two of a kind may arrive as one.
    while sent := field.requests():  # Read before the process was seen alive.
        if leaving.exit_code is not None:
            break
        assert len(sent) == 1, "handed on while its thread was alive"
        assert time.monotonic() - second < SOON
        await asyncio.sleep(0.01)
    gone = time.monotonic()
    again = field.wait_for(lambda all_: len(all_) == 2)[1]
    assert again.at - gone < SOON  # How fast it is stands in the benchmarks.
    (first, _) = (await run.record()).attempts
    assert first.outcome is AttemptOutcome.RELEASED


@pytest.mark.paced
async def test_a_blocked_loop_does_not_keep_a_process_that_was_told_twice_to_go(
    field: Field, log: EffectLog
) -> None:
    leaving = field.worker()
    run = await log.enqueue(blocking, "a", 30.0)
    field.wait_for(lambda all_: len(all_) == 1)
    leaving.signal(signal.SIGTERM)
    second = leaving.signal(signal.SIGINT)
    assert leaving.wait() == 128 + signal.SIGTERM
    assert time.monotonic() - second < SOON
    field.worker()
    field.wait_for(lambda all_: len(all_) == 2)
    assert (await run.record()).attempts[0].outcome is AttemptOutcome.RELEASED, "it counted as a crash"


async def test_a_worker_leaves_the_signals_as_it_found_them(log: EffectLog) -> None:
    earlier = [signal.signal(number, _mine) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        await log.worker().serve(ready=lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == [_mine, _mine]
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), earlier, strict=True):
            signal.signal(number, handler)


async def test_only_one_worker_at_a_time_takes_the_signals(log: EffectLog) -> None:
    """The last one would have them alone, and the others would never drain."""
    first, refused = log.worker(), []

    async def serve_another() -> None:
        with pytest.raises(ConfigurationError, match="only one worker at a time"):
            await log.worker().serve()
        refused.append("here")
        os.kill(os.getpid(), signal.SIGTERM)

    def serve_elsewhere() -> None:
        with pytest.raises(ConfigurationError, match="on the main thread"):
            asyncio.run(log.worker().serve())
        refused.append("elsewhere")

    await asyncio.to_thread(serve_elsewhere)
    others: list[asyncio.Task[None]] = []
    await first.serve(ready=lambda: others.append(asyncio.ensure_future(serve_another())))
    await others[0]
    assert refused == ["elsewhere", "here"]
    await log.worker().serve(ready=lambda: os.kill(os.getpid(), signal.SIGTERM))


@pytest.mark.paced
async def test_left_behind_code_keeps_its_run_while_the_process_lives_and_its_lease_lasts(
    field: Field, log: EffectLog
) -> None:
    _go.clear()
    _inside.clear()
    async with EffectLog(field.db, lease=1.5) as leaving:
        worker = leaving.worker()
        await worker.__aenter__()
        run = await log.enqueue(waits_for, "a")
        await asyncio.to_thread(_inside.wait, 10)
        assert not await worker.release()
        _inside.clear()
        async with log.worker():
            await asyncio.sleep(0.1)
            assert not _inside.is_set(), "handed on while its lease lasted"
            assert (await run.record()).state is RunState.RUNNING
            await asyncio.to_thread(_inside.wait, 10)
            _go.set()
            assert await run.result(10) == 2


async def test_leaving_by_an_exception_gives_back_and_uses_no_attempt(field: Field, log: EffectLog) -> None:
    with pytest.raises(RuntimeError, match="leave"):
        async with log.worker():
            run = await log.enqueue(naps, 30.0)
            while (await run.record()).state is not RunState.RUNNING:
                await asyncio.sleep(0.005)
            raise RuntimeError("leave")
    record = await run.record()
    assert (record.state, record.attempts[0].outcome) == (RunState.PENDING, AttemptOutcome.RELEASED)


@pytest.mark.paced
async def test_a_drain_with_a_limit_gives_back_what_takes_longer(log: EffectLog) -> None:
    worker = log.worker()
    await worker.__aenter__()
    short = await log.enqueue(naps, 0.05)
    long = await log.enqueue(naps, 30.0)
    while (await long.record()).state is not RunState.RUNNING:
        await asyncio.sleep(0.005)
    assert not await worker.drain(0.5)
    assert (await short.record()).state is RunState.SUCCEEDED
    assert (await long.record()).state is RunState.PENDING


async def test_a_drain_that_is_cancelled_gives_back(log: EffectLog) -> None:
    worker = log.worker()
    await worker.__aenter__()
    run = await log.enqueue(naps, 30.0)
    while (await run.record()).state is not RunState.RUNNING:
        await asyncio.sleep(0.005)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await worker.drain()
    assert (await run.record()).attempts[0].outcome is AttemptOutcome.RELEASED


async def test_a_worker_is_used_once(log: EffectLog) -> None:
    worker = log.worker()
    async with worker:
        pass
    with pytest.raises(ConfigurationError, match="new one"):
        async with worker:
            pass


@pytest.mark.parametrize("wait", [0.0, 0.0005, 0.002, 0.005, 0.02])
async def test_an_inline_run_that_is_cancelled_at_any_moment_is_given_back(
    log: EffectLog, wait: float
) -> None:
    calling = asyncio.ensure_future(log.run(naps, 30.0))
    await asyncio.sleep(0)
    await asyncio.sleep(wait)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    for record in await whole_records(log):
        assert record.state is RunState.PENDING, "nobody executes it, and nobody else may"
        assert [attempt.outcome for attempt in record.attempts] in ([], [AttemptOutcome.RELEASED])


async def test_an_inline_run_is_resumed_by_the_next_call_with_its_key(field: Field, log: EffectLog) -> None:
    task = slow.with_options(idempotency_key="k")
    calling = asyncio.ensure_future(log.run(task, "a", 1.0))
    while not field.requests():
        await asyncio.sleep(0.005)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await log.run(task, "a", 1.0) == "a"
    (record,) = await whole_records(log)
    assert [attempt.outcome for attempt in record.attempts] == [
        AttemptOutcome.RELEASED,
        AttemptOutcome.SUCCEEDED,
    ]


def test_ctrl_c_during_an_inline_run_without_a_loop_gives_it_back(field: Field) -> None:
    main = threading.main_thread().ident
    assert main is not None
    _inside.clear()

    def interrupt() -> None:
        if _inside.wait(20):
            signal.pthread_kill(main, signal.SIGINT)

    with EffectLog(field.db) as log:
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            log.sync.run(naps, 30.0)
        interrupting.join()
        (record,) = whole_records_sync(log)
    assert record.state is RunState.PENDING
    assert [attempt.outcome for attempt in record.attempts] == [AttemptOutcome.RELEASED]


SCRIPT = """
import asyncio, sys, time
from effectlog import EffectLog, durable_task, effect

@effect(key="page:{number}")
def page(number: int) -> int:
    print("page", number, flush=True)
    time.sleep(1.5 if number == 1 and sys.argv[3] == "first" else 0)
    return number

@durable_task(name="crawl")
def crawl(pages: int) -> int:
    return sum(page(number) for number in range(pages))

task = crawl.with_options(idempotency_key="one")

async def main() -> None:
    async with EffectLog(sys.argv[1]) as log:
        print("sum", await log.run(task, 3), flush=True)

if sys.argv[2] == "async":
    asyncio.run(main())
else:
    with EffectLog(sys.argv[1]) as log:
        print("sum", log.sync.run(task, 3), flush=True)
"""


@pytest.mark.parametrize(("how", "signals"), [("async", 1), ("sync", 1), ("sync", 2)])
def test_a_script_that_was_interrupted_in_a_sync_effect_goes_on_at_once(
    field: Field, how: str, signals: int
) -> None:
    """F044: the effect's thread can't be stopped, so its owner stays alive until the process is gone, and no longer."""
    command = [sys.executable, "-c", SCRIPT, field.db, how]
    with subprocess.Popen([*command, "first"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdout is not None
        assert [first.stdout.readline().split()[1] for _ in range(2)] == [b"0", b"1"]
        for _ in range(signals):
            first.send_signal(signal.SIGINT)
            time.sleep(0.05)  # Two that are pending at once are one.
        assert first.wait(10) != 0
    began = time.monotonic()
    again = subprocess.run([*command, "second"], capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout.split() == ["page", "1", "page", "2", "sum", "3"]
    assert time.monotonic() - began < 15, "it waited for the lease of 30 s"


async def _rolling_restart(field: Field, log: EffectLog, count: int) -> None:
    """Two workers, each replaced in turn while runs are under way."""
    old = [field.worker(), field.worker()]
    runs = await log.enqueue_many(two, [(str(n), 0.5 + n % 7 * 0.2) for n in range(count)])
    field.wait_for(lambda all_: len(all_) >= count, 30)
    for leaving in old:
        field.worker()
        leaving.signal(signal.SIGTERM)
        assert leaving.wait() == 0
    assert await asyncio.gather(*(run.result(30) for run in runs)) == [f"{n}:2" for n in range(count)]
    assert sorted(field.whats()) == sorted(f"{n}:{m}" for n in range(count) for m in (1, 2))


async def test_a_rolling_restart_requests_every_effect_once(field: Field, log: EffectLog) -> None:
    await _rolling_restart(field, log, 200)


async def test_signals_inside_effects_of_a_deploy_hand_on_between_effects(
    field: Field, log: EffectLog
) -> None:
    """Two signals at once, as an impatient supervisor sends them: completed effects are not sent again."""
    leaving = field.worker()
    runs = await log.enqueue_many(two, [(str(n), 2.0) for n in range(50)])
    field.wait_for(lambda all_: len(all_) == 50)
    await asyncio.gather(*(completed(run, 1) for run in runs))
    field.worker()
    leaving.signal(signal.SIGTERM)
    leaving.signal(signal.SIGINT)
    assert leaving.wait() == 0
    await asyncio.gather(*(run.result(30) for run in runs))
    assert sorted(field.whats()) == sorted(f"{n}:{m}" for n in range(50) for m in (1, 2))
