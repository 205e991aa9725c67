"""``Runtime``: one log's engine and settings, for all that makes or executes its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effectlog.codec import encode_as
from effectlog.validation import fitting

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from effectlog.codec import Codec
    from effectlog.context import Request
    from effectlog.engine.engine import Engine
    from effectlog.keys import Seals
    from effectlog.store.protocol import Store


class Use:
    """Held by whatever can still use a log: the log itself, its workers, the handles of its runs."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A log's engine and settings, handed down from ``EffectLog`` as one value. Times are seconds."""

    engine: Engine
    codec: Codec
    seals: Seals
    """How this log keeps and compares the fingerprints of arguments."""
    max_value_bytes: int
    lease: float
    heartbeat: float
    around_request: Callable[[Request], AbstractContextManager[object]] | None = None
    """Entered around each call of an effect's function. A seam for tests: None in production."""
    longest_settle: float = math.inf
    """No settle time counts for longer: tests that simulate the destination need not wait for it."""

    use: Use = field(default_factory=Use, compare=False)
    """Once nobody holds it, nobody can close the log any more."""

    @property
    def store(self) -> Store:
        """The store that the engine owns."""
        return self.engine.store

    def stored(self, value: Any, what: str, *, path: str) -> bytes:
        """Encode a value. Raises EncodingError if it can't be stored, or takes more than ``max_value_bytes``.

        ``what`` begins the message, as in ``"the result takes"``; ``path`` names the value.
        """
        return fitting(encode_as(self.codec, value, path), self.max_value_bytes, what, path=path, value=value)
