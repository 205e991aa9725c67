"""What the journal says to the next call under a key, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from effectlog import EffectConflict, effect
from effectlog.decorators.registry import declared_effect
from effectlog.decorators.spec import EffectCall
from effectlog.effects.journal import Answer, answer
from effectlog.model import EffectState, Policy
from effectlog.store.rows import EffectRow

STARTED, COMPLETED, FAILED = EffectState.STARTED, EffectState.COMPLETED, EffectState.FAILED


@effect(key="charge:{order}", name="a charge in a table")
def charge(order: str, cents: int = 100) -> None:
    del order, cents


def call(fingerprints: dict[str, str], defaults: dict[str, str] | None = None) -> EffectCall:
    spec: Any = declared_effect("a charge in a table")
    return EffectCall(spec, "charge:7", fingerprints, lambda: defaults or {}, charge, ("7",), {}, None)


def row(state: EffectState, *, final: bool = False, **changes: Any) -> EffectRow:
    values: dict[str, Any] = {"fingerprints": {"order": "o", "cents": "c"}, "name": "a charge in a table"}
    values |= changes
    return EffectRow(
        "run", "charge:7", operation_id="id", policy=Policy.RESEND, state=state, final=final, **values
    )


@pytest.mark.parametrize(
    ("effect_row", "expected"),
    [
        (None, Answer.SEND),
        (row(COMPLETED), Answer.REPLAY),
        (row(STARTED), Answer.DOUBT),
        (row(FAILED, final=True), Answer.RERAISE),
        (row(FAILED), Answer.SEND),
    ],
)
def test_each_state_has_one_answer(effect_row: EffectRow | None, expected: Answer) -> None:
    assert answer(effect_row, call({"order": "o", "cents": "c"})) is expected


@pytest.mark.parametrize("state", [STARTED, COMPLETED, FAILED])
@pytest.mark.parametrize(
    ("stored", "given", "defaults", "differs"),
    [
        (
            {"order": "o"},
            {"order": "o", "cents": "c"},
            {"cents": "c"},
            [],
        ),  # A new parameter with its default.
        ({"order": "o", "cents": "c"}, {"order": "o"}, {}, ["cents"]),
        ({"order": "o"}, {"order": "o", "cents": "d"}, {"cents": "c"}, ["cents"]),
        ({"order": "o", "cents": "c"}, {"order": "p", "cents": "d"}, {}, ["cents", "order"]),
    ],
)
def test_other_arguments_are_another_operation(
    state: EffectState,
    stored: dict[str, str],
    given: dict[str, str],
    defaults: dict[str, str],
    differs: list[str],
) -> None:
    if not differs:
        answer(row(state, fingerprints=stored), call(given, defaults))
        return
    with pytest.raises(EffectConflict) as caught:
        answer(row(state, fingerprints=stored), call(given, defaults))
    assert sorted(caught.value.parameters) == differs
    assert caught.value.effect_key == "charge:7"


@pytest.mark.parametrize("state", [STARTED, COMPLETED, FAILED])
def test_another_effect_function_is_another_operation(state: EffectState) -> None:
    with pytest.raises(EffectConflict, match="belongs to a refund"):
        answer(row(state, name="a refund"), call({"order": "o", "cents": "c"}))
