"""Danger: the only worker is stopped, its process is still there, its work stands still, and doctor finds all well."""

from __future__ import annotations

import dataclasses
import signal

import pytest
import shop_app


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request, terminal):
    if request.param == "sqlite":
        return terminal
    return dataclasses.replace(terminal, url=request.getfixturevalue("postgres_database"))


async def test_a_stopped_worker_whose_lease_has_ended_needs_a_person(stored):
    begun = stored.folder / "begun"
    with stored.worker("--name", "only", "--lease", "1") as worker:
        async with stored.log() as log:
            run = await log.enqueue(shop_app.waits_kindly, str(begun))
            while not begun.exists():
                await run.record()
            working = stored.inside("doctor")
            assert (working.code, working.err) == (0, "")
            worker.send_signal(signal.SIGSTOP)
            admin = log.administration
            while not await admin.engine.read(admin.lapsed()):
                pass
        found = stored.inside("doctor", "--json")
        assert found.code == 1
        assert found.json["stuck"] == [run.id]
        assert [(seen["alive"], seen["silent"]) for seen in found.json["workers"]] == [(True, True)]
        stopped, taken_over = sorted(found.json["problems"], reverse=True)
        assert f"worker only (pid {worker.pid} on " in stopped
        assert "it is stopped (SIGSTOP" in stopped
        assert "1 run lost its owner and no worker that is alive gives a sign of life" in taken_over
        with stored.worker("--name", "peer"):
            async with stored.log() as log:
                while (await (await log.get_run(run.id)).record()).attempts[-1].worker != "peer":
                    pass
            assert stored.inside("doctor").code == 0, "a peer does its work by now"
