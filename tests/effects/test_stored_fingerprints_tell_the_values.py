"""Danger: who reads the store, or an error, finds out small values by trying them.

Or a key makes calls look different.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import (
    ConfigurationError,
    EffectConflict,
    EffectLog,
    IdempotencyConflict,
    Retry,
    RunFailed,
    RunState,
    durable_task,
    effect,
)
from effectlog.codec import fingerprint
from effectlog.keys import OtherSecretError, Seals

if TYPE_CHECKING:
    from pathlib import Path

PIN = "4071"
PINS = [f"{n:04d}" for n in range(10_000)]
sent: list[str] = []
broken: list[bool] = []
given: list[str] = [PIN]


@effect(key="unlock")
async def unlock(pin: str, door: str = "front") -> str:
    sent.append(pin)
    return "open"


@durable_task(retry=Retry(max_attempts=1))
async def open_door() -> str:
    answer = await unlock(given[0])
    if broken and broken.pop():
        raise ConnectionError("away")
    return answer


@durable_task
async def keep(pin: str, door: str = "front") -> str:
    return door


@durable_task(on="opened")
async def note(pin: str) -> None:
    """Subscribed, so that an event makes a run."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sent.clear()
    broken.clear()
    given[:] = [PIN]


def stored(path: Path, table: str = "effects") -> list[dict[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            json.loads(row) for (row,) in connection.execute(f"SELECT fingerprints FROM effectlog_{table}")
        ]


def guessed(prints: dict[str, str], run_id: str, seals: Seals) -> list[str]:
    """The PINs that whoever knows how it is done takes the row for."""
    bare = [pin for pin in PINS if fingerprint(pin) == prints["pin"]]
    return bare + [
        pin for pin in PINS if seals.seal({"pin": fingerprint(pin)}, run_id)["pin"] == prints["pin"]
    ]


async def unfinished(path: Path, **options: Any) -> str:
    """A run whose effect is recorded and that has to be executed once more."""
    broken[:] = [True]
    async with EffectLog(path, check_store=False, **options) as log:
        run = await log.enqueue(open_door)
        async with log.worker():
            with pytest.raises(RunFailed):
                await run.result(10)
        await run.retry()
    assert sent == [PIN]
    return run.id


async def test_values_can_not_be_tried_out_with_the_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with EffectLog(path, fingerprint_secret="a secret", check_store=False) as log:
        async with log.worker():
            run = await log.enqueue(open_door)
            await run.result(10)
        kept = await log.enqueue(keep.with_options(idempotency_key="k"), PIN)
        noted = await log.emit("opened", PIN, idempotency_key="e")
    (of_effect,) = stored(path)
    of_keys = stored(path, "idempotency_keys")
    assert guessed(of_effect, run.id, Seals()) == []
    for prints in of_keys:
        prints.setdefault("pin", prints.get("payload", ""))
        assert [guessed(prints, run_id, Seals()) for run_id in (kept.id, noted[0].id)] == [[], []]
    assert guessed(of_effect, run.id, Seals(b"a secret")) == [PIN], "the test tries nothing"


async def test_without_a_secret_equal_values_of_two_runs_look_different(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with EffectLog(path, check_store=False) as log, log.worker():
        for _ in range(2):
            await (await log.enqueue(open_door)).result(10)
        for key in "ab":
            await log.enqueue(keep.with_options(idempotency_key=key), PIN)
    for table in ("effects", "idempotency_keys"):
        first, second = stored(path, table)
        assert first["pin"] != second["pin"]
        assert fingerprint(PIN) not in {first["pin"], second["pin"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        ("one", "one"),
        ("one", b"one"),
        (None, "one"),
        ("one", ("two", "one")),
        ("bare", None),
        ("bare", "one"),
    ],
)
async def test_a_record_is_replayed_under_every_key_that_the_log_has(
    tmp_path: Path, before: Any, after: Any
) -> None:
    path = tmp_path / "log.db"
    run_id = await unfinished(path, fingerprint_secret=None if before == "bare" else before)
    if before == "bare":  # As a row of before.
        with closing(sqlite3.connect(path)) as connection:
            bare = json.dumps({"pin": fingerprint(PIN), "door": fingerprint("front")})
            connection.execute("UPDATE effectlog_effects SET fingerprints = ?", (bare,))
            connection.commit()
    async with EffectLog(path, fingerprint_secret=after, check_store=False) as log, log.worker():
        assert await (await log.get_run(run_id)).result(10) == "open"
    assert sent == [PIN]


async def test_another_secret_is_told_as_such_and_gives_the_run_back(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run_id = await unfinished(path, fingerprint_secret="one")
    async with EffectLog(path, fingerprint_secret="two", check_store=False) as log, log.worker():
        run = await log.get_run(run_id)
        async with asyncio.timeout(10):
            while not (
                told := [
                    a.error for a in (await run.record()).attempts if a.error and "secret" in a.error.message
                ]
            ):
                await asyncio.sleep(0.01)
        record = await run.record()
    assert "fingerprint_secret=" in told[0].message
    assert [attempt.outcome for attempt in record.attempts][-1] in {"released", None}
    assert record.state in {RunState.PENDING, RunState.RUNNING}
    with closing(
        sqlite3.connect(path)
    ) as connection:  # Nobody has to wait here until it may be claimed again.
        connection.execute("UPDATE effectlog_runs SET due_at = 0")
        connection.commit()
    async with EffectLog(path, fingerprint_secret="one", check_store=False) as log, log.worker():
        assert await (await log.get_run(run_id)).result(20) == "open"
    assert sent == [PIN]


async def test_a_conflict_stays_one_and_its_message_tells_no_value(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    run_id = await unfinished(path)
    given[:] = ["9999"]
    async with EffectLog(path, check_store=False) as log, log.worker():
        with pytest.raises(RunFailed) as failed:
            await (await log.get_run(run_id)).result(10)
    assert EffectConflict.__name__ in failed.value.type_name
    assert "pin" in failed.value.message
    assert "door" not in failed.value.message
    assert fingerprint("9999") not in failed.value.message
    assert sent == [PIN]


@pytest.mark.parametrize("secret", [None, "one"])
async def test_a_known_idempotency_key_is_compared_all_the_same(tmp_path: Path, secret: Any) -> None:
    path = tmp_path / "log.db"
    keyed = keep.with_options(idempotency_key="k")
    async with EffectLog(path, fingerprint_secret=secret, check_store=False) as log:
        first = await log.enqueue(keyed, PIN)
        noted = await log.emit("opened", PIN, idempotency_key="e")
        (again,) = await log.enqueue_many(keep, [(PIN, "front")], idempotency_keys=["k"])
        assert (again.id, again.created) == (first.id, False), "a default counts as what was left out"
        assert [run.id for run in await log.emit("opened", PIN, idempotency_key="e")] == [
            run.id for run in noted
        ]
        with pytest.raises(IdempotencyConflict) as conflict:
            await log.enqueue(keyed, PIN, "back")
        assert conflict.value.parameters == ["door"]
        with pytest.raises(IdempotencyConflict):
            await log.emit("opened", "1", idempotency_key="e")
    async with EffectLog(path, fingerprint_secret="other", check_store=False) as log:
        for repeated in (log.enqueue(keyed, PIN), log.emit("opened", PIN, idempotency_key="e")):
            if secret is None:
                await repeated
                continue
            with pytest.raises(OtherSecretError, match="another secret") as other:
                await repeated
            assert isinstance(other.value, ConfigurationError)


@pytest.mark.parametrize("nonsense", ["", b"", 7, ("good", ""), [None]])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, nonsense: Any) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint_secret") as refused:
        EffectLog(tmp_path / "log.db", fingerprint_secret=nonsense)
    assert "good" not in str(refused.value)


async def test_the_command_line_takes_the_secret_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from effectlog.cli.open_store import open_log

    path = tmp_path / "log.db"
    monkeypatch.setenv("EFFECTLOG_FINGERPRINT_SECRET", "one")
    async with open_log(str(path), create=True) as log:
        await log.enqueue(keep.with_options(idempotency_key="k"), PIN)
    async with EffectLog(path, fingerprint_secret="one", check_store=False) as log:
        assert not (await log.enqueue(keep.with_options(idempotency_key="k"), PIN)).created
