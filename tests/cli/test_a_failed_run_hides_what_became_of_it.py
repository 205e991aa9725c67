"""Danger (F131): a run raised, and nobody can see whether it was executed again, why it ended, or how to have it again."""

from __future__ import annotations

import json

import shop_app


async def _ended(terminal, run_id, attempts):
    """Wait until the run has failed with so many attempts."""
    async with terminal.log() as log:
        run = await log.get_run(run_id)
        while (record := await run.record()).state != "failed" or len(record.attempts) < attempts:
            assert len(record.attempts) <= attempts


async def test_one_attempt_its_error_and_the_one_command_that_gives_another_round(terminal):
    enqueued = terminal("enqueue", "shop_app:fails", "[7]", "--json")
    assert enqueued.code == 0, enqueued.err
    run_id = json.loads(enqueued.out)["id"]
    with terminal.worker():
        await _ended(terminal, run_id, 1)
        (_, row) = terminal.inside("runs").out.splitlines()
        assert row.split()[:3] == [run_id, "failed", "shop_app.fails"]
        assert row.split()[5:7] == ["1", "0"], "one attempt, no request"
        assert row.endswith("ValueError: no 7")
        shown = terminal.inside("show", run_id).out
        assert "failed (a dead letter)" in shown
        assert 'raise ValueError(f"no {number}")' in shown
        command = shown.splitlines()[-1].split()
        assert command == ["effectlog", "retry", run_id]
        assert terminal(*command[1:]).code == 0
        await _ended(terminal, run_id, 2)
    async with terminal.log() as log:
        record = await (await log.get_run(run_id)).record()
    assert [attempt.outcome for attempt in record.attempts] == ["error", "error"]


async def test_by_default_a_run_that_raised_is_seen_to_wait_for_its_next_attempt(terminal):
    async with terminal.log() as log:
        run = await log.enqueue(shop_app.fails_thrice, 7)
        with terminal.worker():
            while (record := await run.record()).error is None:
                pass
            assert record.state == "pending"
            (_, row) = terminal("runs", env={"COLUMNS": "200"}).out.splitlines()
    assert row.split()[5] == "1"
    assert ", after ValueError: no 7" in row
