"""Danger: a killed worker counts as alive, so nobody starts another one and every tool says that all is well."""

from __future__ import annotations

import dataclasses
import signal

import pytest
import shop_app


@pytest.fixture(params=["sqlite", "postgresql"])
def there(terminal, request):
    if request.param == "sqlite":
        return terminal
    return dataclasses.replace(terminal, url=request.getfixturevalue("postgres_database"))


async def test_a_killed_worker_goes_when_another_takes_its_run_over(there):
    begun = there.folder / "begun"
    async with there.log() as log:
        with there.worker("--name", "A") as first:
            run = await log.enqueue(shop_app.waits_kindly, str(begun))
            while not begun.exists():
                await run.record()
            with there.worker("--name", "B"):
                while (
                    len(await log.administration.engine.read(log.administration.engine.store.workers())) < 2
                ):
                    pass
                begun.unlink()
                first.send_signal(signal.SIGKILL)
                first.wait()
                while not begun.exists():
                    await run.record()
                assert [(row["name"], row["alive"]) for row in _workers(there)] == [("B", True)]
        assert [(row["name"], row["alive"]) for row in _workers(there)] == [("B", False)]
    found = there.inside("doctor")
    assert found.code == 1
    assert "no worker is alive to take over" in found.err


def _workers(there):
    return there.inside("doctor", "--json").json["workers"]
