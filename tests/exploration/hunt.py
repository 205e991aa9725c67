"""Plants mutants and hunts them: which scope catches one, and by which shortest trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from exploration.mutants import Mutant, mutants_of
from exploration.production import MUTABLE
from exploration.scopes import QUICK
from exploration.search import Search

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CONFUSED = "the production code raises"


class Caught(NamedTuple):
    """How a mutant was caught."""

    scope: str
    promise: str
    trace: tuple[str, ...]


def all_mutants() -> Iterator[Mutant]:
    for function in MUTABLE:
        yield from mutants_of(function)


def mutants_named(names: Iterable[str]) -> dict[str, Mutant]:
    """The mutants of these names; compiling all the others would take longer than catching these."""
    wanted = set(names)
    functions = [f for f in MUTABLE if any(name.startswith(f"{f.__qualname__}:") for name in wanted)]
    return {mutant.name: mutant for function in functions for mutant in mutants_of(function, wanted)}


def hunt(mutant: Mutant, *, most_states: int = 3_000) -> Caught | None:
    """Look for a trace that tells the mutant from the rules; None if it survives.

    Whether an end is near is dear to ask, so what breaks no other promise is asked that last, and not as deep.
    """
    with mutant.planted():
        for progress, states in ((False, most_states), (True, most_states // 10)):
            for name, scope in QUICK.items():
                if caught := _search(name, Search(scope, most_states=states, progress=progress)):
                    return caught
    return None


def caught_in(mutant: Mutant, scope: str, *, most_states: int = 4_000) -> Caught | None:
    """As ``hunt``, in the one scope that is known to catch it."""
    with mutant.planted():
        return _search(scope, Search(QUICK[scope], most_states=most_states, progress=False))


def _search(name: str, search: Search) -> Caught | None:
    try:
        found = search.run()
    except Exception as error:  # a mutant may break anything
        return Caught(name, f"{CONFUSED}: {type(error).__name__}: {error}"[:160], ())
    if found.broken:
        return Caught(name, found.broken, tuple(move.text for move in found.trace))
    return None
