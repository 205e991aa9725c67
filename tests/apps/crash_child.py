"""A worker, or a script around ``log.run``, as a process of its own that tells where it is and can be killed there."""

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

import crash_tasks
from crash_tasks import pause, say

from effectlog import EffectLog
from effectlog.effects.driver import Invoke
from effectlog.store import commands as c
from effectlog.store.sqlite import store as sqlite


def _holds(commands: Any, kind: type, outcome: c.RequestOutcome | None = None) -> bool:
    return any(
        isinstance(command, kind) and (outcome is None or getattr(command, "outcome", None) is outcome)
        for command in commands
    )


def install_points() -> None:
    """Make the engine stop where a test wants it: around the commit of a record, and right before a call."""
    apply, block, wait = sqlite.apply_batch, Invoke.block, Invoke.wait
    records = {
        "started": lambda commands: _holds(commands, c.StartEffect),
        "completed": lambda commands: _holds(commands, c.FinishEffect, c.RequestOutcome.COMPLETED),
        "not_made": lambda commands: _holds(commands, c.FinishEffect, c.RequestOutcome.NOT_MADE),
        "end": lambda commands: _holds(commands, c.EndAttempt),
    }

    def apply_before_end(*how: Any, commands: Any) -> list[Any]:
        """A completed record may share its commit with the run's end; to stop between them, part them."""
        first = next((i for i, command in enumerate(commands) if isinstance(command, c.EndAttempt)), 0)
        parted = first and os.environ["PAUSE_AT"] in ("after completed", "before end")
        return stopping_apply(*how, commands[:first]) if parted else []

    def stopping_apply(*how: Any) -> list[Any]:
        """On the thread of the store's connection, whoever hands in the batch."""
        *how, commands = how
        earlier = apply_before_end(*how, commands=commands)
        commands = commands[len(earlier) :]
        for name, matches in records.items():
            if matches(commands):
                pause(f"before {name}")
        outcomes = [*earlier, *apply(*how, commands)]
        for name, matches in records.items():
            if matches(commands):
                say(f"durable {name}")
                pause(f"after {name}")
        return outcomes

    def stopping_block(self: Any) -> Any:
        pause("before call")
        return block(self)

    async def stopping_wait(self: Any) -> Any:
        pause("before call")  # Blocks the loop, so that nothing comes between the last look and the call.
        return await wait(self)

    sqlite.apply_batch = stopping_apply
    Invoke.block, Invoke.wait = stopping_block, stopping_wait  # type: ignore[method-assign]


async def work(options: argparse.Namespace) -> None:
    async with EffectLog(options.store, lease=options.lease, check_store=False) as log:
        if options.run:
            task = crash_tasks.TASKS[options.run].with_options(idempotency_key="script")
            say(f"result {await log.run(task, *options.args)}")
            return
        worker = log.worker(concurrency=options.concurrency, name=options.name)
        if options.serve:
            loop = asyncio.get_running_loop()
            loop.call_later(0.0, say, "ready")
            await worker.serve()
            say("served")
            return
        async with worker:
            say("ready")
            await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("args", nargs="*")
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--name", default="A")
    parser.add_argument("--run")
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if os.environ.get("PAUSE_AT"):
        install_points()
    if options.serve:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(work(options))


if __name__ == "__main__":
    sys.exit(main())
