"""Danger: somebody else's store is put to work though it does not enforce ownership."""

from __future__ import annotations

from effectlog.testing.conformance import GUARANTEES


def test_every_guarantee_is_tried_and_named(terminal):
    done = terminal.inside("check-store", terminal.store)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.removeprefix("given    ") for line in lines[:-1]] == [each.name for each in GUARANTEES]
    assert lines[-1].endswith(f"{len(GUARANTEES)} guarantees given, 0 missing")
    assert terminal.inside("runs").out == "no runs\n"
