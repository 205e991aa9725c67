"""Danger: the first thing that anybody runs miscounts what was sent, hangs, or leaves processes behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from effectlog.demo.report import verdict
from effectlog.demo.scenarios import PARTS, Counts
from effectlog.demo.timeline import SIGKILL, TAKEOVER, Moment, Outcome


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "effectlog", "demo"],
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_using(folder: Path) -> list[str]:
    """The command lines that name the demo's folder, which none of its processes does without."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def gone(folder: Path) -> bool:
    deadline = time.monotonic() + 10
    while processes_using(folder) and time.monotonic() < deadline:
        os.sched_yield()
    return not processes_using(folder)


def test_attempts_requests_and_effects_are_as_promised(tmp_path):
    demo = start(tmp_path)
    out, err = demo.communicate(timeout=50)
    assert (demo.returncode, err) == (0, ""), out
    counts = re.findall(r"attempts (\d) · requests (\d) · accepted effects (\d)", out)
    assert counts == [("2", "2", "2"), ("2", "2", "1"), ("2", "1", "1")]
    assert out.count("sends the charge again") == 2
    assert out.count("SIGKILL") == 3
    assert out.count("a duplicate") == 1
    (kept, takeover, seconds) = re.findall(
        r"(\d) of 3 parts as promised; takeover within (\d+) ms; ([\d.]+) s in all", out
    )[0]
    assert kept == "3"
    assert int(takeover) < 3000, "liveness decides, not the lease of 30 s"
    assert float(seconds) < 20
    assert max(map(len, out.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []
    assert gone(tmp_path)


def read_until(demo: subprocess.Popen[str], text: str) -> None:
    assert any(text in line for line in demo.stdout)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(signal.SIGINT, "accepted effects"), (signal.SIGTERM, "Destination: ")],
    ids=["SIGINT between two parts", "SIGTERM while workers start"],
)
def test_stopped_in_the_middle_it_leaves_nothing(tmp_path, number, shown):
    demo = start(tmp_path)
    read_until(demo, shown)
    assert processes_using(tmp_path)
    demo.send_signal(number)
    _, err = demo.communicate(timeout=20)
    assert (demo.returncode, "Traceback" in err) == (1, False), err
    assert gone(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_even_killed_it_leaves_no_process(tmp_path):
    demo = start(tmp_path)
    read_until(demo, "Destination: ")
    while len(processes_using(tmp_path)) < 3:
        assert demo.poll() is None
    demo.kill()
    demo.communicate()
    assert gone(tmp_path)


def test_a_count_that_is_not_as_promised_is_said_and_not_counted_as_kept(capsys):
    moments = (Moment(0.0, "A", SIGKILL), Moment(0.04, "B", TAKEOVER))
    as_promised = Outcome(PARTS[1], Counts(2, 2, 1), moments)
    charged_twice = Outcome(PARTS[1], Counts(2, 2, 2), moments)
    assert (as_promised.as_promised, charged_twice.as_promised) == (True, False)
    verdict([as_promised, charged_twice], 1.0)
    assert "1 of 2 parts as promised; takeover within 40 ms" in capsys.readouterr().out
