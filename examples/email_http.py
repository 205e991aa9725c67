"""An e-mail through an HTTP provider that takes an idempotency key: in doubt, it is simply sent again.

    python examples/email_http.py

The provider's answer is lost, then worker A is killed after another acceptance: every request carries the
same key, which an httpx transport adds by itself, and the provider sends one mail for each order.
"""

import asyncio
import os
import signal
import subprocess
import sys
from tempfile import TemporaryDirectory

import httpx

from effectlog import EffectLog, Retry, durable_task, effect
from effectlog.clients.failures import NOT_SENT_HTTPX
from effectlog.clients.httpx import AsyncEffectKeyTransport
from effectlog.destinations import RESEND
from effectlog.testing.destinations import CountingDestination


@effect(
    key="receipt:{order}",
    destination=RESEND,  # the header, how long a key is remembered, what its errors mean
    not_applied=(NOT_SENT_HTTPX,),
    retry=Retry(max_attempts=3, delay=0.1),  # inside the attempt, with the same key
    timeout=10.0,
)
async def send_receipt(order: str, to: str) -> str:
    async with httpx.AsyncClient(transport=AsyncEffectKeyTransport()) as client:
        mail = {"operation": order, "to": to, "subject": f"Receipt for {order}"}
        answer = await client.post(f"{os.environ['MAIL_URL']}/emails", json=mail)
        answer.raise_for_status()
    if os.environ.get("DIES_HERE"):
        os.kill(os.getpid(), signal.SIGKILL)
    mail_id: str = answer.json()["id"]
    return mail_id


@durable_task
async def fulfil(order: str, to: str) -> str:
    return await send_receipt(order, to)


async def worker(store: str) -> None:
    async with EffectLog(store) as log, log.worker(name="A"):
        await asyncio.Event().wait()


def run_doomed_worker(store: str) -> None:
    """Worker A in a process of its own, until it is killed."""
    command, mortal = [sys.executable, __file__, store], {"DIES_HERE": "1"}
    subprocess.run(command, env=os.environ | mortal, check=False)


async def main(store: str, provider: CountingDestination) -> None:
    async with EffectLog(store) as log:
        crashed = await log.enqueue(fulfil, "A-42", "someone@example.org")
        await asyncio.to_thread(run_doomed_worker, store)
        print("worker A was killed after the provider accepted A-42")
        async with log.worker(name="B"):
            print(f"worker B returned {await crashed.result()!r}")
            provider.lose_next_answer()
            print("the provider's answer about B-7 is lost on the way")
            lost = await log.enqueue(fulfil, "B-7", "other@example.org")
            print(f"the same attempt sent it again and returned {await lost.result()!r}")
    for order in ("A-42", "B-7"):
        sent = provider.requests_for(order)
        keys = {request.key for request in sent}
        print(f"{order}: {len(sent)} requests, {len(keys)} key, {len(provider.effects_for(order))} mail")


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(worker(sys.argv[1]))
    else:
        # Stands for the provider: it keeps keys for a day and replays its first answer.
        with TemporaryDirectory() as folder, CountingDestination("replay") as provider:
            os.environ["MAIL_URL"] = provider.url
            asyncio.run(main(f"{folder}/mails.db", provider))
