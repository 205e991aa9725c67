"""Danger: an error names a value, a remedy or a function that its reader does not find, and the search begins there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from effectlog import EffectLog, EncodingError, Retry, RunFailed, durable_task, effect
from effectlog.codec import JsonCodec
from effectlog.errors import KeyTemplateError

if TYPE_CHECKING:
    from pathlib import Path


class Unstorable:
    pass


@durable_task(name="points.order")
def take(order: Any, note: str = "") -> None: ...


async def test_an_argument_is_called_by_its_name(log: EffectLog) -> None:
    with pytest.raises(EncodingError, match=r"can't be stored: order\[\"items\"\]\[0\] of type") as told:
        await log.enqueue(take, {"items": [Unstorable()]}, note="fine")
    assert told.value.path == 'order["items"][0]'
    assert "result" not in str(told.value)


@durable_task(name="points.subscriber", on="points.placed")
def placed(order: Any) -> None: ...


async def test_a_payload_is_called_by_the_parameter_that_takes_it(log: EffectLog) -> None:
    with pytest.raises(EncodingError, match=r'arguments\["order"\]\["who"\] of type'):
        await log.emit("points.placed", {"who": Unstorable()})


class OwnCodec(JsonCodec):
    def encode(self, value: object, *, root: str = "mine") -> bytes:
        return super().encode(value, root=root)


async def test_another_codec_keeps_its_own_words(tmp_path: Path) -> None:
    async with EffectLog(tmp_path / "own.db", codec=OwnCodec()) as log:
        with pytest.raises(EncodingError, match=r"argument 'order' .* mine of type"):
            await log.enqueue(take, Unstorable())


class Account(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    token: pydantic.SecretStr = pydantic.SecretStr("x")
    page: Any = None


def test_a_pydantic_model_is_not_advised_to_become_one() -> None:
    encode = JsonCodec().encode
    with pytest.raises(EncodingError, match=r"^result\.token .* a secret would be readable"):
        encode(Account())
    with pytest.raises(EncodingError, match=r"^result of type pydantic.* use its text"):
        encode(pydantic.AnyUrl("http://example.com"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_pydantic_1_is_told_its_way() -> None:
    v1 = pytest.importorskip("pydantic.v1")
    with pytest.raises(EncodingError, match=r"pydantic 1: use its `\.dict\(\)`"):
        JsonCodec().encode(type("Old", (v1.BaseModel,), {"__module__": __name__})())


@effect(key=lambda order: order["missing"], name="points.charge")
def charge(order: dict[str, str]) -> None: ...


@durable_task(name="points.charging", retry=Retry(max_attempts=1))
def charging() -> None:
    charge({})


@durable_task(name="points.keyed", concurrency_key=lambda order: order["missing"])
def keyed(order: dict[str, str]) -> None: ...


async def test_a_key_function_that_raises_is_found_by_its_effect_or_task(log: EffectLog) -> None:
    with pytest.raises(
        RunFailed, match=r"effect points\.charge: its key callable raised KeyError: 'missing'"
    ):
        await log.run(charging)
    named = r"task points\.keyed \(concurrency_key=\): its key callable raised KeyError: 'missing'"
    with pytest.raises(KeyTemplateError, match=named) as told:
        await log.enqueue(keyed, {})
    assert isinstance(told.value.__cause__, KeyError)
