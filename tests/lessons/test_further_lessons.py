"""The numbers of the lessons on recurrent models and on the decoder: computed here with NumPy, and
read from the results that Regard ships.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard.learn.lab

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(regard.learn.lab.__file__).parent / "results"
LESSONS = ("recurrent", "decoder")
NUMBER = re.compile(r"−?\d+\.\d{3,}")
SOLUTION = "<details><summary>Solution</summary>"
STATES = np.array([[2, -1], [-1, 2], [2, 2]])
MASK_SCORES = np.array([[1, 2, 0], [0, 1, 3], [1, 0, 1]])
WORD_SCORES = np.array([[2, 0, 0, 0], [0, 1, 2, 0], [0, 0, 3, 0], [0, 0, 0, 2]])


def section(name: str, title: str) -> str:
    """Return a section of a lesson, without its code."""
    text = (DOCS / "lessons" / f"{name}.md").read_text(encoding="utf-8")
    (content,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.sub(r"```.*?```", "", str(content), flags=re.DOTALL)


def solution_of(name: str, number: int) -> str:
    """Return what a lesson says from the solution of an exercise on."""
    _, solution = section(name, f"Exercise {number}: .*?").split(SOLUTION)
    return solution


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def shown(*values: Any) -> list[str]:
    """Write numbers as the lessons do."""
    flat = np.concatenate([np.ravel(value) for value in values])
    return [f"{value:.3f}".replace("-", "−") for value in flat]


def softmax(scores: Any) -> Any:
    powers = np.exp(np.asarray(scores, dtype=float))
    return powers / powers.sum()


@pytest.mark.parametrize("lesson", LESSONS)
def test_both_languages_have_the_same_numbers(lesson: str) -> None:
    every = re.compile(r"[−-]?\d+\.\d+")
    for english in (f"lessons/{lesson}.md", f"worksheet-{lesson}.md"):
        texts = [
            (DOCS / folder / english).read_text(encoding="utf-8")
            for folder in ("", "ko")
        ]
        a, b = (sorted(every.findall(text)) for text in texts)
        assert a == b, english


def test_the_state_of_the_recurrent_lesson() -> None:
    def last(words: list[int], factor: float) -> float:
        return sum(
            word * factor**distance for distance, word in enumerate(reversed(words))
        )

    solution = solution_of("recurrent", 1)
    states = [last([1, 2, 3][:count], 0.5) for count in (1, 2, 3)]
    assert [f"{state:g}" for state in states] == ["1", "2.5", "4.25"]
    assert last([2, 2, 3], 0.5) == 4.5
    for number in ("1, 2.5 and 4.25", "4.5", "0.25 = 0.5²", f"{0.5**10:.6f}"):
        assert number in solution
    assert f"{2**10}" in solution
    assert last([1, 2, 3], 1) == last([3, 2, 1], 1) == 6


def test_the_attention_of_the_recurrent_lesson() -> None:
    go, home = (STATES @ query for query in ([1, 1], [-1, 1]))
    expected = shown(np.exp(go), np.exp(go).sum(), softmax(go), softmax(go) @ STATES)
    expected += shown(softmax(home), softmax(home) @ STATES)
    solution = solution_of("recurrent", 2)
    exercise, table = solution.split("Guess first")
    assert numbers(exercise) == expected

    queries = ([0, 0], [3, 3], [-1, -1])
    assert numbers(table) == shown(*(softmax(STATES @ query) for query in queries))

    easy = np.array([[1, 0], [0, 1], [1, 1]])
    weights = softmax(easy @ [1, 0])
    assert numbers(section("recurrent", "At home")) == shown(weights, weights @ easy)
    assert softmax(easy @ [1, 1]).argmax() == 2


def test_the_mask_of_the_decoder_lesson() -> None:
    row = MASK_SCORES[1]
    seen, whole = softmax(row[:2]), softmax(row)
    solution = solution_of("decoder", 1)
    expected = shown(np.e, seen, 0, np.exp(3), np.exp(row).sum(), whole)
    kept = whole[:2].sum()
    expected += shown(kept)
    for place in (0, 1):
        expected += shown(whole[place], kept, whole[place] / kept)
        assert whole[place] / kept == pytest.approx(seen[place])
    expected += shown(softmax(MASK_SCORES[2]))
    assert numbers(solution) == expected


def test_the_loss_and_the_step_of_the_decoder_lesson() -> None:
    all_weights = np.array([softmax(scores) for scores in WORD_SCORES])
    right = all_weights.diagonal()
    losses = -np.log(right)
    solution = solution_of("decoder", 2)
    expected = shown(right, np.exp([1, 1, 2]), losses, losses.mean())
    expected += shown(right, right.prod(), losses.sum(), all_weights[1, 2])
    assert numbers(solution) == expected
    assert WORD_SCORES[1].argmax() == 2

    target = np.array([0, 1, 0, 0])
    gradient = all_weights[1] - target
    after = softmax(WORD_SCORES[1] - gradient)
    expected = shown(gradient, WORD_SCORES[1] - gradient, after[1])
    expected += shown(-np.log(after[1]), losses[1])
    assert numbers(solution_of("decoder", 3)) == expected
    assert after.argmax() == 1

    other = softmax([0, 2, 1, 0])
    expected = shown(other[1], -np.log(other[1]), other - target)
    assert numbers(section("decoder", "At home")) == expected
    assert numbers(section("decoder", "The loss: .*?")) == shown(-np.log(0.5))
    assert f"{np.exp(8):.0f}" in section("decoder", "Why √d\\?")


def test_the_gradient_of_the_loss_is_its_slope() -> None:
    """By the difference of two losses, without the formula that the lesson gives."""
    small = 1e-6
    for word, slope in enumerate((0.083, -0.775, 0.610, 0.083)):
        moved = WORD_SCORES[1] + small * np.eye(4)[word]
        difference = np.log(softmax(WORD_SCORES[1])[1]) - np.log(softmax(moved)[1])
        assert difference / small == pytest.approx(slope, abs=6e-4)


def mean(name: str, arm: str, score: str) -> str:
    """Return the mean of a score over the seeds of an arm, from the shipped results."""
    values = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    scores = [
        run["scores"][score]
        for run in values["runs"]
        if run["arm"] == arm and run["scores"]
    ]
    digits = 2 if score == "loss" else 1
    return f"{np.mean(scores):.{digits}f}"


def test_what_was_measured_is_what_the_results_say() -> None:
    arms = ("without", "with")
    expected = [
        mean("attention", arm, f"chrF {words}")
        for words in ("1–4", "17–24")
        for arm in arms
    ]
    expected += [mean("bottleneck", f"vector-{size}", "chrF") for size in (8, 128)]
    measured = section("recurrent", "What was measured")
    assert re.findall(r"\d+\.\d\b", measured) == expected

    masks = ("masked", "unmasked")
    expected = [mean("mask", arm, s) for s in ("loss", "chrF") for arm in masks]
    expected += [mean("teacher-forcing", arm, "chrF") for arm in ("own", "forced")]
    measured = section("decoder", "From numbers to the loss")
    assert re.findall(r"\d+\.\d+\b", measured) == expected

    text = (DOCS / "experiments" / "failures.md").read_text(encoding="utf-8")
    assert "“layer norm after, with warm-up” learns at 4" in text
    assert "“layer norm after, without warm-up” at 0" in text


@pytest.mark.parametrize("folder", ["", "ko"])
def test_worksheets_have_the_exercises_and_no_solution(folder: str) -> None:
    for lesson in LESSONS:
        text = (DOCS / folder / f"worksheet-{lesson}.md").read_text(encoding="utf-8")
        assert numbers(text) == []

    recurrent, decoder = (
        (DOCS / folder / f"worksheet-{lesson}.md").read_text(encoding="utf-8")
        for lesson in LESSONS
    )
    for x, y in STATES:
        assert f"({x}, {y})".replace("-", "−") in recurrent
    for row in WORD_SCORES:
        assert f"| {' | '.join(map(str, row))} |" in decoder
