"""The danger: *completed* gets a commit of its own, and a run of effects in sequence takes twice as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.throughput.embedded import in_sequence

if TYPE_CHECKING:
    from pathlib import Path

EFFECTS = 200
AROUND = 5
"""Commits for creating, claiming and ending the run, and for heartbeats that come in between."""


async def test_a_sequence_costs_one_durable_commit_an_effect(tmp_path: Path) -> None:
    rate = await in_sequence(tmp_path, EFFECTS)
    assert rate.commits is not None
    # Never fewer: each *started* record must be durable before its call, and the calls follow each other.
    assert rate.commits >= EFFECTS
    # A busy machine may let the half millisecond pass in which *completed* waits for the next record.
    assert rate.commits <= EFFECTS * 1.25 + AROUND
