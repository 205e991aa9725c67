"""Danger: runs have failed for good, and the tool that operators ask says that nothing needs a person."""

from __future__ import annotations

import dataclasses

import pytest
import shop_app

from effectlog import RunFailed


@pytest.fixture(params=["sqlite", "postgresql"])
def there(terminal, request):
    if request.param == "sqlite":
        return terminal
    return dataclasses.replace(terminal, url=request.getfixturevalue("postgres_database"))


async def test_a_dead_letter_counts_until_it_is_retried_or_purged(there):
    async with there.log() as log, log.worker():
        runs = [await log.enqueue(shop_app.fails, number) for number in (1, 2)]
        for run in runs:
            with pytest.raises(RunFailed):
                await run.result(timeout=20)
    found = there.inside("doctor")
    assert found.code == 1
    assert "2 dead letters: shop_app.fails (2)" in found.err
    assert "nothing needs a person" not in found.out
    assert there.inside("doctor", "--json").json["dead_letters"] == {"shop_app.fails": 2}
    assert there.inside("doctor", "--since", "0s").code == 0
    async with there.log() as log:
        retried = await log.get_run(runs[0].id)
        await retried.retry()
        await retried.cancel()
        assert there.inside("doctor", "--json").json["dead_letters"] == {"shop_app.fails": 1}
        await log.purge(0)
    assert there.inside("doctor").code == 0
