"""A web shop in FastAPI: a worker in the application's lifespan, and a webhook that settles what is in doubt.

    python examples/web_shop.py                    plays the story below against a real server
    PAYMENTS_URL=… WEBHOOK_SECRET=… uvicorn examples.web_shop:app   just serves

The payment provider takes no idempotency key. Its answer about an order is lost, so the order is held and
nobody charges twice. The provider's webhook then says that the payment went through, and the order goes on.
"""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from effectlog import Applied, EffectLog, NotInDoubt, RunNotFound, current_attempt, durable_task, effect
from effectlog.clients.failures import NOT_SENT_HTTPX
from effectlog.contract import Destination
from effectlog.testing.destinations import CountingDestination

PROVIDER = Destination("corner-bank", on_repeat="ignores", look_up="its webhooks name our reference")


@effect(key="charge:{order}", destination=PROVIDER, in_doubt="hold", not_applied=(NOT_SENT_HTTPX,))
async def charge(order: str, cents: int) -> str:
    async with httpx.AsyncClient() as client:
        # The webhook brings the reference back, which is how it finds the run.
        payment = {"operation": order, "cents": cents, "reference": current_attempt().run_id}
        answer = await client.post(os.environ["PAYMENTS_URL"], json=payment)
        answer.raise_for_status()
    payment_id: str = answer.json()["id"]
    return payment_id


@durable_task
async def fulfil(order: str, cents: int) -> dict[str, str]:
    return {"order": order, "payment": await charge(order, cents)}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with EffectLog(os.environ.get("SHOP_STORE", "shop.db")) as log, log.worker(concurrency=50):
        app.state.log = log
        yield  # On shutdown the worker drains: orders under way are finished first.


app = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    order: str
    cents: int


@app.post("/orders", status_code=202)
async def place_order(order: Order, request: Request) -> dict[str, Any]:
    task = fulfil.with_options(idempotency_key=f"order:{order.order}")  # Two clicks are one order.
    run = await request.app.state.log.enqueue(task, order.order, order.cents)
    return {"run": run.id, "new": run.created}


@app.get("/orders/{run_id}")
async def show_order(run_id: str, request: Request) -> dict[str, Any]:
    record = await (await request.app.state.log.get_run(run_id)).record()
    return {"state": record.state, "result": record.result}


class Event(BaseModel):
    id: str
    reference: str
    order: str
    payment: str


def signature(body: bytes) -> str:
    """What the provider sends in its ``Signature`` header, made with a secret that it shares with the shop."""
    secret = os.environ["WEBHOOK_SECRET"].encode()
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


@app.post("/webhooks/payments", status_code=204)
async def payment_happened(request: Request) -> Response:
    """What the provider calls after a payment.

    Whoever can call it decides about money: the signature comes first.
    """
    body = await request.body()
    if not hmac.compare_digest(signature(body), request.headers.get("signature", "")):
        return Response(status_code=401)
    event = Event.model_validate_json(body)
    key, evidence = f"charge:{event.order}", f"webhook {event.id}"
    try:
        await request.app.state.log.resolve(
            event.reference, key, Applied(event.payment), by="webhook", evidence=evidence
        )
    except RunNotFound:
        return Response(status_code=404)
    except NotInDoubt as known:
        # The usual case: the charge's own answer was there first. While that is still awaited the provider
        # should say it again later, because the answer may yet be lost.
        return Response(status_code=409 if known.reason == "being executed" else 204)
    return Response(status_code=204)


# --- the story
# ------------------------------------------------------------------------------------------------


def wait_for(shop: httpx.Client, run: str, *states: str) -> dict[str, Any]:
    while (order := shop.get(f"/orders/{run}").json())["state"] not in states:
        time.sleep(0.02)
    return order


def announce(shop: httpx.Client, event: dict[str, str]) -> int:
    """What the provider does."""
    body = json.dumps(event).encode()
    return shop.post("/webhooks/payments", content=body, headers={"Signature": signature(body)}).status_code


def play(shop: httpx.Client, provider: CountingDestination) -> None:
    placed = [shop.post("/orders", json={"order": "A-1", "cents": 500}).json() for _ in range(2)]
    print(f"A-1 ordered by two clicks: {len({order['run'] for order in placed})} run")
    print(f"A-1 is {wait_for(shop, placed[0]['run'], 'succeeded')}")

    provider.lose_next_answer()
    run = shop.post("/orders", json={"order": "B-2", "cents": 700}).json()["run"]
    print(f"B-2, whose answer is lost, is {wait_for(shop, run, 'held')}")

    (payment,) = provider.effects_for("B-2")
    event = {
        "id": "evt_1",
        "order": "B-2",
        "payment": f"effect-{payment.id}",
        "reference": payment.body["reference"],
    }
    print(f"the provider's webhook: {announce(shop, event)}")
    print(f"B-2 is {wait_for(shop, run, 'succeeded')}")
    print(f"the webhook once more: {announce(shop, event)}")
    print(f"requests: {len(provider.requests())}, payments: {len(provider.effects())}")


@contextmanager
def serving() -> Iterator[httpx.Client]:
    """The shop on a free port of this machine, and a client for it."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    # Stands for the provider: it ignores keys, so every request is a payment.
    with TemporaryDirectory() as folder, CountingDestination("blind") as provider:
        os.environ |= {"SHOP_STORE": f"{folder}/shop.db", "PAYMENTS_URL": provider.url}
        os.environ["WEBHOOK_SECRET"] = secrets.token_hex(32)
        with serving() as shop:
            play(shop, provider)
