"""Any interleaving of owners, crashes, late outcomes and people may cost attempts, never a run, a result or a doubt."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from support.ledger_machine import MOVES, Interleavings

TestSearch = Interleavings.TestCase
TestSearch.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def possible(machine: Interleavings, move: str) -> bool:
    match move:
        case "a_request_returns":
            return bool(machine.flying)
        case "another_worker_takes_over":
            return machine.lease is not None
        case "somebody_decides":
            return machine.count > 0
        case "somebody_takes_an_attempt_for_lapsed":
            return bool(machine.fences)
        case _:
            return True


@pytest.mark.parametrize("block", range(5))
def test_long_random_walks_keep_every_invariant(block: int) -> None:
    # The search above likes short stories; deep ones, with several late outcomes, come from plain chance.
    for seed in range(block * 25, block * 25 + 25):
        chance = random.Random(seed)
        machine = Interleavings()
        story = []
        try:
            for _ in range(30):
                moves = [move for move in MOVES if possible(machine, move)]
                (move,) = chance.choices(moves, [MOVES[move][0] for move in moves])
                values = {name: chance.choice(choices) for name, choices in MOVES[move][1].items()}
                story.append((move, values))
                getattr(machine, move)(**values)
                machine.check()
            machine.teardown()
        except AssertionError as error:
            raise AssertionError(f"walk {seed} broke an invariant after {story}") from error
