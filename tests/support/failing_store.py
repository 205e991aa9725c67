"""A real SQLite store whose commits can be watched, held and made to fail."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from effectlog.store.commands import Command, Outcome
from effectlog.store.protocol import Apply
from effectlog.store.sqlite.store import SqliteStore


class FailingStore(SqliteStore):
    """``on_thread`` counts the batches of the fast path.

    ``fail``: the error for a batch, or None to let it pass. ``applied``: every command that was committed.
    """

    awaited = False

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.fail: Callable[[Sequence[Command]], Exception | None] = lambda _: None
        self.applied: list[Command] = []
        self.refused = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_gate = 0
        self.on_thread = 0

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        self.at_gate += 1
        await self.gate.wait()
        error = self.fail(commands)
        if error is not None:
            self.refused += 1
            raise error
        outcomes = await super().apply(commands)
        self.applied += commands
        return outcomes

    def hand_over(self, work: Callable[[Apply], None]) -> None:
        super().hand_over(lambda apply: work(partial(self._apply_watched, apply)))

    def _apply_watched(self, apply: Apply, commands: Sequence[Command]) -> list[Outcome]:
        self.at_gate += 1
        self.on_thread += 1
        while not self.gate.is_set():
            time.sleep(0.001)
        error = self.fail(commands)
        if error is not None:
            self.refused += 1
            raise error
        outcomes = apply(commands)
        self.applied += commands
        return outcomes

    def kinds(self, run_id: str) -> list[str]:
        """What was committed of one run, by name and in order."""
        return [name_of(command) for command in self.applied if _run_of(command) == run_id]


class FailingAwaited(FailingStore):
    """The same, where every batch goes by the engine's loop."""

    awaited = True

    async def apply(self, commands: Sequence[Command]) -> list[Outcome]:
        return await super().apply(commands)


def name_of(command: Any) -> str:
    outcome = getattr(command, "outcome", None)
    return f"{type(command).__name__}:{outcome}" if outcome else type(command).__name__


def _run_of(command: Any) -> str | None:
    fence = getattr(command, "fence", None)
    return fence.run_id if fence is not None else None


def holds(commands: Sequence[Command], name: str) -> bool:
    return any(name_of(command).startswith(name) for command in commands)
