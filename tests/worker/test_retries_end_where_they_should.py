"""Errors are retried as declared and no further, and every dead letter is one dead letter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import (
    ActionRefused,
    AttemptOutcome,
    ConfigurationError,
    EffectLog,
    Retry,
    RunFailed,
    RunState,
    durable_task,
    effect,
)

if TYPE_CHECKING:
    from pathlib import Path

    from support.worker_processes import Field

QUICK = {"delay": 0.0, "jitter": 0.0}


class Declared(Exception):
    pass


class Derived(Declared):
    pass


Namesake = type("Declared", (Exception,), {"__module__": "another.module"})


def _cause() -> Exception:
    error = ValueError("from another")
    error.__cause__ = Declared("the cause")
    return error


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(Declared("same"), 1), (Derived("subclass"), 1), (Namesake("namesake"), 3), (_cause(), 3)],
    ids=["same", "subclass", "namesake", "cause"],
)
async def test_giving_up_goes_by_class_and_not_by_name(
    log: EffectLog, error: Exception, attempts: int
) -> None:
    @durable_task(name="raises", retry=Retry(give_up_on=(Declared,), **QUICK))
    async def raises() -> None:
        raise error

    async with log.worker():
        run = await log.enqueue(raises)
        with pytest.raises(RunFailed):
            await run.result(10)
    assert len((await run.record()).attempts) == attempts


@pytest.mark.parametrize("mistake", [AttributeError, ImportError, TypeError])
async def test_a_programming_error_ends_and_keeps_its_first_traceback(
    log: EffectLog, mistake: type[Exception]
) -> None:
    @effect(key="e:{n}")
    async def takes_one(n: int) -> None: ...

    @durable_task(name="mistaken", retry=Retry(max_attempts=2, **QUICK))
    async def mistaken() -> None:
        if mistake is TypeError:
            await takes_one()  # type: ignore[call-arg]
        raise mistake("wrong")

    async with log.worker():
        run = await log.enqueue(mistaken)
        with pytest.raises(RunFailed) as caught:
            await run.result(10)
    assert caught.value.type_name == mistake.__name__
    first, last = (await run.record()).attempts
    assert first.error is not None
    assert "in mistaken" in first.error.traceback
    assert (first.outcome, last.outcome) == (AttemptOutcome.ERROR, AttemptOutcome.ERROR)


@durable_task(name="opens another log", retry=Retry(max_attempts=2, **QUICK))
async def opens_another(path: str) -> None:
    async with EffectLog(path):
        pass


async def test_the_trouble_of_another_store_counts_as_the_tasks_own(log: EffectLog, tmp_path: Path) -> None:
    """Given back as if it were ours, the run would go round for ever."""
    (tmp_path / "text.db").write_text("no database at all" * 100)
    async with log.worker():
        run = await log.enqueue(opens_another, str(tmp_path / "text.db"))
        with pytest.raises(RunFailed, match="StoreRefused"):
            await run.result(10)
    assert [attempt.outcome for attempt in (await run.record()).attempts] == [AttemptOutcome.ERROR] * 2


def test_delays_grow_to_their_limit_and_jitter_only_lengthens_them() -> None:
    retry = Retry(delay=1.0, backoff=3.0, max_delay=20.0, jitter=0.5)
    for errors, base in [(1, 1.0), (2, 3.0), (3, 9.0), (4, 20.0), (5000, 20.0)]:
        delays = [retry.delay_after(errors) for _ in range(200)]
        assert base <= min(delays) <= max(delays) <= base * 1.5
        assert max(delays) > base * 1.1


async def test_another_round_replays_completed_effects_and_counts_anew(log: EffectLog) -> None:
    sent: list[str] = []
    broken = [True]

    @effect(key="once")
    async def once() -> str:
        sent.append("once")
        return "sent"

    @durable_task(name="two rounds", retry=Retry(max_attempts=2, **QUICK))
    async def two_rounds() -> str:
        value = await once()
        if broken[0]:
            raise RuntimeError("broken")
        return value

    async with log.worker():
        run = await log.enqueue(two_rounds)
        with pytest.raises(RunFailed):
            await run.result(10)
        assert (await run.record()).dead_letter
        await run.retry()
        with pytest.raises(RunFailed):
            await run.result(10)
        assert len((await run.record()).attempts) == 4
        broken[0] = False
        await run.retry()
        assert await run.result(10) == "sent"
    assert sent == ["once"]
    with pytest.raises(ActionRefused, match="only failed and cancelled"):
        await run.retry()


async def test_of_two_retries_at_a_time_one_is_told_that_it_lost(log: EffectLog) -> None:
    @durable_task(name="fails at once", retry=Retry(max_attempts=1))
    async def fails() -> None:
        raise RuntimeError("no")

    for _ in range(10):
        async with log.worker():
            run = await log.enqueue(fails)
            with pytest.raises(RunFailed):
                await run.result(10)
        results = await asyncio.gather(run.retry(), run.retry(), return_exceptions=True)
        assert [type(result) for result in results].count(ActionRefused) == 1, results


async def test_a_retry_never_stops_the_attempt_that_it_causes(log: EffectLog) -> None:
    """The worker is in the same process and claims before ``retry`` has returned."""

    @durable_task(name="fails every time", retry=Retry(max_attempts=1))
    async def fails() -> None:
        raise RuntimeError("no")

    async with log.worker():
        run = await log.enqueue(fails)
        for attempts in range(1, 60):
            with pytest.raises(RunFailed):
                await run.result(20)
            assert len((await run.record()).attempts) == attempts
            await run.retry()


async def test_a_live_owner_is_not_robbed_unless_forced(log: EffectLog) -> None:
    begun: list[int] = []

    @durable_task(name="long")
    async def long() -> int:
        begun.append(1)
        if len(begun) == 1:
            await asyncio.sleep(30)
        return len(begun)

    async with log.worker():
        run = await log.enqueue(long)
        while not begun:
            await asyncio.sleep(0.005)
        with pytest.raises(ActionRefused, match="live owner"):
            await run.retry()
        assert (await run.record()).state is RunState.RUNNING
        await run.retry(force=True)
        assert await run.result(10) == 2


async def test_every_dead_letter_makes_one_follow_up(field: Field, log: EffectLog) -> None:
    told: list[tuple[str, str]] = []

    @durable_task(name="undertaker")
    async def undertaker(run_id: str, error: str) -> None:
        told.append((run_id, error))

    @durable_task(name="mortal", retry=Retry(max_attempts=2, **QUICK), on_dead=undertaker)
    async def mortal(n: int) -> None:
        raise RuntimeError(f"end of {n}")

    async with EffectLog(field.db) as other, log.worker(), other.worker():
        runs = await log.enqueue_many(mortal, [(n,) for n in range(100)])
        await asyncio.gather(*(run.result(30) for run in runs), return_exceptions=True)
        # A second end of the same run is a second dead letter.
        await runs[0].retry()
        while len(told) < 101:
            await asyncio.sleep(0.01)
    assert len(told) == 101
    assert sorted(set(told)) == sorted((run.id, f"RuntimeError: end of {n}") for n, run in enumerate(runs))
    (child,) = [
        record for record in await log.list_runs(task=undertaker, limit=500) if record.parent_id == runs[1].id
    ]
    assert child.state is RunState.SUCCEEDED


async def test_a_follow_up_that_dies_itself_ends_somewhere(log: EffectLog) -> None:
    deaths: list[str] = []

    @durable_task(name="heir", retry=Retry(max_attempts=1), on_dead="heir")
    async def heir(run_id: str, error: str) -> None:
        deaths.append(run_id)
        raise RuntimeError("as well")

    async with log.worker():
        await log.enqueue(heir, "nobody", "none")
        count = -1
        while len(deaths) != count:
            count = len(deaths)
            await asyncio.sleep(0.5)
    assert len(deaths) == 101


def test_a_follow_up_that_cannot_be_called_is_refused_at_declaration() -> None:
    @durable_task(name="wrong undertaker")
    async def wrong(run: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="run_id: str, error: str"):

        @durable_task(on_dead=wrong)
        async def mortal() -> None: ...
