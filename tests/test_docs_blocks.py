"""Every block of code on a page is run by a test, or the page or this file says why not.

A line of a block is accounted for in one of three ways.

- By its kind (`KINDS`, `known`): a doctest, a recipe, a command of `regard`. Options of all
  commands are checked; commands outside the tutorials are not run as they stand, because most train
  for minutes or need a model of the reader's.
- By a mark in the page before the block, `<!-- run: tests/file.py -->`, where that file reads the
  page.
- By a mark `<!-- not run: reason -->` with one of `REASONS`.

Korean pages have the code of the English ones, which have the marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH = sorted(
    {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/reference/*.md")}
)
ENGLISH = [ROOT / "README.md", *ENGLISH]
REASONS = {
    "takes minutes",
    "needs a network",
    "needs a cluster",
    "needs Docker",
    "needs root",
    "needs systemd",
    "contents of a file",
    "output of a command",
    "a formula",
}
KINDS = {
    r"(?:.* \| )?regard ": "options checked by tests/test_docs_commands.py, not run: trains for minutes, or needs a model",
    r"(?:\S*/)?pip install |python\S* -m venv ": "not run: needs a network; tests/test_wheel.py installs the wheel",
    r"(?:GET|POST) /": "not run: a request, as tests/visualisation makes it",
}
"""Lines of a shell whose kind says what is done with them."""
RUN_AS_A_WHOLE = {
    "tutorials/": "tests/cli/test_tutorials.py",
    "visualisation.md": "tests/test_docs_visualisation.py",
}
"""Pages whose blocks are all run by one test; commands that it leaves out have their reasons
there.
"""
TOKENS = re.compile(
    r"<!-- (?P<mark>(?:not )?run: .*?) -->"
    r"|^```(?P<language>\S+)\n(?P<fence>.*?)^```"
    r"|(?<=\n)(?P<indented>(?:    [^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Yield language, code and mark of each block of a page; the language of an indented one is
    `shell`.
    """
    mark = ""
    end = 0
    text = page.read_text(encoding="utf-8")
    for token in TOKENS.finditer(text):
        if text[end : token.start()].strip():
            mark = ""
        end = token.end()
        if token["mark"]:
            mark = token["mark"]
        else:
            yield token["language"] or "shell", token["fence"] or token["indented"], mark
            mark = ""


def curls() -> set[str]:
    """Return the lines that tests/serving/test_server_docs.py asks a server."""
    pages = (ROOT / "docs" / "server.md", ROOT / "docs" / "tutorials" / "serve.md")
    return {
        line
        for page in pages
        for line in re.findall(r"^    (curl .*)$", page.read_text("utf-8"), re.MULTILINE)
    }


def known(language: str, code: str) -> bool:
    """Tell whether a block without a mark is of a kind that tests read on every page."""
    if (
        language != "shell"
    ):  # doctests: tests/test_docs.py; recipes: tests/test_docs_commands.py; directives of the site
        return code.startswith(">>> ") or language == "toml" or language.startswith("{")
    lines = re.sub(r" \\\n *", " ", code).splitlines()
    return all(
        line[4:] in curls() or re.match(f"    (?:{'|'.join(KINDS)})", line) for line in lines
    )


def problem(page: Path, language: str, code: str, mark: str) -> str:
    """Return what a block lacks; "" if it is accounted for."""
    name = page.relative_to(ROOT).as_posix().removeprefix("docs/")
    kind, _, value = mark.partition(": ")
    if kind == "not run":
        return "" if value in REASONS else f"no reason of the list: {value}"
    whole = next((test for start, test in RUN_AS_A_WHOLE.items() if name.startswith(start)), "")
    test = ROOT / (value or whole)
    if value or whole:
        reads = test.is_file() and (
            page.name in test.read_text("utf-8")
            or f'"{page.parent.name}"' in test.read_text("utf-8")
        )
        return "" if reads else f"{test} does not read {name}"
    return "" if known(language, code) else "neither run by a test nor marked"


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    problems = [
        f"{code[:70]!r}: {text}"
        for language, code, mark in blocks(page)
        if (text := problem(page, language, code, mark))
    ]
    assert not problems
