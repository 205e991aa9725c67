"""What is wrapped keeps its kind, its name, its binding and its TypeErrors, in every form a function comes in."""

import asyncio
import copy
import functools
import inspect
import pickle
from typing import Any

import pytest
import tenacity
from support.executing import executed, outcomes, states

from effectlog import ConfigurationError, EffectLog, Retry, RunFailed, durable_task, effect

calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @effect(key="sell:{item}")
    def sell(self, item: str, count: int = 1) -> str:
        """Sells."""
        calls.append((self.name, item, count))
        return f"{self.name} sold {count} {item}"

    @effect(key="{self.name}:{item}")
    async def order(self, item: str) -> str:
        calls.append((self.name, item))
        return f"{self.name} ordered {item}"

    @effect(key="open:{where}")
    @classmethod
    def open_above(cls, where: str) -> str:
        return f"{cls.__name__} {where}"

    @classmethod
    @effect(key="open2:{where}")
    def open_below(cls, where: str) -> str:
        return f"{cls.__name__} {where}"

    @effect(key="static:{where}")
    @staticmethod
    def static_above(where: str) -> str:
        return where

    @staticmethod
    @effect(key="static2:{where}")
    def static_below(where: str) -> str:
        return where

    @effect(key="aclass:{where}")
    @classmethod
    async def aclass_above(cls, where: str) -> str:
        return f"{cls.__name__} {where}"


class Kiosk(Shop):
    pass


@durable_task
async def uses_methods() -> list[Any]:
    shop, kiosk = Shop("shop"), Kiosk("kiosk")
    return [
        shop.sell("tea"),
        Shop.sell(shop, "cup", count=2),
        await shop.order("x"),
        await kiosk.order("x"),
        Shop.open_above("a"),
        Kiosk.open_below("b"),
        kiosk.static_above("c"),
        Shop.static_below("d"),
        await Kiosk.aclass_above("e"),
    ]


async def test_methods_of_every_kind_journal_without_their_object(log: EffectLog) -> None:
    """F109, F087."""
    record = await executed(log, uses_methods)
    assert record.result == [
        "shop sold 1 tea",
        "shop sold 2 cup",
        "shop ordered x",
        "kiosk ordered x",
        "Shop a",
        "Kiosk b",
        "c",
        "d",
        "Kiosk e",
    ]
    assert set(states(record)) == {
        *("sell:tea", "sell:cup", "shop:x", "kiosk:x", "open:a"),
        *("open2:b", "static:c", "static2:d", "aclass:e"),
    }


@durable_task
def many_short_lived() -> int:
    return len({Shop(str(n)).sell("tea") for n in range(100)})


async def test_short_lived_objects_share_their_key(log: EffectLog) -> None:
    with pytest.warns(UserWarning, match="used again"):
        record = await executed(log, many_short_lived)
    assert record.result == 1
    assert len(calls) == 1


def test_introspection_sees_the_function() -> None:
    assert Shop.sell.__name__ == "sell"
    assert Shop.sell.__qualname__ == "Shop.sell"
    assert Shop.sell.__doc__ == "Sells."
    assert list(inspect.signature(Shop.sell).parameters) == ["self", "item", "count"]
    assert list(inspect.signature(Shop("x").sell).parameters) == ["item", "count"]
    assert list(inspect.signature(Kiosk.open_above).parameters) == ["where"]
    assert pickle.loads(pickle.dumps(sync_effect)) is sync_effect


def test_what_holds_a_decorated_function_can_be_copied() -> None:
    for function in (sync_effect, async_effect, sync_task):
        assert copy.copy(function) is function
        assert copy.deepcopy({"handlers": [function]}) == {"handlers": [function]}


@effect(key="s")
def sync_effect() -> str:
    calls.append("sync")
    return "sync"


@effect(key="a")
async def async_effect() -> str:
    calls.append("async")
    return "async"


@durable_task
async def async_task() -> None: ...


@durable_task
def sync_task() -> None: ...


@pytest.mark.parametrize("tells", [inspect.iscoroutinefunction, asyncio.iscoroutinefunction])
def test_coroutine_functions_look_like_ones(tells: Any) -> None:
    """F106."""
    assert tells(async_effect)
    assert tells(async_task)
    assert tells(Shop("x").order)
    assert not tells(sync_effect)
    assert not tells(sync_task)
    assert not tells(Shop("x").sell)


class AsyncCallable:
    async def __call__(self, n: int) -> int:
        calls.append(n)
        return n


async def add(n: int, more: int) -> int:
    calls.append(n)
    return n + more


part = effect(key="part:{n}")(functools.partial(add, more=1))
called = effect(key="called:{n}")(AsyncCallable())


@durable_task
async def hidden_async() -> list[int]:
    return [await part(1), await called(2)]


async def test_partials_and_callable_objects_are_async_where_their_inside_is(log: EffectLog) -> None:
    record = await executed(log, hidden_async)
    assert record.result == [2, 2]
    assert set(states(record).values()) == {"completed"}


@effect(key="hides")
def hides_a_coroutine(n: int) -> Any:
    calls.append("hides")
    return add(n, 1)


@durable_task(retry=Retry(max_attempts=1))
def takes_a_hidden_coroutine() -> Any:
    return hides_a_coroutine(1)


async def test_an_awaitable_is_never_stored_as_a_result(log: EffectLog) -> None:
    """F107: refused, with what to write instead; what the function did before is in doubt."""
    record = await executed(log, takes_a_hidden_coroutine)
    assert record.state == "failed"
    assert record.error is not None
    assert "async def" in record.error.message
    assert record.effects[0].in_doubt
    assert calls == ["hides"]


@durable_task(retry=Retry(max_attempts=1))
def task_hides_a_coroutine() -> Any:
    return add(1, 1)


async def test_a_task_that_returns_an_awaitable_fails_with_the_advice(log: EffectLog) -> None:
    record = await executed(log, task_hides_a_coroutine)
    assert record.error is not None
    assert "async def" in record.error.message


above = tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none(), reraise=True)


@above
@effect(key="flaky")
def flaky_below() -> str:
    calls.append("flaky")
    if len(calls) < 3:
        raise OSError("again")
    return "third"


@effect(key="aflaky")
@above
async def flaky_above() -> str:
    calls.append("aflaky")
    if len(calls) < 3:
        raise OSError("again")
    return "third"


@durable_task
async def stacked() -> list[str]:
    first = flaky_below()
    calls.clear()
    return [first, await flaky_above()]


async def test_tenacity_above_and_below_both_journal(log: EffectLog) -> None:
    record = await executed(log, stacked)
    assert record.result == ["third", "third"]
    requests = {effect.key: effect.requests for effect in record.effects}
    assert requests == {"flaky": 3, "aflaky": 1}


@effect(key="k:{a}")
def keyword_only(*, a: int) -> int:
    return a


@effect(key="p:{a}{b}")
def positional_only(a: int, /, b: int) -> int:
    return a + b


@effect(key="v:{xs[0]}{k}")
def variadic(*xs: int, k: int = 1) -> int:
    return sum(xs) + k


@effect(key="m:{a}{b}{c}")
def mixed(a: int, b: int = 2, *, c: int, **kw: int) -> int:
    return a + b + c + sum(kw.values())


@durable_task
def calls_them_all() -> list[int]:
    return [keyword_only(a=1), positional_only(1, b=2), variadic(1, 2, k=3), mixed(1, c=3, d=4)]


async def test_every_signature_is_callable_as_before(log: EffectLog) -> None:
    """F091."""
    assert calls_them_all() == [1, 3, 6, 10]
    assert (await executed(log, calls_them_all)).result == [1, 3, 6, 10]


WRONG: dict[str, Any] = {
    "missing": keyword_only,  # type: ignore[call-arg]
    "unknown": lambda: keyword_only(a=1, b=2),  # type: ignore[call-arg]
    "too many": lambda: positional_only(1, 2, 3),  # type: ignore[call-arg]
    "twice": lambda: mixed(1, 2, c=3, a=4),  # type: ignore[misc]
    "method": lambda: Shop("x").sell(),  # type: ignore[call-arg]
    "async": lambda: async_effect("x"),  # type: ignore[call-arg]
}


@durable_task(retry=Retry(max_attempts=2, delay=0))
def calls_wrongly(how: str) -> None:
    WRONG[how]()


@pytest.mark.parametrize("how", WRONG)
async def test_a_wrong_call_is_pythons_own_type_error_before_any_record(log: EffectLog, how: str) -> None:
    """F126: bounded like any error, with its traceback."""
    with pytest.raises(TypeError) as plain:
        await _awaited(WRONG[how])
    record = await executed(log, calls_wrongly, how)
    assert record.effects == ()
    assert outcomes(record) == ["error", "error"]
    assert record.error is not None
    assert record.error.type == "TypeError"
    assert record.error.message.split(") ")[-1] == str(plain.value).split(") ")[-1]
    assert "calls_wrongly" in record.error.traceback


async def _awaited(call: Any) -> None:
    value = call()
    if inspect.isawaitable(value):
        await value


def test_generators_are_refused_at_decoration() -> None:
    """F111."""
    with pytest.raises(TypeError, match="list"):

        @effect(key="g")
        def generator() -> Any:
            yield 1

    with pytest.raises(TypeError, match="list"):

        @effect(key="g")
        async def async_generator() -> Any:
            yield 1

    with pytest.raises(TypeError, match="list"):

        @durable_task
        def generator_task() -> Any:
            yield 1


def test_what_cannot_work_is_refused_at_decoration() -> None:
    for bad in ("", "{nobody}", "{0}"):
        with pytest.raises(ConfigurationError):
            effect(key=bad)(add)
    with pytest.raises(ConfigurationError, match="ignore"):
        effect(key="x", ignore=("nobody",))(add)
    with pytest.raises(ConfigurationError, match="in_doubt"):
        effect(key="x", in_doubt="perhaps")(add)


async def test_an_error_outside_an_effect_keeps_its_traceback(log: EffectLog) -> None:
    run = await log.enqueue(calls_wrongly, "nobody")
    async with log.worker():
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=20)
    assert failed.value.type_name == "KeyError"
    assert "calls_wrongly" in failed.value.traceback
