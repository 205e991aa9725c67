"""Lines that must type-check: the decorators keep what a function takes and gives."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, assert_type

from effectlog import EffectLog, Run, RunRecord, Task, durable_task, effect


@effect(key="charge:{order_id}")
def charge(order_id: str, cents: int) -> str:
    return order_id * cents


@effect(key="mail:{to}")
async def mail(to: str, *, body: str = "") -> int:
    return len(to + body)


@durable_task
async def fulfil(order_id: str, cents: int) -> str:
    assert_type(charge(order_id, cents), str)
    assert_type(await mail(order_id, body="x"), int)
    return order_id


@durable_task(concurrency=1)
def count(number: int = 1) -> int:
    return number


class Shop:
    @effect(key="stock:{item}")
    def reserve(self, item: str) -> bool:
        return bool(item)

    @effect(key="made:{item}")
    @classmethod
    def make(cls, item: str) -> "Shop":
        return cls()

    @staticmethod
    @effect(key="told:{item}")
    async def tell(item: str) -> bytes:
        return item.encode()


class Orders:
    @classmethod
    @durable_task
    async def class_below(cls, number: int) -> str:
        return f"{cls.__name__} {number}"

    @durable_task
    @classmethod
    def class_above(cls, number: int) -> bytes:
        return cls.__name__.encode() * number

    @staticmethod
    @durable_task
    def static_below(number: int) -> int:
        return number

    @durable_task(concurrency=1)
    @staticmethod
    async def static_above(number: int) -> float:
        return number / 2


async def on_classes(log: EffectLog) -> None:
    assert_type(await log.enqueue(Orders.class_below, 1), Run[str])
    assert_type(await log.enqueue(Orders.class_above, number=1), Run[bytes])
    assert_type(await log.enqueue(Orders.static_below, 1), Run[int])
    assert_type(await log.run(Orders.static_above.with_options(delay=1), 1), float)
    assert_type(await Orders.class_below(1), str)
    assert_type(Orders.class_above(1), bytes)
    assert_type(Orders.static_below(1), int)
    assert_type(await Orders.static_above(1), float)


async def main(log: EffectLog) -> None:
    run = await log.enqueue(fulfil, "A", 3)
    assert_type(run, Run[str])
    assert_type(await run.result(), str)
    assert_type(await log.enqueue(fulfil.with_options(delay=1.0), "A", cents=3), Run[str])
    assert_type(await log.enqueue(count), Run[int])
    assert_type(await log.run(count, 4), int)
    assert_type(await log.run(fulfil, "A", 3), str)
    assert_type(await log.enqueue_many(count, [(1,), (2,)]), list[Run[int]])
    assert_type(log.sync.run(fulfil, "A", 3), str)
    assert_type(count(3), int)
    assert_type(await fulfil("A", 3), str)
    shop = Shop()
    assert_type(shop.reserve("x"), bool)
    assert_type(Shop.make("x"), Shop)
    assert_type(await Shop.tell("x"), bytes)


# --- ordinary user code: results in argument position, in wider types, in generics, optional ---------

T = TypeVar("T")


@durable_task
async def find_order(number: int) -> str | None:
    return str(number) if number else None


@durable_task
async def lines(order: str) -> list[dict[str, int]]:
    return [{order: 1}]


@durable_task
async def nothing(order: str) -> None:
    charge(order, 1)


class Service:
    def __init__(self, log: EffectLog) -> None:
        self.log = log
        self.last: Run[str] | None = None
        self.runs: list[Run[object]] = []

    async def place(self, order: str, cents: int) -> str:
        self.last = await self.log.enqueue(fulfil, order, cents)
        self.runs.append(self.last)
        self.runs.append(await self.log.enqueue(count, 1))
        return await self.last.result()

    def place_now(self, order: str) -> str | int:
        return self.log.sync.run(fulfil, order, 3)


async def first(awaited: Awaitable[T]) -> T:
    return await awaited


def same(value: T) -> T:
    return value


async def run_all(log: EffectLog, task: Task[[int], T, Any], numbers: Sequence[int]) -> list[T]:
    return [await log.run(task, number) for number in numbers]


async def in_argument_position(log: EffectLog) -> None:
    print(await log.run(count, 3))
    print(await log.run(fulfil, "A", 3), await log.run(find_order, 1), await log.enqueue(nothing, "A"))
    print(await log.enqueue(count, 3), await (await log.enqueue(count, 3)).result())
    print(await log.run(Orders.class_below, 1), await log.run(Orders.static_above, 1))
    print(log.sync.run(count, 3), log.sync.enqueue(count, 3).result(), charge("A", 1), await mail("A"))
    print(await log.run(count.with_options(idempotency_key="A", delay=timedelta(seconds=1)), 3))
    print(await log.enqueue_many(count, [(1,), (2,)]), await log.list_runs(), await log.emit("sold", {}))
    assert_type(str(await log.run(count, 3)), str)
    assert_type(same(await log.run(count, 3)), int)
    assert_type(await first(log.run(fulfil, "A", 3)), str)
    assert_type(await run_all(log, count, [1, 2]), list[int])
    assert len(await log.run(lines, "A")) == 1
    if await log.run(find_order, 3) is None:
        print("no order")


async def in_wider_types(log: EffectLog) -> None:
    anything: object = await log.run(count, 3)
    number: float = await log.run(count, 3)
    perhaps: int | None = await log.run(count, 3)
    run: Run[object] = await log.enqueue(count, 3)
    run_or_none: Run[int | None] | None = await log.enqueue(count, 3)
    many: Sequence[Run[object]] = await log.enqueue_many(count, [(1,)])
    rows: Sequence[Sequence[object]] = [await log.run(lines, "A")]
    later: object = log.sync.run(count, 3)
    task: Task[[int], object, object] = find_order
    tasks: list[Task[..., object, object]] = [count, fulfil, find_order, nothing, Orders.static_below]
    call: Callable[[str, int], Awaitable[object]] = fulfil
    record: RunRecord | None = await run.record()
    text: str | None = await log.run(find_order, 3)
    print(anything, number, perhaps, run, run_or_none, many, rows, later, task, tasks, call, record, text)


async def in_methods(log: EffectLog) -> None:
    service = Service(log)
    assert_type(await service.place("A", 3), str)
    found = service.last
    if found is not None:
        assert_type(await found.result(), str)
