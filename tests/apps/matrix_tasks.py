"""Every kind of destination under every policy, as one task whose effect can be stopped at named points.

Imported by the test's process and by the one that is killed. ``urls`` says where each cell's destination is.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from effectlog import Applied, NotApplied, Retry, durable_task, effect, operation_id
from effectlog.contract import Destination
from effectlog.testing.destinations import KINDS, send

LAG = timedelta(seconds=0.2)
SETTLE = timedelta(seconds=0.5)
POLICIES = ("resend", "hold", "look-up")


class Cell(NamedTuple):
    kind: str
    policy: str

    @property
    def keyed(self) -> bool:
        return KINDS[self.kind].contract.deduplicates

    @property
    def searchable(self) -> bool:
        return KINDS[self.kind].index_lag is not None

    @property
    def safe(self) -> bool:
        """Whether the design promises that there is no second effect."""
        return self.policy == "hold" or self.keyed or (self.policy == "look-up" and self.searchable)


CELLS = [Cell(*pair) for pair in product(KINDS, POLICIES)]

urls: dict[Cell, str] = {}
pause: Callable[[str], None] = lambda point: None  # noqa: E731 - replaced in the process that is killed


def contract_of(kind: str) -> Destination:
    waits = kind in ("look_up", "late")
    return KINDS[kind].contract.replace(settle=SETTLE if waits else timedelta(0))


def request(cell: Cell, operation: str) -> Any:
    pause("before request")
    answer = send(urls[cell], {"operation": operation}, key=operation_id(), timeout=30)
    pause("accepted")
    return answer["id"]


def find(cell: Cell, operation: str) -> Applied | NotApplied:
    """Ask the destination's search for the marker that the request carried."""
    query = urlencode({"operation": operation, "key": operation_id()})
    try:
        with urlopen(f"{urls[cell]}/effects?{query}", timeout=30) as answer:
            found = json.load(answer)
    except HTTPError as error:  # It has no such search.
        error.close()
        raise
    return Applied(f"found-{found[0]['id']}") if found else NotApplied()


def declare(cell: Cell, *, is_async: bool, retry: Retry | None) -> Any:
    declared = effect(
        key="send:{operation}",
        name=f"{cell.kind}/{cell.policy}/{is_async}/{retry is not None}",
        destination=contract_of(cell.kind),
        in_doubt=(lambda operation: find(cell, operation)) if cell.policy == "look-up" else cell.policy,
        lookup_budget=0.3,
        retry=retry,
    )

    def sync_send(operation: str) -> Any:
        return request(cell, operation)

    async def async_send(operation: str) -> Any:
        return await asyncio.to_thread(request, cell, operation)

    return declared(async_send if is_async else sync_send)


EFFECTS = {
    (cell, is_async, inside): declare(cell, is_async=is_async, retry=Retry(delay=0.0) if inside else None)
    for cell, is_async, inside in product(CELLS, (False, True), (False, True))
}


@durable_task(name="matrix-sync", retry=Retry(delay=0.0))
def sync_task(kind: str, policy: str) -> Any:
    value = EFFECTS[Cell(kind, policy), False, False](kind)
    pause("after effect")
    return value


@durable_task(name="matrix-async", retry=Retry(delay=0.0))
async def async_task(kind: str, policy: str) -> Any:
    value = await EFFECTS[Cell(kind, policy), True, False](kind)
    await asyncio.to_thread(pause, "after effect")
    return value


@durable_task(name="matrix-inside", retry=Retry(max_attempts=1))
async def inside_task(kind: str, policy: str) -> Any:
    """The effect tries again by itself, and the run may not."""
    return await EFFECTS[Cell(kind, policy), True, True](kind)


TASKS = {"sync": sync_task, "async": async_task, "inside": inside_task}
