"""The papers are executed, their links lead somewhere, and what they say of the code's structure is the code's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAPERS = [README, *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {paper: paper.read_text(encoding="utf-8") for paper in PAPERS}
BLOCKS = [
    pytest.param(match[1], id=f"{paper.name}:{text[: match.start()].count(chr(10)) + 2}")
    for paper, text in TEXTS.items()
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
]
LINKS = [
    pytest.param(paper, match[1], id=f"{paper.name}:{match[1]}")
    for paper, text in TEXTS.items()
    for match in re.finditer(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    if not match[1].startswith(("https://", "mailto:"))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(code, encoding="utf-8")
    # For the snippet that is a test: some releases of pytest-asyncio warn where this is not said.
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-W", "error", "snippet.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("paper", "link"), LINKS)
def test_a_link_leads_somewhere(paper: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (paper.parent / path).resolve() if path else paper
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_front_page() -> None:
    assert {f"docs/{paper.name}" for paper in PAPERS[1:]} <= set(
        re.findall(r"\((docs/\w+\.md)", TEXTS[README])
    )


def test_the_front_page_stays_one() -> None:
    assert len(TEXTS[README].splitlines()) <= 180


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_lines_can_be_read_in_an_editor(paper: Path) -> None:
    prose = [
        line for line in TEXTS[paper].splitlines() if not line.startswith(("|", "![")) and "http" not in line
    ]
    assert [line for line in prose if len(line) > 110] == []


def test_the_first_example_stays_as_short_as_its_title_says() -> None:
    first = re.search(r"^```python\n(.*?)^```", TEXTS[README], re.MULTILINE | re.DOTALL)
    assert first is not None
    assert len([line for line in first[1].splitlines() if line.strip()]) <= 22


def test_ci_runs_the_commands_that_the_readme_shows() -> None:
    for marker in ("try", "test"):
        assert re.search(rf"^<!-- ci: {marker} -->\n```sh\n.+\n```$", TEXTS[README], re.MULTILINE), marker
        assert f"command_after {marker}" in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_no_word_of_a_promise_that_nobody_can_keep(paper: Path) -> None:
    assert "exactly once" not in TEXTS[paper].lower()


def test_the_floors_that_the_page_shows_are_those_of_the_law() -> None:
    law = (ROOT / "tests/architecture/test_the_import_law_is_broken.py").read_text(encoding="utf-8")
    found = re.search(r"^FLOORS[^=]*= (\(.*?^\))", law, re.MULTILINE | re.DOTALL)
    assert found is not None
    floors = [{name.split(".")[0] or "effectlog" for name in floor} for floor in eval(found[1])]
    rooms = [floor for floor, below in zip(floors, [set(), *floors], strict=False) if floor != below]
    page = TEXTS[ROOT / "docs" / "architecture.md"]
    rows = re.findall(r"^\| \d+ \| ([^|]*) \|", page, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in reversed(rows)] == rooms[:-1]
    assert rooms[-1] == {"__main__"}


def test_the_glossary_uses_no_word_of_another_model() -> None:
    _, _, glossary = TEXTS[ROOT / "docs" / "architecture.md"].partition("\n## Words\n")
    assert "| run |" in glossary
    assert re.findall(r"\b(?:jobs?|steps?|workflows?|exactly[ -]once)\b", glossary.lower()) == []
