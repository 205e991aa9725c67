"""Runs every guarantee against a store and reports by name."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from effectlog.testing.conformance import (
    cancelling,
    claims,
    concurrency,
    doubt,
    effects,
    evidence,
    idempotency,
    lease,
    purge,
    reads,
    runs,
    time,
)
from effectlog.testing.conformance.report import Failure, Report
from effectlog.testing.conformance.scratch import Bench

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container

    from effectlog.store.protocol import Store
    from effectlog.testing.conformance.guarantee import Guarantee

_TOPICS = (
    runs,
    claims,
    lease,
    time,
    effects,
    evidence,
    doubt,
    cancelling,
    idempotency,
    purge,
    reads,
    concurrency,
)

GUARANTEES: tuple[Guarantee, ...] = tuple(
    guarantee for module in _TOPICS for guarantee in module.topic.guarantees
)
"""All that a store must do, in the order in which it is tried."""


async def check_store(
    open_store: Callable[[], Awaitable[Store]],
    *,
    advance: Callable[[float], Awaitable[None] | None] | None = None,
    shared: bool = True,
    only: Container[str] | None = None,
) -> Report:
    """Try every guarantee on the store that ``open_store`` opens.

    Args:
        open_store: returns an opened store; called several times, and every store is closed.
        advance: lets seconds pass on the store's own clock, for stores whose clock
            can be moved; without it the check really waits, some seconds in all.
        shared: whether two opens see the same data; False for a store in memory, whose guarantees
            between processes are then reported as skipped.
        only: names of guarantees, to try no others.

    Raises StoreError if the store can't be opened; a missing guarantee is reported, not raised.
    """
    store = await open_store()
    report = Report(store.name)
    try:
        for guarantee in GUARANTEES:
            if only is not None and guarantee.name not in only:
                continue
            if guarantee.shared and not shared:
                report.skipped[guarantee.name] = "two opens of this store don't see the same data"
                continue
            await _try(guarantee, Bench(store, open_store, _passer(advance)), report)
    finally:
        await store.close()
    return report


async def _try(guarantee: Guarantee, bench: Bench, report: Report) -> None:
    try:
        try:
            await guarantee.check(bench)
        finally:
            await bench.clean()
    except Exception as error:
        # Whatever a store raises instead of giving the guarantee is a finding about that store.
        report.failed.append(Failure(guarantee.name, _reason(error)))
    else:
        report.passed.append(guarantee.name)


def _reason(error: Exception) -> str:
    # What went wrong first is the finding; cleaning up after it may have failed as well.
    first: BaseException = error
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    return str(first) if isinstance(first, AssertionError) else f"{type(first).__name__}: {first}"


def _passer(
    advance: Callable[[float], Awaitable[None] | None] | None,
) -> Callable[[float], Awaitable[None]]:
    if advance is None:
        return asyncio.sleep

    async def pass_time(seconds: float) -> None:
        result = advance(seconds)
        if inspect.isawaitable(result):
            await result

    return pass_time
