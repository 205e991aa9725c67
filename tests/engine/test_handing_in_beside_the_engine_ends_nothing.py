"""Threads that hand in while the engine looks at what is waiting: it must never trip over them and end."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from effectlog import EffectLog
from effectlog.store import commands as c

THREADS, ROUNDS, EACH = 4, 150, 50


@pytest.fixture(autouse=True)
def _hurried_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_outcomes_handed_in_by_many_threads_are_all_answered(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def hand_in(log: EffectLog) -> None:
        answers = threading.Semaphore(0)

        def answered(_: object, error: BaseException | None) -> None:
            errors.extend([error] if error is not None else [])
            answers.release()

        for _ in range(ROUNDS):
            for _ in range(EACH):
                log.administration.engine.post(c.RemoveWorker("nobody"), until=0.0, resolve=answered)
            for _ in range(EACH):
                if not answers.acquire(timeout=20):
                    errors.append(AssertionError("the engine has ended"))
                    return

    with EffectLog(str(tmp_path / "runs.db"), check_store=False) as log:
        threads = [threading.Thread(target=hand_in, args=(log,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
