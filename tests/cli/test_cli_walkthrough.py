"""regard walkthrough: numbers on the terminal and as a page, in two languages; misuse in
sentences.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import Command, text_of
from helpers.small_models import captioner_folder

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
    options = "--size 6 --heads 3 --ff 4 --norm pre --seed 7 --causal --score additive"
    done = regard(f"walkthrough 'I go' {options} --batch I --korean")
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


def test_a_page_is_written(regard: Command) -> None:
    for option, language in (("", "en"), ("--korean", "ko")):
        done = regard(f"walkthrough 'I go' --unprojected --out block.html {option}")
        assert (done.out, done.err) == ("", "wrote block.html\n")
        block = walkthrough_block("I go", unprojected=True)
        assert text_of("block.html") == block.page(language)


def test_a_layer_of_a_trained_model(regard: Command, transformer: Path) -> None:
    options = f"--model {transformer} --layer 1 --threads 1 --device cpu"
    for texts in ([SOURCE], [SOURCE, TARGET]):
        done = regard("walkthrough", *texts, *options.split())
        assert done.out == f"{walkthrough_block(*texts, model=transformer)}\n"
    assert "the first 8 of 24 numbers" in done.out


def test_models_and_texts_without_such_a_block_are_refused(
    regard: Command,
    other: Path,
    transformer: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    captioner = captioner_folder(tmp_path_factory.mktemp("captioner"))
    for arguments, because in (
        (
            f"a --model {other}",
            "wanted a Transformer encoder, and this model has a recurrent",
        ),
        (
            f"a b --model {transformer} --layer 2",
            "--layer: this decoder has layers 1 to 1, got 2",
        ),
        (f"a --model {captioner}", "this model captions images; a walkthrough takes"),
        (
            f"'{'나는 ' * 24}' --model {transformer}",
            "tokens; a walkthrough shows up to 24: give a shorter one",
        ),
    ):
        regard.fails(f"walkthrough {arguments}", because=because)

    causes = ["the source has 30", "the target has 40"]
    regard.fails(f"walkthrough '{'a ' * 30}' '{'b ' * 40}'", because=causes)

    because = "nowhere: no such folder"
    regard.fails("walkthrough a --model nowhere", status=1, because=because)

    because = "no/a.html: cannot be written"
    regard.fails("walkthrough a --out no/a.html", status=1, because=because)


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            "''",
            "there is an empty text, and so nothing to walk through; give one word or more",
        ),
        (
            "a --size 5",
            "--heads: a size of 5 cannot be split into 2 equal heads; give a divisor",
        ),
        (
            "a --score sum",
            f"--score: there is no score 'sum'; wanted one of {', '.join(SCORES)}",
        ),
        (
            "a --layer 1",
            "--layer: random weights have one layer; give a --model too, or leave it",
        ),
        (
            "a --out a.svg",
            "--out a.svg: a walkthrough is written as a page, .html; without --out",
        ),
        ("a --batch 'a ||| b'", "--batch: wanted a text, got 'a ||| b'"),
        (
            "a --model x --unprojected",
            "--unprojected: a trained model has its own; leave --unp",
        ),
        (
            "a --model x --causal",
            "--causal: a trained encoder sees every token; give a target",
        ),
        ("a --norm batch", "--norm"),
        ("", "missing argument"),
    ],
)
def test_misuse_is_reported_in_a_sentence(
    regard: Command, arguments: str, because: str
) -> None:
    regard.fails(f"walkthrough {arguments}", because=because)
