"""The operation id of the current effect for Stripe's Python client, which takes it per call.

It needs nothing of Stripe's package. Invariant: outside an effect, and where the caller gives a key of
their own, the options stay as they are.
"""

from __future__ import annotations

from typing import Any

from effectlog.context import current_request


def request_options(**options: Any) -> dict[str, Any]:
    """Give Stripe's request options with ``idempotency_key`` added.

    Both styles of call take them::

    stripe.PaymentIntent.create(amount=1999, currency="eur", **request_options())
    client.v1.payment_intents.create(params, request_options(stripe_account="acct_…"))
    """
    request = current_request()
    return options if request is None else {"idempotency_key": request.operation_id} | options
