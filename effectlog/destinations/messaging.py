"""Contracts of mail, chat, text-message and queue services, as documented in November 2026.

Data only; the remarks of ``payments`` hold here too. Many of these ignore keys: a second request is a
second message. Their contracts say ``on_repeat="ignores"``, so an effect must say by itself what is to
happen in doubt: hold for a person, look up, or accept a duplicate.

Invariant: a service that merely stores your marker is not one that deduplicates by it.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from effectlog.contract import Destination, Verdict
from effectlog.destinations.answers import by_code

_READ: Final = date(2026, 11, 1)
_FIVE_MINUTES: Final = timedelta(minutes=5)
_PUNCTUATED: Final = r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}"

RESEND: Final = Destination(
    "resend",
    key_field="Idempotency-Key",
    max_key_length=256,
    retention=timedelta(hours=24),
    on_repeat="replays",
    look_up="the list of sent mails; not by key",
    classify=by_code(
        (Verdict.IN_FLIGHT, 409, "concurrent_idempotent_requests"),
        (Verdict.KEY_MISUSED, 409, "invalid_idempotent_request"),
    ),
    source="https://resend.com/docs/dashboard/emails/idempotency-keys",
    checked_on=_READ,
)
"""Resend, ``POST /emails`` and ``/emails/batch``."""

SQS_FIFO: Final = Destination(
    "aws/sqs-fifo",
    key_field="MessageDeduplicationId",
    key_in="argument",
    max_key_length=128,
    key_pattern=_PUNCTUATED,
    retention=_FIVE_MINUTES,
    on_repeat="drops",
    source="https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-exactly-once-processing.html",
    checked_on=_READ,
)
"""Amazon SQS FIFO queues. The body is not compared: a changed one is dropped in silence."""

SNS_FIFO: Final = SQS_FIFO.replace(
    name="aws/sns-fifo", source="https://docs.aws.amazon.com/sns/latest/dg/fifo-message-dedup.html"
)
"""Amazon SNS FIFO topics; as ``SQS_FIFO``."""

POSTMARK: Final = Destination(
    "postmark",
    on_repeat="ignores",
    settle=timedelta(minutes=1),
    look_up="GET /messages/outbound?metadata_<name>=…, for 45 days; put the operation id into Metadata",
    source="https://postmarkapp.com/developer",
    checked_on=_READ,
)
"""Postmark: no keys, but the message search takes your own metadata. How far it lags is not documented."""

SENDGRID: Final = Destination(
    "sendgrid/v3",
    on_repeat="ignores",
    settle=timedelta(minutes=10),
    look_up="Email Activity (a paid addition) or the event webhook, by custom argument",
    source="https://github.com/twilio/sendgrid-oai",
    checked_on=_READ,
)
"""SendGrid's v3 mail API."""

MAILGUN: Final = Destination(
    "mailgun",
    on_repeat="ignores",
    settle=timedelta(minutes=10),
    look_up="logs by message id, recipient, subject, tag or time, for 1 to 30 days by plan",
    source="https://documentation.mailgun.com",
    checked_on=_READ,
)
"""Mailgun. A mail may go out although the answer was a 5xx."""

# The errors that the service model (in botocore) gives SendEmail: each says that the message was not taken.
_SES_REFUSALS: Final = (
    "TooManyRequestsException",
    "LimitExceededException",
    "AccountSuspendedException",
    "SendingPausedException",
    "MessageRejected",
    "MailFromDomainNotVerifiedException",
    "NotFoundException",
    "BadRequestException",
)

SES: Final = Destination(
    "aws/ses-v2",
    on_repeat="ignores",
    classify=by_code(*((Verdict.NOT_APPLIED, None, code) for code in _SES_REFUSALS)),
    source="https://docs.aws.amazon.com/ses/latest/dg/header-fields.html",
    checked_on=_READ,
)
"""Amazon SES v2: no key, and no search by a marker of yours.

botocore resends a request by itself after a lost answer, which at SES is a second mail: give the client
``Config(retries={"total_max_attempts": 1})``.
"""

TWILIO: Final = Destination(
    "twilio/messages",
    on_repeat="ignores",
    look_up="list by recipient, sender and date: a guess, no proof",
    source="https://github.com/twilio/twilio-oai",
    checked_on=_READ,
)
"""Twilio Messages: no key on creation."""

SLACK: Final = Destination(
    "slack/chat.postMessage",
    on_repeat="ignores",
    look_up="the channel's history, by message metadata",
    source="https://docs.slack.dev",
    checked_on=_READ,
)
"""Slack's ``chat.postMessage``: no documented key. ``chat.update`` of a known message is safe to repeat."""

SMTP: Final = Destination(
    "smtp",
    on_repeat="ignores",
    source="https://www.rfc-editor.org/rfc/rfc1047",
    checked_on=_READ,
)
"""Plain SMTP: after the final dot an answer that is lost leaves the outcome unknown.

Keep Message-ID and Date the same on a resend (``effectlog.clients.smtp``): a mailbox *may* fold the
copies (RFC 7352), and a reader can see that they are one.
"""
