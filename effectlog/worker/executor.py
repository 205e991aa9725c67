"""Executes one attempt on the caller's loop: the body, its timeout, its interruption, its recorded end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from effectlog import context as here
from effectlog import telemetry
from effectlog.attempt.stop_reason import StopReason
from effectlog.decorators.task_arguments import call_arguments
from effectlog.errors import ConfigurationError, DecodingError, EffectLogError
from effectlog.store import commands as c
from effectlog.user_warnings import warn
from effectlog.worker.outcome import (
    BodyResult,
    broken,
    crashed_too_often,
    damaged,
    end_of,
    is_control,
    report_left_behind,
    report_unclaimed,
    unreadable_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from effectlog.attempt.attempt import Attempt

logger = logging.getLogger("effectlog")

_INTERRUPTING = (StopReason.CANCELLED, StopReason.RELEASED, StopReason.TIMED_OUT)

OVERRUN_GRACE = 0.5
"""Seconds that interrupted code may take to stop before it is reported."""


class AttemptExecutor:
    """One attempt being executed. ``threaded`` is true while its sync body has a thread."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.threaded = False
        self._loop = asyncio.get_running_loop()
        self.body: asyncio.Future[Any] | None = None
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._disturbed = False
        attempt.interrupt = self._interrupt_soon

    async def run(self) -> c.Outcome | None:
        """Execute to the recorded end. Returns how the run moved on, None if ownership was lost.

        The caller's cancellation releases the run; the body is then interrupted and waited for.
        """
        here.running_attempts += 1
        # This task's own context: the body, its threads and the log lines about it inherit what is set there.
        self.attempt.observer = telemetry.observe(self.attempt)
        try:
            return await self._run()
        finally:
            here.running_attempts -= 1
            self.attempt.observer.over()
            # Without this circle an attempt's records are freed at once, and not at the next full collection.
            self.attempt.interrupt = _nobody_left

    async def _run(self) -> c.Outcome | None:
        try:
            command = await self._attempted()
        except Exception as error:
            # A codec of somebody's own, or a defect of ours: the run must not wait for its lease to end.
            logger.exception(
                "effectlog: attempt %s of run %s broke",
                self.attempt.fence.attempt,
                self.attempt.run_id,
                extra=self.attempt.extra,
            )
            command = broken(self.attempt, error)
        self._discard_unawaited()
        if command is None:
            logger.warning("effectlog: %s", self.attempt.signal(), extra=self.attempt.extra)
            return None
        return await self._record(command)

    async def _attempted(self) -> c.EndAttempt | None:
        if self.attempt.run.damage is not None:
            return damaged(self.attempt, self.attempt.run.damage)
        try:
            args, kwargs = call_arguments(
                self.attempt.task, self.attempt.run.args, self.attempt.runtime.codec
            )
        except (DecodingError, TypeError) as error:
            return unreadable_arguments(self.attempt, error)
        if self.attempt.task.retry.ends_after_crash(self.attempt.run.row.crashes):
            return crashed_too_often(self.attempt)
        began = time.monotonic()
        body = await self._execute(args, kwargs)
        await self._report_overrun(time.monotonic() - began)
        self.attempt.end(StopReason.OVER)
        await self._until_quiet()
        if body.error is None and self.attempt.stop_reason is StopReason.OVER:
            report_left_behind(self.attempt)
            report_unclaimed(self.attempt)
        return end_of(self.attempt, body)

    async def _execute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BodyResult:
        context = contextvars.copy_context()
        context.run(here.place.set, self.attempt)
        function = self.attempt.task.function
        if self.attempt.task.is_async:
            self.body = self._loop.create_task(_contained(function(*args, **kwargs)), context=context)
        else:
            self.body = self._start_thread(lambda: context.run(function, *args, **kwargs))
        if self.attempt.stop_reason is not None:
            self._interrupt(self.attempt.stop_reason)
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
        timer = None if timeout is None else self.attempt.timer(timeout, self._time_out)
        self.body.add_done_callback(lambda _: _set_done(self._over))
        try:
            # Not by asyncio.wait, which costs as much as a whole effect.
            while not self.body.done():
                try:
                    await self._over
                except asyncio.CancelledError:
                    # Our caller goes away: release the run, but not before the body has stopped.
                    self.attempt.end(StopReason.RELEASED)
                    if self.threaded:
                        raise
                    self._over = self._loop.create_future()
        finally:
            if timer is not None:
                timer.cancel()

    def _time_out(self) -> None:
        if self.body is not None and not self.body.done():
            self.attempt.end(StopReason.TIMED_OUT)

    def _body_end(self) -> BodyResult:
        assert self.body is not None  # noqa: S101 - as above
        try:
            value = self.body.result()
        except BaseException as error:
            disturbed = self._disturbed or self.attempt.refused or is_control(error)
            return BodyResult(error=error, disturbed=disturbed)
        if inspect.isawaitable(value):
            return BodyResult(error=_awaitable_result(self.attempt.task.name, value))
        return BodyResult(value=value, disturbed=self._disturbed or self.attempt.refused)

    def _interrupt_soon(self, stop_reason: StopReason) -> None:
        """Called on any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupt, stop_reason)
        except RuntimeError:
            logger.debug("effectlog: the loop of an attempt is closed", exc_info=True)

    def _interrupt(self, stop_reason: StopReason) -> None:
        body = self.body
        # These leave by a signal of their own; what else is under way in the body may finish first.
        gentle = stop_reason in (StopReason.HELD, StopReason.UNABLE)
        if body is None or body.done() or gentle or not isinstance(body, asyncio.Task):
            return
        if stop_reason is StopReason.LOST and not self.attempt.when_quiet(
            lambda: self._interrupt_soon(stop_reason)
        ):
            return  # What a request under way returns is evidence, and the only one there may ever be.
        self._disturbed = True
        body.cancel(f"effectlog: {stop_reason}")

    async def _report_overrun(self, took: float) -> None:
        timeout = self.attempt.task.timeout
        if timeout is None or took <= timeout:
            return
        # Async code gets a moment for its own clean-up.
        allowed = timeout + (OVERRUN_GRACE if self._disturbed else 0.0)
        if took - await self.attempt.pause_credit_by_now() <= allowed:
            return
        message = (
            f"task {self.attempt.task.name} took {took:.3f} s with timeout={timeout:g}: code that doesn't "
            f"await can't be interrupted (run {self.attempt.run_id}, attempt {self.attempt.fence.attempt})"
        )
        warn(message, **self.attempt.extra)

    async def _until_quiet(self) -> None:
        """Wait for requests that the body left under way, unless ownership is lost."""
        while not self.attempt.quiet and self.attempt.stop_reason is not StopReason.LOST:
            if self.attempt.stop_reason in _INTERRUPTING:
                self.attempt.cancel_requests()  # Those of tasks that the body made and did not take along.
            quiet = self._loop.create_future()
            if self.attempt.when_quiet(lambda quiet=quiet: self._tell(quiet)):  # type: ignore[misc]
                return
            await asyncio.wait({quiet}, timeout=1.0)

    def _tell(self, quiet: asyncio.Future[None]) -> None:
        """Called on any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(_set_done, quiet)

    def _discard_unawaited(self) -> None:
        for _, coroutine in self.attempt.unawaited.values():
            coroutine.close()
        self.attempt.unawaited.clear()

    async def _record(self, command: c.EndAttempt) -> c.Outcome | None:
        try:
            (outcome,) = await self.attempt.engine.commit(
                command, until=self.attempt.lease_until, insist=True, chain=self.attempt.chain
            )
        except EffectLogError as error:
            logger.error(  # noqa: TRY400 - the store's words are what counts here
                "effectlog: the end of run %s, attempt %s could not be recorded; it is taken over when its "
                "lease ends: %s",
                self.attempt.run_id,
                self.attempt.fence.attempt,
                error,
                extra=self.attempt.extra,
            )
            return None
        if isinstance(outcome, c.Refused):
            self.attempt.end(StopReason.LOST)
            logger.warning("effectlog: %s", self.attempt.signal(), extra=self.attempt.extra)
            return None
        self.attempt.observer.ended(command, outcome)
        return outcome


def _nobody_left(_: StopReason) -> None:
    """The execution is over; there is nothing to interrupt."""


async def _contained(body: Coroutine[Any, Any, Any]) -> Any:
    """Run a body; ``sys.exit()`` in one task would otherwise end the loop of all of them."""
    try:
        return await body
    except SystemExit as error:
        raise RuntimeError(f"the task called sys.exit({error.code!r})") from error


def _awaitable_result(task: str, value: Any) -> ConfigurationError:
    if inspect.iscoroutine(value):
        value.close()
    return ConfigurationError(
        f"task {task} is a sync function and returned an awaitable; declare it with 'async def'"
    )


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
