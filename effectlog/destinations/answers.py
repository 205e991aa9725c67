"""Reads what an exception says about the destination's answer, whichever client raised it.

Holds ``Answer`` (status, error codes, body, headers), ``read_answer`` and ``ByCode``, the classifier
that every built-in contract uses. It imports no client library: exceptions are read by the attributes
that the common clients give them.

Invariant: nothing here raises or reads from the network; what can't be read is simply not known, and
an error that matches no rule is ``Verdict.UNKNOWN``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from effectlog.contract import Verdict

# The fields in which providers put machine-readable codes: type and code at Stripe, name and issue at PayPal,
# reason at GoCardless, errorCode at Adyen, legacyCode at Braintree, Code at AWS.
_CODE_FIELDS: Final = (
    "code",
    "type",
    "name",
    "issue",
    "reason",
    "errorCode",
    "errorType",
    "error_code",
    "error_codes",
    "error_type",
    "legacyCode",
    "Code",
)
_STATUS_FIELDS: Final = ("status_code", "http_status", "status", "code")
_BODY_FIELDS: Final = ("json_body", "body", "http_body", "errors", "error")
_USERS_OWN: Final = {"metadata", "meta_data", "custom", "notes"}  # echoed data is no error code
_DEPTH: Final = 6
_CHAIN: Final = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What could be read from an exception; ``status`` is ``None`` where there was no HTTP answer.

    ``retries`` counts the requests that the client made by itself before the one that was answered.
    """

    status: int | None = None
    codes: frozenset[str] = frozenset()
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0

    def find(self, name: str) -> Any:
        """The first value stored under this name anywhere in the body, or ``None``."""
        return next((value for key, value in _pairs(self.body) if key == name), None)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a contract's error table; a field that is ``None`` matches anything."""

    verdict: Verdict
    status: int | None = None
    code: str | None = None

    def matches(self, answer: Answer) -> bool:
        if self.verdict is Verdict.NOT_APPLIED and answer.retries:
            return False  # a refused retry proves nothing about the tries before it
        return self.status in {None, answer.status} and (self.code is None or self.code in answer.codes)


@dataclass(frozen=True, slots=True)
class ByCode:
    """Classifier: the verdict of the first rule that matches, ``UNKNOWN`` without one.

    A rule on a status alone is for statuses whose meaning the provider documents for every error; there is
    none for 409, which means four different things at different providers.
    """

    rules: tuple[Rule, ...]

    def __call__(self, error: BaseException) -> Verdict:
        answer = read_answer(error)
        return next((rule.verdict for rule in self.rules if rule.matches(answer)), Verdict.UNKNOWN)


def by_code(*rules: tuple[Verdict, int | None, str | None]) -> ByCode:
    """Build a classifier from lines of verdict, status and provider error code."""
    return ByCode(tuple(Rule(*rule) for rule in rules))


def read_answer(error: BaseException) -> Answer:
    """Read the answer off the exception, or off what it was explicitly raised from."""
    cause: BaseException | None = error
    for _ in range(_CHAIN):
        if cause is None:
            break
        with suppress(Exception):  # a property of a client's exception may do anything
            answer = _read_one(cause)
            if answer.status is not None or answer.codes:
                return answer
        cause = cause.__cause__
    return Answer()


def _read_one(error: BaseException) -> Answer:
    response = _attribute(error, "response")
    bodies = [body for body in _bodies(error, response) if body is not None]
    pairs = [pair for body in bodies for pair in _pairs(body)]
    own = {name: _attribute(error, name) for name in _CODE_FIELDS}
    return Answer(
        status=_status(error, response),
        codes=frozenset(_codes([*own.items(), *pairs])),
        body=bodies[0] if len(bodies) == 1 else bodies,
        headers=headers_of(error),
        retries=_metadata(response).get("RetryAttempts", 0),
    )


def _metadata(response: Any) -> Mapping[str, Any]:
    """What botocore notes about its own requests."""
    found = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _attribute(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except Exception:  # httpx: the response of an error without one is a property that raises
        return None


def _status(error: BaseException, response: Any) -> int | None:
    owners = (response, error)
    candidates = [_attribute(owner, name) for owner in owners for name in _STATUS_FIELDS]
    candidates.append(_metadata(response).get("HTTPStatusCode"))
    return next((status for status in map(_as_status, candidates) if status is not None), None)


def _as_status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    in_range = isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599  # noqa: PLR2004 - HTTP
    return int(value) if in_range and isinstance(value, int) else None


def _bodies(error: BaseException, response: Any) -> Iterator[Any]:
    if isinstance(response, Mapping):
        yield response
    elif response is not None:
        yield _json_of(response)
    for name in _BODY_FIELDS:
        yield _as_data(_attribute(error, name))


def _json_of(response: Any) -> Any:
    # A requests response that was not read yet would now read from the network.
    if _attribute(response, "_content") is False:
        return None
    reader = _attribute(response, "json")
    try:
        body = reader() if callable(reader) else reader
    except Exception:
        return None
    if inspect.iscoroutine(body):  # an asynchronous client: not for us to await
        body.close()
        return None
    return _as_data(body)


def _as_data(body: Any) -> Any:
    if isinstance(body, bytes | str):
        with suppress(ValueError):
            return _as_data(json.loads(body)) if body.lstrip()[:1] in {"{", "[", b"{", b"["} else None
        return None
    return body if isinstance(body, Mapping | list | tuple) else None


def _pairs(body: Any, depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    if depth == 0:
        return
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield str(name), value
            if name not in _USERS_OWN:
                yield from _pairs(value, depth - 1)
    elif isinstance(body, list | tuple):
        for item in body:
            yield from _pairs(item, depth - 1)


def _codes(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    for name, value in pairs:
        if name in _CODE_FIELDS:
            for code in value if isinstance(value, list | tuple) else (value,):
                if isinstance(code, str | int) and not isinstance(code, bool):
                    yield str(code)


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers of the answer that an exception carries, their names in lower case."""
    response = _attribute(error, "response")
    named = _attribute(response, "headers") or _attribute(error, "headers")
    headers = named or _metadata(response).get("HTTPHeaders")
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}
