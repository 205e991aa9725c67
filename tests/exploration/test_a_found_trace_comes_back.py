"""The orders of events in which the explorer found the rules wrong, as they are told now."""

from __future__ import annotations

from exploration.production import KEY, Case
from exploration.scopes import HOLD, LOOK_UP, RESEND
from exploration.world import Game, Scope, World

CLAIMED = ["p0 claims: attempt 1", "started of attempt 1 lands"]
TAKEN_OVER = ["the lease of attempt 1 ends", "attempt 1 is taken over", "p1 claims: attempt 2"]


def follow(scope: Scope, story: list[str]) -> tuple[Game, World]:
    """Go through the moves of these names; no promise may be broken on the way."""
    game = Game(scope)
    world = game.begin()
    for text in story:
        moves = {move.text: move for move in game.moves(world)}
        assert text in moves, f"{text!r} can't happen; what can: {list(moves)}"
        assert not moves[text].broken, moves[text].broken
        world = moves[text].after
    return game, world


def test_a_miss_counts_while_a_late_request_of_a_paused_owner_is_on_its_way() -> None:
    # The paused owner wakes, sends, and its client gives up at once: "unknown" is recorded, and so nobody
    # seems to execute it any more. But it was sent only just now, and may still arrive.
    story = [
        *CLAIMED,
        "attempt 1 gets the answer",
        *TAKEN_OVER,
        "attempt 2 asks who is dead",
        "the look-up of attempt 2 finds nothing",
        "attempt 2 has waited until what was sent has settled",
        "request 1 leaves attempt 1",
        "attempt 1 gets no answer",
        "unknown of attempt 1 lands",
        "attempt 2 reads the effect anew",
        "the look-up of attempt 2 finds nothing",
    ]
    game, world = follow(Scope(LOOK_UP, 2, 2, left=(0, 0, 0, 0, 0)), story)
    waiting = game.owner_states[world.actors[1].owner]
    assert waiting.waits_for == "sleep", "the miss was taken for a proof"


def test_the_value_of_one_late_outcome_is_lost_to_the_next() -> None:
    story = [
        *CLAIMED,
        "attempt 1 gets the answer",
        *TAKEN_OVER,
        "started of attempt 2 lands",
        "attempt 2 gets the answer",
        "the lease of attempt 2 ends",
        "request 1 leaves attempt 1",
        "the destination accepts request 1",
        "attempt 1 gets its value",
        "request 2 leaves attempt 2",
        "the destination accepts request 2",
        "attempt 2 gets its value",
        "a person decides without looking: applied",
        "completed of attempt 1 lands as evidence",
        "completed of attempt 2 lands as evidence",
    ]
    game, world = follow(Scope(RESEND, 2, 2, left=(1, 0, 0, 0, 0)), story)
    effect = game.ledger.rows.things[world.rows].effect(KEY)
    assert effect.late_result == b'"v1"'
    assert effect.evidence == 'late outcome of attempt 1: "v0"'


def test_a_lost_answer_to_a_started_record_is_a_doubt() -> None:
    # The record landed, its answer was lost, and it was sent again: nothing was called, so there is nothing to hold.
    again = "started of attempt 1 lands, its answer is lost, and it is sent again"
    story = [
        "p0 claims: attempt 1",
        again,
        "started of attempt 1 lands and is refused (changed)",
        "attempt 1 gets the answer",
        "not_made of attempt 1 lands",
        "started of attempt 1 lands",
        "attempt 1 gets the answer",
        "request 2 leaves attempt 1",
    ]
    for case in (HOLD, LOOK_UP, Case("resend")):
        game, world = follow(Scope(case, 2, 2, left=(0, 0, 1, 0, 0)), story)
        effect = game.ledger.rows.things[world.rows].effect(KEY)
        assert effect.requests == effect.open_requests == 1
