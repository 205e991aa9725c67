"""SIGTERM and SIGINT while a worker serves: the loop gets each, and the second starts the time the process has left.

A blocked event loop gets none, and the system gives a signal to whichever thread it likes. So a thread of its own
reads what Python's signal handler writes, counts, and passes it on to the loop.
The invariant: after a second signal the process ends within ``LEAVE_WITHIN`` seconds, unless it was left in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from effectlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

LEAVE_WITHIN = 1.2
"""Seconds after a second signal at which the process is ended, whatever code would not stop."""
_GIVE_BACK_WITHIN = 0.4
"""Seconds for the store to hear of it before that."""
_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Takes SIGTERM and SIGINT, within ``with``, on the running loop; ``await next()`` gives them one by one.

    ``give_back`` is called, on a thread of its own, before the process is ended. Raises ConfigurationError outside the
    main thread, where Python handles no signals, and for a second one at a time: a signal has one handler.
    """

    _taken = False

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[int] = asyncio.Queue()
        self._earlier: dict[int, Any] = {}
        self._loops_fd = -1
        self._end_at: float | None = None
        self._left = False

    def __enter__(self) -> Signals:
        if Signals._taken or threading.current_thread() is not threading.main_thread():
            raise ConfigurationError(
                "serve() takes the signals of its process: only one worker at a time can, on the main thread; let that one "
                "serve, and put 'async with log.worker():' around it for every other"
            )
        Signals._taken = True
        self._earlier = {number: signal.getsignal(number) for number in _NUMBERS}
        for number in _NUMBERS:
            self._loop.add_signal_handler(number, self._received.put_nowait, int(number))
        self._reads, self._written = socket.socketpair()
        self._written.setblocking(False)
        self._loops_fd = signal.set_wakeup_fd(self._written.fileno())
        threading.Thread(target=self._watch, name="effectlog-signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Signals._taken = False
        signal.set_wakeup_fd(self._loops_fd)
        for number, handler in self._earlier.items():
            self._loop.remove_signal_handler(number)
            if handler is not None:  # It was not installed by Python, and Python can't put it back.
                signal.signal(number, handler)
        self._left = self._left or self._end_at is None
        self._written.close()

    async def next(self) -> int:
        return await self._received.get()

    def left(self) -> None:
        """Nothing is left behind that could keep the process: it may end in its own time."""
        self._left = self._end_at is None or not _others_keep_the_process()

    def _watch(self) -> None:
        count = 0
        with self._reads, contextlib.suppress(TimeoutError):
            while received := self._reads.recv(64):
                count += sum(number in _NUMBERS for number in received)
                if count > 1 and self._end_at is None:
                    self._end_at = time.monotonic() + LEAVE_WITHIN
                if self._end_at is not None:
                    self._reads.settimeout(max(0.001, self._end_at - time.monotonic()))
                with contextlib.suppress(
                    OSError
                ):  # The loop is closed, or has more than it can take to wake up for.
                    os.write(self._loops_fd, received)
        # Code that will not end would keep the interpreter, so the process ends without waiting for it.
        if self._end_at is not None and not self._left:
            time.sleep(max(0.0, self._end_at - time.monotonic()))
            telling = threading.Thread(target=self._give_back, daemon=True)
            telling.start()
            telling.join(_GIVE_BACK_WITHIN)
            os._exit(128 + signal.SIGTERM)


def _others_keep_the_process() -> bool:
    """Whether a thread is alive that the interpreter would wait for, such as one of ``asyncio.to_thread``."""
    here = (threading.main_thread(), threading.current_thread())
    return any(not thread.daemon and thread not in here for thread in threading.enumerate())
