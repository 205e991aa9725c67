"""Danger: a doctor that cries wolf is switched off, and one that keeps quiet lets runs wait for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from effectlog.cli.doctor_findings import problems
from effectlog.cli.health import Health, PendingFacts, WorkerFacts
from effectlog.clock import utc

NOW = 1_800_000_000.0


def at(seconds_ago: float):
    return utc(NOW) - timedelta(seconds=seconds_ago)


WORKER = WorkerFacts("w", "host", 1, 2, True, at(1), at(1), ("shop.sell",))
SILENT = replace(WORKER, name="silent", silent=True, reported_at=at(90))
QUEUE = PendingFacts("shop.sell", 7, at(300), known=True, executing=False)
HEALTH = Health({}, {}, {"pending": 7, "running": 0}, (QUEUE,), (WORKER,), (), (), None)

WELL = {
    "nothing is there": replace(HEALTH, pending=(), workers=()),
    "all places are taken": replace(HEALTH, states={"running": 2}),
    "the task's own limit makes it wait": replace(HEALTH, pending=(replace(QUEUE, executing=True),)),
    "it became due a moment ago": replace(HEALTH, pending=(replace(QUEUE, due_at=at(2)),)),
    "it is not due yet": replace(HEALTH, pending=(replace(QUEUE, due_at=at(-60)),), workers=()),
    "a live worker takes over": replace(HEALTH, pending=(), stuck=("run",)),
    "a dead worker was replaced": replace(HEALTH, pending=(), workers=(WORKER, replace(WORKER, alive=False))),
    "a fresh doubt is answered by the next attempt": replace(HEALTH, pending=(), oldest_doubt_at=at(60)),
    "a silent worker's peers do without it": replace(HEALTH, pending=(), workers=(WORKER, SILENT)),
    "a peer takes over from a silent worker": replace(
        HEALTH, pending=(), workers=(WORKER, SILENT), stuck=("run",)
    ),
    "an idle worker that reported at its last heartbeat": replace(
        HEALTH, pending=(), workers=(replace(WORKER, claimed_at=at(600)),)
    ),
}

ILL = {
    "and nobody executes any": HEALTH,
    "alive but does not claim": replace(HEALTH, workers=(replace(WORKER, claimed_at=at(120)),)),
    "no live worker knows": replace(HEALTH, pending=(replace(QUEUE, known=False),)),
    "and no worker is alive": replace(HEALTH, workers=(replace(WORKER, alive=False),)),
    "silent (pid 1 on host) gave its last sign of life 90 s ago": replace(
        HEALTH, pending=(), workers=(SILENT,)
    ),
    "no worker that is alive gives a sign of life to take over": replace(
        HEALTH, pending=(), workers=(SILENT,), stuck=("run",)
    ),
    "no worker that knows it gives a sign of life": replace(
        HEALTH, pending=(replace(QUEUE, known=False),), workers=(SILENT, replace(WORKER, tasks=()))
    ),
    "w (pid 1 on host) has no session with the server": replace(
        HEALTH, pending=(), workers=(replace(WORKER, cut_off=True),)
    ),
    "lost its owner": replace(HEALTH, pending=(), workers=(), stuck=("run",)),
    "stepped back": replace(HEALTH, pending=(), workers=(replace(WORKER, reported_at=at(-900)),)),
    "held for a decision": replace(HEALTH, pending=(), states={"held": 1}, held=("run",)),
    "in doubt for 2 h": replace(HEALTH, pending=(), oldest_doubt_at=at(7200)),
    "write-ahead log takes 1.0 GiB": replace(HEALTH, pending=(), store={"wal_bytes": 1 << 30}),
    "kept runs locked for 9 s": replace(
        HEALTH, pending=(), store={"open_transactions": [{"pid": 1, "application": "psql", "seconds": 9.0}]}
    ),
}


@pytest.mark.parametrize("found", WELL.values(), ids=WELL.keys())
def test_what_settles_by_itself_is_no_problem(found):
    assert problems(found, NOW) == []


@pytest.mark.parametrize(("expected", "found"), ILL.items(), ids=ILL.keys())
def test_what_does_not_is_told(expected, found):
    assert any(expected in problem for problem in problems(found, NOW)), problems(found, NOW)
