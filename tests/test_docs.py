"""Every doctest of a page runs and prints the output that the page shows."""

from __future__ import annotations

import doctest
import pkgutil
import re
from pathlib import Path

import pytest

import regard.learn.lessons.soft_dictionary

ROOT = Path(__file__).parent.parent
HISTORY = ("CHANGELOG.md", "log.md")  # they keep the names of their time
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")] if ">>> " in page.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_doctests_of_a_page_pass(page: Path) -> None:
    blocks = re.findall(r"```py(?:thon|con)\n(>>> .*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    script = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(script.examples) == page.read_text(encoding="utf-8").count(">>> ")
    output = list[str]()
    result = doctest.DocTestRunner(verbose=False).run(script, out=output.append)
    assert result.failed == 0, "".join(output)


def test_the_doctests_of_the_soft_dictionary_pass() -> None:
    result = doctest.testmod(regard.learn.lessons.soft_dictionary)
    assert result.attempted >= 4
    assert result.failed == 0


@pytest.mark.parametrize(
    "page",
    [p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")] if p.name not in HISTORY],
    ids=lambda page: page.name,
)
def test_python_names_of_a_page_exist(page: Path) -> None:
    """`regard.visualisation.page_data(…)` in running text calls what is there."""
    for name in set(
        re.findall(
            r"`(regard(?:\.(?!json|service|h\b|dll|wasm|d\.ts|js\b)\w+)+)(?:\([^`]*)?`",
            page.read_text(encoding="utf-8"),
        )
    ):
        assert pkgutil.resolve_name(name) is not None, f"{page.name}: {name}"


def test_pages_with_doctests_include_the_main_ones() -> None:
    assert {"README.md", "attention.md"} <= {page.name for page in PAGES}
