"""Danger: JSON from a shell reaches a task as text where a date, a sum or a dataclass was declared."""

from __future__ import annotations

import json


async def finished(terminal, run_id):
    async with terminal.log() as log:
        return await (await log.get_run(run_id)).result(timeout=20)


async def test_dates_sums_and_dataclasses_positional_and_by_keyword(terminal):
    positional = terminal(
        "enqueue",
        "shop_app:total",
        '["2026-11-02", {"sku": "x", "price": "19.99"}, {"sku": "y", "price": "0.01"}]',
    )
    keyword = terminal.inside("enqueue", "shop_app:total", '{"day": "2026-11-03", "currency": "CHF"}')
    assert (positional.code, keyword.code) == (0, 0), (positional, keyword)
    with terminal.worker():
        await finished(terminal, positional.out.strip())
        await finished(terminal, keyword.out.strip())
    shown = terminal.inside("show", positional.out.strip(), "--json").json
    assert shown["result"] == {"day": "2026-11-02", "sum": "20.00", "currency": "EUR"}
    # The class is unknown to the command line, and what is stored can still be read.
    assert shown["args"] == {
        "day": "2026-11-02",
        "lines": [{"sku": "x", "price": "19.99"}, {"sku": "y", "price": "0.01"}],
    }
    assert terminal.inside("show", keyword.out.strip(), "--json").json["result"]["currency"] == "CHF"


async def test_a_repeated_key_gives_the_first_run_and_other_arguments_are_refused(terminal):
    call = ("enqueue", "shop_app:fails", "--key", "order:A")
    first, again, other = (terminal.inside(*call, given) for given in ("[1]", '{"number": 1}', "[2]"))
    assert (first.code, again.code, other.code) == (0, 0, 1)
    assert again.out == first.out
    assert "nothing was added" in again.err
    assert "number" in other.err
    assert first.out.strip() in other.err


async def test_an_event_reaches_its_subscriber_from_a_process_that_knows_no_task(terminal):
    with terminal.worker():
        emitted = terminal("emit", "order.placed", json.dumps({"name": "Ada"}), "--key", "o-1", "--json")
        (run,) = emitted.json
        assert await finished(terminal, run["id"]) == "hello Ada"
    assert (
        terminal("emit", "order.placed", json.dumps({"name": "Ada"}), "--key", "o-1").out.strip() == run["id"]
    )
