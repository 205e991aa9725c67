"""A transactional effect's request: the function and its completed record in one transaction of the store's.

The invariant: the function's writes are committed if and only if its completed record is, so after a crash
the journal alone says whether it happened.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from effectlog.effects.call_state import awaitable_error
from effectlog.effects.driver import Commit
from effectlog.effects.request_errors import after_error
from effectlog.error_info import describe
from effectlog.errors import ConfigurationError, StoreError, StoreTrouble
from effectlog.model import EffectState
from effectlog.store import commands as c
from effectlog.store.caller_transactions import is_stale
from effectlog.store.protocol import AwaitedTransactions, BlockingTransactions

if TYPE_CHECKING:
    from effectlog.decorators.spec import EffectSpec
    from effectlog.effects.call_state import CallState
    from effectlog.effects.driver import Invoke, Operations
    from effectlog.store.protocol import Store
    from effectlog.store.rows import EffectRow


class OvertakenError(Exception):
    """The attempt no longer owns its run, so everything is rolled back. Never leaves the engine."""


class EndedByItselfError(Exception):
    """The function committed or rolled back the transaction that it was lent. Never leaves the engine."""


def check_fits(spec: EffectSpec, store: Store) -> None:
    """Raise ConfigurationError where this store has no transactions for this kind of function."""
    blocking, awaited = isinstance(store, BlockingTransactions), isinstance(store, AwaitedTransactions)
    if awaited if spec.is_async else blocking:
        return
    kind = "an async" if spec.is_async else "a sync"
    given = "to sync ones ('def')" if blocking else "to async ones ('async def')" if awaited else "to none"
    raise ConfigurationError(
        f"transactional effect {spec.name} is {kind} function, and the store {store.name} gives "
        f"transactions {given}; nothing was recorded or called"
    )


@dataclass(slots=True)
class InvokeWithin:
    """Call the function in a transaction and commit it with its record. Returns what a replay would."""

    state: CallState
    invoke: Invoke

    def block(self) -> Any:
        store = cast("BlockingTransactions", self.state.attempt.runtime.store)  # As ``check_fits`` has found.
        with store.transaction_sync() as opened:
            self.invoke.request.transaction = opened.connection
            try:
                value = self.invoke.block()
            finally:
                self.invoke.request.transaction = None
            command, result = self._completed(opened, value)
            effect = _stored(store.apply_within_sync(opened.connection, [command]))
            opened.commit()
            self.state.attempt.committed(command, effect)
        return result

    async def wait(self) -> Any:
        store = cast("AwaitedTransactions", self.state.attempt.runtime.store)  # As above.
        async with store.transaction() as opened:
            self.invoke.request.transaction = opened.connection
            try:
                value = await self.invoke.wait()
            finally:
                self.invoke.request.transaction = None
            command, result = self._completed(opened, value)
            effect = _stored(await store.apply_within(opened.connection, [command]))
            await self._commit(opened, command, effect)
        return result

    async def _commit(self, opened: Any, command: c.FinishEffect, effect: EffectRow) -> None:
        """Commit; a cancellation meanwhile waits until it is known whether it landed."""
        committing = asyncio.ensure_future(opened.commit())
        cancelled: asyncio.CancelledError | None = None
        while not committing.done():
            try:
                await asyncio.wait({committing})
            except asyncio.CancelledError as error:
                cancelled = error
        committing.result()
        self.state.attempt.committed(command, effect)
        if cancelled is not None:
            raise cancelled

    def _completed(self, opened: Any, value: Any) -> tuple[c.FinishEffect, Any]:
        state = self.state
        if inspect.isawaitable(value):
            raise awaitable_error(state.spec.name, value)
        if not opened.is_open:
            raise EndedByItselfError("the function ended its transaction by itself")
        data, result = state.stored_form(value)
        completed = c.RequestOutcome.COMPLETED
        return c.FinishEffect(state.attempt.fence, state.call.key, completed, result=data), result


def _stored(outcomes: list[c.Outcome]) -> EffectRow:
    (outcome,) = outcomes
    if is_stale(outcome) or not isinstance(outcome, c.EffectStored):
        raise OvertakenError("the attempt no longer owned its run, so its writes were rolled back")
    return outcome.effect


def after_rollback(state: CallState, error: BaseException) -> Operations:
    """Follow up an exception: all is rolled back, unless the function committed or the answer was lost."""
    if isinstance(error, OvertakenError):
        state.finish(c.RequestOutcome.NOT_APPLIED, error)
        raise state.attempt.lose() from None
    if isinstance(error, EndedByItselfError):
        state.finish(c.RequestOutcome.UNKNOWN, error)
        state.hold(
            f"{state.spec.name} ended the transaction of current_transaction() by itself, so its writes and "
            "its record came apart; look whether they are there, and leave commit and rollback to effectlog"
        )
    if isinstance(error, StoreError):
        state.attempt.engine.note(error)  # The function writes to this store and to nothing else.
        if error.reason is StoreTrouble.OUTCOME_UNKNOWN:
            return (yield from _ask_journal(state, error))
    return (yield from after_error(state, error))


def _ask_journal(state: CallState, error: BaseException) -> Operations:
    """Record that nothing was done: the store accepts that only if the commit has not landed."""
    nothing = c.RequestOutcome.NOT_APPLIED
    command = c.FinishEffect(state.attempt.fence, state.call.key, nothing, error=describe(error))
    outcome = yield Commit(state.attempt, command)
    if not isinstance(outcome, c.EffectStored):
        raise error
    state.attempt.learn(outcome.effect)
    if outcome.effect.state is not EffectState.COMPLETED:
        raise error
    return False, None  # The journal has the result.
