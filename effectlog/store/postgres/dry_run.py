"""Commands in a PostgreSQL transaction that is rolled back, for the check at open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.store.dry_run import DryRunStore
from effectlog.store.postgres.apply import SetAside, apply_batch
from effectlog.store.postgres.batch import Batch
from effectlog.store.postgres.reads import load_whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from effectlog.clock import Clock
    from effectlog.store import commands as c
    from effectlog.store.dry_run import DryRunTarget
    from effectlog.store.postgres.connections import Connection
    from effectlog.store.rows import StoredRun

T = TypeVar("T")


async def dry_run(
    connection: Connection,
    sql: Mapping[str, str],
    schema: str,
    clock: Clock,
    use: Callable[[DryRunTarget], Awaitable[T]],
) -> T:
    """Run ``use`` on a stage of this connection's own, which nobody else ever sees."""

    async def apply(commands: Sequence[c.Command]) -> list[c.Outcome]:
        return await apply_batch(Batch(connection, sql, schema), commands, SetAside(), verify_dead=False)

    async def fetch(statement: str, *args: Any) -> list[Any]:
        return await connection.fetch(sql[statement], *args)

    async def load(run_ids: Sequence[str]) -> list[StoredRun]:
        return await load_whole(fetch, run_ids)

    await connection.execute(sql["begin_plain"])
    try:
        return await use(DryRunStore(clock, apply, load))
    finally:
        await connection.execute("ROLLBACK")
