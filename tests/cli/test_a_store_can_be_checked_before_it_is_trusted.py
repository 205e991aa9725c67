"""Danger: somebody else's store is put to work though it does not enforce ownership."""

from __future__ import annotations

from effectlog.testing.conformance import GUARANTEES


def test_every_guarantee_is_tried_and_named_and_the_status_says_whether_one_is_missing(terminal):
    done = terminal.inside("check-store", terminal.store)
    *lines, summary = done.out.splitlines()
    given = [line.removeprefix("given    ") for line in lines if line.startswith("given    ")]
    # The guarantees about time are tried in real time here, so a machine that stands still may cost one;
    # what the store really gives is tested elsewhere, on a clock of its own.
    missing = [
        line.removeprefix("MISSING  ").partition(": ")[0] for line in lines if line.startswith("MISSING")
    ]
    assert sorted(given + missing) == sorted(each.name for each in GUARANTEES)
    assert summary == f"sqlite:///{terminal.store}: {len(given)} guarantees given, {len(missing)} missing"
    assert len(missing) <= 2, missing
    assert (done.code, done.err.count("\n")) == ((1, 1) if missing else (0, 0))
    assert terminal.inside("runs").out == "no runs\n"
