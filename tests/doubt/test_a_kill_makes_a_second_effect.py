"""Danger: a worker is killed at some point of an effect, and a destination gets a second one that was called safe.

Kind of destination by crash point by policy, with real kills: one SIGKILL for all cells of a point.
"""

import asyncio
from pathlib import Path

import pytest
from matrix_tasks import CELLS, TASKS, Cell
from support.matrix_harness import Seen, destinations, enqueue, owner, seen, settled, unsafe, wrong

from effectlog import EffectLog
from effectlog.testing.destinations import Fault

# The first request to "late" takes effect only after a look-up: it gets no further than "sent".
PROMPT = [cell for cell in CELLS if cell.kind != "late"]
POINTS = ("before started", "before request", "sent", "accepted", "before completed", "after completed")
FORMS = ("sync", "async")


def expected(point: str, cell: Cell) -> Seen:
    sent = int(point not in ("before started", "before request"))
    if point in ("before started", "after completed"):
        return Seen(1, 1, "succeeded")
    if cell.policy == "hold" or (cell.policy == "look-up" and not cell.searchable):
        return Seen(sent, sent, "held")
    if cell.policy == "look-up" or not sent:
        return Seen(1, 1, "succeeded")
    return Seen(2, 1 if cell.keyed else 2, "succeeded")


async def crash(path: str, form: str, point: str) -> dict[Cell, Seen]:
    cells = CELLS if point == "sent" else PROMPT
    with destinations(cells) as found:
        async with EffectLog(path, check_store=False) as log:
            runs = await enqueue(log, form, cells)
            if point == "sent":
                for destination in found.values():
                    destination.next_request(Fault(delay_after=60))
            with owner(path, form, point, found, lease=30) as first:
                if point == "sent":
                    for cell, destination in found.items():
                        wait = (
                            destination.wait_for_requests
                            if cell.kind == "late"
                            else destination.wait_for_effects
                        )
                        await asyncio.to_thread(wait, 1)
                else:
                    await first.reached()
                first.kill()
            async with log.worker(name="B", tasks=[TASKS[form]]):
                await settled(runs)
            for cell, destination in found.items():
                destination.release()
                if cell.kind == "late":  # What is under way lands in the end, whatever became of the run.
                    destination.wait_for_effects(expected(point, cell).effects)
            return await seen(runs, found)


@pytest.mark.parametrize(
    ("form", "point"),
    [
        *(("sync", point) for point in POINTS),
        *(("async", point) for point in ("accepted", "before completed", "after completed")),
    ],
)
async def test_killed_at(tmp_path: Path, form: str, point: str) -> None:
    found = await crash(str(tmp_path / "runs.db"), form, point)
    assert not unsafe(found)
    assert not wrong(found, lambda cell: expected(point, cell))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("form", FORMS)
async def test_killed_many_times_at(tmp_path: Path, form: str, point: str) -> None:
    for turn in range(10):
        found = await crash(str(tmp_path / f"{turn}.db"), form, point)
        assert not wrong(found, lambda cell: expected(point, cell)), turn


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("form", FORMS)
async def test_killed_on_postgresql_at(postgres_database: str, form: str, point: str) -> None:
    found = await crash(postgres_database, form, point)
    assert not wrong(found, lambda cell: expected(point, cell))
