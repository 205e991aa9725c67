"""One state of the world, and everything that can happen in it.

A world is what the store holds, what each owner believes and has handed in, the requests that were made, what the
destination has accepted, and what people may still do. Owners are numbered by their first claim, so that two
which differ in nothing but their names are one. The moves are what the world does; what a command means and what an owner
does next is asked of the production code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from exploration.production import (
    KEY,
    RUN,
    SETTLE,
    AttemptOutcome,
    Case,
    Due,
    EffectState,
    Lapse,
    Ledger,
    Owners,
    Policy,
    Purged,
    RunState,
    StopReason,
    c,
    claim_by,
    owner_name,
)
from exploration.safety import check_edge

if TYPE_CHECKING:
    from collections.abc import Iterator

# What became of a request.
STARTED, READY, FLYING, ACCEPTED, REFUSED, FINAL, VANISHED, NEVER_MADE = range(8)
MADE = (FLYING, ACCEPTED, REFUSED, FINAL, VANISHED)
OVER = -1
"""The owner's part is played: its attempt is over, or its process is dead."""

# How the outcome of a handed-in command goes back.
POSTED, AWAITED, ANSWERED, ORPHANED = range(4)


class Request(NamedTuple):
    attempt: int
    operation: int
    """Which operation id: the generation."""
    status: int
    waited_for: bool
    settled: bool
    """Its outcome is recorded, or somebody has decided about it."""
    overtaken: str = ""
    """What made it stale while it had not left: the name of the window that it can go through."""


class Actor(NamedTuple):
    """The owner of one attempt."""

    owner: int
    queue: tuple[tuple[int, int], ...]
    """Commands on their way, in order, each with how its outcome goes back."""
    process: int


class World(NamedTuple):
    rows: int
    holder: int
    """Our own picture of ownership: the attempt that holds a live lease, 0 without one."""
    horizon: int
    """1: no resend any more. 2: the destination has forgotten its keys."""
    actors: tuple[Actor, ...]
    dead: frozenset[int]
    requests: tuple[Request, ...]
    accepted: tuple[int, ...]
    """How many effects the destination has accepted, by operation id."""
    seen: int
    """The version of the effect that a person looks at; -1 without one."""
    left: tuple[int, ...]
    """How much may still happen: decisions, actions of operators, lost answers, disturbances, unknown answers."""


DECISIONS, ACTIONS, LOSSES, DISTURBANCES, UNKNOWNS = range(5)


class Scope(NamedTuple):
    """How far to go."""

    case: Case
    attempts: int = 3
    requests: int = 3
    owners: int = 2
    """Owners that are alive and executing at a time."""
    left: tuple[int, ...] = (1, 0, 0, 0, 0)
    crashes: bool = True
    refusals: bool = True
    same_process: bool = False
    actions: tuple[str, ...] = ("cancel", "force cancel", "retry", "force retry", "purge")
    disturbances: tuple[StopReason, ...] = (StopReason.RELEASED,)


class Move(NamedTuple):
    """What happened, with the store's command where it was one."""

    text: str
    after: World
    command: int = -1
    broken: str = ""
    """The promise that this move breaks."""


class Game:
    """The moves of one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.ledger = Ledger()
        self.owners = Owners(self.ledger, scope.case)
        self.edges: dict[tuple[int, int], str] = {}
        self.facts: dict[int, Facts] = {}
        self._kinds: dict[tuple[int, int], Any] = {}
        self.windows: set[str] = set()
        """The known windows that were found open."""
        self.command = self.ledger.command
        self.lapse, self.due, self.purge = self.command(Lapse()), self.command(Due()), self.command(Purged())
        self.owner_states = self.owners.states.things
        self.deduplicates = scope.case.keyed

    def begin(self) -> World:
        return World(self.ledger.start, 0, 0, (), frozenset(), (), (0, 0), -1, self.scope.left)

    def fact(self, rows: int) -> Facts:
        found = self.facts.get(rows)
        if found is None:
            found = self.facts[rows] = facts_of(self.ledger.rows.things[rows])
        return found

    # --- helpers ------------------------------------------------------------------------------

    def apply(self, world: World, command: int) -> tuple[World, Any, str]:
        """Apply a command; the world after it, its outcome, and the promise that this broke."""
        rows, outcome_number = self.ledger.apply(world.rows, command)
        outcome = self.ledger.outcomes.things[outcome_number]
        edge = (world.rows, command)
        broken = self.edges.get(edge)
        if broken is None:
            things = self.ledger.rows.things
            broken = self.edges[edge] = check_edge(
                things[world.rows], self.ledger.commands.things[command], outcome, things[rows]
            )
        if rows == world.rows:
            return world, outcome, broken
        before, after = self.fact(world.rows), self.fact(rows)
        holder = (
            world.holder if after.running == before.running else (0 if not after.running else after.attempt)
        )
        requests = world.requests
        if before.unsettled and not after.unsettled:
            requests = tuple(r._replace(settled=True) for r in requests)
        return World(rows, holder, *world[2:5], requests, *world[6:]), outcome, broken

    @staticmethod
    def put(world: World, number: int, actor: Actor) -> World:
        actors = world.actors
        return World(*world[:3], (*actors[: number - 1], actor, *actors[number:]), *world[4:])

    def step(self, world: World, number: int, event: tuple[Any, ...]) -> World:
        """Something happens to an owner: it goes on until it waits for something else."""
        actor = world.actors[number - 1]
        owner, emitted = self.owners.step(actor.owner, (*event, world.horizon > 0))
        return self.went_on(world, number, actor, owner, emitted)

    def went_on(self, world: World, number: int, actor: Actor, owner: int, emitted: tuple[int, ...]) -> World:
        state = self.owner_states[owner]
        queue = actor.queue
        if emitted:
            waits = state.waits_for == "commit"
            queue += tuple((command, POSTED) for command in emitted[: len(emitted) - waits])
            if waits:
                queue += ((emitted[-1], AWAITED),)
        if state.waits_for == "over" and not queue:
            owner = OVER
        world = self.put(world, number, Actor(owner, queue, actor.process))
        if state.waits_for == "invoke" and not any(
            r.waited_for for r in world.requests if r.attempt == number
        ):
            index = self.request_of(world, number, STARTED)
            world = self.change(world, index, status=READY, waited_for=True)
        elif emitted and state.waits_for != "invoke":
            # Announced, and then not made after all.
            for command in emitted:
                thing = self.ledger.commands.things[command]
                if isinstance(thing, c.FinishEffect) and thing.outcome is c.RequestOutcome.NOT_MADE:
                    for index, request in enumerate(world.requests):
                        if request.attempt == number and request.status == STARTED:
                            world = self.change(world, index, status=NEVER_MADE)
        return world

    @staticmethod
    def request_of(world: World, number: int, status: int) -> int:
        return next(i for i, r in enumerate(world.requests) if r.attempt == number and r.status == status)

    @staticmethod
    def change(world: World, index: int, **fields: Any) -> World:
        requests = world.requests
        changed = (*requests[:index], requests[index]._replace(**fields), *requests[index + 1 :])
        return World(*world[:5], changed, *world[6:])

    @staticmethod
    def spend(world: World, what: int) -> World:
        left = world.left
        return world._replace(left=(*left[:what], left[what] - 1, *left[what + 1 :]))

    def canonical(self, world: World) -> World:
        """The same world without what can't matter any more."""
        requests = tuple(
            over(r) if r.settled and not r.waited_for and r.status > FLYING else r for r in world.requests
        )
        dead = world.dead
        if dead:
            facts = self.fact(world.rows)
            matters = {a.process for n, a in enumerate(world.actors, 1) if a.queue or n in facts.executing}
            if facts.running and facts.attempt <= len(world.actors):
                matters.add(world.actors[facts.attempt - 1].process)
            if not dead <= matters:
                dead = dead & matters
        if requests == world.requests and dead is world.dead:
            return world
        return World(*world[:4], dead, requests, *world[6:])

    def kind(self, rows: int, command: int) -> Any:
        """What sort of change it is, for one example of each to be picked."""
        found = self._kinds.get((rows, command))
        if found is None:
            after, outcome_number = self.ledger.known[rows, command]
            things, thing = self.ledger.rows.things, self.ledger.commands.things[command]
            outcome = self.ledger.outcomes.things[outcome_number]
            told = outcome[:2] if outcome is not None and outcome[0] != "effect" else outcome and outcome[2]
            shapes = (shape(things[rows]), shape(things[after]))
            of_command = (
                getattr(thing, "outcome", None),
                getattr(thing, "state", None),
                getattr(thing, "applied", None),
            )
            found = self._kinds[rows, command] = (type(thing).__name__, of_command, told, shapes)
        return found

    # --- moves --------------------------------------------------------------------------------

    def moves(self, world: World) -> Iterator[Move]:
        yield from self.of_the_store(world)
        for number, actor in enumerate(world.actors, 1):
            if actor.queue:
                yield from self.of_the_queue(world, number, actor)
            if actor.owner != OVER:
                yield from self.of_an_owner(world, number, actor)
        yield from self.of_requests(world)
        yield from self.of_crashes(world)
        yield from self.of_people(world)

    def of_the_store(self, world: World) -> Iterator[Move]:
        facts = self.fact(world.rows)
        if facts.run is None:
            return
        if facts.pending and not facts.due:
            after, _, broken = self.apply(world, self.due)
            yield Move("the run becomes due", after, self.due, broken)
        elif facts.pending and facts.attempt < self.scope.attempts:
            yield from self.claims(world, facts)
        if facts.running:
            if world.holder:
                yield self.lapses(world)
            process = world.actors[facts.attempt - 1].process if facts.attempt <= len(world.actors) else -1
            if not world.holder or process in world.dead:
                command = self.owners.takeover(world.rows, frozenset(map(owner_name, world.dead)))
                after, _outcome, broken = self.apply(world, command)
                if after is world:
                    broken = broken or "a run whose owner is gone can't be taken over"
                yield Move(f"attempt {facts.attempt} is taken over", after, command, broken)
        if self.scope.case.retention and world.horizon < 2 and facts.effect is not None:
            if world.horizon == 0:
                yield Move("the send horizon passes", world._replace(horizon=1))
            elif not any(r.status == FLYING for r in world.requests):
                stale = tuple(
                    r._replace(overtaken=r.overtaken or FORGOTTEN) if r.status == READY else r
                    for r in world.requests
                )
                yield Move("the destination forgets its keys", world._replace(horizon=2, requests=stale))

    def claims(self, world: World, facts: Facts) -> Iterator[Move]:
        processes = {actor.process for actor in world.actors}
        busy = {a.process for a in world.actors if a.owner != OVER and a.process not in world.dead}
        choices = []
        if len(busy) < self.scope.owners:
            choices.append(len(processes))
        if self.scope.same_process and world.actors and world.actors[-1].process not in world.dead:
            choices.append(world.actors[-1].process)
        yield from self.claims_by(world, facts, choices)

    def claims_by(self, world: World, facts: Facts, processes: list[int]) -> Iterator[Move]:
        for process in processes:
            command = self.command(claim_by(process))
            after, _, broken = self.apply(world, command)
            now = self.fact(after.rows)
            if now.attempt != facts.attempt + 1 or not now.running:
                yield Move(
                    "a claim", after, command, broken or "a due run can't be claimed under a new fence"
                )
                continue
            owner, emitted = self.owners.begin(after.rows, world.horizon > 0)
            actor = Actor(OVER, (), process)
            after = after._replace(actors=(*after.actors, actor), holder=now.attempt)
            after = self.went_on(after, now.attempt, actor, owner, emitted)
            yield Move(f"{owner_name(process)} claims: attempt {now.attempt}", after, command, broken)

    def lapses(self, world: World) -> Move:
        number = world.holder
        after, _, broken = self.apply(world, self.lapse)
        after = after._replace(holder=0)
        if after.actors[number - 1].owner != OVER:
            after = self.step(after, number, ("trust ends",))
        return Move(f"the lease of attempt {number} ends", after, self.lapse, broken)

    # --- commands on their way -----------------------------------------------------------------

    def of_the_queue(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        command, kind = actor.queue[0]
        who = f"attempt {number}"
        if kind == ANSWERED:
            outcome = self.ledger.outcomes.things[command]
            after = self.put(world, number, actor._replace(queue=actor.queue[1:]))
            yield Move(f"{who} gets the answer", self.step(after, number, ("reply", outcome)))
            return
        name = name_of(self.ledger.commands.things[command])
        after, outcome, broken = self.lands(world, number, command)
        delivered = self.delivered(after, number, actor, outcome, kind)
        yield Move(f"{name} of {who} lands{told(outcome)}", delivered, command, broken)
        if world.left[LOSSES] and actor.owner != OVER and actor.process not in world.dead:
            less = self.spend(world, LOSSES)
            if after is not world:
                text = f"{name} of {who} lands{told(outcome)}, its answer is lost, and it is sent again"
                yield Move(text, self.spend(after, LOSSES), command, broken)
            yield Move(f"{name} of {who} can't be stored", self.fails(less, number, actor))

    def lands(self, world: World, number: int, command: int) -> tuple[World, Any, str]:
        """Apply what an owner has handed in, and look at what only the whole world can tell."""
        thing = self.ledger.commands.things[command]
        after, outcome, broken = self.apply(world, command)
        match thing:
            case c.StartEffect():
                broken = broken or self.check_start(world, number, outcome)
                if outcome[0] == "effect":
                    status = NEVER_MADE if world.actors[number - 1].owner == OVER else STARTED
                    request = Request(number, thing.generation, status, False, False)
                    after = after._replace(requests=(*after.requests, request))
            case c.FinishEffect():
                if (
                    thing.outcome is c.RequestOutcome.NOT_APPLIED
                    or thing.outcome is c.RequestOutcome.NOT_MADE
                ):
                    after = self.settle_one(after, number)
            case c.SettleEffect() if outcome[0] == "effect":
                if world.holder != number:
                    broken = broken or "a look-up settled an effect without a live fence"
                if not thing.applied:
                    broken = broken or self.check_miss(world)
                    after = overtake(after)
            case _:
                pass
        return after, outcome, broken

    def settle_one(self, world: World, number: int) -> World:
        for index, request in enumerate(world.requests):
            if request.attempt == number and not request.settled and not request.waited_for:
                return self.change(world, index, settled=True)
        return world

    def delivered(self, world: World, number: int, actor: Actor, outcome: Any, kind: int) -> World:
        """Hand the outcome back to the owner, if it is still there."""
        queue = actor.queue[1:]
        now = world.actors[number - 1]
        if actor.owner == OVER or actor.process in world.dead or kind == ORPHANED:
            owner = now.owner
            if owner != OVER and not queue and self.owner_states[owner].waits_for == "over":
                owner = OVER
            return self.put(world, number, now._replace(owner=owner, queue=queue))
        if kind == AWAITED and self.is_start(actor):
            number_of = self.ledger.outcomes.number(outcome)
            return self.put(world, number, now._replace(queue=((number_of, ANSWERED), *queue)))
        world = self.put(world, number, now._replace(queue=queue))
        return self.step(world, number, ("recorded" if kind == POSTED else "reply", outcome))

    def is_start(self, actor: Actor) -> bool:
        return isinstance(self.ledger.commands.things[actor.queue[0][0]], c.StartEffect)

    def fails(self, world: World, number: int, actor: Actor) -> World:
        """An error of the store goes back, also for what was to come after it."""
        for _, kind in actor.queue:
            now = world.actors[number - 1]
            world = self.put(world, number, now._replace(queue=now.queue[1:]))
            if kind == ORPHANED:
                continue
            world = self.step(world, number, ("not recorded",) if kind == POSTED else ("store error",))
        return world

    # --- owners -------------------------------------------------------------------------------

    def of_an_owner(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        state = self.owner_states[actor.owner]
        who = f"attempt {number}"
        match state.waits_for:
            case "sleep":
                yield Move(f"{who} looks again", self.step(world, number, ("slept", 0.0)))
                if not any(r.status == FLYING for r in world.requests):
                    text = f"{who} has waited until what was sent has settled"
                    yield Move(text, self.step(world, number, ("slept", SETTLE)))
            case "reread":
                row = self.fact(world.rows).frozen
                yield Move(f"{who} reads the effect anew", self.step(world, number, ("row", row)))
            case "askdead":
                dead = state.asked & frozenset(map(owner_name, world.dead))
                yield Move(f"{who} asks who is dead", self.step(world, number, ("dead", dead)))
            case "ask":
                yield from self.looks_up(world, number, state)
            case "choice":
                for choice in ("raise", "swallow"):
                    yield Move(
                        f"the body of {who} does {choice} it", self.step(world, number, ("choice", choice))
                    )
            case _:
                pass
        if state.waits_for != "over":
            yield from self.disturbed(world, number, actor, state)

    def looks_up(self, world: World, number: int, state: Any) -> Iterator[Move]:
        found = sum(world.accepted) > 0
        if found:
            event = ("answer", "applied", "v0")
            yield Move(f"the look-up of attempt {number} finds it", self.step(world, number, event))
        if not found or not state.miss_counts:
            event = ("answer", "not applied")
            yield Move(f"the look-up of attempt {number} finds nothing", self.step(world, number, event))
        if world.left[UNKNOWNS]:
            after = self.step(self.spend(world, UNKNOWNS), number, ("answer", "unknown"))
            yield Move(f"the look-up of attempt {number} can't tell", after)

    def disturbed(self, world: World, number: int, actor: Actor, state: Any) -> Iterator[Move]:
        who = f"attempt {number}"
        facts = self.fact(world.rows)
        if state.stop_reason is None:
            if world.left[DISTURBANCES]:
                for ending in self.scope.disturbances:
                    after = self.step(self.spend(world, DISTURBANCES), number, ("end", ending))
                    yield Move(f"{who} is told: {ending}", after)
            owns = world.holder == number
            if owns and facts.cancelling:
                yield Move(
                    f"{who} renews and is told to cancel",
                    self.step(world, number, ("end", StopReason.CANCELLED)),
                )
            if not owns and state.trusts:
                yield Move(
                    f"{who} renews and is told that it lost",
                    self.step(world, number, ("end", StopReason.LOST)),
                )
        if state.stop_reason is StopReason.RELEASED and owns_still(facts, number) and not facts.releasing:
            command = self.command(c.MarkReleasing(c.Fence(RUN, number)))
            after, _, broken = self.apply(world, command)
            if after is not world:
                yield Move(f"{who} is marked as given back", after, command, broken)
        interruptible = self.scope.case.is_async and state.waits_for not in ("choice", "over")
        if interruptible and state.stop_reason in (
            StopReason.RELEASED,
            StopReason.CANCELLED,
            StopReason.TIMED_OUT,
        ):
            if actor.queue and actor.queue[-1][1] in (AWAITED, ANSWERED):
                if self.ends(actor):
                    return
                *rest, (command, kind) = actor.queue
                queue = tuple(rest) if kind == ANSWERED else (*rest, (command, ORPHANED))
                world = self.put(world, number, actor._replace(queue=queue))
            for index, request in enumerate(world.requests):
                if request.attempt == number and request.waited_for:
                    status = NEVER_MADE if request.status == READY else request.status
                    world = self.change(world, index, waited_for=False, status=status)
            yield Move(f"{who} is interrupted", self.step(world, number, ("raise", "interrupted")))

    def ends(self, actor: Actor) -> bool:
        command, kind = actor.queue[-1]
        return kind == AWAITED and isinstance(self.ledger.commands.things[command], c.EndAttempt)

    # --- requests -----------------------------------------------------------------------------

    def of_requests(self, world: World) -> Iterator[Move]:
        for index, request in enumerate(world.requests):
            who = f"request {index + 1} of attempt {request.attempt}"
            if request.status == READY:
                yield self.leaves(world, index, request)
                if self.scope.refusals:
                    after = self.change(world, index, status=NEVER_MADE, waited_for=False)
                    after = self.step(after, request.attempt, ("raise", "not applied"))
                    yield Move(f"{who} can't be sent", after)
            elif request.status == FLYING:
                yield self.arrives(world, index, request)
                yield from self.fails_to_arrive(world, index, request, who)
            if request.waited_for and request.status in (FLYING, ACCEPTED):
                yield from self.answers(world, index, request)

    def fails_to_arrive(self, world: World, index: int, request: Request, who: str) -> Iterator[Move]:
        """It does nothing, and whoever still waits is told so, or nothing at all."""
        number = request.attempt
        ends = [(VANISHED, f"{who} is lost on its way", "unknown")]
        if self.scope.refusals:
            ends.append((REFUSED, f"the destination refuses {who}", "not applied"))
            ends.append((FINAL, f"the destination refuses {who} for good", "final"))
        for status, text, told_of in ends:
            if request.waited_for:
                after = self.change(world, index, status=status, waited_for=False)
                yield Move(text, self.step(after, number, ("raise", told_of)))
            elif status == VANISHED:
                yield Move(text, self.change(world, index, status=status))

    def leaves(self, world: World, index: int, request: Request) -> Move:
        after = self.change(world, index, status=FLYING)
        broken = ""
        made = sum(r.status in MADE for r in after.requests)
        facts = self.fact(world.rows)
        if facts.frozen is not None and facts.requests < made:
            broken = "the store counts fewer requests than were made"
        return Move(f"request {index + 1} leaves attempt {request.attempt}", after, broken=broken)

    def arrives(self, world: World, index: int, request: Request) -> Move:
        after = self.change(world, index, status=ACCEPTED)
        operation = request.operation
        text = f"the destination accepts request {index + 1}"
        if self.deduplicates and world.accepted[operation] and world.horizon < 2:
            return Move(f"the destination has request {index + 1} already", after)
        accepted = list(world.accepted)
        accepted[operation] += 1
        after = after._replace(accepted=tuple(accepted))
        return Move(text, after, broken=self.check_effects(after, request))

    def answers(self, world: World, index: int, request: Request) -> Iterator[Move]:
        number = request.attempt
        answered = self.change(world, index, waited_for=False)
        who = f"attempt {number}"
        if request.status == ACCEPTED:
            value = f"v{request.operation}" if self.deduplicates else f"v{index}"
            yield Move(f"{who} gets its value", self.step(answered, number, ("value", value)))
        yield Move(f"{who} gets no answer", self.step(answered, number, ("raise", "unknown")))

    # --- crashes and people ---------------------------------------------------------------------

    def of_crashes(self, world: World) -> Iterator[Move]:
        if not self.scope.crashes:
            return
        executing = self.fact(world.rows).executing
        for process in {actor.process for actor in world.actors} - world.dead:
            busy = [
                n
                for n, a in enumerate(world.actors, 1)
                if a.process == process and (a.owner != OVER or a.queue or n in executing)
            ]
            if not busy:
                continue
            after = world._replace(dead=world.dead | {process})
            for number in busy:
                actor = after.actors[number - 1]
                # What was being committed may still land; what waited behind it never will.
                kept = tuple(item for item in actor.queue[:1] if item[1] != ANSWERED)
                kept = tuple((command, ORPHANED) for command, _ in kept)
                after = self.put(after, number, Actor(OVER, kept, process))
            requests = tuple(
                r
                if r.attempt not in busy
                else r._replace(
                    waited_for=False, status=NEVER_MADE if r.status in (STARTED, READY) else r.status
                )
                for r in after.requests
            )
            yield Move(f"{owner_name(process)} dies", after._replace(requests=requests))

    def of_people(self, world: World) -> Iterator[Move]:
        facts = self.fact(world.rows)
        if facts.run is None:
            return
        dead = frozenset(map(owner_name, world.dead))
        if world.left[DECISIONS] and facts.frozen is not None:
            if facts.unsettled and world.seen != facts.version:
                yield Move("a person looks at the effect", world._replace(seen=facts.version))
            applied = sum(world.accepted) > 0
            for seen in {None, world.seen if world.seen >= 0 else None}:
                yield from self.decides(world, applied, seen, dead)
        if world.left[ACTIONS]:
            yield from self.acts(world, facts, dead)

    def decides(self, world: World, applied: bool, seen: int | None, dead: frozenset[str]) -> Iterator[Move]:
        result = b'"found"' if applied else None
        command = self.command(
            c.SettleEffect(RUN, KEY, applied, by="ann", result=result, seen=seen, dead_owners=dead)
        )
        after, _outcome, broken = self.apply(world, command)
        if after is world:
            return
        after = self.spend(after, DECISIONS)._replace(seen=-1)
        if not applied:
            after = overtake(after)
        broken = broken or self.check_not_executed(world)
        if seen is not None and seen != self.fact(world.rows).version:
            broken = broken or "a decision counts, though the row had changed since it was seen"
        how = "with the row that was seen" if seen is not None else "without looking"
        what = "applied" if applied else "not applied"
        yield Move(f"a person decides {how}: {what}", after, command, broken)

    def acts(self, world: World, facts: Facts, dead: frozenset[str]) -> Iterator[Move]:
        for action in self.scope.actions:
            if action == "purge":
                if not (facts.ended and not facts.unsettled):
                    continue
                command = self.purge
            elif "cancel" in action:
                command = self.command(c.CancelRun(RUN, force="force" in action, dead_owners=dead))
            else:
                command = self.command(c.RetryRun(RUN, force="force" in action, dead_owners=dead))
            after, _, broken = self.apply(world, command)
            if after is world:
                continue
            if "force" not in action and world.holder and after.holder != world.holder:
                process = world.actors[world.holder - 1].process
                if process not in world.dead:
                    broken = broken or "a live owner's run was taken from it without force"
            yield Move(f"an operator does {action}", self.spend(after, ACTIONS), command, broken)

    # --- promises that only the whole world can tell ---------------------------------------------

    def check_start(self, world: World, number: int, outcome: Any) -> str:
        facts = self.fact(world.rows)
        accepted = outcome[0] == "effect"
        if accepted and world.holder != number:
            return "a request was started without a live fence"
        if accepted and facts.effect is EffectState.COMPLETED:
            return "a request was started after a completed record"
        if accepted and facts.final:
            return "a request was started after the destination had said no for good"
        if accepted and facts.cancelling:
            return "a request was started while the run is being cancelled"
        open_still = [r for r in world.requests if not r.settled]
        if accepted and open_still and self.scope.case.policy == Policy.HOLD:
            return "with hold, a second request was started while an earlier one has no outcome"
        if not accepted and world.holder == number and outcome[1] is c.Refusal.NOT_OWNER:
            return "a live owner was refused"
        return ""

    def check_miss(self, world: World) -> str:
        """A look-up's miss counts only if nothing that was sent can still arrive."""
        if sum(world.accepted):
            return "a look-up's miss was taken for a proof, though the destination has it"
        if any(r.status in (STARTED, READY, FLYING) and not r.settled for r in world.requests):
            return "a look-up's miss was taken for a proof, though a request may still arrive"
        return ""

    def check_not_executed(self, world: World) -> str:
        number = world.holder
        if not number or world.actors[number - 1].process in world.dead:
            return ""
        if any(
            (r.attempt == number and r.status in (STARTED, READY)) or r.waited_for
            for r in world.requests
            if r.attempt == number
        ):
            return "settled while its live owner executes it"
        return ""

    def check_effects(self, world: World, request: Request) -> str:
        """At most one effect for an operation id, but for the windows that have a name."""
        if self.scope.case.policy == Policy.RESEND and not self.deduplicates:
            return ""  # Nobody promises anything: a repeat is a second effect.
        if sum(world.accepted) <= 1:
            return ""
        if request.overtaken:
            self.windows.add(request.overtaken)
            return ""
        if any(r.overtaken and r.status == ACCEPTED for r in world.requests):
            self.windows.update(r.overtaken for r in world.requests if r.overtaken)
            return ""
        return "the destination accepted a second effect"


PAUSED = "a paused owner sends after 'not applied' was decided"
FORGOTTEN = "a paused owner sends after the destination forgot the key"


def overtake(world: World) -> World:
    """*Not applied* was decided about requests that may still arrive."""
    requests = tuple(
        r._replace(overtaken=PAUSED) if r.status in (STARTED, READY, FLYING) else r for r in world.requests
    )
    return world._replace(requests=requests)


def shape(rows: Any) -> Any:
    """Rows without what differs from one attempt to the next."""
    if rows.run is None:
        return None
    run, effect = rows.row(), rows.effect()
    of_run = (
        run.state,
        run.attempt_outcome,
        run.cancel_requested,
        run.releasing,
        run.lease_expires > 0,
        run.due_at > 0,
    )
    if effect is None:
        return of_run
    mine = run.attempt in effect.executing
    others = bool(set(effect.executing) - {run.attempt})
    told = (effect.late_attempt is not None, effect.resolved_by is not None, effect.final, effect.policy)
    return (*of_run, effect.state, min(effect.open_requests, 2), mine, others, *told)


def over(request: Request) -> Request:
    """A request of which everything is known: only that it was made, and whether it was accepted, still matters."""
    status = request.status if request.status in (ACCEPTED, NEVER_MADE) else VANISHED
    return Request(0, 0, status, False, True, request.overtaken if status == ACCEPTED else "")


def name_of(command: Any) -> str:
    match command:
        case c.StartEffect():
            return "started"
        case c.FinishEffect():
            return str(command.outcome.value)
        case c.EndAttempt():
            return f"the end ({command.outcome.value}, {command.state.value})"
        case c.SettleEffect():
            return f"the look-up's word ({'applied' if command.applied else 'not applied'})"
        case _:
            return type(command).__name__


def told(outcome: Any) -> str:
    match outcome:
        case ("refused", reason, *_):
            return f" and is refused ({reason.value})"
        case ("effect", _, True):
            return " as evidence"
        case ("moved", state, _):
            return f": the run is {state.value}"
        case _:
            return ""


class Facts(NamedTuple):
    """What the moves ask of the rows."""

    run: Any
    pending: bool
    running: bool
    ended: bool
    due: bool
    attempt: int
    cancelling: bool
    releasing: bool
    frozen: Any
    effect: EffectState | None
    version: int
    unsettled: bool
    final: bool
    requests: int
    executing: tuple[int, ...]


def facts_of(rows: Any) -> Facts:
    row = rows.effect()
    common = (
        rows.effects[0] if row else None,
        row.state if row else None,
        row.version if row else 0,
        row is not None and row.unsettled,
        row is not None and row.final,
        row.requests if row else 0,
        row.executing if row else (),
    )
    if rows.run is None:
        return Facts(None, False, False, True, False, 0, False, False, *common)
    run = rows.row()
    return Facts(
        rows.run,
        run.state is RunState.PENDING,
        run.state is RunState.RUNNING,
        run.state.ended,
        run.due_at <= 0,
        run.attempt,
        run.cancel_requested,
        run.releasing,
        *common,
    )


def owns_still(facts: Facts, number: int) -> bool:
    return facts.running and facts.attempt == number


__all__ = ["FORGOTTEN", "PAUSED", "AttemptOutcome", "Game", "Move", "Scope", "World"]
