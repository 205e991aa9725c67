"""Short ways to say what the tests of the PostgreSQL store do."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

import asyncpg

from effectlog.model import Policy
from effectlog.store import commands as c
from effectlog.store.rows import NewRun, RequestClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from effectlog.store.protocol import Store


def new_run(task: str = "task", **fields: Any) -> NewRun:
    return NewRun(id=f"r-{uuid.uuid4().hex}", task=task, args=b"[]", **fields)


def create(*runs: NewRun, key: str | None = None) -> c.CreateRuns:
    return c.CreateRuns(runs, runs[0].task, key)


def claim(owner: str = "a", *, limit: int = 10, task: str = "task", **fields: Any) -> c.Claim:
    fields.setdefault("tasks", (c.TaskLimit((task,)),))
    fields.setdefault("lease", 60.0)
    return c.Claim(owner, f"worker {owner}", limit=limit, **fields)


async def do(store: Store, command: c.Command) -> Any:
    (outcome,) = await store.apply([command])
    return outcome


async def running(store: Store, owner: str = "a", *, count: int = 1, lease: float = 60.0) -> list[c.Fence]:
    """Fences of so many runs that ``owner`` executes."""
    task = f"task-{uuid.uuid4().hex}"
    await store.apply([create(new_run(task)) for _ in range(count)])
    claimed = await do(store, claim(owner, limit=count, task=task, lease=lease))
    assert len(claimed.runs) == count
    return [c.Fence(stored.row.id, stored.row.attempt) for stored in claimed.runs]


def start(fence: c.Fence, key: str = "charge", **fields: Any) -> c.StartEffect:
    fields.setdefault("seen", 0)
    return c.StartEffect(
        fence=fence,
        key=key,
        name="charge",
        operation_id=str(uuid.uuid4()),
        generation=0,
        fingerprints={},
        policy=Policy.RESEND,
        clock=RequestClock(time.time(), 1.0, "boot"),
        **fields,
    )


def finish(fence: c.Fence, key: str = "charge") -> c.FinishEffect:
    return c.FinishEffect(fence, key, c.RequestOutcome.COMPLETED, result=b"1")


@contextlib.asynccontextmanager
async def psql(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of somebody else's, such as a person at a prompt."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.execute("ROLLBACK")
        connection.terminate()


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> float:
    """Wait for a condition; the seconds it took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds, "it did not happen in time"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


async def gather_errors(calls: Sequence[Any]) -> list[BaseException]:
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [result for result in results if isinstance(result, BaseException)]
