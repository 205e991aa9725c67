"""Every exception and warning that effectlog raises.

Two trees, so that user code's ``except Exception`` cannot swallow a control signal::

    Exception
      EffectLogError              something went wrong; the message says what to do next
        ConfigurationError          a declaration or a setting is not usable (raised early)
          KeyTemplateError            an effect's key can't be built from the call
        StoreError                  the store can't be opened, read or written
          StoreRefused                refused at open, with the reason and the advice
          StoreClosed                 used after close, or after a fork
        EncodingError               a value can't be stored; names its path and type
        DecodingError               a stored value can't be rebuilt here
        IdempotencyConflict         same idempotency key, other arguments
        EffectConflict              same effect key, other arguments or another function
        EffectFailed                an effect failed for good (a declared ``final`` error)
        RunNotFound · NoSubscriber · NotInAttempt · NotInDoubt · ActionRefused
        RunFailed · RunCancelled · RunHeld      what ``Run.result()`` raises
    BaseException
      EffectLogControl            ends an attempt from inside; never catch it
        LeaseLost                   the attempt no longer owns its run
        AttemptOver                 the attempt is ending: no effect may start
        EffectHeld                  an effect waits for a decision
        RunCancelling               the run was asked to cancel

Leaf module: it imports nothing of ours. Every class pickles with its fields.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal


def _rebuild(cls: type[BaseException], message: str, fields: dict[str, Any]) -> BaseException:
    return cls(message, **fields)


class EffectLogError(Exception):
    """Base of every ordinary error of effectlog: a message, and named fields as attributes."""

    def __init__(self, message: str, /, **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), dict(self.__dict__))


class EffectLogControl(BaseException):
    """Base of the signals that end an attempt from inside.

    They derive from ``BaseException`` so that ``except Exception`` in a task cannot keep a run
    going that this worker no longer owns. Don't catch them; where you must, raise them again.
    """

    def __init__(self, message: str, /, **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), dict(self.__dict__))


class ConfigurationError(EffectLogError):
    """A declaration or a setting that can't work, refused before anything is stored."""


class KeyTemplateError(ConfigurationError):
    """An effect's or a concurrency key can't be built; the message names function and field."""


class StoreTrouble(StrEnum):
    """The ``reason`` of a StoreError whose trouble callers tell apart."""

    RUN_LOCKED = "run locked"
    """Somebody else's open transaction keeps the run's row."""
    TAKES_NO_WRITES = "takes no writes"
    """Nothing can be written for now, whatever it is: the disk is full, or read-only."""
    STORE_GONE = "store gone"
    """It is not what was opened: its file was replaced. No try brings it back."""
    OUTCOME_UNKNOWN = "outcome unknown"
    """The answer of a commit was lost."""
    SESSION_LOST = "session lost"
    """This process has no session with the server for now, and starts no effect without one."""
    POOL_EXHAUSTED = "pool exhausted"
    """No connection became free in time."""


class StoreError(EffectLogError):
    """The store could not be read or written. Effects that were not started do not start.

    Fields: ``transient``, true where trying again can help (a locked file, a lost connection), and
    ``reason``, where the trouble is one that callers tell apart.
    """

    transient: bool = False
    reason: StoreTrouble | None = None


class StoreRefused(StoreError):
    """The store was refused at open; the message names the reason and what to do."""


class StoreClosed(StoreError):
    """The log was used after it was closed, or in a forked child of the process that opened it."""


class EncodingError(EffectLogError):
    """A value can't be stored. Fields: ``path`` inside the value, ``type_name``.

    ``effect_key``: the effect that has happened and whose result it is. No attempt can change that, so an
    uncaught one ends the run; ``resolve`` may supply the value, and ``retry`` then goes on with it.
    """

    path: str
    type_name: str
    effect_key: str | None = None


class DecodingError(EffectLogError):
    """A stored value can't be rebuilt in this process. Fields: ``path``, ``type_name``.

    ``damaged``: its bytes are no value at all, so that no other process can rebuild it either.
    """

    path: str
    type_name: str
    damaged: bool = False


class IdempotencyConflict(EffectLogError):
    """The idempotency key already belongs to a run with other arguments.

    Fields: ``scope``, ``idempotency_key``, ``parameters`` (those that differ), ``run_id``. ``created``: the
    ids of runs that the same call of ``enqueue_many`` has stored all the same.
    """

    scope: str
    idempotency_key: str
    parameters: list[str]
    run_id: str
    created: tuple[str, ...] = ()


class EffectConflict(EffectLogError):
    """An effect key was used again with other arguments or by another function.

    Fields: ``run_id``, ``effect_key``, ``parameters`` (those that differ).
    """

    run_id: str
    effect_key: str
    parameters: list[str]


class EffectFailed(EffectLogError):
    """An effect failed for good; raised on the first execution and again on every replay.

    What is raised is a subclass of this class and of the declared ``final`` type. Fields:
    ``run_id``, ``effect_key``, ``type_name``, ``message``, ``traceback``.
    """

    run_id: str
    effect_key: str
    type_name: str
    message: str
    traceback: str


class NotInAttempt(EffectLogError):
    """``operation_id()`` or ``current_attempt()`` was called outside an effect or attempt."""


class NotInDoubt(EffectLogError):
    """``resolve`` was called for an effect that is not in doubt; ``reason`` says what it is instead.

    ``"not begun"``: the run has no such effect, or not yet. ``"being executed"``: a live owner awaits its
    outcome, which may still be lost, so resolve it again later. ``"settled"``: its outcome is known.
    Fields: ``run_id``, ``effect_key``, ``reason``, ``state``, ``resolved_by``.
    """

    run_id: str
    effect_key: str
    reason: Literal["not begun", "being executed", "settled"]
    state: str | None
    resolved_by: str | None


class ActionRefused(EffectLogError):
    """``retry`` or ``cancel`` was refused; ``reason`` says why. Fields: ``run_id``, ``reason``."""

    run_id: str
    reason: str


class RunNotFound(EffectLogError):
    """No run has this id. Field: ``run_id``."""

    run_id: str


class NoSubscriber(EffectLogError):
    """No task is subscribed to the event, so nothing was recorded. Field: ``event``."""

    event: str


class RunFailed(EffectLogError):
    """The run ended ``failed``. Fields: ``run_id``, ``type_name``, ``message``, ``traceback``."""

    run_id: str
    type_name: str
    message: str
    traceback: str


class RunCancelled(EffectLogError):
    """The run was cancelled. Field: ``run_id``."""

    run_id: str


class RunHeld(EffectLogError):
    """The run waits for a decision about an effect in doubt. Fields: ``run_id``, ``effect_keys``."""

    run_id: str
    effect_keys: list[str]


class LeaseLost(EffectLogControl):
    """The attempt no longer owns its run: another worker may be executing it. Field: ``run_id``."""

    run_id: str


class AttemptOver(EffectLogControl):
    """The attempt is ending (body over, drained, released): no effect may start any more."""


class EffectHeld(EffectLogControl):
    """An effect in doubt waits for a decision; the run will be ``held``. Field: ``effect_key``."""

    effect_key: str


class RunCancelling(EffectLogControl):
    """The run was asked to cancel, so no further effect starts."""


class EffectLogWarning(UserWarning):
    """Category of every warning that effectlog gives."""
