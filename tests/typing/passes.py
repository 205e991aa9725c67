"""Lines that must type-check: the decorators keep what a function takes and gives."""

from typing import assert_type

from effectlog import EffectLog, Run, durable_task, effect


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
