"""``log.sync`` has what the log has: the same parameters, defaults and types, with blocking twins where it awaits."""

from __future__ import annotations

import inspect
import re

import pytest

from effectlog import EffectLog, Run, Worker
from effectlog.log import SyncLog
from effectlog.runs.within import Within
from effectlog.sync import SyncRun, SyncWithin, SyncWorker

TWINS = {EffectLog: SyncLog, Run: SyncRun, Worker: SyncWorker, Within: SyncWithin}
ONLY_ASYNC = {
    EffectLog: {"administration", "sync"},
    Worker: {"serve", "release", "abandon", "name", "inherited"},  # ``with`` drains or releases.
    Within: {"apply", "blocking", "read"},  # For the enqueuer.
}
ONLY_SYNC = {EffectLog: {"open"}}  # ``with EffectLog(...)`` calls it.


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def blocking(annotation: object) -> str:
    """An annotation as the sync face should have it."""
    return re.sub(r"\b(Run|Worker|Within)\b(?=\[|$)", r"Sync\1", str(annotation))


@pytest.mark.parametrize("cls", TWINS)
def test_what_one_face_has_the_other_has(cls: type) -> None:
    assert public(cls) - ONLY_ASYNC.get(cls, set()) == public(TWINS[cls]) - ONLY_SYNC.get(cls, set())


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (cls, name)
        for cls, twin in TWINS.items()
        for name in sorted(public(cls) & public(twin))
        if inspect.isfunction(inspect.getattr_static(cls, name))
    ],
)
def test_a_method_takes_and_returns_the_same_on_both(cls: type, name: str) -> None:
    wanted = inspect.signature(getattr(cls, name))
    found = inspect.signature(getattr(TWINS[cls], name))
    assert found.parameters == wanted.parameters
    assert found.return_annotation == blocking(wanted.return_annotation)
    assert inspect.getdoc(getattr(TWINS[cls], name))
