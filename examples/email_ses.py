"""An e-mail through Amazon SES, which takes no idempotency key and can't be asked: in doubt, a person decides.

    python examples/email_ses.py

Talks to a local AWS emulator (moto's server) through boto3. Worker A is killed right after SES accepted; the
run is held, and somebody who looked at the sending statistics decides.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any

import boto3
from botocore.config import Config
from moto.server import ThreadedMotoServer

from effectlog import Applied, EffectLog, RunHeld, durable_task, effect
from effectlog.clients.failures import NOT_SENT_BOTOCORE
from effectlog.destinations import SES

SENDER = "shop@example.com"


def aws(service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=os.environ["AWS_URL"],
        region_name="eu-west-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        # botocore would repeat a request whose answer was lost, which at SES is a second mail.
        config=Config(retries={"total_max_attempts": 1}),
    )


@effect(key="receipt:{order}", destination=SES, in_doubt="hold", not_applied=(NOT_SENT_BOTOCORE,))
def send_receipt(order: str, to: str) -> str:
    subject, body = {"Data": f"Receipt for {order}"}, {"Text": {"Data": "Thank you."}}
    answer = aws("sesv2").send_email(
        FromEmailAddress=SENDER,
        Destination={"ToAddresses": [to]},
        Content={"Simple": {"Subject": subject, "Body": body}},
    )
    if os.environ.get("DIES_HERE"):
        os.kill(os.getpid(), signal.SIGKILL)
    message_id: str = answer["MessageId"]
    return message_id


@durable_task
def fulfil(order: str, to: str) -> str:
    return send_receipt(order, to)


def accepted() -> int:
    return int(aws("ses").get_send_quota()["SentLast24Hours"])


async def worker(store: str) -> None:
    async with EffectLog(store) as log, log.worker(name="A"):
        await asyncio.Event().wait()


def run_doomed_worker(store: str) -> None:
    """Worker A in a process of its own, until it is killed."""
    command, mortal = [sys.executable, __file__, store], {"DIES_HERE": "1"}
    subprocess.run(command, env=os.environ | mortal, check=False)


async def main(store: str) -> None:
    aws("ses").verify_email_identity(EmailAddress=SENDER)
    async with EffectLog(store) as log:
        run = await log.enqueue(fulfil, "A-42", "someone@example.org")
        await asyncio.to_thread(run_doomed_worker, store)
        print(f"worker A was killed after SES accepted: {accepted()} mail")
        async with log.worker(name="B"):
            try:
                await run.result()
            except RunHeld as held:
                print(f"worker B sent nothing; the run is held for {held.effect_keys[0]}: {accepted()} mail")
            # What 'effectlog show' tells a person, and 'effectlog resolve' does.
            evidence = f"{accepted()} mail in the statistics"
            await log.resolve(
                run.id, "receipt:A-42", Applied("unknown id"), by="ann@example.com", evidence=evidence
            )
            print(f"decided, and the run goes on with {await run.result()!r}")
        record = await run.record()
    print(
        f"mails: {accepted()}, requests: {record.effects[0].requests}, decided by "
        f"{record.effects[0].resolved_by}"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(worker(sys.argv[1]))
    else:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        os.environ["AWS_URL"] = "http://{}:{}".format(*server.get_host_and_port())
        with TemporaryDirectory() as folder:
            asyncio.run(main(f"{folder}/mails.db"))
        server.stop()
