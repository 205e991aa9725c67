"""What ``doctor`` shows of a PostgreSQL store: read only, and slow on a big one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from effectlog.store.postgres.batch import LEASE_CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from effectlog.store.postgres.connections import Connection

_OPENED_AGAIN = 2.0
"""Seconds in which a session that broke is there again, unless something keeps it away."""


async def facts(connection: Connection, sql: Mapping[str, str]) -> dict[str, object]:
    """Counts, the oldest doubt, and whose transactions have been open so long that they may be in the way."""

    async def rows(statement: str) -> list[Any]:
        return await connection.fetch(sql[statement])

    pending = await rows("count_pending_tasks")
    waiting = await rows("open_transactions")
    return {
        "postgresql": await connection.fetchval("SHOW server_version"),
        "states": {row[0]: row[1] for row in await rows("count_states")},
        "pending": [{"task": row[0], "count": row[1], "due_at": row[2]} for row in pending],
        "oldest_doubt_at": await connection.fetchval(sql["oldest_doubt"]),
        "bytes": await connection.fetchval(sql["table_bytes"]),
        "open_transactions": [{"pid": row[0], "application": row[1], "seconds": row[2]} for row in waiting],
        "without_session": await _without_session(connection, sql),
        "clock": LEASE_CLOCK,
    }


async def _without_session(connection: Connection, sql: Mapping[str, str]) -> list[str]:
    """Workers that have no session, now and a moment later: they are gone, or start nothing."""

    async def look() -> set[str]:
        return {row[0] for row in await connection.fetch(sql["workers_without_session"])}

    seen = await look()
    if seen:
        await asyncio.sleep(_OPENED_AGAIN)
        seen &= await look()
    return sorted(seen)
