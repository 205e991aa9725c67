"""Tasks are renamed, changed and removed while runs of them wait: no run is lost, and no worker falls over one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from effectlog import EffectLog, EffectLogWarning, Retry, Run, RunFailed, RunState, durable_task, effect
from effectlog.decorators.registry import _effects, _tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def forget(names: Any, stored: str) -> None:
    """As in a process that never had the other version of the code."""
    names.specs.pop(stored, None)
    names._known.pop(stored, None)


@pytest.fixture
def deploy() -> Iterator[Callable[..., Any]]:
    """Declare a task anew, as another version of the code would."""
    deployed: set[str] = set()

    def declare(function: Any, name: str = "deployed", **options: Any) -> Any:
        deployed.add(name)
        forget(_tasks, name)
        return durable_task(name=name, **options)(function)

    yield declare
    for name in deployed:
        forget(_tasks, name)


async def _one(a: int) -> str:
    return f"a={a}"


async def test_a_run_that_nobody_knows_stays_pending_and_is_passed_by(log: EffectLog, deploy: Any) -> None:
    unknown = await log.enqueue(deploy(_one), 1)
    forget(_tasks, "deployed")
    known = deploy(_one, "known")
    async with log.worker():
        assert await (await log.enqueue(known, 2)).result(10) == "a=2"
        assert (await unknown.record()).state is RunState.PENDING
    assert [record.id for record in await log.list_runs(state="pending")] == [unknown.id]
    store = log.administration.engine.store
    health = await log.administration.engine.read(store.health())
    assert [row["task"] for row in health["pending"]] == ["deployed"]  # type: ignore[attr-defined]


async def test_an_alias_keeps_old_runs_alive_after_a_rename(log: EffectLog, deploy: Any) -> None:
    old = await log.enqueue(deploy(_one), 1)
    forget(_tasks, "deployed")
    renamed = deploy(_one, "renamed", aliases=["deployed"], concurrency=1)
    async with log.worker():
        new = await log.enqueue(renamed, 2)
        assert [await old.result(10), await new.result(10)] == ["a=1", "a=2"]


async def _with_default(a: int, b: int = 5) -> str:
    return f"a={a} b={b}"


async def _without_default(a: int, b: int) -> str:
    return f"a={a} b={b}"


async def _renamed(c: int) -> str:
    return f"c={c}"


async def _removed() -> str:
    return "nothing"


async def test_a_new_parameter_with_a_default_is_filled_in(log: EffectLog, deploy: Any) -> None:
    run = await log.enqueue(deploy(_one), 1)
    deploy(_with_default)
    async with log.worker():
        assert await run.result(10) == "a=1 b=5"


async def test_a_default_is_that_of_the_code_that_executes(log: EffectLog, deploy: Any) -> None:
    async def later(a: int, b: int = 6) -> str:
        return f"a={a} b={b}"

    run = await log.enqueue(deploy(_with_default), 1)
    deploy(later)
    async with log.worker():
        assert await run.result(10) == "a=1 b=6"


@pytest.mark.parametrize(
    ("changed", "parameter"), [(_without_default, "'b'"), (_renamed, "'a'"), (_removed, "'a'")]
)
async def test_a_signature_that_no_longer_fits_fails_the_run_once_and_a_fix_lets_it_go_on(
    log: EffectLog, deploy: Any, changed: Any, parameter: str
) -> None:
    run: Run[str] = await log.enqueue(deploy(_one, retry=Retry(max_attempts=3, delay=0.0)), 1)
    deploy(changed, retry=Retry(max_attempts=3, delay=0.0))
    fine = deploy(_one, "fine")
    async with log.worker():
        with pytest.raises(RunFailed, match=parameter) as caught:
            await run.result(10)
        assert "retry" in str(caught.value)
        assert len((await run.record()).attempts) == 1
        assert await (await log.enqueue(fine, 2)).result(10) == "a=2"
        deploy(_one)
        await run.retry()
        assert await run.result(10) == "a=1"


sent: list[str] = []


@effect(key="e:{key}")
def send(key: str) -> str:
    sent.append(key)
    return key


@effect(key="changed:{key}", name="send under another key")
def send_before(key: str) -> str:
    sent.append(f"changed {key}")
    return key


forget(_effects, "send under another key")


@effect(key="template:{key}", name="send under another key")
def send_after(key: str) -> str:
    sent.append(f"template {key}")
    return key


def _body(*keys: str, fail: bool = False) -> Any:
    async def body() -> list[str]:
        values = [send(key) for key in keys]
        if fail:
            raise RuntimeError("stop here")
        return values

    return body


async def _redeployed(log: EffectLog, deploy: Any, before: Any, after: Any) -> Run[Any]:
    """Execute one body until it has failed once, and another one from then on."""
    task = deploy(before, retry=Retry(delay=0.2, jitter=0.0))
    async with log.worker():
        run: Run[Any] = await log.enqueue(task)
        while (await run.record()).error is None:
            await asyncio.sleep(0.005)
        deploy(after)
        await run.result(10)
    return run


@pytest.mark.parametrize(
    "keys",
    [("one", "new", "two", "three"), ("two", "three", "one"), ("new", "one", "two")],
    ids=["added between", "reordered", "added before"],
)
async def test_a_changed_body_replays_by_key_and_runs_only_what_is_new(
    log: EffectLog, deploy: Any, keys: tuple[str, ...]
) -> None:
    sent.clear()
    run = await _redeployed(log, deploy, _body("one", "two", fail=True), _body(*keys))
    assert await run.result(10) == list(keys)
    assert sorted(sent) == sorted({"one", "two", *keys})


async def test_effects_that_the_new_body_no_longer_calls_are_told(log: EffectLog, deploy: Any) -> None:
    with pytest.warns(EffectLogWarning, match="e:two"):
        run = await _redeployed(log, deploy, _body("one", "two", fail=True), _body("one"))
    assert [record.key for record in (await run.record()).effects] == ["e:one", "e:two"]


async def test_a_changed_key_template_is_told_because_it_sends_again(log: EffectLog, deploy: Any) -> None:
    async def before() -> None:
        send_before("x")
        raise RuntimeError("stop here")

    async def after() -> None:
        send_after("x")

    with pytest.warns(EffectLogWarning, match=r"changed:x.*template:x"):
        await _redeployed(log, deploy, before, after)
