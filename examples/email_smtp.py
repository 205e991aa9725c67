"""An e-mail over SMTP, which has no idempotency key: in doubt, a person decides.

    python examples/email_smtp.py

Worker A is killed right after the mail server accepted. Nobody sends a second mail: the run is held, its
Message-ID is looked for in the mailbox, and the answer lets the run go on. Talks to a real SMTP server
(aiosmtpd) on this machine.
"""

import asyncio
import os
import signal
import smtplib
import socket
import subprocess
import sys
from email.message import EmailMessage
from tempfile import TemporaryDirectory
from typing import Any

from aiosmtpd.controller import Controller

from effectlog import Applied, EffectLog, NotApplied, RunHeld, durable_task, effect
from effectlog.clients.failures import NOT_SENT_SMTP, REFUSED_SMTP
from effectlog.clients.smtp import stamp
from effectlog.destinations import SMTP


@effect(
    key="receipt:{order}",
    destination=SMTP,
    in_doubt="hold",
    not_applied=(NOT_SENT_SMTP,),  # refused or not reached: sent again without asking anybody
    final=(REFUSED_SMTP,),  # refused for good: not sent again
)
def send_receipt(order: str, to: str) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@example.com", to, f"Receipt for {order}"
    message.set_content("Thank you.")
    stamp(message)  # The same Message-ID and Date on every attempt.
    with smtplib.SMTP(
        "127.0.0.1", int(os.environ["SMTP_PORT"]), local_hostname="localhost", timeout=10
    ) as server:
        server.send_message(message)
    if os.environ.get("DIES_HERE"):
        os.kill(os.getpid(), signal.SIGKILL)


@durable_task
def fulfil(order: str, to: str) -> str:
    send_receipt(order, to)
    return f"{order} is done"


class Mailbox:
    """What the mail server accepted."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        lines = envelope.content.decode().splitlines()
        self.ids += [line.partition(": ")[2] for line in lines if line.startswith("Message-ID")]
        return "250 OK"


async def worker(store: str) -> None:
    async with EffectLog(store) as log, log.worker(name="A"):
        await asyncio.Event().wait()


def run_doomed_worker(store: str) -> None:
    """Worker A in a process of its own, until it is killed."""
    command, mortal = [sys.executable, __file__, store], {"DIES_HERE": "1"}
    subprocess.run(command, env=os.environ | mortal, check=False)


async def main(store: str, mailbox: Mailbox) -> None:
    async with EffectLog(store) as log:
        run = await log.enqueue(fulfil, "A-42", "someone@example.org")
        await asyncio.to_thread(run_doomed_worker, store)
        print(f"worker A was killed after the server accepted: {len(mailbox.ids)} mail")
        async with log.worker(name="B"):
            try:
                await run.result()
            except RunHeld as held:
                print(f"worker B sent nothing; the run is held for {held.effect_keys[0]}")
            (effect_record,) = (await run.record()).effects
            found = [identity for identity in mailbox.ids if effect_record.operation_id in identity]
            print(f"looking for its Message-ID in the mailbox: {'found' if found else 'not there'}")
            answer = Applied(None) if found else NotApplied()
            await log.resolve(
                run.id, effect_record.key, answer, by="ann@example.com", evidence=f"mailbox: {found}"
            )
            print(f"decided, and the run goes on: {await run.result()}")
    print(f"mails: {len(mailbox.ids)}, requests: {effect_record.requests}")


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(worker(sys.argv[1]))
    else:
        mailbox = Mailbox()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        controller = Controller(mailbox, hostname="127.0.0.1", port=port)
        controller.start()
        os.environ["SMTP_PORT"] = str(port)
        with TemporaryDirectory() as folder:
            asyncio.run(main(f"{folder}/mails.db", mailbox))
        controller.stop()
