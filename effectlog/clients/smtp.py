"""Stable ``Message-ID`` and ``Date`` for a mail that an effect sends.

SMTP has no idempotency key: two copies are two mails. Copies that share both fields can at least be
recognised, and a mailbox may fold them (RFC 7352); receivers owe nothing.

Invariant: the fields are the same on every attempt, and fields that are set already are left alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime, parseaddr
from typing import TYPE_CHECKING, Final, TypeVar

from effectlog.context import current_request

if TYPE_CHECKING:
    from email.message import Message

_NO_DOMAIN: Final = "effectlog.invalid"  # RFC 2606: never a host


AnyMessage = TypeVar("AnyMessage", bound="Message")


def stamp(message: AnyMessage, *, domain: str | None = None) -> AnyMessage:
    """Give the message the current effect's ``Message-ID`` and ``Date``, and return it.

    The id is ``<operation id@domain>``, the domain the sender's unless given; the date is the time of the
    effect's first request (now, in an effect that no attempt runs). Outside an effect nothing changes.
    """
    request = current_request()
    if request is None:
        return message
    if "Message-ID" not in message:
        message["Message-ID"] = f"<{request.operation_id}@{domain or _sender_domain(message)}>"
    if "Date" not in message:
        message["Date"] = format_datetime(request.first_request_at or datetime.now(UTC))
    return message


def _sender_domain(message: Message) -> str:
    return parseaddr(str(message.get("From", "")))[1].partition("@")[2] or _NO_DOMAIN
