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

import reference
from repository.pages import PAGES, fenced, read

from regard.common.settings import merge
from regard.training import Recipe, preset

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMANDS = dict(reference.command_tree())
OPENED = ("No such file", "does not exist", "is a directory")  # files that a reader has


def _lines(page: Path) -> Iterator[str]:
    """Yield the commands of a page, without pipes, comments and what comes after them."""
    text = re.sub(r" \\\n *", " ", read(page))
    for line in re.findall(r"^    (?:.*\| )?(regard .*)$", text, re.MULTILINE):
        if "…" not in line:
            yield line


def find_problem(line: str) -> str:
    """Return what is wrong with a command line; "" if it could be run, given its files."""
    command = re.split(r" [|<>] ", line)[0]
    words = shlex.split(command, comments=True)
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


def test_the_options_of_every_command_exist() -> None:
    problems = []
    for page in PAGES:
        for line in _lines(page):
            if problem := find_problem(line):
                problems.append(f"{page.name}: {line}: {problem}")
    assert not problems


def test_python_is_python() -> None:
    for page in PAGES:
        for block in fenced(page, "python"):
            if not block.startswith(">>> "):
                compile(block, str(page), "exec")


def test_toml_is_a_recipe() -> None:
    """All settings exist and have values that training accepts, over the preset that the block
    names.
    """
    for page in PAGES:
        for block in fenced(page, "toml"):
            values = tomllib.loads(block)
            assert values
            base = preset(values.pop("preset", "transformer-small"))
            Recipe.parse(merge(base, values), page.name)


def test_json_lines_are_json() -> None:
    for page in PAGES:
        for block in fenced(page, "json"):
            assert all(json.loads(line) for line in block.splitlines()), page.name
