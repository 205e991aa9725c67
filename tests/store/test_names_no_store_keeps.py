"""A NUL or a lone surrogate in a key or name: refused before any store is asked, in the same words for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.whole_records import whole_records

from effectlog import ConfigurationError, EffectLog, RunFailed, durable_task, effect
from effectlog.keys import check_name

if TYPE_CHECKING:
    from pathlib import Path

BAD = ["a\x00b", "a\ud800b", "\udfff"]


@durable_task(on="named", concurrency_key="{key}")
async def task(key: str) -> str:
    return await act(key)


@effect(key="{key}")
async def act(key: str) -> str:
    return key


@pytest.mark.parametrize("bad", BAD)
def test_what_with_options_and_the_decorators_refuse(bad: str) -> None:
    attempts: list[Any] = [
        lambda: task.with_options(idempotency_key=bad),
        lambda: task.with_options(correlation_id=bad),
        lambda: durable_task(name=bad)(lambda: None),
        lambda: durable_task(name="fine", aliases=[bad])(lambda: None),
        lambda: durable_task(name="fine", on=bad)(lambda key: None),
        lambda: effect("k", name=bad)(lambda: None),
        lambda: effect(bad)(lambda: None),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationError, match="a NUL or a lone surrogate, which no database stores"):
            attempt()


@pytest.mark.parametrize("bad", BAD)
async def test_what_the_log_refuses(bad: str, tmp_path: Path) -> None:
    async with EffectLog(tmp_path / "runs.db") as log:
        attempts: list[Any] = [
            lambda: log.enqueue(task, bad),  # Its concurrency key.
            lambda: log.enqueue_many(task, [("a",)], idempotency_keys=[bad]),
            lambda: log.emit(bad, "a"),
            lambda: log.emit("named", bad),
            lambda: log.emit("named", "a", idempotency_key=bad),
            lambda: log.emit("named", "a", correlation_id=bad),
        ]
        for attempt in attempts:
            with pytest.raises(
                ConfigurationError, match="a NUL or a lone surrogate, which no database stores"
            ):
                await attempt()
        assert await log.list_runs() == []


@durable_task
async def in_an_effect() -> str:
    return await act("a\x00b")


async def test_an_effects_key_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    async with EffectLog(tmp_path / "runs.db") as log:
        with pytest.raises(RunFailed, match="a NUL or a lone surrogate, which no database stores"):
            await log.run(in_an_effect)
        (record,) = await whole_records(log)
    assert record.effects == ()


@pytest.mark.parametrize("good", ["a", "ä", "\U0001f600", "x" * 512, "a b\n"])
def test_every_other_text_is_taken(good: str) -> None:
    assert check_name("a key", good) == good


@pytest.mark.parametrize("bad", ["", "x" * 513, 7, None])
def test_a_length_that_cannot_be_is_told(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="a key is a text of 1 to 512 characters"):
        check_name("a key", bad)
