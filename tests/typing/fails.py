"""Lines that must not type-check; each carries the mark that the test looks for."""

from effectlog import EffectLog, durable_task, effect


@effect(key="charge:{order_id}")
def charge(order_id: str, cents: int) -> str:
    return order_id * cents


@durable_task
async def fulfil(order_id: str, cents: int) -> str:
    return order_id * cents


class Shop:
    @effect(key="stock:{item}")
    def reserve(self, item: str) -> bool:
        return bool(item)


class Orders:
    @classmethod
    @durable_task
    def place(cls, number: int) -> str:
        return f"{cls.__name__} {number}"


async def main(log: EffectLog, shop: Shop) -> None:
    Orders.place("1")  # must fail: wrong type
    await log.enqueue(Orders.place)  # must fail: an argument is missing
    await log.enqueue(Orders.place, 1, 2)  # must fail: one too many
    charge("A")  # must fail: an argument is missing
    charge("A", "3")  # must fail: wrong type
    charge("A", cent=3)  # must fail: misspelt
    number: int = charge("A", 3)  # must fail: wrong result
    await fulfil("A")  # must fail: an argument is missing
    await log.enqueue(fulfil, "A")  # must fail: an argument is missing
    await log.enqueue(fulfil, "A", "3")  # must fail: wrong type
    other: int = await (await log.enqueue(fulfil, "A", 3)).result()  # must fail: wrong result
    third: int = await log.run(fulfil, "A", 3)  # must fail: wrong result
    shop.reserve(3)  # must fail: wrong type
    shop.reserve()  # must fail: an argument is missing
    print(number, other, third)
