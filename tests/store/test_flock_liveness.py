"""A dead owner taken for alive costs a lease of waiting; a live one taken for dead sends a charge twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.child_processes import LIVENESS, children

from effectlog.errors import StoreError
from effectlog.store.sqlite.liveness import FlockLiveness, NoLiveness, liveness_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock; leases decide there")

HOLDER = f"""
{LIVENESS}
liveness = flock.FlockLiveness(sys.argv[1])
asyncio.run(liveness.hold("a" * 32))
if sys.argv[2] == "forks" and os.fork() == 0:
    say(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
if sys.argv[2] == "spawns":
    # It inherits every descriptor that is not close-on-exec.
    pid = subprocess.Popen(["sleep", "60"], close_fds=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
    say(str(pid))
if sys.argv[2] == "alone":
    say("ready")
wait()
"""
A_NAME, B_NAME = "a" * 32, "b" * 32
A = frozenset({A_NAME})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "owners"


async def test_a_killed_process_is_dead_at_once(folder: Path) -> None:
    liveness = FlockLiveness(str(folder))
    with children(HOLDER, folder, "alone") as (child,):
        assert child.hear() == "ready"
        assert await liveness.dead(A) == frozenset()
        assert await liveness.dead(A, rebooted=True) == frozenset(), (
            "an owner that is here was not rebooted away"
        )
        child.process.kill()
        child.process.wait()
        assert await liveness.dead(A) == A
        assert await liveness.dead(A) == A, "looking changed what there is to see"


async def test_a_paused_process_is_alive(folder: Path) -> None:
    liveness = FlockLiveness(str(folder))
    with children(HOLDER, folder, "alone") as (child,):
        assert child.hear() == "ready"
        child.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert await liveness.dead(A) == frozenset()


@pytest.mark.parametrize("heir", ["forks", "spawns"])
async def test_what_a_dead_process_started_does_not_keep_it_alive(folder: Path, heir: str) -> None:
    liveness = FlockLiveness(str(folder))
    with children(HOLDER, folder, heir) as (child,):
        pid = int(child.hear())
        try:
            assert await liveness.dead(A) == frozenset()
            child.process.kill()
            child.process.wait()
            assert await liveness.dead(A) == A
        finally:
            os.kill(pid, signal.SIGKILL)


async def test_two_owners_in_one_process_are_told_apart(folder: Path) -> None:
    first, second = FlockLiveness(str(folder)), FlockLiveness(str(folder))
    both = frozenset({A_NAME, B_NAME})
    await first.hold(A_NAME)
    await second.hold(B_NAME)
    for liveness in (first, second):
        assert await liveness.dead(both) == frozenset()
    await second.drop(B_NAME)
    assert await first.dead(both) == frozenset(), (
        "an owner that left on purpose proves nothing by its absence"
    )
    assert await second.dead(both) == frozenset()
    await first.drop(A_NAME)
    assert not folder.exists(), "the last owner leaves a folder behind"


async def test_a_missing_file_proves_death_only_after_a_reboot(folder: Path) -> None:
    liveness = FlockLiveness(str(folder))
    assert await liveness.dead(A) == frozenset()
    assert await liveness.dead(A, rebooted=True) == A


async def test_what_a_dead_owner_left_can_be_cleared_away(folder: Path) -> None:
    liveness = FlockLiveness(str(folder))
    with children(HOLDER, folder, "alone") as (child,):
        assert child.hear() == "ready"
        child.process.kill()
        child.process.wait()
    assert (folder / A_NAME).exists()
    await liveness.forget(A_NAME)
    await liveness.forget(A_NAME)
    assert not folder.exists()


async def test_those_who_look_at_the_same_time_do_not_take_each_other_for_the_owner(folder: Path) -> None:
    import fcntl

    with children(HOLDER, folder, "alone") as (child,):
        assert child.hear() == "ready"
        child.process.kill()
        child.process.wait()
    with (folder / A_NAME).open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert await FlockLiveness(str(folder)).dead(A) == A


async def test_holding_survives_that_the_last_owner_removes_the_folder(folder: Path) -> None:
    first, second = FlockLiveness(str(folder)), FlockLiveness(str(folder))
    for _ in range(50):
        await first.hold(A_NAME)
        await first.drop(A_NAME)
        await second.hold(B_NAME)
        assert await first.dead(frozenset({B_NAME})) == frozenset()
        await second.drop(B_NAME)


async def test_without_liveness_only_a_reboot_ends_an_owner_early() -> None:
    liveness = NoLiveness()
    await liveness.hold(A_NAME)
    assert await liveness.dead(A) == frozenset()
    assert await liveness.dead(A, rebooted=True) == A
    await liveness.drop(A_NAME)
    await liveness.forget(A_NAME)
    assert isinstance(liveness_beside("effectlog.db"), FlockLiveness)


def as_nobody(work: Callable[[], bool]) -> bool:
    """What ``work`` says where another user runs it."""
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            os.setgid(65534)
            os.setuid(65534)
            status = 0 if work() else 1
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 1), "it raised"
    return status == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """The path of a store that every user of the machine may reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder / "log.db"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_users_who_share_a_store_tell_each_others_dead_from_their_living(shared: Path) -> None:
    shared.touch()
    shared.chmod(0o666)
    liveness = liveness_beside(str(shared))
    asyncio.run(liveness.hold(A_NAME))

    def others_hold_too() -> bool:
        other = liveness_beside(str(shared))
        asyncio.run(other.hold(B_NAME))
        return asyncio.run(other.dead(frozenset({A_NAME, B_NAME}))) == frozenset()

    assert as_nobody(others_hold_too)
    assert asyncio.run(liveness.dead(frozenset({B_NAME}))) == {B_NAME}
    liveness.abandon()  # As its process would leave it.
    assert as_nobody(lambda: asyncio.run(liveness_beside(str(shared)).dead(A)) == A)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_folder_of_somebody_else_is_told_of_in_our_words(shared: Path) -> None:
    shared.touch()
    shared.chmod(0o644)
    asyncio.run(liveness_beside(str(shared)).hold(A_NAME))

    def refused() -> bool:
        try:
            asyncio.run(liveness_beside(str(shared)).hold(B_NAME))
        except StoreError as error:
            return "same owner, group and rights" in str(error)
        return False

    assert as_nobody(refused)
