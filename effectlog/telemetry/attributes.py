"""Attributes of spans: the semantic conventions' names where there is one, ours under ``effectlog.``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from effectlog.telemetry.settings import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.decorators.spec import EffectCall
    from effectlog.store.rows import EffectRow
    from effectlog.telemetry.observer import ObservedAttempt

Attributes: TypeAlias = "dict[str, str | int | bool]"

SYSTEM = "effectlog"


def message(operation: str, kind: str, destination: str, store: str) -> Attributes:
    """A run is a message, its task or event the destination."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.type": kind,
        "messaging.operation.name": operation,
        "messaging.destination.name": destination,
        **_server(store),
    }


def of_attempt(attempt: ObservedAttempt) -> Attributes:
    run = attempt.run
    found = message("attempt", "process", attempt.task.name, attempt.store_name)
    found |= {
        "messaging.message.id": run.row.id,
        "messaging.client.id": attempt.view.worker,
        "code.function.name": _qualified(attempt.task.function),
        "effectlog.run.id": run.row.id,
        "effectlog.task": attempt.task.name,
        "effectlog.attempt": attempt.fence.attempt,
        "effectlog.fence": attempt.fence.attempt,
    }
    if run.correlation_id is not None:
        found["messaging.message.conversation_id"] = run.correlation_id
    if run.parent_id is not None:
        found["effectlog.parent.run.id"] = run.parent_id
    return found


def of_request(attempt: ObservedAttempt, call: EffectCall, effect: EffectRow) -> Attributes:
    found = of_effect(effect) | {
        "code.function.name": _qualified(call.function),
        "effectlog.run.id": attempt.run_id,
        "effectlog.task": attempt.task.name,
        "effectlog.attempt": attempt.fence.attempt,
        "effectlog.fence": attempt.fence.attempt,
        "effectlog.request": effect.requests,
        "effectlog.replayed": False,
        "effectlog.in_doubt": effect.open_requests > 1,
        "effectlog.policy": effect.policy.value,
    }
    destination = call.spec.destination
    if destination is not None:
        found |= {"effectlog.destination": destination.name, "service.peer.name": destination.name}
    return found


def of_effect(effect: EffectRow) -> Attributes:
    return {
        "effectlog.effect": effect.name,
        "effectlog.operation_id": effect.operation_id,
        **of_key(effect.key),
    }


def of_key(key: str) -> Attributes:
    """The key, unless it may hold personal data."""
    return {"effectlog.effect.key": key} if settings.effect_keys else {}


@lru_cache(maxsize=64)
def _server(store: str) -> Attributes:
    if not store.startswith("postgres"):
        return {}
    url = urlsplit(store)
    found: Attributes = {"server.address": url.hostname} if url.hostname else {}
    return found | ({"server.port": url.port} if url.port else {})


def _qualified(function: Callable[..., Any]) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return f"{module}.{name}" if module and name else repr(type(function))
