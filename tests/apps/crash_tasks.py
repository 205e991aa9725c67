"""The tasks that the crash tests run in processes of their own; importing it starts nothing."""

import asyncio
import ctypes
import os
import random
import subprocess
import sys
import threading
import time

from effectlog import Retry, current_attempt, durable_task, effect, operation_id
from effectlog.testing.destinations import send

_paused: set[str] = set()
_lock = threading.Lock()


def pause(point: str) -> None:
    """Say that this point is reached and wait for the word to go on.

    Only where PAUSE_AT names it, and once.
    """
    with _lock:
        if point != os.environ.get("PAUSE_AT") or point in _paused:
            return
        _paused.add(point)
    say(f"reached {point}")
    os.read(sys.stdin.fileno(), 1)


def say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def request(operation: str, *, keyed: bool) -> str:
    key = operation_id() if keyed else None
    pause("before request")
    send(os.environ["DESTINATION"], {"operation": operation}, key=key)
    return f"done:{operation}"


@effect(key="send:{operation}")
def send_keyed(operation: str) -> str:
    value = request(operation, keyed=True)
    pause("accepted")
    return value


@effect(key="send:{operation}")
def send_bare(operation: str) -> str:
    value = request(operation, keyed=False)
    pause("accepted")
    return value


@effect(key="send:{operation}", in_doubt="hold")
def send_held(operation: str) -> str:
    value = request(operation, keyed=False)
    pause("accepted")
    return value


@effect(key="send:{operation}")
async def asend_keyed(operation: str) -> str:
    value = await asyncio.to_thread(request, operation, keyed=True)
    await asyncio.to_thread(pause, "accepted")
    return value


@effect(key="send:{operation}")
async def asend_bare(operation: str) -> str:
    value = await asyncio.to_thread(request, operation, keyed=False)
    await asyncio.to_thread(pause, "accepted")
    return value


@effect(key="send:{operation}", in_doubt="hold")
async def asend_held(operation: str) -> str:
    value = await asyncio.to_thread(request, operation, keyed=False)
    await asyncio.to_thread(pause, "accepted")
    return value


SYNC = {"keyed": send_keyed, "bare": send_bare, "hold": send_held}
ASYNC = {"keyed": asend_keyed, "bare": asend_bare, "hold": asend_held}


@durable_task(retry=Retry(delay=0.0))
def one_sync(policy: str) -> str:
    value = SYNC[policy]("one")
    pause("after effect")
    return value


@durable_task(retry=Retry(delay=0.0))
async def one_async(policy: str) -> str:
    value = await ASYNC[policy]("one")
    await asyncio.to_thread(pause, "after effect")
    return value


@durable_task(retry=Retry(max_attempts=1))
def once(policy: str) -> str:
    return SYNC[policy]("one")


@durable_task
def stubborn_sync() -> str:
    """User code that swallows whatever stops it, and goes on to the next effect."""
    return _stubborn(BaseException)


@durable_task
def careless_sync() -> str:
    return _stubborn(Exception)


def _stubborn(swallowed: type[BaseException]) -> str:
    for name in ("one", "two", "three"):
        try:
            send_keyed(name)
        except swallowed as error:
            say(f"swallowed {type(error).__name__}")
    say("body over")
    return "stubborn"


@durable_task
async def stubborn_async() -> str:
    for name in ("one", "two", "three"):
        try:
            await asend_keyed(name)
        except BaseException as error:
            say(f"swallowed {type(error).__name__}")
    say("body over")
    return "stubborn"


@durable_task
def three_sync() -> list[str]:
    found = [send_keyed("one"), send_keyed("two")]
    pause("third")
    return [*found, send_keyed("three")]


@effect(key="slow")
def block_for(seconds: float) -> str:
    send(os.environ["DESTINATION"], {"operation": "slow"}, key=operation_id())
    say("blocking")
    time.sleep(seconds)
    return "slow"


@effect(key="greedy")
def hold_the_interpreter_for(seconds: float) -> str:
    """As a C extension does that never lets go of the interpreter lock."""
    send(os.environ["DESTINATION"], {"operation": "greedy"}, key=operation_id())
    say("blocking")
    if current_attempt().number == 1:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        say("let go")
    return "greedy"


@durable_task
async def blocks_its_loop(seconds: float) -> str:
    return block_for(seconds)


@durable_task
async def holds_the_interpreter(seconds: float) -> str:
    value = hold_the_interpreter_for(seconds)
    await asyncio.sleep(0)
    return value


@durable_task
async def fills_the_default_executor(count: int, seconds: float) -> str:
    """As user code that shares asyncio's own threads with whoever else needs them."""
    say("blocking")
    await asyncio.gather(*(asyncio.to_thread(time.sleep, seconds) for _ in range(count)))
    return await asend_keyed("one")


@durable_task(retry=Retry(delay=0.0))
def leaves_grandchildren(kind: str) -> str:
    """Its process's descendants live on, and hold whatever they inherited."""
    if kind == "fork":
        if os.fork() == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # Our harness takes the end of its pipe for our end.
            time.sleep(5)
            os._exit(0)
    else:
        subprocess.Popen(["sleep", "5"], stdout=subprocess.DEVNULL, close_fds=kind == "popen")
    return send_keyed("one")


@durable_task(retry=Retry(delay=0.0))
async def gathers(count: int) -> list[str]:
    async def one(number: int) -> str:
        await asyncio.sleep(random.random() / 50)
        return await asend_keyed(f"n{number}")

    numbers = list(range(count))
    random.shuffle(numbers)
    found = dict(zip(numbers, await asyncio.gather(*map(one, numbers)), strict=True))
    return [found[number] for number in range(count)]


TASKS = {
    task.spec.name.rpartition(".")[2]: task
    for task in (one_sync, one_async, once, stubborn_sync, careless_sync, stubborn_async, three_sync)
}
