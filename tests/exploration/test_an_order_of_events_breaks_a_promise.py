"""No order in which owners, crashes, pauses, late answers and people meet breaks a promise, or leaves a run waiting for nothing.

The production rules and the production code of an effect call are run through every order within each scope.
"""

from __future__ import annotations

import pytest
from exploration.scopes import DEFAULT, LARGE
from exploration.search import Search
from exploration.world import FORGOTTEN, PAUSED

OPEN = {
    "hold, a person": {PAUSED},
    "resend with a key that is forgotten": {FORGOTTEN},
}
"""The windows that are known, named in the documentation, and found here: what else goes through breaks a promise."""


@pytest.mark.parametrize("name", DEFAULT)
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    found = Search(DEFAULT[name]).run()
    story = "\n  ".join([found.broken, *(move.text for move in found.trace)])
    assert not found.broken, story
    assert found.complete
    assert found.windows == OPEN.get(name, set())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LARGE)
def test_no_longer_order_of_events_breaks_a_promise(name: str) -> None:
    found = Search(LARGE[name], most_states=1_000_000).run()
    story = "\n  ".join([found.broken, *(move.text for move in found.trace)])
    assert not found.broken, story
