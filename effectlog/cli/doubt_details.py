"""An effect in doubt as text: what is known about it, and which decisions are safe.

The one invariant: a decision is called safe only where the stored contract says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from effectlog.cli.tables import ago, counted, moment, shell_word, span
from effectlog.clock import utc
from effectlog.effects.doubt import past_horizon, stored_contract
from effectlog.model import Policy, RunState
from effectlog.printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from effectlog.clock import Clock
    from effectlog.contract import Destination
    from effectlog.model import EffectRecord, RunRecord
    from effectlog.store.rows import EffectRow

_WAITING = frozenset({RunState.PENDING, RunState.RUNNING})


@dataclass(frozen=True, slots=True)
class Doubt:
    """One effect in doubt, as record and as stored."""

    run: RunRecord
    effect: EffectRecord
    row: EffectRow

    @property
    def first_request(self) -> datetime:
        """When the request that nobody knows the outcome of was first made."""
        clock = self.row.first_request
        return self.effect.started_at if clock is None else utc(clock.wall)


def doubt_lines(doubt: Doubt, clock: Clock, store: str) -> Iterator[str]:
    """What is known, then the commands that decide it, ready to paste."""
    effect = doubt.effect
    first = doubt.first_request
    contract = stored_contract(doubt.row)
    yield f"IN DOUBT  {one_line(effect.key)}"
    yield f"  effect         {one_line(effect.name)}"
    yield f"  requests       {counted(effect.requests, 'request')}, and no outcome is known"
    yield f"  first request  {moment(first)} ({ago(first)})"
    yield f"  operation id   {effect.operation_id}"
    yield from _contract_lines(contract)
    if effect.error is not None:
        yield f"  last error     {one_line(f'{effect.error.type}: {effect.error.message}')}"
    if effect.resolved_by is not None:
        by = one_line(effect.resolved_by)
        yield f"  decided before as not applied, by {by}; that was about an earlier request"
    for line in (effect.evidence or "").splitlines():
        yield f"  evidence       {printable(line)}"
    if doubt.row.executing:
        numbers = ", ".join(map(str, doubt.row.executing))
        yield f"  may be alive   attempt {numbers} was not seen to end: its request may still arrive"
    yield from _what_next(doubt, contract, clock, store)


def _contract_lines(contract: Destination | None) -> Iterator[str]:
    if contract is None:
        yield "  contract       none declared"
        return
    repeat = f"a repeat {_REPEAT[contract.on_repeat]}"
    yield f"  contract       {one_line(contract.name)}: {repeat}"
    if contract.look_up:
        yield f"  how to ask     {one_line(contract.look_up)}"
    if contract.source:
        yield f"  source         {one_line(contract.source)}"


_REPEAT = {
    "replays": "gets the first answer again",
    "returns_current": "gets the thing as it is now",
    "rejects": "is rejected with an error that proves it exists",
    "drops": "is accepted and dropped in silence",
    "ignores": "is a second effect",
}


def _what_next(doubt: Doubt, contract: Destination | None, clock: Clock, store: str) -> Iterator[str]:
    if doubt.run.state in _WAITING and doubt.row.policy is not Policy.HOLD:
        yield f"  next           the next attempt answers it by its policy ({doubt.row.policy})"
        return
    yield "  Ask the destination, then say what you found (and who you are):"
    seen = f"--if-requests {doubt.effect.requests} --by YOU{store}"
    yield "  it happened: its answer is taken over, nothing is sent"
    yield _command(doubt, f"--applied 'JSON' {seen}")
    yield from _resending(doubt, contract, clock)
    yield _command(doubt, f"--not-applied {seen}")
    if contract is not None and contract.failure_rule != "forgotten" and contract.deduplicates:
        yield "  it failed there, and the destination remembers that: it is sent under a new operation id"
        yield _command(doubt, f"--not-applied --new-operation {seen}")


def _command(doubt: Doubt, options: str) -> str:
    run_id, key = shell_word(doubt.run.id), shell_word(doubt.effect.key)
    if doubt.effect.key.startswith("-"):  # It would be taken for an option.
        return f"    effectlog resolve {options} -- {run_id} {key}"
    return f"    effectlog resolve {run_id} {key} {options}"


def _resending(doubt: Doubt, contract: Destination | None, clock: Clock) -> Iterator[str]:
    if doubt.run.state.ended:
        yield "  it did not happen: that is recorded; the run stays as it is until 'effectlog retry'"
    else:
        yield "  it did not happen: it is sent again under the same operation id"
    yield f"  (safe {_safe(doubt, contract, clock)})"


def _safe(doubt: Doubt, contract: Destination | None, clock: Clock) -> str:
    if contract is None:
        return "only if you are sure, or if the destination checks that id"
    if not contract.deduplicates:
        return "only if you are sure: a repeat is a second effect"
    if past_horizon(doubt.row, contract, clock):
        return "only if you are sure: the destination may have forgotten the id"
    return f"{_until(doubt, contract.send_horizon(), clock)}, as the destination deduplicates by that id"


def _until(doubt: Doubt, horizon: timedelta | None, clock: Clock) -> str:
    if horizon is None:
        return "at any time"
    try:
        end = doubt.first_request + horizon
    except OverflowError:
        return "at any time"
    return f"until {moment(end)} (for {span((end - utc(clock.wall())).total_seconds())})"
