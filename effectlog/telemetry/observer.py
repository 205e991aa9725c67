"""What the core tells, with nobody to tell it to: the faces that recording classes take."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from effectlog.context import CurrentAttempt
    from effectlog.decorators.spec import EffectCall, TaskSpec
    from effectlog.store import commands as c
    from effectlog.store.rows import EffectRow, StoredRun

NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


class ObservedAttempt(Protocol):
    """What telemetry reads of an attempt."""

    run: StoredRun
    task: TaskSpec
    fence: c.Fence
    view: CurrentAttempt
    reason: str
    """Why it takes nothing new any more."""

    @property
    def run_id(self) -> str: ...

    @property
    def store_name(self) -> str: ...

    @property
    def lost(self) -> bool:
        """Its lease is lost."""
        ...

    @property
    def released(self) -> bool:
        """The worker gives it back."""
        ...

    def keep_trace(self, trace: str) -> None:
        """Store the span's context with the attempt."""
        ...


class Observer:
    """What one attempt reports. This one has no listener."""

    __slots__ = ()

    trace: str | None = None
    """The attempt's span as stored text, for the runs that the attempt makes."""

    def request(self, call: EffectCall, effect: EffectRow) -> AbstractContextManager[None]:
        """The effect's function is called inside: one request."""
        del call, effect
        return NOTHING

    def outcome(self, command: c.FinishEffect) -> None:
        """What became of a request is with the engine."""

    def replayed(self, effect: EffectRow) -> None:
        """A call was answered from the journal."""

    def resent(self, effect: EffectRow) -> None:
        """An effect in doubt is about to be sent again."""

    def looked_up(self, effect: EffectRow, answer: object) -> None:
        """The destination was asked about an effect in doubt."""

    def held(self, key: str, reason: str) -> None:
        """An effect waits for a decision."""

    def ended(self, command: c.EndAttempt, outcome: c.Outcome) -> None:
        """The attempt's end is recorded."""

    def over(self) -> None:
        """Nothing of the attempt is executed here any more, whether its end is recorded or not."""


class Producer:
    """One enqueue or emit. This one only hands on a trace that it was given."""

    __slots__ = ("trace",)

    def __init__(self, trace: str | None = None) -> None:
        self.trace = trace
        """What the new runs carry to whatever process claims them."""

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def made(self, run_ids: Sequence[str], *, created: bool) -> None:
        """These runs have the call now; ``created``: at least one of them is new."""


SILENT = Observer()
