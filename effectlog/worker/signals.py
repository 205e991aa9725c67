"""SIGTERM and SIGINT while a worker serves: the loop gets each, and the second starts the last countdown.

Handlers are set by ``signal.signal``, because not every loop has ``add_signal_handler``: Windows' has none. A
blocked event loop gets no signal, and the system hands it to whichever thread it likes. So a thread of its
own reads what Python's signal handler writes, counts, and wakes the loop. The invariant: after a second
signal the process ends within ``LEAVE_WITHIN`` seconds, unless it was left in order. A SIGTERM that would end
it by the signal while the log still closes is taken until the log is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

LEAVE_WITHIN = 1.2
"""Seconds after a second signal at which the process is ended, whatever code would not stop."""
_GIVE_BACK_WITHIN = 0.4
"""Seconds for the store to hear of it before that."""
_NUMBERS = [signal.SIGTERM, signal.SIGINT]
if sys.platform == "win32":
    _NUMBERS.append(signal.SIGBREAK)  # What another process can send there; SIGTERM it can't.


class Signals:
    """Takes SIGTERM and SIGINT, within ``with``, on the running loop.

    ``await next()`` returns them one by one.

    ``give_back`` is called, on a thread of its own, before the process is ended. Where a SIGTERM ended
    ``with`` and nobody else has a handler for it, those that follow are taken until ``let_go(engine)``.
    Raises ConfigurationError outside the main thread, where Python handles no signals, and for a second one
    at a time: a signal has one handler.
    """

    taking: Signals | None = None

    def __init__(self, give_back: Callable[[], None], engine: object) -> None:
        self.engine = engine
        self.serving = False
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[int] = asyncio.Queue()
        self._earlier: dict[int, Any] = {}
        self._loops_fd = -1
        self._end_at: float | None = None
        self._left = self._in_order = self._terminated = False

    def __enter__(self) -> Signals:
        if Signals.taking is not None and not Signals.taking.serving:
            Signals.taking.close()
        if Signals.taking is not None or threading.current_thread() is not threading.main_thread():
            raise ConfigurationError(
                "serve() takes the signals of its process: only one worker at a time can, on the main "
                "thread; let that one serve, and put 'async with log.worker():' around it for every other"
            )
        with contextlib.ExitStack() as undo:
            self._reads, self._written = socket.socketpair()
            undo.callback(self._reads.close)
            undo.callback(self._written.close)
            self._written.setblocking(False)
            undo.callback(self._restore_all)
            self._take()
            self._loops_fd = signal.set_wakeup_fd(self._written.fileno())
            undo.callback(signal.set_wakeup_fd, self._loops_fd)
            threading.Thread(target=self._watch, name="effectlog-signals", daemon=True).start()
            # All of it succeeded: a failure leaves nothing behind that keeps the next one out.
            undo.pop_all()
        Signals.taking = self
        self.serving = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.serving = False
        self._in_order = self._left or self._end_at is None
        would_end = self._earlier[signal.SIGTERM] is signal.SIG_DFL
        if kind is None and self._terminated and would_end:
            self._restore(signal.SIGINT)
        else:
            self._left = self._in_order
            self.close()

    def closed(self) -> None:
        """The log is closed, and the process was not ended for it."""
        if self._in_order:
            self.left()
        self.close()

    def close(self) -> None:
        """Put back what was there before."""
        Signals.taking = None
        signal.set_wakeup_fd(-1 if self._loop.is_closed() else self._loops_fd)
        self._restore_all()
        self._written.close()

    def leave_to_the_parent(self) -> None:
        """Let go in a forked child: its signals are not for the parent's worker, whose socket it shares."""
        Signals.taking = None
        signal.set_wakeup_fd(-1)
        self._restore_all()

    def _take(self) -> None:
        for number in _NUMBERS:
            self._earlier[number] = signal.signal(number, self._handle)
            if sys.platform != "win32":
                signal.siginterrupt(number, False)  # As asyncio has it: code that is no Python's goes on.

    def _restore_all(self) -> None:
        for number in list(self._earlier):
            self._restore(number)

    def _restore(self, number: int) -> None:
        handler = self._earlier.pop(number)
        # One that was not installed by Python, which can't put it back, is None.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._received.put_nowait, number)
        except RuntimeError:  # The loop was closed, but the log never was.
            self.close()
            signal.raise_signal(number)

    async def next(self) -> int:
        number = await self._received.get()
        self._terminated |= number == signal.SIGTERM
        return number

    def left(self) -> None:
        """Nothing is left behind that could keep the process: it may end in its own time."""
        self._left = self._end_at is None or not _others_keep_the_process()

    def _watch(self) -> None:
        count = 0
        with self._reads:
            while (received := self._receive()) != b"":
                count += sum(number in _NUMBERS for number in received)
                if count > 1 and self._end_at is None:
                    # One that comes while the log closes finds nothing left behind any more, but closing may
                    # hang.
                    self._left = self._left and self.serving
                    self._end_at = time.monotonic() + LEAVE_WITHIN
                self._wake(received)
        # Code that will not end would keep the interpreter, so the process ends without waiting for it.
        if self._end_at is not None and not self._left:
            time.sleep(max(0.0, self._end_at - time.monotonic()))
            last = threading.Thread(target=self._give_back, daemon=True)
            last.start()
            last.join(_GIVE_BACK_WITHIN)
            os._exit(128 + signal.SIGTERM)

    def _wake(self, received: bytes) -> None:
        """Let the main thread run its handlers, and the loop its own handlers of other signals."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(_nothing)
        others = received.translate(None, bytes(_NUMBERS))
        with contextlib.suppress(OSError):  # The loop has none, or more than it can take to wake up for.
            os.write(self._loops_fd, others)

    def _receive(self) -> bytes:
        """The numbers of the next signals; empty at the end, or once the process's time is over."""
        while True:
            end_at = self._end_at
            self._reads.settimeout(None if end_at is None else max(0.001, end_at - time.monotonic()))
            try:
                return self._reads.recv(64)
            except TimeoutError:
                if not self._left:
                    return b""
                self._end_at = None


def _nothing() -> None:
    pass


def _in_forked_child() -> None:
    if Signals.taking is not None:
        Signals.taking.leave_to_the_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def let_go(engine: object) -> None:
    """The log of this engine is closed: a signal ends the process again as it did before."""
    signals = Signals.taking
    if signals is None or signals.engine is not engine or signals.serving:
        return
    if threading.current_thread() is threading.main_thread():
        signals.closed()


def _others_keep_the_process() -> bool:
    """Whether a thread is alive that the interpreter would wait for, such as one of ``asyncio.to_thread``."""
    here = (threading.main_thread(), threading.current_thread())
    return any(not thread.daemon and thread not in here for thread in threading.enumerate())
