"""Danger: a logging filter that knows only the threads of its own application raises in one of ours."""

from __future__ import annotations

import contextvars
import logging
from typing import TYPE_CHECKING

import pytest

from effectlog import EffectLog, Retry, durable_task, effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")  # Set in web requests alone.
asked: list[int] = []


class NamesTheRequest(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        asked.append(record.levelno)
        record.request_id = request_id.get()
        return True


@pytest.fixture(autouse=True)
def _broken() -> Iterator[None]:
    logger, broken = logging.getLogger("effectlog"), NamesTheRequest()
    asked.clear()
    logger.addFilter(broken)
    yield
    logger.removeFilter(broken)


@effect(key="send")
def send() -> str:
    if not asked:  # The second request is told of first.
        raise ConnectionError("the answer was lost")
    return "sent"


@durable_task(retry=Retry(max_attempts=2, delay=0.0))
def sends() -> str:
    return send()


def test_what_is_told_of_goes_on_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EffectLog(tmp_path / "log.db") as log, log.sync.worker():
        run = log.sync.enqueue(sends)
        assert run.result(timeout=30) == "sent"
        (record,) = run.record().effects
    assert logging.WARNING in asked, "nothing was told, so nothing was tried"
    assert record.requests == 2
    assert "LookupError" in capsys.readouterr().err
