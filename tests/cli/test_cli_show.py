"""regard show: figures of attention and of runs, complete or not written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import Command, text_of
from helpers.small_models import SIDES, folder
from PIL import Image

from regard.visualisation.language import LANGUAGE

LINE = "나는 빵을 먹고 있었다"


@pytest.fixture
def show(transformer: Path) -> str:
    """Return the command that shows a line."""
    return f"show {transformer} '{LINE}' --beam 1"


@pytest.mark.parametrize("out", ["a.html", "A.SVG", "a.png", "a.png --view heads"])
def test_the_suffix_determines_the_format(
    regard: Command, transformer: Path, show: str, out: str
) -> None:
    done = regard(f"{show} --out {out}")
    (name,) = os.listdir()
    assert name == out.split()[0]
    assert done.err == f"wrote {name}\n"
    if name == "a.png":
        with Image.open(name) as image:
            assert min(image.size) > 50
        return

    translated = regard(f"translate {transformer} --beam 1", stdin=f"{LINE}\n")
    assert done.out == translated.out
    text = text_of(name)
    for word in [*LINE.split(), *done.out.split()]:
        assert word in text
    if name == "A.SVG":
        ElementTree.fromstring(text)
    else:
        assert text.lower().startswith("<!doctype html>")


def test_a_page_is_written_by_default(regard: Command, transformer: Path) -> None:
    show = f"show {transformer} '  我们去 \t' --beam 1"
    assert regard(f"{show} --quiet --threads 1 --seed 1").err == ""
    assert os.listdir() == ["attention.html"]
    warning = "the text, line 1: most characters were never seen"
    assert f"warning: {warning}" in regard(show).err


def test_figures_are_korean_on_request(regard: Command) -> None:
    show = "show --view model --preset rnn-luong --out b.svg"
    for option, wanted in (("--korean", "양방향 GRU"), ("", "bidirectional GRU")):
        regard(f"{show} {option}")
        assert wanted in text_of("b.svg")
    assert LANGUAGE.get() == "en", "what the process draws next is not in Korean"


def test_what_translate_keeps_is_shown_to_the_model(
    regard: Command, transformer: Path
) -> None:
    line = f"{LINE} {{name}} 12 %s \udcff"
    done = regard("show", transformer, line, "--out", "a.svg", "--beam", 1)
    kept = "given to the model as any word, so that all it reads can be seen"
    assert f"'{{name}}', '%s': {kept}; regard translate keeps it" in done.warnings
    ElementTree.fromstring(text_of("a.svg"))


def test_faithfulness_is_shown_on_request(regard: Command, show: str) -> None:
    done = regard(f"{show} --out a.svg --faithfulness")
    correlation = "rank correlation with attributions"
    assert f"{correlation}: gradient × input " in done.err
    assert correlation in text_of("a.svg")

    regard(f"{show} --view heads --out plain.svg")
    regard(f"{show} --view heads --faithfulness --out heads.svg")
    plain = text_of("plain.svg")
    faithful = text_of("heads.svg")
    heads = re.findall(r">head \d<", plain)
    shares = re.findall(r">head \d · (?:[+−][01]\.\d\d|unknown)<", faithful)
    assert len(heads) == len(shares) == 2
    assert "rank correlation with gradient × input" in faithful
    assert "rank correlation" not in plain


def test_learning_curves_of_several_runs_are_one_figure(
    regard: Command, transformer: Path, run: Path
) -> None:
    curve = f"show {run} --view curve"
    regard(f"{curve} --out whole.svg")
    with open("run/journal.jsonl", "a") as file:
        file.write(
            '{"event": "train", "update": 130, "cross_entropy": NaN}\n{"event": "tr'
        )

    regard(f"{curve} --out cut.svg")
    assert text_of("cut.svg") == text_of("whole.svg")

    regard(f"{curve} --with {transformer} --out a.svg")
    text = text_of("a.svg")
    runs = f"{transformer.parent.name}/run"
    for part in ("validation loss", "validation chrF", "attention entropy", runs):
        assert part in text

    many = f"--with {transformer} " * 8
    regard.fails(f"{curve} {many}", because="a figure has colours for 8 runs, got 9")


@pytest.mark.parametrize(
    ("view", "expected"),
    [("schedule", "warm-up of 10 updates"), ("positions", "24 dimensions")],
)
def test_views_of_a_run_are_drawn(
    regard: Command, transformer: Path, view: str, expected: str
) -> None:
    done = regard(f"show {transformer} --view {view} --out a.svg")
    assert done.err == "wrote a.svg\n"
    assert expected in text_of("a.svg")


@pytest.mark.parametrize(
    ("encoder", "sides"),
    [("convolutional", {"encoder", "decoder"}), ("recurrent", {"decoder"})],
)
def test_learned_positions_are_drawn(
    regard: Command, encoder: str, sides: set[str]
) -> None:
    folder(Path("run"), encoder, "convolutional")
    regard("show run --view positions --out a.svg")
    label = r"(encoder|decoder): 40 positions in 16 dimensions"
    assert set(re.findall(label, text_of("a.svg"))) == sides


def test_an_empty_translation_is_refused(
    regard: Command, show: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.vocabulary.Vocabulary.decode", lambda *_: "")
    because = "the translation is empty, so there is nothing to draw; show another line"
    regard.fails(show, status=1, because=because)


def test_a_model_without_attention_is_played_and_has_no_heatmap(
    regard: Command, tmp_path: Path
) -> None:
    run = folder(tmp_path / "rnn", "recurrent", "no_attention", max_length=1)
    line = f"show {run} 나는"
    assert regard(f"{line} --out rnn.html").err == "wrote rnn.html\n"
    regard(f"{line} --view player --out rnn.svg")
    regard(f"{line} --out rnn.gif")
    with Image.open("rnn.gif") as image:
        assert image.is_animated
    because = (
        "this model has no attention to draw; its states are played by --view player"
    )
    for arguments in (
        "--out a.svg",
        "--out a.png --view heads",
        "--out a.svg --faithfulness",
    ):
        regard.fails(f"{line} {arguments}", because=because)


@pytest.mark.parametrize("attention", ["cross", "encoder", "decoder"])
def test_all_heads_of_a_word_and_of_a_layer(
    regard: Command, show: str, attention: str
) -> None:
    heads = f"{show} --view heads --attention {attention} --layer 1"
    output = regard(f"{heads} --out panels.svg").out
    word = "빵을" if attention == "encoder" else output.split()[0]
    regard(f"{heads} --word {word} --out arcs.svg")
    assert f"“{word}”" in text_of("arcs.svg")

    regard(f"{heads} --word {word} --head 2 --out one.svg")
    one = text_of("one.svg")
    assert "head 2: " in one
    assert "head 1: " not in one

    regard(f"{heads} --word {word} --out arcs.html")


def test_figures_without_a_run(regard: Command) -> None:
    done = regard("show --view positions --size 20 --position 20")
    assert done.err == "wrote positions.svg\n"

    row = [line.split()[-1] for line in done.lines[1:]]
    read = ["−0.0282", "−0.9996", "+0.9527", "+0.3040"]
    assert row[4:8] == read, "note 003 reads these off a graph"

    schedule = "show --view schedule"
    regard(f"{schedule} --size 512 --warmup 4000 --warmup 8000 --out rates.svg")
    assert "size 512, warm-up 8,000" in text_of("rates.svg")

    regard(f"{schedule} --schedule constant --peak 0.001 --warmup 0 --updates 10")
    assert Path("schedule.svg").is_file()

    model = "--preset rnn-bahdanau --set model.decoder.cell=lstm"
    regard(f"show --view model {model} --out m.svg")
    text = text_of("m.svg")
    assert "LSTM" in text
    assert "keys, values" in text

    sides = 'encoder.kind = "convolutional"\ndecoder.kind = "recurrent"'
    Path("recipe.toml").write_text(f"[model]\n{sides}\n")
    regard("show --view model --config recipe.toml --out own.svg")
    assert "onvolution" in text_of("own.svg")


def test_architecture_and_score_of_a_run(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    luong = {**SIDES["recurrent"], "order": "luong", "score": "general"}
    monkeypatch.setitem(SIDES, "luong", luong)
    run = folder(tmp_path / "luong", "recurrent", "luong")
    regard(f"show {run} --view model --out model.svg")
    assert Path("model.svg").is_file()
    done = regard(f"show {run} '{LINE}' --view score --out w.svg")
    assert "16 × 32 weights" in done.err + text_of("w.svg")
