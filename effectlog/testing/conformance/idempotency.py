"""Guarantees about idempotency keys: one set of runs a key and scope, until they are purged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from effectlog.store import commands as c
from effectlog.testing.conformance.expectations import accepted, equal, expect
from effectlog.testing.conformance.guarantee import Topic

if TYPE_CHECKING:
    from effectlog.testing.conformance.scratch import Bench

topic = Topic("idempotency")


def _keyed(bench: Bench, key: str | None = "k", scope: str = "scope", prints: str = "{}") -> c.CreateRuns:
    return c.CreateRuns((bench.new_run(),), bench.name(scope), key, prints)


@topic.guarantee("a known key returns the first run and its fingerprints, and creates nothing")
async def _(bench: Bench) -> None:
    first = _keyed(bench, prints='{"a": "1"}')
    second = _keyed(bench, prints='{"a": "2"}')
    created = accepted(await bench.do(first), c.Created)
    equal((created.created, created.run_ids), (True, (first.runs[0].id,)), "what the first call got")
    known = accepted(await bench.do(second), c.Created)
    equal((known.created, known.run_ids), (False, created.run_ids), "what the second call got")
    equal(known.fingerprints, '{"a": "1"}', "the fingerprints that the second call got")
    equal(await bench.store.get(second.runs[0].id), None, "the second run")


@topic.guarantee("a key counts within its scope")
async def _(bench: Bench) -> None:
    for scope in ("one", "two"):
        outcome = await bench.do(_keyed(bench, scope=scope))
        expect(accepted(outcome, c.Created).created, "another scope's key was taken for its own")


@topic.guarantee("a key is also found in the older scopes of its task")
async def _(bench: Bench) -> None:
    first = accepted(await bench.do(_keyed(bench, scope="old")), c.Created)
    renamed = replace(_keyed(bench, scope="new"), older_scopes=(bench.name("older"), bench.name("old")))
    known = accepted(await bench.do(renamed), c.Created)
    equal((known.created, known.run_ids), (False, first.run_ids), "what the call under the new name got")


@topic.guarantee("one batch creates one run for a key")
async def _(bench: Bench) -> None:
    outcomes = await bench.batch(*(_keyed(bench) for _ in range(5)))
    created = [accepted(outcome, c.Created) for outcome in outcomes]
    equal(
        [outcome.created for outcome in created],
        [True, False, False, False, False],
        "which calls created one",
    )
    equal({outcome.run_ids for outcome in created}, {created[0].run_ids}, "the runs they got")


@topic.guarantee("without a key every call creates a run")
async def _(bench: Bench) -> None:
    outcomes = await bench.batch(*(_keyed(bench, None) for _ in range(3)))
    equal(len({accepted(outcome, c.Created).run_ids for outcome in outcomes}), 3, "the number of runs")


@topic.guarantee("the runs of one event have one key together")
async def _(bench: Bench) -> None:
    runs = tuple(bench.new_run(f"subscriber {n}") for n in range(3))
    first = accepted(await bench.do(c.CreateRuns(runs, bench.name("event"), "k")), c.Created)
    equal(first.run_ids, tuple(run.id for run in runs), "the created runs, in order")
    again = c.CreateRuns((bench.new_run(), bench.new_run()), bench.name("event"), "k")
    known = accepted(await bench.do(again), c.Created)
    equal((known.created, known.run_ids), (False, first.run_ids), "what the second call got")
    for run in runs:
        equal((await bench.stored(run.id)).idempotency_key, "k", "the key of each run")


@topic.guarantee("keys are told apart character by character")
async def _(bench: Bench) -> None:
    keys = [
        "k",
        "K",
        "k ",
        " k",
        "k\n",
        "k'",
        'k"',
        "k\\",
        "ké",
        "ke\u0301",
        "🔑",
        "1",
        "1.0",
        "null",
        "[]",
        "%",
        "k_",
    ]
    outcomes = await bench.batch(*(_keyed(bench, key) for key in keys))
    for key, outcome in zip(keys, outcomes, strict=True):
        expect(accepted(outcome, c.Created).created, f"the key {key!r} was taken for another one")
    for key in keys:
        known = accepted(await bench.do(_keyed(bench, key)), c.Created)
        expect(not known.created, f"the key {key!r} was not found again")


@topic.guarantee("a key stays with its run after the run has ended")
async def _(bench: Bench) -> None:
    first = _keyed(bench)
    await bench.do(first)
    await bench.end(await bench.take(first.runs[0].id))
    known = accepted(await bench.do(_keyed(bench)), c.Created)
    equal((known.created, known.run_ids), (False, (first.runs[0].id,)), "what the second call got")
