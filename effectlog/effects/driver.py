"""The few things that an effect call waits for, each in two forms: blocking a thread, or awaited.

``effectlog.effects.call`` yields these from one generator; ``run_blocking`` and ``run_async`` run that
generator for sync and for async functions. So what an effect call does is written once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from effectlog.attempt.in_flight import InFlight, running_loop
from effectlog.context import Request, place
from effectlog.errors import EffectConflict, EffectLogError
from effectlog.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from effectlog.attempt.attempt import Attempt
    from effectlog.store.commands import Command, Outcome
    from effectlog.store.rows import EffectRow


class Operation(Protocol):
    """Something to wait for."""

    def block(self) -> Any:
        """Wait on this thread."""
        ...

    async def wait(self) -> Any:
        """Wait on this loop."""
        ...


Operations: TypeAlias = "Generator[Operation, Any, Any]"


def run_blocking(operations: Operations) -> Any:
    """Run the operations on the calling thread and return what they return."""
    try:
        operation = next(operations)
        while True:
            try:
                value = operation.block()
            except BaseException as error:
                operation = operations.throw(error)
            else:
                operation = operations.send(value)
    except StopIteration as end:
        return end.value
    except RuntimeError as error:
        raised = _stop_of_users(error)
    raise raised


def _stop_of_users(error: RuntimeError) -> BaseException:
    """The error itself, or the StopIteration that the user's function raised and a generator can't."""
    cause = error.__cause__
    return (
        cause
        if isinstance(cause, StopIteration) and str(error) == "generator raised StopIteration"
        else error
    )


async def run_async(operations: Operations) -> Any:
    """Run the operations on the calling loop and return what they return."""
    try:
        operation = next(operations)
        while True:
            try:
                value = await operation.wait()
            except BaseException as error:
                operation = operations.throw(error)
            else:
                operation = operations.send(value)
    except StopIteration as end:
        return end.value


class Commit(Struct, gc=False):
    """Wait until a command is durable or refused. Returns its outcome."""

    attempt: Attempt
    command: Command

    def block(self) -> Outcome:
        attempt = self.attempt
        return attempt.engine.commit_sync(self.command, until=attempt.lease_until, chain=attempt.chain)[0]

    async def wait(self) -> Outcome:
        attempt = self.attempt
        return (await attempt.engine.submit(self.command, until=attempt.lease_until, chain=attempt.chain))[0]


class Sleep(Struct):
    """Wait this many seconds, or until the attempt begins to end."""

    attempt: Attempt
    seconds: float

    def block(self) -> None:
        self.attempt.wait_for_stop(self.seconds)

    async def wait(self) -> None:
        # Ending cancels the task that sleeps here, so a plain sleep is interruptible enough; a task that
        # user code shielded wakes up at the latest when its own time is over.
        deadline = time.monotonic() + self.seconds
        # Any thread may end the attempt, so there is no event of this loop to wait for.
        attempt = self.attempt
        while (left := deadline - time.monotonic()) > 0 and attempt.stop_reason is None:  # noqa: ASYNC110
            await asyncio.sleep(min(left, 0.1))


class Join(Struct):
    """Wait until another call of the same key in this attempt is over."""

    other: InFlight
    key: str

    def block(self) -> None:
        if self.other.loop is not None and self.other.loop is running_loop():
            raise EffectConflict(
                f"effect key {self.key!r} is being requested by an async effect on this very loop, and a "
                "sync call can't wait for it here; await the first call before making the second",
                effect_key=self.key,
            )
        self.other.over().result()

    async def wait(self) -> None:
        # Shielded: who waits here and is cancelled must not cancel what the others wait for.
        await asyncio.shield(asyncio.wrap_future(self.other.over()))


class Invoke(Struct, gc=False):
    """Call the effect's function as one request; returns what it returns."""

    attempt: Attempt
    request: Request
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout: float | None
    name: str

    def block(self) -> Any:
        token = place.set(self.request)
        around = self.attempt.runtime.around_request
        began = time.monotonic()
        try:
            if around is None:
                return self.function(*self.args, **self.kwargs)
            with around(self.request):
                return self.function(*self.args, **self.kwargs)
        finally:
            place.reset(token)
            self._report_overrun(time.monotonic() - began)

    async def wait(self) -> Any:
        token = place.set(self.request)
        around = self.attempt.runtime.around_request
        try:
            if around is None:
                return await self._called()
            with around(self.request):
                return await self._called()
        finally:
            place.reset(token)

    def _called(self) -> Any:
        """The coroutine of the function, ended when the timeout is over."""
        if self.timeout is None:
            return self.function(*self.args, **self.kwargs)
        return self._wait_in_time(self.timeout)

    def _report_overrun(self, took: float) -> None:
        if self.timeout is None or took <= self.timeout or self._was_paused(took - self.timeout):
            return
        warn(
            f"sync effect {self.name} took {took:.3f} s with timeout={self.timeout:g}; sync code can't be "
            f"interrupted, so give its client a timeout of its own"
        )

    def _was_paused(self, seconds: float) -> bool:
        """True if the process stood still for at least this long during the attempt: too much was counted."""
        attempt = self.attempt
        if attempt.notice_pause is not None:
            with contextlib.suppress(EffectLogError):
                attempt.engine.call(attempt.notice_pause()).result()
        return attempt.pause_credit >= seconds

    async def _wait_in_time(self, timeout: float) -> Any:
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)
        timer = self.attempt.timer(timeout, lambda: limit.reschedule(loop.time()))
        try:
            async with limit:
                return await self.function(*self.args, **self.kwargs)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(
                f"effect {self.name} was cancelled after {time.monotonic() - began:.3f} s "
                f"(timeout={timeout:g}); whether it happened is unknown"
            ) from error
        finally:
            timer.cancel()


class Ask(Struct):
    """Call a look-up function, sync or async, whatever the effect is. Returns its answer."""

    request: Request
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout: float
    """Seconds after which an answer is not waited for any more (TimeoutError); a sync form can't be left."""

    def _call(self) -> Any:
        token = place.set(self.request)
        try:
            return self.function(*self.args, **self.kwargs)
        finally:
            place.reset(token)

    def block(self) -> Any:
        answer = self._call()
        if not inspect.isawaitable(answer):
            return answer
        # This thread may have a loop that is running: the look-up gets one of its own.
        outcome: Future[Any] = Future()
        thread = threading.Thread(target=_run_alone, args=(answer, self.request, outcome), daemon=True)
        thread.start()
        return outcome.result(self.timeout)

    async def wait(self) -> Any:
        async with asyncio.timeout(self.timeout):
            return await self._answer()

    async def _answer(self) -> Any:
        if inspect.iscoroutinefunction(self.function):
            token = place.set(self.request)
            try:
                return await self.function(*self.args, **self.kwargs)
            finally:
                place.reset(token)
        answer = await asyncio.to_thread(self._call)
        return await answer if inspect.isawaitable(answer) else answer


class Reread(Struct):
    """Read an effect as the store has it now; None where it has none."""

    attempt: Attempt
    key: str

    async def _read(self) -> EffectRow | None:
        stored = await self.attempt.engine.store.get(self.attempt.run_id)
        found = stored.effects if stored is not None else []
        return next((effect for effect in found if effect.key == self.key), None)

    def block(self) -> EffectRow | None:
        return self.attempt.engine.call(self._read()).result()

    async def wait(self) -> EffectRow | None:
        return await self.attempt.engine.read(self._read())


class AskDead(Struct):
    """Ask which of these owners are known to be dead. Returns those that are."""

    attempt: Attempt
    owners: frozenset[str]

    def _ask(self) -> Coroutine[Any, Any, frozenset[str]]:
        return self.attempt.engine.store.liveness.dead(self.owners)

    def block(self) -> frozenset[str]:
        return self.attempt.engine.call(self._ask()).result()

    async def wait(self) -> frozenset[str]:
        return await self.attempt.engine.read(self._ask())


def _run_alone(awaitable: Any, request: Request, outcome: Future[Any]) -> None:
    async def main() -> Any:
        place.set(request)
        return await awaitable

    try:
        outcome.set_result(asyncio.run(main()))
    except BaseException as error:
        outcome.set_exception(error)
