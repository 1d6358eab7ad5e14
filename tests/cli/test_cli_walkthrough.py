"""regard walkthrough: numbers on the terminal and as a page, in two languages; misuse in
sentences.
"""

from __future__ import annotations

import os
from pathlib import Path

from command import Command, text_of

from regard.learn import walkthrough_block

SOURCE = "나는 집에 간다"
TARGET = "I go home"


def test_the_steps_are_printed(regard: Command) -> None:
    done = regard("walkthrough", SOURCE, TARGET)
    assert done.out == f"{walkthrough_block(SOURCE, TARGET)}\n"
    assert done.err == ""
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
    block = walkthrough_block("I go", unprojected=True)
    for option, language in (("", "en"), ("--korean", "ko")):
        done = regard(f"walkthrough 'I go' --unprojected --out block.html {option}")
        assert (done.out, done.err) == ("", "wrote block.html\n")
        assert text_of("block.html") == block.page(language)


def test_a_layer_of_a_trained_model(regard: Command, transformer: Path) -> None:
    options = f"--model {transformer} --layer 1 --threads 1 --device cpu"
    for texts in ([SOURCE], [SOURCE, TARGET]):
        done = regard("walkthrough", *texts, *options.split())
        assert done.out == f"{walkthrough_block(*texts, model=transformer)}\n"
    assert "the first 8 of 24 numbers" in done.out
