"""An explorer that misses planted faults proves nothing: each of these is caught, by a shortest trace that is printed.

They are mutants of the production code itself: of the rules, and of the order in which their callers do things.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from exploration.hunt import caught_in, mutants_named
from exploration.planted import PLANTED

if TYPE_CHECKING:
    from exploration.mutants import Mutant


@pytest.fixture(scope="module")
def mutants() -> dict[str, Mutant]:
    return mutants_named(PLANTED)


@pytest.mark.parametrize(("name", "scope"), PLANTED.items(), ids=range(len(PLANTED)))
def test_a_planted_fault_is_caught(name: str, scope: str, mutants: dict[str, Mutant]) -> None:
    assert name in mutants, "the code has changed: plant this fault anew, or take it out"
    caught = caught_in(mutants[name], scope)
    assert caught is not None, f"{name} survives"
    print(f"{name}\n{caught.promise}:\n  " + "\n  ".join(caught.trace))
