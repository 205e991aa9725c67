"""What one call of a task adds to what its declaration says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from effectlog.errors import ConfigurationError
from effectlog.keys import check_name


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What ``with_options`` adds to one call."""

    idempotency_key: str | None = None
    delay: float = 0.0
    at: datetime | None = None
    correlation_id: str | None = None


def check_options(
    name: str, key: str | None, correlation_id: str | None, delay: float, at: datetime | None
) -> None:
    """Raise ConfigurationError for a key, an id or a time that no run can have."""
    if key is not None:
        check_name(f"task {name}: an idempotency key", key)
    if correlation_id is not None:
        check_name(f"task {name}: a correlation id", correlation_id)
    if at is not None and not isinstance(at, datetime):
        raise ConfigurationError(f"task {name}: at={at!r}; give a datetime with a time zone")
    if at is not None and at.utcoffset() is None:
        raise ConfigurationError(
            f"task {name}: at={at.isoformat()} has no time zone; give one, as in "
            f"datetime.now(UTC) + timedelta(hours=1)"
        )
    if at is not None and delay:
        raise ConfigurationError(f"task {name}: give delay= or at=, not both")
