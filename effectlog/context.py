"""Where the running code is: in which attempt, and in which request of which effect.

Holds the one context variable and the public questions about it. It must not decide anything.
"""

from __future__ import annotations

import contextvars
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from effectlog.clock import utc
from effectlog.errors import NotInAttempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from effectlog.contract import Destination
    from effectlog.errors import EffectLogControl
    from effectlog.store.commands import Chain, Fence
    from effectlog.store.rows import RequestClock, StoredRun

P = ParamSpec("P")
R = TypeVar("R")


class RunningAttempt(Protocol):
    """What code that runs inside an attempt may ask of it. The attempt itself is built further up."""

    run: StoredRun
    fence: Fence
    chain: Chain
    """The attempt's writes: what it makes must not overtake them."""
    lease_until: float
    view: CurrentAttempt

    @property
    def run_id(self) -> str: ...

    @property
    def trace(self) -> str | None:
        """The attempt's own span as stored text, for the runs that it makes."""
        ...

    def check_open(self) -> None:
        """Raise the control signal that fits if nothing may start any more."""
        ...

    def lose(self) -> EffectLogControl:
        """Note that the store has refused this owner, and return the control signal to raise."""
        ...

    def call_effect(self, call: Any) -> Any:
        """Make one effect call: the result of a sync one, the coroutine of an async one."""
        ...


class Request(Struct):
    """One request of an effect that is being executed, in an attempt or outside of any."""

    attempt: RunningAttempt | None
    key: str = ""
    destination: Destination | None = None
    first_request: RequestClock | None = None
    _operation_id: str | None = None
    operation_id_read: bool = False
    """Somebody asked for the operation id, so it can travel with the request."""
    transaction: Any = None
    """The connection in an open transaction, while the function of a transactional effect runs."""

    @property
    def first_request_at(self) -> datetime | None:
        """When the operation's first request was made, in UTC; None outside an attempt."""
        return None if self.first_request is None else utc(self.first_request.wall)

    @property
    def operation_id(self) -> str:
        """The stable id inside an attempt; outside of any, one fresh id for the whole call."""
        self.operation_id_read = True
        if self._operation_id is None:
            self._operation_id = str(uuid.uuid4())
        return self._operation_id


@dataclass(frozen=True, slots=True)
class CurrentAttempt:
    """What running code may know of its attempt."""

    run_id: str
    number: int
    task: str
    worker: str
    deadline: datetime | None
    """When the task's ``timeout`` ends it, in UTC; later if the process is paused. None without one."""

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Make ``function`` run in this attempt wherever it is called, such as in your own thread pool.

        Every call runs in a fresh copy of the context that ``bind`` was called in.
        """
        context = contextvars.copy_context()

        def bound(*args: P.args, **kwargs: P.kwargs) -> R:
            return context.copy().run(function, *args, **kwargs)

        return bound


place: contextvars.ContextVar[RunningAttempt | Request | None] = contextvars.ContextVar(
    "effectlog_place", default=None
)
"""The attempt (in a task's body), the request (in an effect's function), or nothing."""
running_attempts = 0
"""How many attempts this process is executing: an effect called outside of them all may be a mistake."""


def operation_id() -> str:
    """The id of the operation being requested: send it as the destination's idempotency key.

    Stable: the same in every attempt, on every worker, after every crash. In an effect that is
    called outside any attempt it is a fresh UUID for each call. Raises NotInAttempt elsewhere.
    """
    here = place.get()
    if isinstance(here, Request):
        return here.operation_id
    raise NotInAttempt(
        "operation_id() belongs to an effect: call it inside a function decorated with @effect, "
        "and in a thread of your own pass that function through current_attempt().bind(...)"
    )


def current_request() -> Request | None:
    """The request being executed, for clients that carry its key; None outside an effect."""
    here = place.get()
    return here if isinstance(here, Request) else None


def current_transaction() -> Any:
    """The connection, in an open transaction on the store's database, that a transactional effect writes on.

    What is written on it commits together with the effect's completed record, or not at all; it is committed
    when the function returns, and rolled back when it raises. An ``asyncpg.Connection`` on PostgreSQL, a
    ``sqlite3.Connection`` on SQLite. Raises NotInAttempt outside such an effect, and where one is called
    outside any attempt.
    """
    here = place.get()
    if isinstance(here, Request) and here.transaction is not None:
        return here.transaction
    raise NotInAttempt(
        "current_transaction() belongs to an effect declared with @effect(..., transactional=True) that a "
        "worker or log.run(...) executes; elsewhere open a connection of your own"
    )


def here_attempt() -> RunningAttempt | None:
    """The attempt that the running code belongs to, directly or through an effect."""
    here = place.get()
    return here.attempt if isinstance(here, Request) else here


def current_attempt() -> CurrentAttempt:
    """The attempt that the running code belongs to; works in tasks, effects and their ``to_thread`` threads.

    Raises NotInAttempt elsewhere.
    """
    attempt = here_attempt()
    if attempt is None:
        raise NotInAttempt(
            "current_attempt() was called outside any attempt: call it inside a task that a worker or "
            "log.run(...) executes; a thread of your own needs current_attempt().bind(function)"
        )
    return attempt.view
