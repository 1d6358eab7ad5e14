"""Every doctest of a page runs and prints the output that the page shows."""

from __future__ import annotations

import doctest
import pkgutil
import re
import warnings
from pathlib import Path

import pytest
from helpers.small_models import folder
from repository.pages import DOCS, LOGS, PAGES, ROOT, fenced, read

import regard.learn.lessons.soft_dictionary
from regard.common.errors import LineWarning

TEXTS = sorted({*PAGES, *ROOT.glob("*.md")})
DOCTESTS = [page for page in TEXTS if ">>> " in read(page)]
CALLED = re.compile(
    r"`(regard(?:\.(?!json|service|h\b|dll|wasm|d\.ts|js\b)\w+)+)(?:\([^`]*)?`"
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("page", DOCTESTS, ids=lambda page: page.name)
def test_the_doctests_of_a_page_pass(page: Path) -> None:
    blocks = re.findall(r"```py(?:thon|con)\n(>>> .*?)```", read(page), re.DOTALL)
    parser = doctest.DocTestParser()
    script = parser.get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(script.examples) == read(page).count(">>> ")
    output = list[str]()
    result = doctest.DocTestRunner(verbose=False).run(script, out=output.append)
    assert result.failed == 0, "".join(output)


def test_the_page_of_markup_translates_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is no doctest, since it needs a model, after the doctest before it."""
    folder(tmp_path / "runs" / "first", end=2.0)
    monkeypatch.chdir(tmp_path)
    first, second, third = fenced(DOCS / "markup.md", "python")[:3]
    Path("page.html").write_text("<p>나는 <b>집에</b> 간다</p>", encoding="utf-8")
    names: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(first):
        exec(example.source, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # the model is untrained
        exec(compile(second, "markup.md", "exec"), names)
        exec(compile(third, "markup.md", "exec"), names)

    assert names["translations"]
    page = names["translated"]
    assert isinstance(page, bytes)
    assert page.count(b"<b>") == 1


def test_the_doctests_of_the_soft_dictionary_pass() -> None:
    result = doctest.testmod(regard.learn.lessons.soft_dictionary)
    assert result.attempted >= 4
    assert result.failed == 0


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_python_names_of_a_page_exist(page: Path) -> None:
    """`regard.visualisation.page_data(…)` in running text calls what is there."""
    for name in {*CALLED.findall(read(page))}:
        assert pkgutil.resolve_name(name) is not None, f"{page.name}: {name}"


def _prose(page: Path) -> str:
    """Read a page without its blocks of code."""
    return re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page, and the targets that the site
    adds.
    """
    titles = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    anchors = {*re.findall(r"^\(([\w-]+)\)=$", _prose(page), re.MULTILINE)}
    for title in titles:
        words = re.sub(r"[^\w\- ]", "", title.lower())
        anchors.add(words.replace(" ", "-"))
    return anchors


@pytest.mark.parametrize(
    "page",
    [*TEXTS, *LOGS, ROOT / "benchmarks" / "README.md"],
    ids=lambda page: page.name,
)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for path, anchor in LINK.findall(_prose(page)):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        assert not anchor or anchor in _anchors(target), f"{page.name}: {path}#{anchor}"


@pytest.mark.parametrize("page", LOGS, ids=lambda page: page.name)
def test_a_page_of_the_log_begins_with_what_holds_today(page: Path) -> None:
    assert f"(log/{page.name})" in read(DOCS / "log.md")
    head = _prose(page).split("\n## ")[1]
    title, header, _, *rows = [line for line in head.splitlines() if line]
    assert title == "What holds today"
    assert header == "| claim | figure | date | command |"
    for row in rows:
        claim, figure, date, command = re.split(r"(?<!\\)\|", row)[1:-1]
        assert all(cell.strip() for cell in (claim, figure, command)), row
        assert re.search(r"\d{4}-\d\d-\d\d|each run of the tests", date), row
