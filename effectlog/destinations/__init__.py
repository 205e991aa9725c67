"""Built-in destination contracts: what well-known services promise about repeated requests.

Each is a frozen ``Destination`` with source and day checked; ``STRIPE.replace(account="live/eu")`` changes
one value. ``by_name("stripe/v1")`` finds one by name, ``ALL`` has them all.
"""

from effectlog.contract import FOREVER, Destination, Verdict
from effectlog.destinations.answers import Answer, ByCode, Rule, by_code, read_answer
from effectlog.destinations.catalogue import ALL, by_name
from effectlog.destinations.messaging import (
    MAILGUN,
    POSTMARK,
    RESEND,
    SENDGRID,
    SES,
    SLACK,
    SMTP,
    SNS_FIFO,
    SQS_FIFO,
    TWILIO,
)
from effectlog.destinations.payments import (
    ADYEN,
    BRAINTREE,
    CHECKOUT_COM,
    GOCARDLESS,
    MOLLIE,
    PAYPAL_ORDERS,
    PAYPAL_PAYMENTS,
    PAYPAL_PAYOUTS,
    PLAID_TRANSFER,
    RAZORPAY_PAYOUTS,
    SHOPIFY,
    SQUARE,
    STRIPE,
    STRIPE_V2,
    WISE,
)

__all__ = [
    "ADYEN",
    "ALL",
    "BRAINTREE",
    "CHECKOUT_COM",
    "FOREVER",
    "GOCARDLESS",
    "MAILGUN",
    "MOLLIE",
    "PAYPAL_ORDERS",
    "PAYPAL_PAYMENTS",
    "PAYPAL_PAYOUTS",
    "PLAID_TRANSFER",
    "POSTMARK",
    "RAZORPAY_PAYOUTS",
    "RESEND",
    "SENDGRID",
    "SES",
    "SHOPIFY",
    "SLACK",
    "SMTP",
    "SNS_FIFO",
    "SQS_FIFO",
    "SQUARE",
    "STRIPE",
    "STRIPE_V2",
    "TWILIO",
    "WISE",
    "Answer",
    "ByCode",
    "Destination",
    "Rule",
    "Verdict",
    "by_code",
    "by_name",
    "read_answer",
]
