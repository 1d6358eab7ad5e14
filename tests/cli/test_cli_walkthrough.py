"""regard walkthrough: numbers on the terminal and as a page, in two languages; misuse in
sentences.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import Command
from small import captioner_folder, folder

from regard.attention import SCORES
from regard.learn import walkthrough_block

SOURCE = "나는 집에 간다"
TARGET = "I go home"


def test_the_steps_are_printed(regard: Command) -> None:
    done = regard("walkthrough", SOURCE, TARGET)
    assert done.out == f"{walkthrough_block(SOURCE, TARGET)}\n"
    assert done.err == ""
    assert done.lines[0] == "A Transformer decoder block, number by number"
    assert os.listdir() == []


def test_options_reach_the_block(regard: Command) -> None:
    options = [
        "--size",
        6,
        "--heads",
        3,
        "--ff",
        4,
        "--norm",
        "pre",
        "--seed",
        7,
        "--causal",
        "--score",
        "additive",
    ]
    done = regard("walkthrough", "I go", *options, "--batch", "I", "--korean")
    block = walkthrough_block(
        "I go",
        size=6,
        heads=3,
        feedforward=4,
        norm="pre",
        seed=7,
        causal=True,
        score="additive",
        batch=["I"],
    )
    assert done.out == block.text("ko") + "\n"
    assert "어느 위치도 뒤에 있는 토큰을 보지 못합니다" in done.out
    assert "= (2, 3, 2, 2)" in done.out


@pytest.mark.parametrize("korean", [False, True])
def test_a_page_is_written(regard: Command, korean: bool) -> None:
    done = regard(
        "walkthrough", "I go home", "--unprojected", "--out", "block.html", *["--korean"] * korean
    )
    assert (done.out, done.err) == ("", "wrote block.html\n")
    page = Path("block.html").read_text(encoding="utf-8")
    assert page == walkthrough_block("I go home", unprojected=True).page("ko" if korean else "en")


@pytest.mark.parametrize("arguments", [[SOURCE], [SOURCE, TARGET]])
def test_a_layer_of_a_trained_model(
    regard: Command, transformer: Path, arguments: list[str]
) -> None:
    done = regard(
        "walkthrough",
        *arguments,
        "--model",
        transformer,
        "--layer",
        1,
        "--threads",
        1,
        "--device",
        "cpu",
    )
    assert done.out == f"{walkthrough_block(*arguments, model=transformer)}\n"
    assert "the first 8 of 24 numbers" in done.out


def test_models_that_have_no_such_block_are_refused(
    regard: Command, recurrent: Path, transformer: Path
) -> None:
    because = "wanted a Transformer encoder, and this model has a recurrent encoder and a recurrent decoder"
    regard.fails("walkthrough", "a", "--model", recurrent, status=2, because=because)
    because = "--layer: this decoder has layers 1 to 1, got 2"
    regard.fails(
        "walkthrough", "a", "b", "--model", transformer, "--layer", 2, status=2, because=because
    )
    regard.fails(
        "walkthrough", "a", "--model", "nowhere", status=1, because="nowhere: no such folder"
    )


def test_a_captioner_is_refused(regard: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = captioner_folder(tmp_path_factory.mktemp("captioner"))
    regard.fails(
        "walkthrough",
        "a",
        "--model",
        model,
        status=2,
        because="this model captions images; a walkthrough takes",
    )


def test_longer_texts_are_refused_in_the_tokens_of_the_model(
    regard: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = folder(tmp_path_factory.mktemp("model"))
    because = "tokens; a walkthrough shows up to 24: give a shorter one"
    regard.fails("walkthrough", "나는 " * 24, "--model", model, status=2, because=because)
    regard.fails(
        "walkthrough",
        "a " * 30,
        "b " * 40,
        status=2,
        because=["the source has 30", "the target has 40"],
    )


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ([""], "there is an empty text, and so nothing to walk through; give one word or more"),
        (
            ["a", "--size", 5],
            "--heads: a size of 5 cannot be split into 2 equal heads; give a divisor of it",
        ),
        (
            ["a", "--score", "sum"],
            f"--score: there is no score 'sum'; wanted one of {', '.join(SCORES)}",
        ),
        (
            ["a", "--layer", 1],
            "--layer: random weights have one layer; give a --model too, or leave it out",
        ),
        (
            ["a", "--out", "a.svg"],
            "--out a.svg: a walkthrough is written as a page, .html; without --out it is printed",
        ),
        (["a", "--batch", "a ||| b"], "--batch: wanted a text, got 'a ||| b'"),
        (
            ["a", "--model", "x", "--unprojected"],
            "--unprojected: a trained model has its own; leave --unprojected or --model",
        ),
        (
            ["a", "--model", "x", "--causal"],
            "--causal: a trained encoder sees every token; give a target too",
        ),
        (["a", "--norm", "batch"], "--norm"),
        (["a", "--out", "no/a.html"], "no/a.html: cannot be written"),
        ([], "missing argument"),
    ],
)
def test_misuse_is_reported_in_a_sentence(
    regard: Command, arguments: list[object], because: str
) -> None:
    regard.fails("walkthrough", *arguments, status=1 if "no/" in because else 2, because=because)
