"""What must hold in every state: whoever owns nothing is refused, and some end is near without a person unless one is needed.

Each question depends on few parts of a world and is asked once for those parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exploration.production import (
    IDENTITY,
    KEY,
    RUN,
    SETTLE,
    AttemptOutcome,
    NewRun,
    Policy,
    RunState,
    c,
    claim_by,
    owner_name,
)
from exploration.world import ACCEPTED, ANSWERED, AWAITED, FLYING, MADE, OVER, READY, VANISHED

if TYPE_CHECKING:
    from exploration.world import Game, World

_STEPS = 80
_CHILD = ("task:child", "child key")


class Probes:
    """The questions asked of every world of one game."""

    def __init__(self, game: Game, *, progress: bool) -> None:
        self._progress = progress
        self._game = game
        self._fences: dict[Any, str] = {}
        self._ends: dict[Any, str] = {}

    def broken(self, world: World) -> str:
        """The promise that does not hold here; empty if all do."""
        key = (world.rows, world.holder)
        found = self._fences.get(key)
        if found is None:
            found = self._fences[key] = self._who_owns_nothing_is_refused(world)
        if found or not self._progress:
            return found or self._requests_are_counted(world)
        ends = (world.rows, world.dead, world.accepted, world.horizon)
        found = self._ends.get(ends)
        if found is None:
            found = self._ends[ends] = self._an_end_is_near(world)
        return found or self._requests_are_counted(world)

    def _requests_are_counted(self, world: World) -> str:
        facts = self._game.fact(world.rows)
        made = sum(request.status in MADE for request in world.requests)
        if facts.run is not None and made and facts.requests < made:
            return "the store counts fewer requests than were made"
        return ""

    def _outcome(self, world: World, command: Any) -> Any:
        ledger = self._game.ledger
        _, outcome = ledger.apply(world.rows, ledger.command(command))
        return ledger.outcomes.things[outcome]

    def _who_owns_nothing_is_refused(self, world: World) -> str:
        game = self._game
        facts = game.fact(world.rows)
        created = self._outcome(world, _creation(IDENTITY, RUN, None))
        if created[0] != "created" or (created[2] is (facts.run is not None)):
            return "the same enqueue makes a second run, or none after a purge"
        if facts.run is None:
            return ""
        for number in range(1, facts.attempt + 1):
            fence = c.Fence(RUN, number)
            owns = number == world.holder
            owner = owner_name(world.actors[number - 1].process)
            for command, accepted in (
                (c.Renew(owner, 1.0, (fence,)), ("renewed", False)),
                (c.MarkReleasing(fence), ("Done",)),
                (c.NoteTrace(fence, "trace"), ("Done",)),
                (_creation(_CHILD, "child", fence), ("created",)),
                (c.EndAttempt(fence, AttemptOutcome.ERROR, RunState.PENDING), ("moved",)),
            ):
                outcome = self._outcome(world, command)
                if (outcome[: len(accepted)] == accepted) != owns:
                    return f"{type(command).__name__} of attempt {number} is answered as if it owned the run, or did not"
        lapsed = c.EndAttempt(
            c.Fence(RUN, facts.attempt), AttemptOutcome.EXPIRED, RunState.PENDING, guard=c.Guard.LAPSED
        )
        if (self._outcome(world, lapsed)[0] == "moved") != (facts.running and not world.holder):
            return "a live attempt was ended by others, or a lapsed one can't be"
        if world.holder and self._outcome(world, c.RetryRun(RUN))[0] == "moved":
            return "a live owner's run is retried without force"
        if self._outcome(world, claim_by(9))[1] and not (facts.pending and facts.due):
            return "a run that is not due was claimed"
        child = _creation(_CHILD, "child", None)
        after, _ = game.ledger.apply(world.rows, game.ledger.command(child))
        outcome = game.ledger.outcomes.things[game.ledger.apply(after, game.ledger.command(child))[1]]
        return "" if outcome[0] == "created" and not outcome[2] else "one key made two runs"

    # --- progress -----------------------------------------------------------------------------

    def _an_end_is_near(self, world: World) -> str:
        """Everybody else stands still for ever, and one new owner does what it can."""
        game = self._game
        settled = tuple(r._replace(status=VANISHED) if r.status == FLYING else r for r in world.requests)
        world = world._replace(requests=settled)
        others = len(world.actors)
        for _ in range(_STEPS):
            facts = game.fact(world.rows)
            if facts.ended:
                return ""
            if facts.pending or facts.running:
                after = self._next(world, others)
                if after is None:
                    return "a run waits for something that can't come"
                world = after
                continue
            return self._a_person_is_needed(world, asked_before=len(world.actors) == others)
        return "a run goes on for ever"

    def _a_person_is_needed(self, world: World, *, asked_before: bool) -> str:
        case = self._game.scope.case
        held = self._game.ledger.rows.things[world.rows].effect()
        alive = held is not None and any(
            world.actors[n - 1].process not in world.dead for n in held.executing if n <= len(world.actors)
        )
        decided = self._outcome(
            world, c.SettleEffect(RUN, KEY, True, by="ann", result=b"1", dead_owners=frozenset())
        )
        if decided[0] != "effect":
            return "a run is held, and nobody can decide"
        if held is not None and held.policy is Policy.HOLD and case.policy == Policy.HOLD:
            return ""
        if case.policy == Policy.LOOK_UP and (alive or asked_before):
            return ""
        if world.horizon:
            return ""
        return "a run waits for a person, though its policy and its contract ask for none"

    def _next(self, world: World, others: int) -> World | None:
        game = self._game
        facts = game.fact(world.rows)
        if facts.pending:
            if not facts.due:
                return game.apply(world, game.due)[0]
            claimed = [move.after for move in game.claims_by(world, facts, [len(world.actors) + 50])]
            return claimed[0] if claimed else None
        if facts.attempt <= others:
            if world.holder:
                return game.lapses(world).after
            dead = frozenset(map(owner_name, world.dead))
            after = game.apply(world, game.owners.takeover(world.rows, dead))[0]
            return None if after is world else after
        return self._drive(world, len(world.actors))

    def _drive(self, world: World, number: int) -> World | None:
        """The next thing that happens to the one owner that goes on."""
        game = self._game
        actor = world.actors[number - 1]
        if actor.queue:
            command, kind = actor.queue[0]
            if kind == ANSWERED:
                after = game.put(world, number, actor._replace(queue=actor.queue[1:]))
                return game.step(after, number, ("reply", game.ledger.outcomes.things[command]))
            after, outcome, _ = game.lands(world, number, command)
            return game.delivered(after, number, actor, outcome, kind)
        if actor.owner == OVER:
            return game.lapses(world).after if world.holder == number else self._taken(world)
        state = game.owner_states[actor.owner]
        match state.waits_for:
            case "sleep":
                return game.step(world, number, ("slept", SETTLE))
            case "reread":
                return game.step(world, number, ("row", game.fact(world.rows).frozen))
            case "askdead":
                dead = state.asked & frozenset(map(owner_name, world.dead))
                return game.step(world, number, ("dead", dead))
            case "ask":
                found = sum(world.accepted) > 0
                return game.step(
                    world, number, ("answer", "applied", "v0") if found else ("answer", "not applied")
                )
            case "invoke":
                index = next(i for i, r in enumerate(world.requests) if r.attempt == number and r.waited_for)
                request = world.requests[index]
                if request.status == READY:
                    return game.leaves(world, index, request).after
                if request.status == FLYING:
                    return game.change(world, index, status=ACCEPTED)
                answered = game.change(world, index, waited_for=False)
                return game.step(answered, number, ("value", "v0"))
            case "choice":
                return game.step(world, number, ("choice", "raise"))
            case _:
                return None

    def _taken(self, world: World) -> World | None:
        game = self._game
        after = game.apply(world, game.owners.takeover(world.rows, frozenset()))[0]
        return None if after is world else after


def _creation(identity: tuple[str, str], run_id: str, fence: Any) -> c.CreateRuns:
    scope, key = identity
    return c.CreateRuns((NewRun(run_id, "task", b"[]"),), scope, key, fence=fence)


__all__ = ["AWAITED", "Probes"]
