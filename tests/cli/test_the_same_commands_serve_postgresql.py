"""Danger: the tools work on the file of a first day and not on the database that production has."""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import urlsplit

import pytest
import shop_app

from effectlog import EffectLog, RunHeld


async def test_enqueue_work_show_resolve_and_examine(terminal, postgres_database, monkeypatch):
    there = dataclasses.replace(terminal, url=postgres_database)
    run_id = there.inside("enqueue", "shop_app:sell", '["A-1"]').out.strip()
    with there.worker():
        async with EffectLog(postgres_database) as log:
            run = await log.get_run(run_id)
            with pytest.raises(RunHeld):
                await run.result(timeout=30)
            examined = there.inside("doctor", "--json")
            assert examined.code == 1
            assert examined.json["held"] == [run_id]
            assert [worker["alive"] for worker in examined.json["workers"]] == [True]
            decided = there.inside("resolve", run_id, "charge:A-1", "--applied", "3", "--by", "Ada")
            assert decided.code == 0, decided.err
            assert await run.result(timeout=30) == "Decimal('3')"
    healthy = there.inside("doctor")
    assert re.search(r"^open transactions {2,}\d", healthy.out, re.MULTILINE)
    assert (healthy.code, healthy.err) == (0, "")
    assert run_id in there.inside("runs", "--state", "succeeded").out


async def test_a_password_is_neither_shown_nor_suggested(terminal, postgres_database):
    parts = urlsplit(postgres_database)
    secret = parts._replace(netloc=f"{parts.username}:s3cret@{parts.netloc.rpartition('@')[2]}").geturl()
    async with EffectLog(secret) as log, log.worker():
        run = await log.enqueue(shop_app.sell, "A-1")
        with pytest.raises(RunHeld):
            await run.result(timeout=30)
    for command in (("show", run.id), ("doctor",), ("migrate",)):
        done = terminal.inside(*command, "--store", secret)
        assert done.out
        assert "s3cret" not in done.out + done.err
