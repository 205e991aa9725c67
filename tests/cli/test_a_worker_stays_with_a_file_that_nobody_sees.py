"""Danger: the store's file is replaced by a restore, the worker stays with the old one, and repeats its advice for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import pytest
import shop_app

from effectlog import EffectLog, StoreError

if TYPE_CHECKING:
    from pathlib import Path

SOON = 8.0
"""Seconds, on a busy machine; a heartbeat is 10 s away, and the end of a lease 30."""


def _restore(store: str, backup: Path) -> None:
    backup.write_bytes(b"")
    backup.replace(store)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_a_worker_of_the_command_line_leaves_by_itself(terminal, busy):
    begun = terminal.folder / "begun"
    with terminal.worker() as worker:
        if busy:
            async with terminal.log() as log:
                run = await log.enqueue(shop_app.waits_kindly, str(begun))
                while not begun.exists():
                    await run.record()
        replaced = time.monotonic()
        _restore(terminal.store, terminal.folder / "backup")
        _, err = worker.communicate(timeout=30)
        assert time.monotonic() - replaced < SOON
    assert worker.returncode == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("effectlog: ")
    assert "was deleted, moved or replaced" in err.splitlines()[-1]
    assert err.count("claims nothing more") == 1
    assert err.count("tries again") == err.count("tried again") == 0


async def test_serve_raises_what_is_wrong_and_a_worker_beside_other_work_ends_its_claims(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "effectlog")
    for number in range(2):
        store = tmp_path / f"{number}.db"
        log = EffectLog(store, lease=1.0)  # A beat comes three times a second.
        async with log:
            worker = log.worker()
            if number:
                with pytest.raises(StoreError, match="deleted, moved or replaced"):
                    await worker.serve(ready=lambda store=store: _restore(str(store), tmp_path / "backup"))
            else:
                async with worker:
                    _restore(str(store), tmp_path / "backup")
                    await asyncio.wait({worker._claim_loop.store_gone}, timeout=SOON)
                    assert worker._claim_loop.store_gone.done()
                    await asyncio.sleep(1.0)
    told = [record.getMessage() for record in caplog.records]
    assert len([line for line in told if "claims nothing more" in line]) == 2, told
    assert not [line for line in told if "tried again" in line or "tries again" in line]
