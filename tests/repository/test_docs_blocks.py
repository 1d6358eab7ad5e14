"""Every block of code on a page is run by a test, or the page says why not.

Doctests (`test_docs.py`), recipes, options of `regard` (`test_docs_commands.py`) and the lines for
curl (`serving/test_server_docs.py`) are read on every page. Before any other block stands
`<!-- run: tests/file.py -->`, where that file reads the page, or `<!-- not run: reason -->`. Korean
pages have the code of the English ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.text_table import lines
from repository.pages import DOCS, KOREAN, PAGES, ROOT, english, read

TRANSLATED = [ROOT / "README.ko.md", *KOREAN]
ENGLISH = [page for page in PAGES if page not in TRANSLATED]
REASONS = lines("""
    takes minutes
    needs a network
    needs a cluster
    needs Docker
    needs root
    needs systemd
    contents of a file
    output of a command
    a formula
""")
RUN_AS_A_WHOLE = {
    "tutorials": "tests/cli/test_tutorials.py",
    "visualisation.md": "tests/repository/test_docs_visualisation.py",
    "insides.md": "tests/test_insides_page.py",
    "python-research.md": "tests/test_research_page.py",
}
"""Folders and pages whose blocks are all run by one test."""
KNOWN = re.compile(
    r"    (?:(?:.* \| )?regard |(?:\S*/)?pip install |python\S* -m venv |(?:GET|POST) /)"
)
"""Lines that trainings, the network or a request need, and whose options are checked."""
SERVED = [DOCS / "server.md", DOCS / "tutorials" / "serve.md"]
CURL = set(re.findall(r"^    curl .*$", "".join(map(Path.read_text, SERVED)), re.M))
"""Lines that a server is asked with."""
BLOCK = re.compile(
    r"<!-- (?P<mark>(?:not )?run: .*?) -->"
    r"|^```(?P<language>\S+)\n(?P<fence>.*?)^```"
    r"|(?<=\n)(?P<indented>(?:    [^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield language, code and mark of each block; an indented one is of a shell."""
    mark = ""
    end = 0
    for found in BLOCK.finditer(text):
        if text[end : found.start()].strip():
            mark = ""
        end = found.end()
        if found["mark"]:
            mark = found["mark"]
        else:
            language = found["language"] or "shell"
            yield language, found["fence"] or found["indented"], mark
            mark = ""


def is_known(language: str, code: str) -> bool:
    """Return whether tests read a block on every page."""
    if language != "shell":
        return code.startswith(">>> ") or language == "toml" or language.startswith("{")
    commands = re.sub(r" \\\n *", " ", code).splitlines()
    return all(KNOWN.match(line) or line in CURL for line in commands)


def problem(page: Path, language: str, code: str, mark: str) -> str:
    """Return what a block lacks; "" if it is accounted for."""
    kind, _, value = mark.partition(": ")
    if kind == "not run":
        return "" if value in REASONS else f"no reason of the list: {value}"
    folder = page.parent.name
    test = value or RUN_AS_A_WHOLE.get(folder) or RUN_AS_A_WHOLE.get(page.name)
    if test is None:
        return "" if is_known(language, code) else "neither run by a test nor marked"
    content = read(ROOT / test)
    reads = page.name in content or f'"{folder}"' in content
    return "" if reads else f"{test} does not read {page.name}"


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks(read(page)):
        assert problem(page, *block) == "", block


def bare(language: str, code: str) -> set[str]:
    """Return the lines of a block without comments."""
    comments = {"c": r"/\*.*?\*/", "js": r"\s//.*"}
    comment = comments.get(language, r"(^|\s)#\s.*")
    return {re.sub(comment, "", line).rstrip() for line in code.splitlines()}


def lines_of_code(page: Path) -> set[str]:
    """Return the lines of all blocks but directives of the site, which have text."""
    known = {""}
    for language, code, _ in blocks(read(page)):
        if not language.startswith("{"):
            known |= bare(language, code)
    return known


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_a_korean_page_has_the_code_of_the_english_one(page: Path) -> None:
    """A summary has some of it."""
    original = english(page)
    assert original.is_file(), "each Korean page is a page in English too"
    assert lines_of_code(page) <= lines_of_code(original)
    if page.parent != ROOT and not read(page).startswith("---\nsummary: true"):
        assert lines_of_code(page) == lines_of_code(original)
        assert read(page).count("\n## ") == read(original).count("\n## ")
