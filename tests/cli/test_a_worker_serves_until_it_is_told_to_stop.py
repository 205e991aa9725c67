"""Danger: a deploy kills runs, or a worker starts and nobody can see what it serves."""

from __future__ import annotations

import signal

import pytest
import shop_app


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_one_line_at_the_start_and_a_clean_end(terminal, number):
    process = terminal.start("worker", "shop_app", "--name", "night", "--concurrency", "3", "--lease", "9")
    line = process.stderr.readline()
    assert line.startswith("effectlog: worker night serves sqlite:///")
    assert terminal.store in line
    assert "shop_app.greet" in line
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


async def test_a_second_signal_gives_the_run_back_without_using_an_attempt_up(terminal):
    begun = terminal.folder / "begun"
    with terminal.worker() as process:
        async with terminal.log() as log:
            run = await log.enqueue(shop_app.waits_kindly, str(begun))
            while not begun.exists():
                await run.record()
            process.send_signal(signal.SIGTERM)
            assert "draining" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
            record = await run.record()
    assert record.state == "pending"
    assert [attempt.outcome for attempt in record.attempts] == ["released"]


def test_a_module_without_tasks_is_no_worker(terminal):
    (terminal.folder / "empty.py").write_text("")
    done = terminal("worker", "empty")
    assert done.code == 1
    assert "no task is declared" in done.err
