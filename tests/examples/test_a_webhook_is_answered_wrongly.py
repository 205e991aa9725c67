"""Danger: a provider's webhook that comes too early is thanked and forgotten, so the doubt stays for ever."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from effectlog.testing.destinations import CountingDestination, Fault

SHOP = Path(__file__).parents[2] / "examples" / "web_shop.py"


@pytest.fixture(scope="module")
def web_shop() -> Any:
    spec = importlib.util.spec_from_file_location("web_shop", SHOP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def provider() -> Iterator[CountingDestination]:
    with CountingDestination("blind") as running:
        yield running


@pytest.fixture
def shop(
    web_shop: Any, provider: CountingDestination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx.Client]:
    monkeypatch.setenv("SHOP_STORE", str(tmp_path / "shop.db"))
    monkeypatch.setenv("PAYMENTS_URL", provider.url)
    monkeypatch.setenv("WEBHOOK_SECRET", "shared with the provider")
    with web_shop.serving() as client:
        yield client


def event(reference: str) -> dict[str, str]:
    return {"id": "evt_1", "reference": reference, "order": "A-1", "payment": "effect-1"}


def order(shop: httpx.Client) -> str:
    return str(shop.post("/orders", json={"order": "A-1", "cents": 500}).json()["run"])


def test_too_early_is_told_to_come_back_and_then_decides(
    web_shop: Any, shop: httpx.Client, provider: CountingDestination
) -> None:
    provider.next_request(Fault(delay_after=60, lose=True))
    run = order(shop)
    provider.wait_for_effects(1)
    assert web_shop.announce(shop, event(run)) == 409
    provider.release()
    web_shop.wait_for(shop, run, "held")
    assert web_shop.announce(shop, event(run)) == 204
    assert web_shop.wait_for(shop, run, "succeeded")["result"]["payment"] == "effect-1"
    assert (len(provider.requests()), len(provider.effects())) == (1, 1)


def test_what_is_known_already_is_thanked_for(
    web_shop: Any, shop: httpx.Client, provider: CountingDestination
) -> None:
    run = order(shop)
    web_shop.wait_for(shop, run, "succeeded")
    assert web_shop.announce(shop, event(run)) == 204
    assert len(provider.effects()) == 1


def test_what_is_not_ours_is_not_found(web_shop: Any, shop: httpx.Client) -> None:
    assert web_shop.announce(shop, event("some other shop's run")) == 404


def test_what_the_provider_did_not_sign_decides_nothing(
    web_shop: Any, shop: httpx.Client, provider: CountingDestination
) -> None:
    """Whoever finds the address could have orders taken for paid."""
    provider.lose_next_answer()
    run = order(shop)
    web_shop.wait_for(shop, run, "held")
    forged = web_shop.signature(b"something else that was signed once")
    for headers in ({}, {"Signature": ""}, {"Signature": forged}):
        assert shop.post("/webhooks/payments", json=event(run), headers=headers).status_code == 401
    assert web_shop.wait_for(shop, run, "held", "succeeded")["state"] == "held"
