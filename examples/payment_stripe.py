"""A payment through Stripe's own Python SDK, against a local server that keeps keys as Stripe documents it.

    python examples/payment_stripe.py

Worker A is killed right after the charge was accepted. Worker B sends the same request with the same
Idempotency-Key and gets the first answer again: two requests, one charge. A declined card is final.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs

import stripe

from effectlog import EffectLog, RunFailed, durable_task, effect
from effectlog.clients.failures import CARD_DECLINED_STRIPE, NOT_SENT_STRIPE
from effectlog.clients.stripe import request_options
from effectlog.destinations import STRIPE

stripe.max_network_retries = 0  # effectlog does the retrying, and counts it


def client() -> stripe.StripeClient:
    return stripe.StripeClient("sk_test_local", base_addresses={"api": os.environ["STRIPE_URL"]})


@effect(
    key="charge:{order}",
    destination=STRIPE,
    not_applied=(NOT_SENT_STRIPE,),
    final=(CARD_DECLINED_STRIPE,),
)
def charge(order: str, cents: int, card: str) -> str:
    intent = client().v1.payment_intents.create(
        {
            "amount": cents,
            "currency": "eur",
            "payment_method": card,
            "confirm": True,
            "metadata": {"order": order},
        },
        request_options(),  # the operation id as Idempotency-Key
    )
    if os.environ.get("DIES_HERE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return intent.id


@durable_task
def fulfil(order: str, cents: int, card: str = "pm_card_visa") -> str:
    return charge(order, cents, card)


async def worker(store: str) -> None:
    async with EffectLog(store) as log, log.worker(name="A"):
        await asyncio.Event().wait()


def run_doomed_worker(store: str) -> None:
    """Worker A in a process of its own, until it is killed."""
    command, mortal = [sys.executable, __file__, store], {"DIES_HERE": "1"}
    subprocess.run(command, env=os.environ | mortal, check=False)


async def main(store: str) -> None:
    async with EffectLog(store) as log:
        run = await log.enqueue(fulfil, "A-42", 1999)
        await asyncio.to_thread(run_doomed_worker, store)
        print(f"worker A was killed after Stripe accepted: {len(requests)} request, {len(charges)} charge")
        async with log.worker(name="B"):
            print(
                f"worker B returned {await run.result()!r}: {len(requests)} requests, {len(charges)} charge"
            )
            print(f"keys that Stripe saw: {len({key for key, _ in requests})}")
            declined = await log.enqueue(fulfil, "B-7", 500, "pm_card_visa_chargeDeclined")
            try:
                await declined.result()
            except RunFailed as error:
                print(
                    f"a declined card is final: {error.type_name}, {len((await declined.record()).attempts)} "
                    "attempt"
                )


# --- the server: what docs.stripe.com/api/idempotent_requests says, and nothing more ----------------------

requests: list[tuple[str, dict[str, str]]] = []
charges: list[dict[str, str]] = []
kept: dict[str, tuple[dict[str, str], int, dict[str, Any]]] = {}


class Stripe(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        params = {name: values[0] for name, values in parse_qs(body).items()}
        key = self.headers["Idempotency-Key"]
        requests.append((key, params))
        replayed = key in kept
        if not replayed:
            kept[key] = (params, *self.pay(params))
        first, status, answer = kept[key]
        if first != params:
            problem = "Keys for idempotent requests can only be used with the same parameters"
            status, answer = 400, {"error": {"type": "idempotency_error", "message": problem}}
        self.send_response(status)
        self.send_header("Idempotent-Replayed", str(replayed).lower())
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def pay(self, params: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if params["payment_method"].endswith("Declined"):
            return 402, {
                "error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}
            }
        charges.append(params)
        return 200, {"id": f"pi_{len(charges)}", "object": "payment_intent", "amount": int(params["amount"])}

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(worker(sys.argv[1]))
    else:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Stripe)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ["STRIPE_URL"] = f"http://127.0.0.1:{server.server_port}"
        with TemporaryDirectory() as folder:
            asyncio.run(main(f"{folder}/payments.db"))
