"""One zygote for all crash tests of a run, and destinations that the children know."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.crash_harness import Child, Zygote

from effectlog.testing.destinations import CountingDestination


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    process = Zygote()
    yield process
    process.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
def destination(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingDestination]:
    """One that replays by key; without a key every request is an effect."""
    with CountingDestination("replay") as running:
        monkeypatch.setenv("DESTINATION", running.url)
        yield running


Spawn = Callable[..., Child]


@pytest.fixture
def spawn(zygote: Zygote, store: str, destination: CountingDestination) -> Iterator[Spawn]:
    """Start a process on the test's store; what is still there in the end is killed."""
    children: list[Child] = []

    def start(*arguments: str, pause_at: str = "") -> Child:
        child = Child(zygote, store, *arguments, destination=destination.url, pause_at=pause_at)
        children.append(child)
        return child

    yield start
    for child in children:
        child.__exit__()
