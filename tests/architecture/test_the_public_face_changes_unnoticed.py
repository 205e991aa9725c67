"""The names that outside programs import, their docstrings, and that errors teach and pickle."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import effectlog

DESIGN = [
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


def public() -> list[type]:
    return [value for name in effectlog.__all__ if inspect.isclass(value := getattr(effectlog, name))]


def errors() -> list[type[BaseException]]:
    return [cls for cls in public() if issubclass(cls, effectlog.EffectLogError | effectlog.EffectLogControl)]


def test_the_list_of_names_is_the_one_that_was_decided() -> None:
    assert sorted(effectlog.__all__) == sorted(DESIGN)


@pytest.mark.parametrize("name", effectlog.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    value = getattr(effectlog, name)
    assert inspect.getdoc(value), name


def test_every_public_method_says_what_it_does() -> None:
    for cls in (effectlog.EffectLog, effectlog.Run, effectlog.Worker, effectlog.Retry, effectlog.Destination):
        for name, member in vars(cls).items():
            if not name.startswith("_") and callable(member):
                assert inspect.getdoc(member), f"{cls.__name__}.{name}"


@pytest.mark.parametrize("cls", errors(), ids=lambda cls: cls.__name__)
def test_an_error_survives_pickle_and_copy_with_its_fields(cls: type[BaseException]) -> None:
    error = cls("what happened", run_id="r1", message="inner")  # type: ignore[call-arg]
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is cls
        assert str(twin) == "what happened"
        assert twin.run_id == "r1"
        assert twin.message == "inner"


def test_errors_and_records_name_the_path_that_users_import() -> None:
    for cls in public():
        if issubclass(cls, BaseException) or cls.__name__ in vars(effectlog.model):
            assert cls.__module__ == "effectlog", cls
    assert pickle.loads(pickle.dumps(effectlog.RunState.HELD)) is effectlog.RunState.HELD


def test_except_exception_does_not_catch_a_control_signal() -> None:
    assert not issubclass(effectlog.EffectLogControl, Exception)
    for cls in (effectlog.LeaseLost, effectlog.AttemptOver, effectlog.EffectHeld, effectlog.RunCancelling):
        assert issubclass(cls, effectlog.EffectLogControl)
