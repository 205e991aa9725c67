"""Danger: runs wait for ever and every tool says that all is well."""

from __future__ import annotations

import signal

import pytest
import shop_app

from effectlog import RunHeld


async def test_a_quiet_store_is_healthy(terminal):
    assert terminal.inside("migrate").code == 0
    done = terminal.inside("doctor")
    assert (done.code, done.err) == (0, "")
    assert "nothing needs a person" in done.out
    assert "wal bytes" in done.out


async def test_a_task_that_no_live_worker_knows(terminal):
    async with terminal.log() as log:
        await log.enqueue(shop_app.greet, {"name": "Ada"})
        unknown = await log.enqueue(only_here, 1)
    alone = terminal.inside("doctor", "--json")
    assert alone.code == 1
    assert [row["known"] for row in alone.json["pending"]] == [False, False]
    assert "no worker is alive" in alone.err
    with terminal.worker("--name", "first") as worker:
        async with terminal.log() as log:
            while (await log.list_runs(state="pending", task="shop_app.greet")) or not await _reported(log):
                pass
        found = terminal.inside("doctor", "--json")
        assert found.code == 1
        (row,) = found.json["pending"]
        assert (row["task"], row["known"]) == ("only.here", False)
        assert "only.here, which no live worker knows" in found.err
        (seen,) = found.json["workers"]
        assert (seen["name"], seen["alive"]) == ("first", True)
        assert "shop_app.greet" in seen["tasks"]
        assert "no worker knows" in terminal.inside("runs").out
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    (seen,) = terminal.inside("doctor", "--json").json["workers"]
    assert (seen["name"], seen["alive"]) == ("first", False)
    assert unknown.id in terminal.inside("runs", "--state", "pending").out


async def _reported(log) -> bool:
    return bool(await log.administration.engine.read(log.administration.engine.store.workers()))


async def test_a_run_whose_owner_died_with_nobody_left_to_take_it_over(terminal):
    begun = terminal.folder / "begun"
    with terminal.worker() as worker:
        async with terminal.log() as log:
            run = await log.enqueue(shop_app.waits, str(begun))
            while not begun.exists():
                await run.record()
        assert terminal.inside("doctor").code == 0
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    found = terminal.inside("doctor", "--json")
    assert found.code == 1
    assert found.json["stuck"] == [run.id]
    assert "lost its owner and no worker is alive" in found.err


async def test_a_held_run_is_named_with_its_age(terminal):
    async with terminal.log() as log, log.worker():
        run = await log.enqueue(shop_app.sell, "A-1")
        with pytest.raises(RunHeld):
            await run.result(timeout=20)
    found = terminal.inside("doctor")
    assert found.code == 1
    assert f"effectlog show {run.id}" in found.err
    assert "oldest doubt" in found.out


from effectlog import durable_task  # noqa: E402 - only this process has the task below


@durable_task(name="only.here")
def only_here(number: int) -> int:
    return number
