"""Pages of the notes: their exercises can be solved, and are not solved already; their commands
could be run, and nearly all of their items have a figure in place.
"""

from __future__ import annotations

import ast
import base64
import io
import math
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from fontTools.ttLib import TTFont
from repository.pages import DOCS, english, read
from repository.test_docs_blocks import blocks
from repository.test_docs_commands import find_problem

from regard.learn import walkthrough_block

ENGLISH = sorted((DOCS / "notes").glob("00?.md"))
KOREAN = [DOCS / "ko" / "notes" / page.name for page in ENGLISH]
SVG = "{http://www.w3.org/2000/svg}"
IN_NO_FONT = "ᵀ⊙"
"""Signs that the font of drawings lacks, and others have."""
COMMAND = re.compile(r"^`(regard .*)`$", re.MULTILINE)
SECTION = re.compile(r"^## \d+\. .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"^(?:!\[|```\{living\})", re.MULTILINE)
SCORE = re.compile(r"(?<![\d.])\d+\.\d(?![\d.])")
QUOTATION = re.compile(r"^> .", re.MULTILINE)


def exercises(page: Path) -> Iterator[tuple[str, str]]:
    """Return the skeleton and the solution of each exercise of a page."""
    code = [
        block
        for _, block, mark in blocks(read(page))
        if mark.endswith(Path(__file__).name)
    ]
    return zip(code[::2], code[1::2], strict=True)


def checks(skeleton: str, solution: str) -> ast.Module:
    """Return a skeleton without the functions that are in the solution."""
    solved = {getattr(node, "name", None) for node in ast.parse(solution).body}
    tree = ast.parse(skeleton)
    tree.body = [node for node in tree.body if getattr(node, "name", 0) not in solved]
    return tree


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.name)
def test_solutions_pass_the_checks_that_skeletons_fail(page: Path) -> None:
    pairs = list(exercises(page))
    assert len(pairs) >= 3
    for skeleton, solution in pairs:
        with pytest.raises((AssertionError, TypeError)):
            exec(skeleton, {})
        names: dict[str, object] = {}
        exec(solution, names)
        exec(compile(checks(skeleton, solution), page.name, "exec"), names)


def test_the_numbers_of_an_exercise_are_those_of_the_walkthrough() -> None:
    block = walkthrough_block("I go home", causal=True)
    expected = {name: block[f"self.{name}"][name] for name in "QKV"}
    expected["expected"] = block["self.context"]["A·V"]
    for page in (DOCS / "notes" / "003.md", DOCS / "ko" / "notes" / "003.md"):
        skeleton, solution = next(exercises(page))
        names: dict[str, Any] = {}
        exec(solution, names)
        exec(compile(checks(skeleton, solution), page.name, "exec"), names)
        for name, values in expected.items():
            assert np.allclose(names[name], np.array(values)[0, 0], atol=0.0006)


@pytest.mark.parametrize("page", [*ENGLISH, *KOREAN], ids=str)
def test_the_commands_of_a_page_could_be_run(page: Path) -> None:
    commands = COMMAND.findall(read(page))
    assert commands
    assert [problem for command in commands if (problem := find_problem(command))] == []


@pytest.mark.parametrize("page", KOREAN, ids=lambda page: page.name)
def test_both_languages_have_the_same_commands_and_figures(page: Path) -> None:
    original = read(english(page))
    commands = [line.replace(" --korean", "") for line in COMMAND.findall(read(page))]
    assert COMMAND.findall(original) == commands
    figures = re.compile(r"([\w-]+)\.svg\)$|^```\{living\} (\S+)", re.MULTILINE)
    assert figures.findall(original) == figures.findall(read(page))


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.name)
def test_verdicts_are_those_of_the_experiments(page: Path) -> None:
    for name, verdict in re.findall(
        r"^\*\*Experiment `([\w-]+)`: (.*?)\*\*", read(page), re.MULTILINE
    ):
        assert f"**{verdict}**" in read(DOCS / "experiments" / f"{name}.md"), name


@pytest.mark.parametrize("page", [*ENGLISH, *KOREAN], ids=str)
def test_scores_beside_a_verdict_are_those_of_the_experiment(page: Path) -> None:
    for name, text in re.findall(
        r"^\*\*\S+ `([\w-]+)`: .*?\*\*(.*)$", read(page), re.MULTILINE
    ):
        result = read(DOCS / "experiments" / f"{name}.md")
        assert [n for n in SCORE.findall(text) if n not in SCORE.findall(result)] == []


def test_items_have_their_figure_in_place() -> None:
    """An item is a quotation of a note, a section has those that one figure shows."""
    shown = 0
    for page in KOREAN:
        for section in SECTION.findall(read(page)):
            shown += bool(FIGURE.search(section)) * len(QUOTATION.findall(section))
    assert shown >= 120


def test_each_drawing_is_shown_and_up_to_date() -> None:
    """The font aside, which depends on a package; drawings of trained models are not made again."""
    script = runpy.run_path(str(DOCS / "make_note_figures.py"))
    pages = [*DOCS.glob("notes/*.md"), *DOCS.glob("ko/notes/*.md")]
    used = {
        name
        for page in pages
        for name in re.findall(r"/notes/([\w-]+)\.svg", read(page))
    }
    assert used == set(script["FIGURES"])
    font = re.compile(r"@font-face\{[^}]*\}")
    for name in ("dog", "scores", "batch", "mask", "turns", "attentions"):
        figure = script["FIGURES"][name]
        drawn = font.sub("", figure.draw("en"))
        assert drawn == font.sub("", read(DOCS / "images" / "notes" / f"{name}.svg"))


def test_the_small_map_is_drawn_as_it_is_counted() -> None:
    """Scores of the three words before and after W = (1 −1; 2 1), by hand; the angle of what is left
    of W without its stretches, and these as the roots of det(WᵀW − s²) = 0.
    """
    drawing = read(DOCS / "images" / "notes" / "turned.svg")
    texts = re.findall(r"<text[^>]*>([^<]*)", drawing)
    assert [text for text in texts if re.search(r"\.\d$", text)] == [
        *("나는 0.8", "빵을 0.4", "먹고 −0.8"),
        *("나는 0.4", "빵을 1.2", "먹고 −0.4"),
    ]
    half, root = 7 / 2, math.sqrt((7 / 2) ** 2 - 3**2)
    most, least = math.sqrt(half + root), math.sqrt(half - root)
    angle = math.degrees(math.atan2(2 + 1, 1 + 1))
    stretches = f"stretches {most:.1f} and {least:.1f} times"
    assert f"turns by {angle:.0f}°, {stretches}" in texts


def test_layers_and_steps_of_the_layer_types_are_those_of_a_search() -> None:
    """A breadth-first search from the first of seven places counts the layers of each reach."""
    texts = read(DOCS / "images" / "notes" / "exchanges.svg")
    for step, words in ((1, "6 steps"), (5 // 2, "3 layers"), (6, "1 layer")):
        reached = {0}
        count = 0
        while 6 not in reached:
            reached |= {place + n for place in reached for n in range(step + 1)}
            count += 1
        assert f"{count} " == words[:2]
        assert f">way: {words}" in texts


def test_drawings_have_all_their_letters() -> None:
    """A drawing has no other font than its own: the reader's may lack Korean."""
    missing = dict[str, set[str]]()
    for path in sorted((DOCS / "images").rglob("*.svg")):
        drawing = ElementTree.fromstring(read(path))
        style = "".join(part.text or "" for part in drawing.iter(f"{SVG}style"))
        drawn = [
            text or ""
            for kind in ("text", "tspan")
            for part in drawing.iter(f"{SVG}{kind}")
            for text in (part.text, *(child.tail for child in part))
        ]
        letters = {*map(ord, "".join("".join(drawn).split()))}
        for data in re.findall(r"base64,([\w+/=]+)", style):
            font = TTFont(io.BytesIO(base64.b64decode(data)))
            letters -= {*font.getBestCmap(), *map(ord, IN_NO_FONT)}
            if letters:
                missing[str(path)] = {*map(chr, letters)}
    assert missing == {}


@pytest.mark.parametrize("name", ["projections", "scores", "heads", "batch", "cross"])
def test_numbers_can_be_read_on_a_phone(name: str) -> None:
    """A page of 400 pixels shows 366 of them: no drawing is wider, and none is made smaller."""
    for folder in (DOCS / "images" / "notes", DOCS / "images" / "ko" / "notes"):
        drawing = read(folder / f"{name}-narrow.svg")
        assert int(drawing.partition('width="')[2].partition('"')[0]) <= 366
        numbers = re.findall(r'font-size="([\d.]+)"[^>]*>[−\d.]+<', drawing)
        assert {*numbers} == {"12"}
