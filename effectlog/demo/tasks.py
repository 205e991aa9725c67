"""What the demo's workers execute: one charge, sent with and without a key."""

from __future__ import annotations

import json
import threading
import urllib.request

from effectlog import current_attempt, durable_task, effect, operation_id
from effectlog.demo.events import tell


@effect(key="charge:{order}")
def charge(destination: str, order: str, cents: int) -> str:
    """Charge without a key: the destination can't tell a repeat from a second order."""
    return _post(destination, order, cents, key=None)


@effect(key="charge:{order}")
def charge_with_key(destination: str, order: str, cents: int) -> str:
    """Charge under the operation id, which is the same in every attempt and on every worker."""
    return _post(destination, order, cents, key=operation_id())


@durable_task
def sell(destination: str, order: str, cents: int) -> str:
    """One charge without a key."""
    return charge(destination, order, cents)


@durable_task
def sell_with_key(destination: str, order: str, cents: int) -> str:
    """One charge under its operation id."""
    return charge_with_key(destination, order, cents)


@durable_task
def sell_and_pack(destination: str, order: str, cents: int) -> str:
    """One charge, and then work that the first worker doesn't live to finish."""
    receipt = charge_with_key(destination, order, cents)
    if current_attempt().number == 1:
        threading.Event().wait()
    return receipt


def _post(destination: str, order: str, cents: int, key: str | None) -> str:
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    body = json.dumps({"order": order, "cents": cents}).encode()
    request = urllib.request.Request(f"{destination}/charges", body, headers)  # noqa: S310 - our own http URL
    tell("send", order=order)
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        charged: str = json.load(answer)["charge"]
    return charged
