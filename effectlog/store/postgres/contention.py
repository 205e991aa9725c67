"""Gets a batch applied on PostgreSQL in spite of rows kept locked and a session lost; heartbeats never wait.

Nothing here knows a rule: it decides which connection a batch takes, how long it waits, what stalled
transaction in its way is ended, and which commands are set aside so that the others go on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from effectlog.errors import StoreError, StoreTrouble
from effectlog.store import commands as c
from effectlog.store.postgres.apply import SessionLostError, SetAside, apply_batch, is_start
from effectlog.store.postgres.batch import Batch, BlockedError
from effectlog.store.postgres.confirm import has_standby, tells
from effectlog.store.postgres.errors import LOCK_TIMEOUT, is_unstorable, sqlstate
from effectlog.store.postgres.stalled import Stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from effectlog.store.postgres.commits import Transactions, TransactionState
    from effectlog.store.postgres.connections import Connection, Pool
    from effectlog.store.postgres.liveness import PostgresLiveness

_ROWS_PER_SECOND = 1000.0
_QUICK_TRIES = (0.002, 0.005, 0.01, 0.02)
_UNTIL_ENDED = (0.01,) * 30
"""Pauses in which the server rolls back what was ended."""
_BLOCKED_FOR = 0.3
"""Seconds to wait for a locked run where nothing else can be done: whoever is next in line waits as well."""
_UP_WITHIN = 0.5
_LOCKED_FOR = 2.0
"""Seconds to wait for a turn or a key that somebody else's transaction has."""


class Applier:
    """Applies batches; renewals and beats alone take the ``beats`` lane, everything else ``users``."""

    def __init__(
        self,
        commits: Transactions,
        users: Pool,
        beats: Pool,
        liveness: PostgresLiveness,
        sql: Mapping[str, str],
        schema: str,
        name: str,
        saw_clock: Callable[[float], None],
        freed: Callable[[], None],
    ) -> None:
        """``saw_clock`` takes the server's time; ``freed`` is called when unannounced runs can be claimed."""
        self._commits = commits
        self._users = users
        self._beats = beats
        self._liveness = liveness
        self._sql = sql
        self._schema = schema
        self._name = name
        self._saw_clock = saw_clock
        self._freed = freed
        self._stalled = Stalled(commits, sql)

    async def apply(self, commands: Sequence[c.Command]) -> list[c.Outcome]:
        beats = all(isinstance(command, (c.Renew, c.ReportWorker)) for command in commands)
        pool = self._beats if beats else self._users
        aside = SetAside()
        begun = time.monotonic()
        pauses, endings = iter(_QUICK_TRIES), iter(_UNTIL_ENDED)
        while True:
            if commands and all(map(aside.takes, commands)):
                await self._wait_for(aside, time.monotonic() - begun)
                continue
            try:
                outcomes = await self._apply_once(pool, commands, aside)
            except SessionLostError:
                aside.starts = not await self._up_again()
            except BlockedError as blocked:
                pause = next(pauses, None)
                if pause is None and await self._stalled.end_holders(pool, blocked.run_ids):
                    pause = next(endings, None)
                if pause is None:
                    aside.runs |= blocked.run_ids
                else:
                    await asyncio.sleep(pause)
            except Exception as error:
                if sqlstate(error) == LOCK_TIMEOUT and time.monotonic() - begun < _LOCKED_FOR:
                    await self._stalled.end_in_the_way(pool)
                elif is_unstorable(error) and not aside.apart and _claims(commands):
                    aside.apart = True
                elif sqlstate(error) == LOCK_TIMEOUT and await self._stalled.waits_for_standby(pool):
                    raise self._standby_error("what this needs") from error
                else:
                    raise
            else:
                await self._free_what_was_passed_over(outcomes)
                return outcomes

    async def _free_what_was_passed_over(self, outcomes: Sequence[c.Outcome]) -> None:
        """Free what a stopped process may have locked: something was due, and the claim got nothing."""
        empty = any(isinstance(outcome, c.Claimed) and not outcome.runs for outcome in outcomes)
        if empty and await self._stalled.end_in_the_way(self._users):
            self._freed()

    async def _wait_for(self, aside: SetAside, waited: float) -> None:
        """Nothing of a batch can be done now: wait for a session or a moment, or give up."""
        if waited > (self._users.patience if aside.starts else _BLOCKED_FOR):
            if not aside.starts and await self._stalled.waits_for_standby(self._users):
                raise self._standby_error(f"run {', '.join(sorted(aside.runs))}")
            raise self._blocked_error(aside)
        if aside.starts:
            aside.starts = not await self._up_again()
        else:
            aside.runs = frozenset()
            await asyncio.sleep(_QUICK_TRIES[-1])

    async def _apply_once(
        self, pool: Pool, commands: Sequence[c.Command], aside: SetAside
    ) -> list[c.Outcome]:
        news = False

        async def work(connection: Connection, state: TransactionState) -> list[c.Outcome]:
            nonlocal news
            if not (aside.starts or self._may_start()) and any(map(is_start, commands)):
                raise SessionLostError
            aside.claims = not self._may_start()
            batch = Batch(connection, self._sql, self._schema)
            outcomes = await apply_batch(
                batch, commands, aside, verify_dead=self._liveness.session is not None
            )
            state.wrote, news = batch.wrote, batch.news
            if not state.wrote and any(map(tells, outcomes)):
                state.wrote = await has_standby(connection, self._sql)
            self._saw_clock(batch.working_set.now)
            return outcomes

        outcomes = await self._commits.run(
            pool, work, limit=pool.limit + _rows_of(commands) / _ROWS_PER_SECOND
        )
        if news and self._liveness.session is not None:
            self._liveness.session.announce()
        return outcomes

    def _may_start(self) -> bool:
        """Whether effects may start and runs be claimed: without a session an owner may count as dead."""
        session = self._liveness.session
        return session is None or session.up or not self._liveness.holds

    async def _up_again(self) -> bool:
        session = self._liveness.session
        return session is None or await session.wait_up(_UP_WITHIN)

    def _standby_error(self, what: str) -> StoreError:
        return StoreError(
            f"{self._name}: {what} is kept by a commit that waits for a synchronous standby (wait_event "
            f"'SyncRep' in "
            f"pg_stat_activity); bring the standby back, or change synchronous_standby_names. Don't end that "
            f"session: "
            f"its transaction would be visible on the primary alone, and a fail-over would take it back",
            transient=True,
            reason=StoreTrouble.RUN_LOCKED,
        )

    def _blocked_error(self, aside: SetAside) -> StoreError:
        if not aside.starts:
            return StoreError(
                f"{self._name}: run {', '.join(sorted(aside.runs))} is kept locked by somebody else's open "
                f"transaction; find it in pg_stat_activity (state 'idle in transaction') and end it",
                transient=True,
                reason=StoreTrouble.RUN_LOCKED,
            )
        return StoreError(
            f"{self._name}: this process lost its session with the server, and starts no effect before "
            f"it has one again",
            transient=True,
            reason=StoreTrouble.SESSION_LOST,
        )


def _claims(commands: Sequence[c.Command]) -> bool:
    return any(isinstance(command, c.Claim) for command in commands)


def _rows_of(commands: Sequence[c.Command]) -> int:
    """How many runs the commands create or remove at most, for which a batch gets more time."""
    created = sum(len(command.runs) for command in commands if isinstance(command, c.CreateRuns))
    return created + sum(command.limit for command in commands if isinstance(command, c.Purge))
