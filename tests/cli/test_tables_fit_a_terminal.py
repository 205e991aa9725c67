"""Danger: lines wrap and columns shift until a held run is overlooked, or stored text moves the cursor."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
import shop_app

from effectlog.cli.tables import Column, ago, size, span, table
from effectlog.printable import one_line, printable

COLUMNS = (
    Column("ID"),
    Column("TASK", flexible=True),
    Column("N", right=True),
    Column("NOTE", flexible=True),
)


def test_what_is_too_wide_is_cut_where_it_may_be(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    rows = [("x" * 20, "t" * 90, 7, "short"), ("y", "task", 12345, "n" * 90)]
    lines = table(COLUMNS, rows).splitlines()
    assert max(map(len, lines)) <= 60
    assert all("x" * 20 in line or "y" in line or "ID" in line for line in lines)
    assert lines[0].index("NOTE") == lines[1].index("short") == lines[2].index("nn")
    assert "…" in lines[1]
    assert "…" in lines[2]


def test_a_value_of_megabytes_does_not_take_a_step_for_each_character(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    began = time.process_time()
    (_, line) = table(COLUMNS, [("x", "t" * 5_000_000, 7, "n" * 5_000_000)]).splitlines()
    assert time.process_time() - began < 2.0  # It took half a minute.
    assert len(line) <= 60
    assert line.count("…") == 2


def test_a_table_that_fits_is_not_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert table(COLUMNS, [("a", "b", 1, None)]) == "ID  TASK  N  NOTE\na   b     1"


async def test_a_list_of_real_runs_fits_into_a_hundred_columns(terminal):
    async with terminal.log() as log, log.worker():
        for order in ("A-1", "B" * 300):
            with pytest.raises(Exception, match="held"):
                await (await log.enqueue(shop_app.sell, order)).result(timeout=20)
    lines = terminal.inside("runs").out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 100


def test_stored_text_can_not_steer_the_terminal():
    assert printable("a\x1b[2Jb\rc\u202ed\ud800") == "a\\x1b[2Jb\\rc\\u202ed\\ud800"
    assert printable("two\nlines") == "two\nlines"
    assert one_line("two\n \tlines ") == "two lines"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (0.05, "50 ms"),
        (59, "59 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (172800, "2 d"),
    ],
)
def test_a_duration_is_read_at_a_glance(seconds, expected):
    assert span(seconds) == expected
    now = datetime(2026, 11, 2, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == f"{expected} ago"


def test_sizes():
    assert [size(0), size(2048), size(3 << 20), size(5 << 30)] == ["0 B", "2 KiB", "3 MiB", "5.0 GiB"]
