"""A real SQLite store whose commits can be watched, held and made to fail."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from effectlog.commands import Command, Outcome
from effectlog.store.sqlite import SqliteStore


class FailingStore(SqliteStore):
    """``fail``: the error for a batch, or None to let it pass. ``applied``: every command that was committed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.fail: Callable[[Sequence[Command]], Exception | None] = lambda _: None
        self.applied: list[Command] = []
        self.refused = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_gate = 0

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

    def kinds(self, run_id: str) -> list[str]:
        """What was committed of one run, by name and in order."""
        return [name_of(command) for command in self.applied if _run_of(command) == run_id]


def name_of(command: Any) -> str:
    outcome = getattr(command, "outcome", None)
    return f"{type(command).__name__}:{outcome}" if outcome else type(command).__name__


def _run_of(command: Any) -> str | None:
    fence = getattr(command, "fence", None)
    return fence.run_id if fence is not None else None


def holds(commands: Sequence[Command], name: str) -> bool:
    return any(name_of(command).startswith(name) for command in commands)
