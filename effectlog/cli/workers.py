"""Who works on a store: the workers that have reported themselves, and which of them are alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effectlog.cli.health import WorkerFacts
from effectlog.clock import utc
from effectlog.worker.maintenance import SILENT_AFTER

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from effectlog.runs.administration import Administration
    from effectlog.store.protocol import WorkerRow


async def workers_of(
    log: Administration, late: Container[str | None] = (), cut_off: Container[str] = ()
) -> tuple[WorkerFacts, ...]:
    """Every worker known to the store. One whose death nothing can prove counts as alive.

    ``late``: the owners whose lease has ended. ``cut_off``: those that have no session.
    """
    store = log.engine.store
    rows = await log.engine.read(store.workers())
    dead = await log.engine.read(store.liveness.dead(frozenset(row.owner for row in rows)))
    oldest = store.clock.wall() - SILENT_AFTER
    return tuple(
        _facts(
            row,
            alive=row.owner not in dead,
            silent=row.owner in late or row.beat_at < oldest,
            cut_off=row.owner in cut_off,
        )
        for row in rows
    )


def known_tasks(workers: Iterable[WorkerFacts]) -> frozenset[str]:
    """The tasks that some live worker can execute."""
    return frozenset(task for worker in workers if worker.alive for task in worker.tasks)


def _facts(row: WorkerRow, *, alive: bool, **more: bool) -> WorkerFacts:
    claimed = None if row.claimed_at is None else utc(row.claimed_at)
    return WorkerFacts(
        row.worker, row.host, row.pid, row.concurrency, alive, utc(row.beat_at), claimed, row.tasks, **more
    )
