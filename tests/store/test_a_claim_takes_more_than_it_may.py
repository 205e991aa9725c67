"""Danger: a claim takes more runs than limits allow, two suspects at once, or a late run before an early one.

The search of ``rules/claims`` alone, over rows that answer it: each store runs the same in its conformance
suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from effectlog.store import commands as c
from effectlog.store.rules import claims

if TYPE_CHECKING:
    from collections.abc import Sequence

FREE = c.TaskLimit(("mail", "mail.before"))
TWO_AT_ONCE = c.TaskLimit(("charge",), concurrency=2)
KEYED = c.TaskLimit(("ship",), keyed=True)
KEYED_AND_TWO = c.TaskLimit(("ship",), concurrency=2, keyed=True)
EARLY, LATE = ("early", 1.0, 9, 0), ("late", 2.0, 1, 0)
SUSPECT, SECOND_SUSPECT = ("suspect", 0.5, 3, 2), ("suspect too", 0.6, 4, 5)


def claim(*tasks: c.TaskLimit, limit: int = 10, run_id: str | None = None) -> c.Claim:
    return c.Claim("owner", "worker", 60.0, tasks, limit, run_id=run_id)


def found(command: c.Claim, *answers: Sequence[Any]) -> tuple[list[str], list[claims.Question]]:
    """What the search finds where the store answers so, and what it asks."""
    search, left, asked = claims.candidates(command), iter(answers), []
    try:
        asked.append(next(search))
        while True:
            asked.append(search.send(next(left)))
    except StopIteration as done:
        assert next(left, None) is None, "an answer is left over"
        return done.value, asked


def test_what_is_due_first_is_claimed_first_whichever_task_it_is_of() -> None:
    command = claim(FREE, TWO_AT_ONCE, limit=2)
    ids, asked = found(command, [LATE, ("last", 3.0, 2, 0)], [(0,)], [EARLY])
    assert ids == ["early", "late"]
    assert asked == [
        claims.FindDue(FREE.names, 2, suspects=True),
        claims.CountRunning(("charge",)),
        claims.FindDue(("charge",), 2, suspects=True),
    ]


@pytest.mark.parametrize(("running", "wanted"), [(0, 2), (1, 1)])
def test_a_limit_leaves_room_for_so_many(running: int, wanted: int) -> None:
    ids, asked = found(claim(TWO_AT_ONCE), [(running,)], [EARLY, LATE, ("last", 3.0, 2, 0)])
    assert ids == ["early", "late"][:wanted]
    assert asked[1] == claims.FindDue(("charge",), wanted, suspects=True)


@pytest.mark.parametrize("running", [2, 3])
def test_a_full_task_is_not_looked_into(running: int) -> None:
    assert found(claim(TWO_AT_ONCE), [(running,)])[0] == []


def test_runs_with_keys_are_asked_for_by_key_and_within_the_room() -> None:
    ids, asked = found(claim(KEYED_AND_TWO), [(1,)], [EARLY])
    assert ids == ["early"]
    assert asked[1] == claims.FindDueKeyed(("ship",), 1, suspects=True)


def test_one_suspect_at_most_is_claimed() -> None:
    ids, _ = found(claim(FREE), [EARLY, SUSPECT, SECOND_SUSPECT, LATE])
    assert ids == ["suspect", "early", "late"]


@pytest.mark.parametrize(
    ("task", "answers", "fits"),
    [
        (FREE, [], True),
        (TWO_AT_ONCE, [[(1,)]], True),
        (TWO_AT_ONCE, [[(2,)]], False),
        (KEYED, [[]], True),
        (KEYED, [[("busy",)]], False),
        (KEYED_AND_TWO, [[(1,)], [("busy",)]], False),
        (KEYED_AND_TWO, [[(2,)]], False),
    ],
)
def test_a_run_that_is_named_is_claimed_where_its_limits_leave_room(
    task: c.TaskLimit, answers: list[Any], *, fits: bool
) -> None:
    assert found(claim(task, run_id="r"), *answers)[0] == (["r"] if fits else [])


def test_only_tasks_with_a_limit_make_their_claimers_take_turns() -> None:
    commands = [claim(FREE, TWO_AT_ONCE), claim(KEYED), c.RemoveWorker("owner")]
    assert claims.limited_names(commands) == {"charge", "ship"}
