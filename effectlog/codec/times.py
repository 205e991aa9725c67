"""Dates, times and time zones as text, and back. Knows nothing of tags or of other types.

A ``ZoneInfo`` comes back by its key, as that zone. Every other time zone with one fixed offset comes back
as ``datetime.timezone`` with the same offset and name (pydantic parses into a class of its own). A zone
with changing offsets that isn't a ``ZoneInfo`` is refused, since its rules could not be found again.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from effectlog.codec.refusal import RefusalError, type_name

T = TypeVar("T", datetime, time)

_MICROSECOND = timedelta(microseconds=1)


def moment_parts(value: datetime | time) -> dict[str, Any]:
    """Wall time, zone and fold of a ``datetime`` or ``time`` as plain JSON members."""
    parts: dict[str, Any] = {"v": value.replace(tzinfo=None).isoformat()}
    if value.fold:
        parts["fold"] = 1
    if value.tzinfo is not None:
        parts |= _zone_parts(value.tzinfo)
    return parts


def moment(cls: type[T], parts: dict[str, Any]) -> T:
    """The ``datetime`` or ``time`` that ``moment_parts`` described."""
    return cls.fromisoformat(parts["v"]).replace(tzinfo=_zone(parts), fold=parts.get("fold", 0))


def _zone_parts(zone: tzinfo) -> dict[str, Any]:
    if type(zone) is ZoneInfo and zone.key is not None:
        return {"zone": zone.key}
    offset = zone.utcoffset(None)
    if offset is None or isinstance(zone, ZoneInfo):
        raise RefusalError("its time zone can't be found again; use zoneinfo.ZoneInfo", type_name(type(zone)))
    name = zone.tzname(None)
    if name is None or name == timezone(offset).tzname(None):
        return {"offset": offset // _MICROSECOND}
    return {"offset": offset // _MICROSECOND, "name": name}


def _zone(parts: dict[str, Any]) -> tzinfo | None:
    if "zone" in parts:
        return ZoneInfo(parts["zone"])
    if "offset" not in parts:
        return None
    offset = timedelta(microseconds=parts["offset"])
    if "name" in parts:
        return timezone(offset, parts["name"])
    return timezone(offset) if offset else UTC


def duration_parts(value: timedelta) -> list[int]:
    """Days, seconds and microseconds."""
    return [value.days, value.seconds, value.microseconds]
