"""Every command, Python block, TOML and JSON in the documentation is well formed: its options and
names exist.

What commands do is tried elsewhere: those of the tutorials in tests/cli/test_tutorials.py, of other
pages in the tests of their packages. A line with … stands for more than it says, and is not parsed.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import reference

from regard.common.settings import merge
from regard.training import Recipe, preset

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    {*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md")}
    - {*ROOT.glob("docs/log/*.md")}
)
COMMANDS = dict(reference.command_tree())
OPENED = ("No such file", "does not exist", "is a directory")  # files that a reader has


def _lines(page: Path) -> Iterator[str]:
    """Yield the commands of a page, without pipes, comments and what comes after them."""
    text = re.sub(r" \\\n *", " ", page.read_text(encoding="utf-8"))
    for line in re.findall(r"^    (?:.*\| )?(regard .*)$", text, re.MULTILINE):
        if "…" not in line:
            yield line


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )


def _with(pages: list[Path], language: str) -> list[Path]:
    return [page for page in pages if _blocks(page, language)]


def _problem(line: str) -> str:
    """Return what is wrong with a command line; "" if it could be run, given its files."""
    words = shlex.split(
        line.split(" | ")[0].split(" > ")[0].split(" < ")[0], comments=True
    )
    size = 3 if " ".join(words[:3]) in COMMANDS else 2
    name = " ".join(words[:size])
    if name not in COMMANDS:
        return f"no command {name}"
    try:
        COMMANDS[name].make_context(name, words[size:])
    except Exception as problem:  # of the parser, whose errors have a message
        message = str(getattr(problem, "message", problem))
        return "" if any(part in message for part in OPENED) else message
    return ""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if [*_lines(page)]], ids=lambda page: page.name
)
def test_the_options_of_every_command_exist(page: Path) -> None:
    problems = [
        f"{line}: {problem}" for line in _lines(page) if (problem := _problem(line))
    ]
    assert not problems


@pytest.mark.parametrize("page", _with(PAGES, "python"), ids=lambda page: page.name)
def test_python_is_python(page: Path) -> None:
    for block in _blocks(page, "python"):
        if not block.startswith(">>> "):
            compile(block, str(page), "exec")


@pytest.mark.parametrize("page", _with(PAGES, "toml"), ids=lambda page: page.name)
def test_toml_is_a_recipe(page: Path) -> None:
    """All settings exist and have values that training accepts, over the preset that the block
    names.
    """
    for block in _blocks(page, "toml"):
        values = tomllib.loads(block)
        assert values
        Recipe.parse(
            merge(preset(values.pop("preset", "transformer-small")), values), page.name
        )


@pytest.mark.parametrize("page", _with(PAGES, "json"), ids=lambda page: page.name)
def test_json_lines_are_json(page: Path) -> None:
    for block in _blocks(page, "json"):
        assert all(json.loads(line) for line in block.splitlines()), "JSON lines"
