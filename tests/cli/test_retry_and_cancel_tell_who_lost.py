"""Danger: two operators act at once and both believe to have done it, or a live run is torn from its owner."""

from __future__ import annotations

import pytest
import shop_app

from effectlog import RunFailed


@pytest.fixture
async def failed(terminal):
    async with terminal.log() as log, log.worker():
        runs = [await log.enqueue(shop_app.fails, number) for number in range(3)]
        for run in runs:
            with pytest.raises(RunFailed):
                await run.result(timeout=20)
    return [run.id for run in runs]


@pytest.mark.parametrize("action", ["retry", "cancel"])
def test_of_two_simultaneous_calls_one_is_told_that_it_lost(terminal, failed, action):
    if action == "cancel":
        assert terminal.inside("retry", *failed).code == 0
    racers = [terminal.start(action, failed[0]) for _ in range(2)]
    answers = [racer.communicate(timeout=30) for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 1], answers
    (loser,) = [err for (_, err), racer in zip(answers, racers, strict=True) if racer.returncode == 1]
    assert failed[0] in loser
    assert loser.count("\n") == 1


def test_named_runs_that_can_not_be_retried_fail_the_command_but_not_the_others(terminal, failed):
    done = terminal.inside("retry", failed[0], "no-such-run", failed[1])
    assert done.code == 1
    assert done.out.count("is pending again") == 2
    assert done.err.count("\n") == 1
    assert "no-such-run" in done.err
    ended = terminal.inside("cancel", failed[2])
    assert ended.code == 1
    assert "it had ended before, failed" in ended.err


def test_by_state_and_task_what_does_not_fit_is_passed_over_and_told(terminal, failed):
    assert terminal.inside("retry", "--state", "failed", "--task", "no.such.task").out == "0 runs retried\n"
    done = terminal.inside("retry", "--state", "failed", "--task", "shop_app.fails")
    assert (done.code, done.out.splitlines()[-1]) == (0, "3 runs retried")
    done = terminal.inside("retry", "--state", "pending")
    assert (done.code, done.out.splitlines()[-1]) == (0, "0 runs retried, 3 skipped")
    assert "only failed and cancelled runs are retried" in done.out


async def test_a_live_owner_is_asked_and_only_force_goes_over_its_head(terminal):
    begun = terminal.folder / "begun"
    with terminal.worker("--name", "owner"):
        async with terminal.log() as log:
            run = await log.enqueue(shop_app.waits, str(begun))
            while not begun.exists():
                await run.record()
        refused = terminal.inside("retry", run.id)
        assert refused.code == 1
        assert "a live owner is executing it" in refused.err
        asked = terminal.inside("cancel", run.id)
        assert (asked.code, "is asked to cancel" in asked.out) == (0, True)
        forced = terminal.inside("cancel", run.id, "--force")
        assert (forced.code, forced.out) == (0, f"run {run.id} is cancelled\n")
        assert terminal.inside("show", run.id, "--json").json["state"] == "cancelled"
