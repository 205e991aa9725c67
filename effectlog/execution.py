"""Executes one attempt on the caller's loop: the body, its timeout, its interruption, its recorded end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from effectlog import commands as c
from effectlog.arguments import call_arguments
from effectlog.attempt import Ending
from effectlog.context import place
from effectlog.ending import BodyEnd, crashed_too_often, end_of, is_control, unreadable_arguments
from effectlog.errors import ConfigurationError, DecodingError, EffectLogError, EffectLogWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from effectlog.attempt import Attempt

logger = logging.getLogger("effectlog")

running_attempts = 0
"""How many attempts this process is executing: an effect called outside of them all may be a mistake."""


class Execution:
    """One attempt being executed. ``threaded`` is true while its sync body has a thread."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.threaded = False
        self._loop = asyncio.get_running_loop()
        self.body: asyncio.Future[Any] | None = None
        self._disturbed = False
        attempt.interrupt = self._interrupt_soon

    async def run(self) -> c.Outcome | None:
        """Execute to the recorded end; gives how the run moved on, None if ownership was lost.

        The caller's cancellation gives the run back; the body is then interrupted and waited for.
        """
        global running_attempts  # noqa: PLW0603 - a count of this process
        running_attempts += 1
        try:
            return await self._run()
        finally:
            running_attempts -= 1

    async def _run(self) -> c.Outcome | None:
        try:
            args, kwargs = call_arguments(self.attempt.task, self.attempt.run.args, self.attempt.codec)
        except (DecodingError, TypeError) as error:
            return await self._record(unreadable_arguments(self.attempt, error))
        if self.attempt.task.retry.ends_after_crash(self.attempt.run.row.crashes):
            return await self._record(crashed_too_often(self.attempt))
        began = time.monotonic()
        body = await self._execute(args, kwargs)
        self._report_overrun(time.monotonic() - began, body)
        self.attempt.end(Ending.OVER)
        await self._until_quiet()
        command = end_of(self.attempt, body)
        self._discard_unawaited()
        if command is None:
            logger.warning("effectlog: %s", self.attempt.signal())
            return None
        return await self._record(command)

    async def _execute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BodyEnd:
        context = contextvars.copy_context()
        context.run(place.set, self.attempt)
        function = self.attempt.task.function
        if self.attempt.task.is_async:
            self.body = self._loop.create_task(function(*args, **kwargs), context=context)
        else:
            self.body = self._start_thread(lambda: context.run(function, *args, **kwargs))
        if self.attempt.ending is not None:
            self._interrupt(self.attempt.ending)
        await self._wait_for_body()
        return self._body_end()

    def _start_thread(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a sync body on a daemon thread of its own: one that never returns must not keep the process."""
        done: asyncio.Future[Any] = self._loop.create_future()
        self.threaded = True

        def settle(value: Any, error: BaseException | None) -> None:
            self.threaded = False
            if done.cancelled():
                return
            if isinstance(error, StopIteration):  # A future can't carry it.
                error = RuntimeError(f"the task raised StopIteration: {error}")
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(value)

        def main() -> None:
            value, error = None, None
            try:
                value = call()
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                logger.debug("effectlog: a body outlived its loop", exc_info=True)

        threading.Thread(target=main, name=f"effectlog-{self.attempt.task.name}", daemon=True).start()
        return done

    async def _wait_for_body(self) -> None:
        assert self.body is not None  # noqa: S101 - just made
        timeout = self.attempt.task.timeout
        while not self.body.done():
            try:
                await asyncio.wait({self.body}, timeout=timeout)
            except asyncio.CancelledError:
                # Our caller goes away: give the run back, but not before the body has stopped.
                self.attempt.end(Ending.RELEASED)
                if self.threaded:
                    raise
                continue
            if not self.body.done():
                timeout = None
                self.attempt.end(Ending.TIMED_OUT)

    def _body_end(self) -> BodyEnd:
        assert self.body is not None  # noqa: S101 - as above
        if self.body.cancelled():
            return BodyEnd(error=asyncio.CancelledError(), disturbed=self._disturbed)
        error = self.body.exception()
        disturbed = self._disturbed or self.attempt.refused or is_control(error)
        if error is not None:
            return BodyEnd(error=error, disturbed=disturbed)
        value = self.body.result()
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            return BodyEnd(
                error=ConfigurationError(
                    f"task {self.attempt.task.name} is a sync function and returned an awaitable; declare it "
                    f"with 'async def'"
                )
            )
        return BodyEnd(value=value, disturbed=disturbed)

    def _interrupt_soon(self, ending: Ending) -> None:
        """Called on any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupt, ending)
        except RuntimeError:
            logger.debug("effectlog: the loop of an attempt is closed", exc_info=True)

    def _interrupt(self, ending: Ending) -> None:
        body = self.body
        # A hold leaves by its own signal; what else is under way in the body may finish first.
        if body is None or body.done() or ending is Ending.HELD or not isinstance(body, asyncio.Task):
            return
        self._disturbed = True
        body.cancel(f"effectlog: {ending}")

    def _report_overrun(self, took: float, body: BodyEnd) -> None:
        timeout = self.attempt.task.timeout
        if timeout is None or took <= timeout or body.disturbed:
            return
        message = (
            f"task {self.attempt.task.name} took {took:.3f} s with timeout={timeout:g}: code that doesn't await can't "
            f"be interrupted (run {self.attempt.run_id}, attempt {self.attempt.fence.attempt})"
        )
        logger.warning("effectlog: %s", message)
        warnings.warn(message, EffectLogWarning, stacklevel=2)

    async def _until_quiet(self) -> None:
        """Wait for requests that the body left under way, unless ownership is lost."""
        while not self.attempt.quiet and self.attempt.ending is not Ending.LOST:
            quiet = self._loop.create_future()

            def tell(quiet: asyncio.Future[None] = quiet) -> None:
                self._loop.call_soon_threadsafe(_set_done, quiet)

            if self.attempt.when_quiet(tell):
                return
            await asyncio.wait({quiet}, timeout=1.0)

    def _discard_unawaited(self) -> None:
        for _, coroutine in self.attempt.unawaited.values():
            coroutine.close()
        self.attempt.unawaited.clear()

    async def _record(self, command: c.EndAttempt) -> c.Outcome | None:
        try:
            (outcome,) = await asyncio.shield(
                self.attempt.engine.commit(
                    command, until=self.attempt.lease_until, insist=True, chain=self.attempt.chain
                )
            )
        except EffectLogError as error:
            logger.error(  # noqa: TRY400 - the store's words are what counts here
                "effectlog: the end of run %s, attempt %s could not be recorded; it is taken over when its lease "
                "ends: %s",
                self.attempt.run_id,
                self.attempt.fence.attempt,
                error,
            )
            return None
        if isinstance(outcome, c.Refused):
            self.attempt.end(Ending.LOST)
            logger.warning("effectlog: %s", self.attempt.signal())
            return None
        return outcome


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
