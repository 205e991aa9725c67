"""A task on a class is as durable as a function, in every form and under every parameter name it may have."""

import asyncio
import inspect
from typing import Any

import pytest

from effectlog import ConfigurationError, EffectLog, Retry, durable_task


class Orders:
    @classmethod
    @durable_task
    def class_below(cls, number: int) -> str:
        return f"{cls.__name__} {number}"

    @durable_task(retry=Retry(max_attempts=1))
    @classmethod
    async def class_above(cls, number: int) -> str:
        await asyncio.sleep(0)
        return f"{cls.__name__} {number}"

    @staticmethod
    @durable_task
    async def static_below(number: int) -> str:
        return f"static {number}"

    @durable_task
    @staticmethod
    def static_above(number: int) -> str:
        return f"static {number}"


@durable_task
def oddly_named(task: str, self: str, state: str = "", args: str = "") -> str:
    return f"{task} {self} {state} {args}"


FORMS = ["class_below", "class_above", "static_below", "static_above"]


@pytest.mark.parametrize("form", FORMS)
async def test_class_and_static_methods_are_enqueued_and_run(log: EffectLog, form: str) -> None:
    """F109, for tasks."""
    task: Any = getattr(Orders, form)
    told = "Orders" if form.startswith("class") else "static"
    async with log.worker():
        assert await (await log.enqueue(task, 1)).result(10) == f"{told} 1"
        assert await (await log.enqueue(task, number=2)).result(10) == f"{told} 2"
        first, second = await log.enqueue_many(task, [(3,), (4,)])
        assert [await first.result(10), await second.result(10)] == [f"{told} 3", f"{told} 4"]
        again = [await log.enqueue(task.with_options(idempotency_key="one"), 5) for _ in range(2)]
        assert [run.created for run in again] == [True, False]
    assert await log.run(task, 6) == f"{told} 6"
    assert {record.task for record in await log.list_runs(task=task)} == {task.spec.name}
    with pytest.raises(TypeError):
        await log.enqueue(task)


@pytest.mark.parametrize("form", FORMS)
def test_called_directly_they_are_plain(form: str) -> None:
    value = getattr(Orders, form)(7)
    if asyncio.iscoroutine(value):
        value = asyncio.run(value)
    assert value == ("Orders 7" if form.startswith("class") else "static 7")


async def test_options_given_before_stay(log: EffectLog) -> None:
    keyed = Orders.static_above.with_options(idempotency_key="one", delay=3600)
    again = keyed.with_options(correlation_id="c")
    assert again.options.idempotency_key == "one"
    assert again.options.delay == 3600
    assert again.with_options(delay=0).options.delay == 0
    first, second = await log.enqueue(keyed, 1), await log.enqueue(again, 1)
    assert (first.id, second.created) == (second.id, False)
    (late,) = await log.enqueue_many(again, [(2,)], idempotency_keys=["two"])
    record = await late.record()
    assert record.idempotency_key == "two"
    assert record.correlation_id == "c"
    assert (record.due_at - record.created_at).total_seconds() > 3599


async def test_a_parameter_may_be_called_as_ours_are(log: EffectLog) -> None:
    """F091."""
    names = {"task": "a", "self": "b", "state": "c", "args": "d"}
    async with log.worker():
        assert await (await log.enqueue(oddly_named, **names)).result(10) == "a b c d"
    assert await log.run(oddly_named, **names) == "a b c d"
    with pytest.raises(TypeError):
        await log.enqueue(oddly_named, task="a")


class Returns(Orders): ...


@pytest.mark.parametrize("form", FORMS)
async def test_a_run_never_gets_another_class_than_it_was_asked_for(log: EffectLog, form: str) -> None:
    task: Any = getattr(Returns, form)
    if form.startswith("static"):
        assert await log.run(task, 1) == "static 1"
        return
    for call in (lambda: log.enqueue(task, 1), lambda: log.run(task, 1), lambda: log.list_runs(task=task)):
        with pytest.raises(ConfigurationError, match=rf"Returns\.{form} is inherited: .* executed on Orders"):
            await call()
    assert await log.list_runs() == []
    called = task(1)
    assert (await called if inspect.iscoroutine(called) else called) == "Returns 1"
