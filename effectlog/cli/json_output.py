"""Records and the values in them as JSON, for ``--json``. Leaf module.

Never fails: what JSON can't hold becomes a text that people can read. It is for reading only; nothing is
ever rebuilt from it.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any

from effectlog.model import RunRecord
from effectlog.runs.records import Unreadable


def dumps(value: Any) -> str:
    """The value as indented ASCII JSON, without any control character."""
    return json.dumps(jsonable(value), indent=2).replace("\x7f", "\\u007f")


def jsonable(value: Any) -> Any:
    """The value in JSON's own types: a record field by field, a time as ISO 8601 in UTC."""
    match value:
        case None | bool():
            return value
        case Enum():
            return jsonable(value.value)
        case str():
            return str(value)
        case int():
            return _whole(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return _moment(value)
        case bytes() | bytearray():
            return "base64:" + base64.b64encode(value).decode()
        case Unreadable():
            return _stored(value)
    return _container(value)


def _container(value: Any) -> Any:
    if isinstance(value, RunRecord) and isinstance(unreadable := value.args.get("unreadable"), Unreadable):
        value = dataclasses.replace(value, args=_mapping(jsonable(unreadable)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    return str(value)


def _mapping(args: Any) -> dict[str, Any]:
    return args if isinstance(args, dict) else {"unreadable": args}


def _stored(value: Unreadable) -> Any:
    """A value of classes that only the user's code knows, as their fields."""
    try:
        return _untagged(json.loads(value.stored))
    except (ValueError, TypeError, RecursionError):  # Not the built-in codec's form.
        return {"unreadable": value.reason, "stored": value.stored}


def _untagged(stored: Any) -> Any:
    match stored:
        case {"!": "dict" | "counter" | "ordereddict" | "defaultdict", "v": list(pairs)}:
            return {_key(_untagged(key)): _untagged(item) for key, item in pairs}
        case {"!": _, "v": dict(fields), "x": dict(others)}:
            return _untagged(fields | others)
        case {"!": _, "v": value}:
            return _untagged(value)
        case dict():
            return {key: _untagged(item) for key, item in stored.items()}
        case list():
            return [_untagged(item) for item in stored]
    return stored


def _whole(value: int) -> int | str:
    try:
        return int(str(value))
    except ValueError:  # Python refuses to write thousands of digits in decimal.
        return hex(value)


def _moment(value: datetime | date | time) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat()


def _key(key: Any) -> str:
    plain = jsonable(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
