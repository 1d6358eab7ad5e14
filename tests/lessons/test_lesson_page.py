"""The numbers of the lesson of 50 minutes are those of its page of numbers, also after each
change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.learn import BlockWalkthrough, walkthrough_block

DOCS = Path(__file__).parents[2] / "docs"
LESSON = (DOCS / "tutorials" / "lesson.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"−?\d\.\d{3}")
SOLUTION = "<details><summary>Solution</summary>"
NO_CHANGE: dict[int, str] = {}
CHANGES = [NO_CHANGE, {2: "2"}, {2: "-∞"}, {0: "0", 1: "0", 2: "0"}, {0: "10"}]
GO = 1


@pytest.fixture(scope="module")
def block() -> BlockWalkthrough:
    return walkthrough_block("I go home", size=2, heads=1)


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def shown(values: Any) -> list[str]:
    return [f"{value:.3f}".replace("-", "−") for value in np.ravel(values)]


def test_both_languages_have_the_same_numbers() -> None:
    korean = (DOCS / "ko" / "tutorials" / "lesson.md").read_text(encoding="utf-8")
    assert numbers(korean) == numbers(LESSON)
    assert len(numbers(LESSON)) > 40


def test_the_exercise_and_its_solution_are_those_of_the_block(
    block: BlockWalkthrough,
) -> None:
    exercise, solution = LESSON.split("## The exercise")[1].split(SOLUTION, 1)
    queries = block["self.Q"]["Q"][0]
    keys_and_values = np.concatenate(
        [block["self.K"]["K"][0], block["self.V"]["V"][0]], axis=1
    )

    assert numbers(exercise) == shown(queries[GO]) + shown(keys_and_values)

    scores = block["self.scores"]["scores"][0, 0, GO]
    powers = np.exp(scores)
    expected = shown(scores) + shown(powers) + shown(powers.sum())
    expected += shown(block["self.weights"]["A"][0, 0, GO])
    expected += shown(block["self.context"]["A·V"][0, 0, GO])

    assert numbers(solution)[: len(expected)] == expected


@pytest.mark.parametrize("page", ["worksheet.md", "ko/worksheet.md"])
def test_the_worksheet_has_the_exercise_and_no_solution(page: str) -> None:
    exercise = LESSON.split("## The exercise")[1].split(SOLUTION)[0]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert numbers(text) == numbers(exercise)

    changes = re.compile(r"^\| (\*?[\w ]+\*?: \S+) \|", re.MULTILINE)
    lesson_page = page.replace("worksheet", "tutorials/lesson")
    lesson = (DOCS / lesson_page).read_text(encoding="utf-8")

    assert changes.findall(text) == changes.findall(lesson) != []


def test_the_solution_of_the_two_heads_is_that_of_their_page() -> None:
    block = walkthrough_block("I go home", size=4, heads=2)
    weights = block["self.weights"]["A"][0, :, 2]
    read = block["self.context"]["A·V"][0, 1, 2]
    masked = np.exp(block["self.scores"]["scores"][0, 1, 2]) * [1, 0, 1]

    assert (weights[0].argmax(), weights[1].argmax()) == (2, 1)

    expected = shown(weights[1]) + shown(read)
    expected += shown(weights[:, [2, 1]].diagonal())
    expected += shown(masked / masked.sum())

    assert numbers(LESSON.split("## At home")[1]) == expected


@pytest.mark.system
def test_the_changes_have_the_results_of_the_table(
    block: BlockWalkthrough, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    rows = re.findall(r"^\| (?:none|\*home|all three|\*I).*\|$", LESSON, re.MULTILINE)
    keys = [step.key for step in block.steps]
    named = [keys.index("self.weights") + 1, keys.index("self.context") + 1]

    assert named == [9, 10], "the steps that the lesson names"

    (tmp_path / "numbers.html").write_text(block.page(), encoding="utf-8")
    page = open_page(tmp_path / "numbers.html")
    page.keyboard.press("a")
    weights, context = (page.locator(f"#step-{number} table") for number in (9, 10))

    def cells(table: Any) -> Any:
        return table.locator("tbody tr").nth(GO).locator("td.number")

    for row, changes in zip(rows, CHANGES, strict=True):
        for column, value in changes.items():
            cells(weights.first).nth(column).click()
            page.keyboard.type(value)
            page.keyboard.press("Enter")

        results = cells(weights.last).all_inner_texts()
        results += cells(context.last).all_inner_texts()
        assert results == numbers(row), row

        if changes:
            page.click("#reset")
