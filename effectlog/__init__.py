"""Durable tasks and journaled side effects for ordinary Python functions.

What executes runs is loaded when it is first asked for: a module that only declares effects and tasks stays
light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from effectlog.codec import Codec, JsonCodec
from effectlog.context import CurrentAttempt, current_attempt, current_transaction, operation_id
from effectlog.contract import Destination
from effectlog.decorators.effect import effect
from effectlog.decorators.task import Task, durable_task
from effectlog.errors import (
    ActionRefused,
    AttemptOver,
    ConfigurationError,
    DecodingError,
    EffectConflict,
    EffectFailed,
    EffectHeld,
    EffectLogControl,
    EffectLogError,
    EffectLogWarning,
    EncodingError,
    IdempotencyConflict,
    KeyTemplateError,
    LeaseLost,
    NoSubscriber,
    NotInAttempt,
    NotInDoubt,
    RunCancelled,
    RunCancelling,
    RunFailed,
    RunHeld,
    RunNotFound,
    StoreClosed,
    StoreError,
    StoreRefused,
)
from effectlog.model import (
    Applied,
    AttemptOutcome,
    AttemptRecord,
    EffectRecord,
    EffectState,
    ErrorInfo,
    NotApplied,
    RunRecord,
    RunState,
    RunSummary,
    Unknown,
)
from effectlog.retry import Retry

if TYPE_CHECKING:
    from effectlog.log import EffectLog
    from effectlog.runs.run import Run
    from effectlog.worker.worker import Worker

_EXECUTING = {"EffectLog": "effectlog.log", "Run": "effectlog.runs.run", "Worker": "effectlog.worker.worker"}

__all__ = [
    "ActionRefused",
    "Applied",
    "AttemptOutcome",
    "AttemptOver",
    "AttemptRecord",
    "Codec",
    "ConfigurationError",
    "CurrentAttempt",
    "DecodingError",
    "Destination",
    "EffectConflict",
    "EffectFailed",
    "EffectHeld",
    "EffectLog",
    "EffectLogControl",
    "EffectLogError",
    "EffectLogWarning",
    "EffectRecord",
    "EffectState",
    "EncodingError",
    "ErrorInfo",
    "IdempotencyConflict",
    "JsonCodec",
    "KeyTemplateError",
    "LeaseLost",
    "NoSubscriber",
    "NotApplied",
    "NotInAttempt",
    "NotInDoubt",
    "Retry",
    "Run",
    "RunCancelled",
    "RunCancelling",
    "RunFailed",
    "RunHeld",
    "RunNotFound",
    "RunRecord",
    "RunState",
    "RunSummary",
    "StoreClosed",
    "StoreError",
    "StoreRefused",
    "Task",
    "Unknown",
    "Worker",
    "current_attempt",
    "current_transaction",
    "durable_task",
    "effect",
    "operation_id",
]

# Tracebacks, stored errors and stored values name what users import, and not the file in which it is written.
for _name in __all__:
    _public = globals().get(_name)
    if isinstance(_public, type) and _public.__module__ in {"effectlog.errors", "effectlog.model"}:
        _public.__module__ = __name__
del _name, _public


def __getattr__(name: str) -> Any:
    if name not in _EXECUTING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_EXECUTING[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
