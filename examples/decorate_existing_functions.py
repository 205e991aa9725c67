"""Make functions that you already have durable, without touching them.

    python examples/decorate_existing_functions.py

Worker A is killed between the charge and the mail. Worker B goes on: the charge is replayed, not repeated.
(A kill *inside* the charge is what the other examples are about.)
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from effectlog import EffectLog, durable_task, effect

# --- what you had: plain functions, which know nothing of effectlog ---------------------------------------


def charge_card(order: str, cents: int) -> str:
    book(f"charged {order} {cents}")
    return f"ch_{order}"


def send_mail(order: str, charge_id: str) -> None:
    book(f"mailed {order} {charge_id}")


def fulfil(order: str, cents: int) -> str:
    charge_id = charge_card(order, cents)
    pack_parcel()
    send_mail(order, charge_id)
    return charge_id


def pack_parcel() -> None:
    time.sleep(0.1)
    if os.environ.get("DIES_HERE"):
        os.kill(os.getpid(), signal.SIGKILL)


def book(line: str) -> None:
    """The outside world of this example: a ledger on paper."""
    with Path(os.environ["LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def read_ledger() -> list[str]:
    return Path(os.environ["LEDGER"]).read_text(encoding="utf-8").splitlines()


# --- what you add: one line each --------------------------------------------------------------------------

charge_card = effect(key="charge:{order}")(charge_card)
send_mail = effect(key="mail:{order}")(send_mail)
fulfil_durably = durable_task(fulfil)


async def worker(store: str) -> None:
    async with EffectLog(store) as log, log.worker(name="A"):
        await asyncio.Event().wait()


def run_doomed_worker(store: str) -> int:
    """Worker A in a process of its own, until it is killed; gives the signal."""
    command, mortal = [sys.executable, __file__, store], {"DIES_HERE": "1"}
    return -subprocess.run(command, env=os.environ | mortal, check=False).returncode


async def main(folder: str) -> None:
    store = f"{folder}/orders.db"
    os.environ["LEDGER"] = f"{folder}/ledger.txt"
    async with EffectLog(store) as log:
        run = await log.enqueue(fulfil_durably.with_options(idempotency_key="order:A-42"), "A-42", 1999)
        signal_number = await asyncio.to_thread(run_doomed_worker, store)
        print(f"worker A was killed by signal {signal_number}, after the charge and before the mail")
        async with log.worker(name="B"):
            print(f"worker B returned {await run.result()!r}")
        record = await run.record()
    attempts = [f"{attempt.number} by {attempt.worker}: {attempt.outcome}" for attempt in record.attempts]
    print(f"attempts: {'; '.join(attempts)}")
    for found in record.effects:
        print(f"effect {found.key}: {found.requests} request, {found.state} in attempt {found.attempt}")
    print(f"the outside world saw: {read_ledger()}")

    # Called outside a run, a decorated function is the function that it was.
    charge_card("B-7", 500)


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(worker(sys.argv[1]))
    else:
        with TemporaryDirectory() as folder:
            asyncio.run(main(folder))
