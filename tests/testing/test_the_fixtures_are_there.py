"""A project that installs effectlog gets the fixtures without importing anything, and an open log that works."""

from __future__ import annotations

import asyncio

from effectlog import durable_task, effect, operation_id
from effectlog.testing.destinations import send


@effect(key="post:{name}")
def post(name: str, url: str) -> object:
    return send(url, {"operation": name}, key=operation_id())["operation"]


@durable_task
def poster(name: str, url: str) -> object:
    return post(name, url)


def test_a_log_in_a_sync_test(effect_log, counting_destination) -> None:
    destination = counting_destination("replay")
    assert effect_log.sync.run(poster, "a", destination.url) == "a"
    assert (len(destination.requests()), len(destination.effects())) == (1, 1)


async def test_a_log_in_an_async_test(effect_log, counting_destination) -> None:
    destination = counting_destination()
    async with effect_log.worker():
        run = await effect_log.enqueue(poster, "b", destination.url)
        assert await run.result(10) == "b"
    assert await asyncio.to_thread(destination.effects)


def test_a_clock_that_moves(movable_clock) -> None:
    before = movable_clock.wall()
    movable_clock.advance(90)
    assert movable_clock.wall() == before + 90


def test_the_matrix_as_a_fixture(crash_matrix, counting_destination) -> None:
    destination = counting_destination("replay")
    crash_matrix(poster, "c", destination.url, faults=("crash",)).raise_if_unsafe()
    assert len(destination.requests()) > len(destination.effects())
