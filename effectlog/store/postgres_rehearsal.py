"""Commands in a PostgreSQL transaction that is rolled back, for the check at open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from effectlog.store.postgres_apply import Aside, apply_batch
from effectlog.store.postgres_batch import Batch
from effectlog.store.postgres_claims import load_whole
from effectlog.store.rehearsal import StageOn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from effectlog import commands as c
    from effectlog.clock import Clock
    from effectlog.rows import StoredRun
    from effectlog.store.postgres_connections import Connection
    from effectlog.store.rehearsal import Stage

T = TypeVar("T")


async def rehearse(
    connection: Connection,
    sql: Mapping[str, str],
    schema: str,
    clock: Clock,
    use: Callable[[Stage], Awaitable[T]],
) -> T:
    """Run ``use`` on a stage of this connection's own, which nobody else ever sees."""

    async def apply(commands: Sequence[c.Command]) -> list[c.Outcome]:
        return await apply_batch(Batch(connection, sql, schema), commands, Aside(), verify_dead=False)

    async def fetch(statement: str, *args: Any) -> list[Any]:
        return await connection.fetch(sql[statement], *args)

    async def load(run_ids: Sequence[str]) -> list[StoredRun]:
        return await load_whole(fetch, run_ids)

    await connection.execute(sql["begin_plain"])
    try:
        return await use(StageOn(clock, apply, load))
    finally:
        await connection.execute("ROLLBACK")
