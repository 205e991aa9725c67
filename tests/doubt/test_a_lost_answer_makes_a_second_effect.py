"""Danger: an answer is lost without any crash, and the request is repeated in silence.

Kind of destination by policy by whether the request took effect, tried again by the run and by the effect
itself.
"""

from pathlib import Path

import pytest
from matrix_tasks import CELLS, TASKS, Cell
from support.matrix_harness import Seen, destinations, enqueue, seen, settled, unsafe, wrong

from effectlog import EffectLog
from effectlog.testing.destinations import Fault

PROMPT = [cell for cell in CELLS if cell.kind != "late"]


def expected(cell: Cell, *, applied: bool) -> Seen:
    if cell.policy == "hold" or (cell.policy == "look-up" and not cell.searchable):
        return Seen(1, int(applied), "held")
    if cell.policy == "look-up" and applied:
        return Seen(1, 1, "succeeded")
    return Seen(2, 1 if cell.keyed or not applied else 2, "succeeded")


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("form", list(TASKS))
async def test_answer_lost(tmp_path: Path, form: str, applied: bool) -> None:
    with destinations(PROMPT) as found:
        for destination in found.values():
            destination.next_request(Fault(applies=applied, lose=True))
        async with EffectLog(tmp_path / "runs.db", check_store=False) as log:
            runs = await enqueue(log, form, PROMPT)
            async with log.worker(tasks=[TASKS[form]]):
                await settled(runs)
            answered = await seen(runs, found)
            records = {cell: await run.record() for cell, run in runs.items()}
    assert not unsafe(answered)
    assert not wrong(answered, lambda cell: expected(cell, applied=applied))
    for cell, record in records.items():
        assert record.effects[0].requests == answered[cell].requests, cell
        held_or_inside = form == "inside" or cell.policy == "hold"
        assert len(record.attempts) == (1 if held_or_inside else 2), cell


@pytest.mark.parametrize("form", list(TASKS))
async def test_an_error_that_tells_nothing_is_no_proof(tmp_path: Path, form: str) -> None:
    """A 500 whose request did nothing looks like one whose request did: held, looked up, or sent with the same id."""
    replaying = {"replay_errors", "new_key"}
    cells = [cell for cell in PROMPT if cell.kind not in replaying]
    with destinations(cells) as found:
        for destination in found.values():
            destination.next_request(Fault(applies=False, status=500))
        async with EffectLog(tmp_path / "runs.db", check_store=False) as log:
            runs = await enqueue(log, form, cells)
            async with log.worker(tasks=[TASKS[form]]):
                await settled(runs)
            answered = await seen(runs, found)
    assert not wrong(answered, lambda cell: expected(cell, applied=False))
