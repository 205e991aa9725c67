"""Applies commands in one PostgreSQL transaction: lock and load what the rules need, decide, write back.

Locks are taken in one order: limited tasks and dead owners (advisory), runs by id, idempotency keys. What
can't be done now without hurting the rest of the batch (a run whose row somebody keeps locked, an
effect to start while this process's session is gone) is *set aside* and comes back as ``Refusal.BUSY``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from effectlog.store import columns
from effectlog.store import commands as c
from effectlog.store.postgres.claims import claim, purge
from effectlog.store.rules.claims import limited_names
from effectlog.store.rules.execute import execute
from effectlog.store.rules.working_set import needs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.store.postgres.batch import Batch


class SessionLostError(Exception):
    """An effect was to start while this process's session is being opened again. Nothing was done."""


def is_start(command: c.Command) -> bool:
    return isinstance(command, c.StartEffect)


@dataclass(slots=True)
class SetAside:
    """What must not be touched in this try."""

    runs: frozenset[str] = frozenset()
    """Runs whose rows are locked by somebody else's transaction."""
    starts: bool = False
    """No effect may start: this process's session is being opened again."""
    claims: bool = False
    """No run is claimed, for the same reason: peers that have their session get it, and can go on with it."""
    apart: bool = False
    """Runs are claimed one by one: of one of them something was refused."""

    def takes(self, command: c.Command) -> bool:
        if self.starts and is_start(command):
            return True
        return not isinstance(command, c.Renew) and not self.runs.isdisjoint(needs((command,)).runs)

    def without_blocked(self, command: c.Renew) -> c.Renew:
        return replace(command, fences=tuple(f for f in command.fences if f.run_id not in self.runs))


async def apply_batch(
    batch: Batch, commands: Sequence[c.Command], aside: SetAside, *, verify_dead: bool
) -> list[c.Outcome]:
    """Apply the commands, in order; raises BlockedError if a run not set aside is locked elsewhere."""
    doing = [None if aside.takes(command) else _trimmed(command, aside) for command in commands]
    present = [command for command in doing if command is not None]
    await batch.lock_limits(limited_names(present))
    alive = await _alive(batch, present) if verify_dead else frozenset[str]()
    await batch.load(needs(present))
    outcomes: list[c.Outcome] = []
    for command in doing:
        if command is None:
            outcomes.append(c.Refused(c.Refusal.BUSY))
        else:
            outcomes.append(await _perform(batch, _believing(command, alive), aside))
    await batch.flush()
    return [_complete(*pair, aside) for pair in zip(commands, outcomes, strict=True)]


def _trimmed(command: c.Command, aside: SetAside) -> c.Command:
    return aside.without_blocked(command) if isinstance(command, c.Renew) else command


def _complete(command: c.Command, outcome: c.Outcome, aside: SetAside) -> c.Outcome:
    if isinstance(command, c.Renew) and isinstance(outcome, c.Renewed) and aside.runs:
        blocked = frozenset(fence.run_id for fence in command.fences) & aside.runs
        return replace(outcome, blocked=blocked)
    return outcome


async def _alive(batch: Batch, commands: Sequence[c.Command]) -> frozenset[str]:
    """Owners that the callers think dead, and that have taken their lock again since.

    The locks of the others are kept until the end of the transaction, so that none of them comes
    back to life beside a takeover.
    """
    said: frozenset[str] = frozenset().union(*(getattr(command, "dead_owners", ()) for command in commands))
    return said - await batch.without_lock(said) if said else said


def _believing(command: c.Command, alive: frozenset[str]) -> c.Command:
    if alive and isinstance(command, (c.EndAttempt, c.SettleEffect, c.CancelRun, c.RetryRun)):
        return replace(command, dead_owners=command.dead_owners - alive)
    return command


async def _perform(batch: Batch, command: c.Command, aside: SetAside) -> c.Outcome:
    match command:
        case c.Claim() if aside.claims:
            return c.Claimed((), batch.working_set.now)
        case c.Claim():
            return await claim(batch, command, apart=aside.apart)
        case c.Purge():
            return await purge(batch, command)
        case c.Subscribe():
            rows = {(s.event, s.task): columns.subscription_insert(s) for s in command.subscriptions}
            await batch.write("remove_subscriptions", list(command.tasks))
            if rows:
                await batch.write_rows("save_subscription", list(rows.values()))
        case c.ReportWorker():
            row = (command.owner, command.worker, command.host, command.pid, command.concurrency)
            seen = (batch.working_set.now, command.claimed_at, list(command.tasks))
            await batch.write("save_worker", *row, *seen)
        case c.RemoveWorker():
            await batch.write("remove_worker", command.owner)
        case _:
            return execute(batch.working_set, command)
    return c.Done()
