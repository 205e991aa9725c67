"""Danger: a password that was not percent-encoded cuts its URL in the wrong place, and a part of it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from effectlog import EffectLog
from effectlog.cli.main import command_line
from effectlog.errors import ConfigurationError
from effectlog.store.url import parse_url

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("hun", "ter")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:hun/ter@db:5432/shop",
        "postgresql://shop:hun#ter@db/shop",
        "postgresql://shop:hun?ter@db/shop",
        "postgresql://shop:12?hunter@db/shop",
        "postgresql://shop:hun@1/ter@db/shop",
        "postgresql://shop:hun[ter@db/shop",
        "postgresql://shop:hunter@db:port/shop",
        "postgresql://shop:hunter@[::1/shop",
        "postgresql://shop:hunter@a:5432,b:x/shop",
    ],
)
def test_it_is_refused_without_repeating_any_of_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        parse_url(url)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    for command in (["runs"], ["retry", "--state", "failed"], ["doctor"]):
        done = CliRunner().invoke(command_line, [*command, "--store", url])
        assert done.exit_code == 1
        assert not any(part in done.output for part in PARTS)


@pytest.mark.parametrize(
    "url",
    ["postgresql:/shop:hunter@db/shop", "postgres:shop:hunter@db/shop", "POSTGRESQL:/shop:hunter@db/shop"],
)
def test_one_slash_is_no_file_name(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be made, named and shown with the password in it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="two slashes") as caught:
        EffectLog(url)
    assert not any(part in str(caught.value) for part in PARTS)
    done = CliRunner().invoke(command_line, ["doctor", "--store", url])
    assert done.exit_code == 1
    assert not any(part in done.output for part in PARTS)
    assert list(tmp_path.iterdir()) == []


def test_a_driver_in_the_scheme_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(ConfigurationError, match="write postgresql://… instead of postgresql\\+asyncpg://"):
        EffectLog("postgresql+asyncpg://shop:hunter@db/shop")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://shop:hun%2Fter@db:5432/shop", "postgresql://shop@db:5432/shop"),
        ("postgresql://shop:hun:ter@db/shop", "postgresql://shop@db/shop"),
        ("postgresql://shop@a,b:5433,[::1]:5432/shop", "postgresql://shop@a,b:5433,[::1]:5432/shop"),
        ("postgresql://shop:hunter@%2Frun%2Fpostgresql/shop", "postgresql://shop@%2Frun%2Fpostgresql/shop"),
        (
            "postgresql:///shop?host=/run/postgresql&user=a@b&password=hunter",
            "postgresql:///run/postgresql/shop",
        ),
    ],
)
def test_a_well_written_one_keeps_its_address_alone(url: str, name: str) -> None:
    assert parse_url(url).name == name
