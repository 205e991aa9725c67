"""Groups of client exceptions for ``not_applied=`` and ``final=``, made without importing any client.

::

    @effect(key="charge:{order}", not_applied=(NOT_SENT_HTTPX,))

``isinstance(error, NOT_SENT_HTTPX)`` is true for an exception that proves that the request never reached
the destination. A group compares package and class name along the exception's base classes, so it works
for subclasses and needs no import; it can't be raised or derived from.

A client that retries by itself shows only its last failure, which proves nothing about the tries before
it: switch such retries off (see each group). Then effectlog does the retrying, and counts it.

Invariant: a failure that can happen after the first byte left is in no ``NOT_SENT`` group: read timeouts,
resets, broken answers, an SMTP server that hangs up.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHAIN: Final = 8
_PERMANENT: Final = 500  # RFC 5321: replies from here on are final
_DATA_REFUSED: Final = 400


class _Group(type):
    """Metaclass: ``isinstance`` against a group looks at names and, where needed, into the error."""

    names: frozenset[str]
    tests: tuple[Callable[[BaseException], bool], ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, BaseException) and (
            cls.__subclasscheck__(type(instance)) or any(test(instance) for test in cls.tests)
        )

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or any(_name(base) in cls.names for base in subclass.__mro__)

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{cls.__name__} is a group for not_applied= and final=; it can't be raised")


def _name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _group(
    name: str, doc: str, *names: str, tests: tuple[Callable[[BaseException], bool], ...] = ()
) -> type[Exception]:
    body = {"__doc__": doc, "__module__": __name__, "names": frozenset(names), "tests": tests}
    group = _Group(name, (Exception,), body)
    return cast("type[Exception]", group)  # a class of its own metaclass, which the checkers can't see


def _is(error: object, *names: str) -> bool:
    return any(_name(kind) in names for kind in type(error).__mro__)


NOT_SENT_HTTPX: Final = _group(
    "NOT_SENT_HTTPX",
    "httpx could not connect, or never tried to. Its transport's own ``retries`` concern connecting only.",
    "httpx.ConnectError",
    "httpx.ConnectTimeout",
    "httpx.PoolTimeout",
    "httpx.ProxyError",
    "httpx.UnsupportedProtocol",
    "httpx.InvalidURL",
)

NOT_SENT_AIOHTTP: Final = _group(
    "NOT_SENT_AIOHTTP",
    "aiohttp could not connect (name, socket, certificate, proxy) or timed out while it tried to.",
    "aiohttp.ClientConnectorError",
    "aiohttp.ConnectionTimeoutError",
    "aiohttp.InvalidURL",
)


def _requests_never_connected(error: BaseException) -> bool:
    """Whether the ``ConnectionError`` of requests wraps urllib3's account of a failed connect."""
    if not _is(error, "requests.ConnectionError"):
        return False
    wrapped = error.args[0] if error.args else None
    reason = getattr(wrapped, "reason", None) if _is(wrapped, "urllib3.MaxRetryError") else wrapped
    return _is(
        reason, "urllib3.NewConnectionError", "urllib3.NameResolutionError", "urllib3.ConnectTimeoutError"
    )


NOT_SENT_REQUESTS: Final = _group(
    "NOT_SENT_REQUESTS",
    "requests could not connect. Don't mount an adapter whose ``Retry`` repeats after a read error.",
    "requests.ConnectTimeout",
    "requests.MissingSchema",
    "requests.InvalidSchema",
    "requests.InvalidURL",
    "requests.InvalidHeader",
    tests=(_requests_never_connected,),
)


def _url_never_connected(error: BaseException) -> bool:
    reason = getattr(error, "reason", None) if _is(error, "urllib.URLError") else None
    return _is(reason, "builtins.ConnectionRefusedError", "socket.gaierror")


NOT_SENT_SOCKET: Final = _group(
    "NOT_SENT_SOCKET",
    "Refused by the host, or a name that does not resolve: the bare exceptions, and urllib's around them.",
    "builtins.ConnectionRefusedError",
    "socket.gaierror",
    tests=(_url_never_connected,),
)


def _smtp_data_refused(error: BaseException) -> bool:
    return _is(error, "smtplib.SMTPDataError", "aiosmtplib.SMTPDataError") and _code(error) >= _DATA_REFUSED


def _code(error: BaseException) -> int:
    code = getattr(error, "smtp_code", getattr(error, "code", None))
    return code if isinstance(code, int) else 0


NOT_SENT_SMTP: Final = _group(
    "NOT_SENT_SMTP",
    "The SMTP server refused the message, for now or for good, or was not reached (smtplib, aiosmtplib).\n\n"
    "All recipients refused counts; some refused is no exception at all. A server that hangs up is not in\n"
    "it: after the final dot the message may be accepted.",
    "smtplib.SMTPConnectError",
    "smtplib.SMTPHeloError",
    "smtplib.SMTPAuthenticationError",
    "smtplib.SMTPSenderRefused",
    "smtplib.SMTPRecipientsRefused",
    "smtplib.SMTPNotSupportedError",
    "aiosmtplib.SMTPConnectError",
    "aiosmtplib.SMTPHeloError",
    "aiosmtplib.SMTPAuthenticationError",
    "aiosmtplib.SMTPSenderRefused",
    "aiosmtplib.SMTPRecipientsRefused",
    "builtins.ConnectionRefusedError",
    "socket.gaierror",
    tests=(_smtp_data_refused,),
)


def _smtp_codes(error: BaseException) -> Iterator[int]:
    if _is(error, "smtplib.SMTPRecipientsRefused") and isinstance(error.args[0], dict):
        yield from (answer[0] for answer in error.args[0].values())
    elif _is(error, "smtplib.SMTPSenderRefused", "smtplib.SMTPDataError", "aiosmtplib.SMTPDataError"):
        yield _code(error)


def _smtp_permanent(error: BaseException) -> bool:
    codes = list(_smtp_codes(error))
    return bool(codes) and all(code >= _PERMANENT for code in codes)


REFUSED_SMTP: Final = _group(
    "REFUSED_SMTP",
    "For ``final=``: the SMTP server refused sender, all recipients or data with a 5xx, which is for good.",
    tests=(_smtp_permanent,),
)

NOT_SENT_BOTOCORE: Final = _group(
    "NOT_SENT_BOTOCORE",
    "botocore could not connect, or had no credentials, region or valid parameters.\n\n"
    "botocore retries by itself, after lost answers too: give the client\n"
    '``Config(retries={"total_max_attempts": 1})``, or this group proves nothing.',
    "botocore.EndpointConnectionError",
    "botocore.ConnectTimeoutError",
    "botocore.ProxyConnectionError",
    "botocore.NoCredentialsError",
    "botocore.PartialCredentialsError",
    "botocore.NoRegionError",
    "botocore.ParamValidationError",
)


def _stripe_never_connected(error: BaseException) -> bool:
    """Whether the one connect behind Stripe's error failed; its class says only that something went wrong."""
    retries = getattr(sys.modules.get("stripe"), "max_network_retries", None)
    if retries != 0 or not _is(error, "stripe.APIConnectionError"):
        return False
    groups = (NOT_SENT_HTTPX, NOT_SENT_REQUESTS, NOT_SENT_AIOHTTP, NOT_SENT_SOCKET)
    return any(isinstance(cause, groups) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    for _ in range(_CHAIN):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


NOT_SENT_STRIPE: Final = _group(
    "NOT_SENT_STRIPE",
    "Stripe's client could not connect, or its API key was refused.\n\n"
    "A failed connect counts only with ``stripe.max_network_retries = 0``: the client retries twice by\n"
    "itself, and only the last failure can be seen. Don't set retries on a ``StripeClient`` of its own.",
    "stripe.AuthenticationError",
    tests=(_stripe_never_connected,),
)

CARD_DECLINED_STRIPE: Final = _group(
    "CARD_DECLINED_STRIPE",
    "For ``final=``: the card was declined. Asking again with the same key returns the same answer.",
    "stripe.CardError",
)

_ALL_NOT_SENT: Final = (
    NOT_SENT_HTTPX,
    NOT_SENT_AIOHTTP,
    NOT_SENT_REQUESTS,
    NOT_SENT_SOCKET,
    NOT_SENT_SMTP,
    NOT_SENT_BOTOCORE,
    NOT_SENT_STRIPE,
)


def _any_not_sent(error: BaseException) -> bool:
    return isinstance(error, _ALL_NOT_SENT)


NOT_SENT: Final = _group(
    "NOT_SENT",
    "Any of the ``NOT_SENT`` groups, for code that doesn't know which client it uses.",
    tests=(_any_not_sent,),
)
