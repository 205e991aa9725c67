"""Danger: a test waits for an effect, repeats the request, and is told that the first one is still being executed."""

import threading
from pathlib import Path
from typing import Any

import pytest

from effectlog.testing.destinations import KINDS
from effectlog.testing.destinations.ledger import Ledger
from effectlog.testing.destinations.receiver import Receiver, Reply

BODY = {"operation": "charge", "cents": 1999}


def test_an_effect_is_shown_when_its_key_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver(KINDS["replay"], Ledger(str(tmp_path / "destination.db")))
    execute, shown = receiver._execute, threading.Event()

    def stays_between(*how: Any) -> Reply:
        """The effect is committed, and whoever waits for it has time to see it."""
        reply = execute(*how)
        shown.wait(0.2)
        return reply

    monkeypatch.setattr(receiver, "_execute", stays_between)
    first = threading.Thread(target=receiver.handle, args=("key-1", BODY))
    first.start()
    receiver.wait_for("effects", 1, 10)
    shown.set()
    repeated = receiver.handle("key-1", BODY)
    first.join()
    receiver.ledger.close()
    assert repeated is not None
    assert repeated.status == 200
