"""Contracts of payment providers, as they were documented in November 2026.

Data only. Contracts drift, so every one has its source and the day it was read; check a value that you
depend on and change it with ``replace`` where your account has another. ``retention=None`` means that the
provider publishes none: effectlog then resends by itself for one hour only, until you set it.

Invariant: nothing here is a guess in the risky direction. Where the documentation is silent, the value
is unknown and the error has no rule.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from effectlog.contract import Destination, Verdict
from effectlog.destinations.answers import by_code, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable

_READ: Final = date(2026, 11, 1)
_UUID: Final = "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

STRIPE: Final = Destination(
    "stripe/v1",
    key_field="Idempotency-Key",
    max_key_length=255,
    retention=timedelta(hours=24),
    failure_rule="replayed",  # a stored 500 comes back too: treat it as unknown, Stripe says
    on_repeat="replays",
    look_up="list endpoints at once; Search by metadata lags, so set settle to some minutes for it",
    classify=by_code(
        (Verdict.IN_FLIGHT, 409, "idempotency_key_in_use"),
        (Verdict.KEY_MISUSED, 400, "idempotency_error"),
        (Verdict.NOT_APPLIED, 401, None),  # refused before the endpoint began, and so was any try before it
    ),
    source="https://docs.stripe.com/api/idempotent_requests",
    checked_on=_READ,
)
"""Stripe's v1 API, ``POST`` only. Keys belong to one account and mode: put those into ``account``."""

STRIPE_V2: Final = STRIPE.replace(
    name="stripe/v2",
    retention=timedelta(days=30),
    failure_rule="forgotten",  # failed or partial work is carried on, finished work is not repeated
    source="https://docs.stripe.com/api-v2-overview",
)
"""Stripe's v2 API, ``POST`` and ``DELETE``."""

ADYEN: Final = Destination(
    "adyen",
    key_field="Idempotency-Key",
    max_key_length=64,
    retention=timedelta(days=7),
    on_repeat="replays",
    look_up="webhooks and reports, by merchant reference",
    classify=by_code((Verdict.IN_FLIGHT, 409, "704"), (Verdict.IN_FLIGHT, 422, "704")),
    source="https://docs.adyen.com/development-resources/api-idempotency",
    checked_on=_READ,
)
"""Adyen. Regions do not share keys: put the region into ``account``."""

PAYPAL_ORDERS: Final = Destination(
    "paypal/orders-v2",
    key_field="PayPal-Request-Id",
    max_key_length=108,
    retention=timedelta(hours=6),
    failure_rule="forgotten",  # a 5xx may be sent again
    on_repeat="returns_current",
    look_up="by the order's PayPal id only; a resend inside the retention answers as a look-up",
    source="https://developer.paypal.com/api/rest/reference/idempotency/",
    checked_on=_READ,
)
"""PayPal orders v2. PayPal can lengthen the retention to 72 hours on request."""

PAYPAL_PAYMENTS: Final = PAYPAL_ORDERS.replace(
    name="paypal/payments-v2",
    max_key_length=None,
    retention=timedelta(days=45),
    look_up="by the payment's PayPal id only; a resend inside the retention answers as a look-up",
    classify=by_code((Verdict.IN_FLIGHT, 409, "PREVIOUS_REQUEST_IN_PROGRESS")),
)
"""PayPal payments v2: captures, refunds, authorizations."""

PAYPAL_PAYOUTS: Final = PAYPAL_ORDERS.replace(
    name="paypal/payouts",
    max_key_length=1000,
    retention=timedelta(days=30),
    look_up="by the batch's PayPal id; sender_batch_id is unique for 30 days as well",
)
"""PayPal payouts. Put the operation id into ``sender_batch_id`` too: a repeat is then refused by it."""

SQUARE: Final = Destination(
    "square/payments",
    key_field="idempotency_key",
    key_in="body",
    max_key_length=45,
    retention=None,
    on_repeat="replays",
    look_up="payment webhooks; an unknown payment can be cancelled by its key",
    classify=by_code((Verdict.KEY_MISUSED, 400, "IDEMPOTENCY_KEY_REUSED")),
    source="https://developer.squareup.com/docs/working-with-apis/idempotency",
    checked_on=_READ,
)
"""Square payments. Square publishes no retention; set the one you rely on.

Its cancel-by-key call succeeds even when no payment was made, which is a safe way to give up one in doubt.
"""

BRAINTREE: Final = Destination(
    "braintree/graphql",
    key_field="apiRequestKey",
    key_in="body",
    retention=timedelta(days=30),
    failure_rule="new_key",
    on_repeat="returns_current",
    look_up="search by orderId",
    classify=by_code(
        (Verdict.IN_FLIGHT, None, "915233"),
        (Verdict.KEY_MISUSED, None, "915232"),
        (Verdict.NOT_APPLIED, None, "915234"),
    ),
    source="https://developer.paypal.com/braintree/graphql/integration_guides/idempotency",
    checked_on=_READ,
)
"""Braintree's GraphQL API. Error codes come with status 200, in ``extensions.legacyCode``."""

MOLLIE: Final = Destination(
    "mollie",
    key_field="Idempotency-Key",
    retention=timedelta(hours=1),
    on_repeat="replays",
    look_up="the list endpoints",
    source="https://docs.mollie.com/reference/api-idempotency",
    checked_on=_READ,
)
"""Mollie. What happens to failures and to simultaneous requests is not documented."""

CHECKOUT_COM: Final = Destination(
    "checkout.com/payments",
    key_field="Cko-Idempotency-Key",
    retention=timedelta(hours=24),
    failure_rule="forgotten",  # only 2xx answers are kept: a declined payment sent again is a new try
    on_repeat="replays",
    in_flight_wait=timedelta(seconds=30),
    look_up="GET /payments?reference=…",
    # The documentation gives simultaneous requests the status alone and gives 409 no other meaning.
    classify=by_code((Verdict.IN_FLIGHT, 409, None)),
    source="https://www.checkout.com/docs/payments/manage-payments/retry-a-payment",
    checked_on=_READ,
)
"""Checkout.com, on the endpoints its documentation lists as idempotent."""


def _named(field: str) -> Callable[[BaseException], Any]:
    return lambda error: read_answer(error).find(field)


GOCARDLESS: Final = Destination(
    "gocardless",
    key_field="Idempotency-Key",
    retention=None,
    on_repeat="rejects",
    classify=by_code((Verdict.APPLIED, 409, "idempotent_creation_conflict")),
    existing=_named("conflicting_resource_id"),
    source="https://developer.gocardless.com/api-reference",
    checked_on=_READ,
)
"""GoCardless, ``POST`` requests that create. A repeat is refused and names the resource that exists."""

RAZORPAY_PAYOUTS: Final = Destination(
    "razorpay/payouts",
    key_field="X-Payout-Idempotency",
    max_key_length=36,
    key_pattern="[A-Za-z0-9_ -]{4,36}",
    retention=None,
    failure_rule="new_key",  # after a payout that *failed*, never while one is being processed
    on_repeat="replays",
    look_up="payout webhooks",
    source="https://razorpay.com/docs/api/x/payout-idempotency/",
    checked_on=_READ,
)
"""RazorpayX payouts. The key is mandatory."""

WISE: Final = Destination(
    "wise/transfers",
    key_field="customerTransactionId",
    key_in="body",
    key_pattern=_UUID,
    retention=None,
    on_repeat="returns_current",
    source="https://docs.wise.com",
    checked_on=_READ,
)
"""Wise transfers. A quote is good for one transfer, so use the same quote on a resend."""

PLAID_TRANSFER: Final = Destination(
    "plaid/transfer-authorization",
    key_field="idempotency_key",
    key_in="body",
    max_key_length=50,
    retention=timedelta(hours=48),
    on_repeat="returns_current",
    in_flight_wait=timedelta(seconds=60),
    look_up="get the transfer by authorization_id",
    source="https://github.com/plaid/plaid-openapi",
    checked_on=_READ,
)
"""Plaid: the authorization carries the key; creating with one authorization twice yields one transfer.

The 48 hours do not hold for an authorization that waits on its user.
"""

SHOPIFY: Final = Destination(
    "shopify/admin-graphql",
    key_field="@idempotent(key:)",
    key_in="directive",
    key_pattern=_UUID,
    retention=timedelta(hours=24),
    on_repeat="returns_current",
    look_up="query the object",
    classify=by_code(
        (Verdict.IN_FLIGHT, None, "IDEMPOTENCY_CONCURRENT_REQUEST"),
        (Verdict.KEY_MISUSED, None, "IDEMPOTENCY_KEY_PARAMETER_MISMATCH"),
    ),
    source="https://shopify.dev/docs/api/usage/idempotent-requests",
    checked_on=_READ,
)
"""Shopify's Admin GraphQL API. The order of the input fields is part of the comparison: keep it."""
