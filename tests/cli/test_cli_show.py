"""regard show: figures of attention and of runs, complete or not written."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import Command
from PIL import Image
from small import SIDES, folder

from regard.visualisation.language import LANGUAGE

LINE = "나는 빵을 먹고 있었다"


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.png", "A.SVG"])
def test_the_suffix_determines_the_format(regard: Command, model: Path, name: str) -> None:
    done = regard("show", model, LINE, "--out", name)
    assert done.out == regard("translate", model, stdin=f"{LINE}\n".encode()).out
    assert done.err == f"wrote {name}\n"
    assert os.listdir() == [name]
    if name.endswith("png"):
        with Image.open(name) as image:
            assert min(image.size) > 50
        return
    text = Path(name).read_text(encoding="utf-8")
    for word in [*LINE.split(), *done.lines[0].split()]:
        assert word in text
    assert "http://" not in text.replace("http://www.w3.org", ""), "figures open without a network"
    if name.lower().endswith("svg"):
        ElementTree.fromstring(text)
    else:
        assert text.lower().startswith("<!doctype html>")


def test_a_page_is_written_by_default(regard: Command, transformer: Path) -> None:
    done = regard(
        "show", transformer, f"  {LINE} \t", "--quiet", "--beam", 1, "--threads", 1, "--seed", 1
    )
    assert done.err == ""
    assert os.listdir() == ["attention.html"]


@pytest.mark.parametrize(
    "arguments", [["a.gif"], ["a.svg", "--view", "player"], ["a.png", "--view", "heads"]]
)
def test_player_and_all_heads_are_drawn(regard: Command, model: Path, arguments: list[str]) -> None:
    done = regard("show", model, LINE, "--beam", 2, "--out", *arguments)
    assert done.out == regard("translate", model, "--beam", 2, stdin=f"{LINE}\n".encode()).out
    assert os.listdir() == arguments[:1]
    assert Path(arguments[0]).stat().st_size > 1000


@pytest.mark.parametrize("arguments", [(), ("--view", "heads")])
def test_figures_are_korean_on_request(
    regard: Command, transformer: Path, arguments: tuple[str, ...]
) -> None:
    for option, wanted in (("--korean", "헤드"), (None, "head")):
        regard(
            "show", transformer, LINE, *arguments, "--out", "a.svg", *([option] if option else [])
        )
        assert wanted in Path("a.svg").read_text(encoding="utf-8")
    regard("show", "--view", "model", "--preset", "rnn-luong", "--korean", "--out", "b.svg")
    assert "양방향 GRU" in Path("b.svg").read_text(encoding="utf-8")
    assert LANGUAGE.get() == "en", "what the process draws next is not in Korean"


def test_what_translate_keeps_is_said_to_be_shown_to_the_model(
    regard: Command, transformer: Path
) -> None:
    done = regard("show", transformer, f"{LINE} {{name}} 12 %s", "--out", "a.svg")
    warning = "'{name}', '%s': given to the model as any word, so that all it reads can be seen; regard translate keeps it"
    assert warning in done.warnings


def test_faithfulness_is_reported_on_request(regard: Command, model: Path) -> None:
    done = regard("show", model, LINE, "--out", "a.svg", "--faithfulness")
    assert "rank correlation with attributions: gradient × input " in done.err
    assert "rank correlation with attributions" in Path("a.svg").read_text(encoding="utf-8")


def test_every_head_shows_its_faithfulness(regard: Command, model: Path) -> None:
    regard("show", model, LINE, "--view", "heads", "--out", "plain.svg")
    regard("show", model, LINE, "--view", "heads", "--faithfulness", "--out", "a.svg")
    plain, faithful = (Path(name).read_text(encoding="utf-8") for name in ("plain.svg", "a.svg"))
    heads = len(re.findall(r">head \d<", plain))
    assert heads in (1, 2)
    assert len(re.findall(r">head \d · (?:[+−][01]\.\d\d|unknown)<", faithful)) == heads
    assert "rank correlation with gradient × input" in faithful
    assert "rank correlation" not in plain


def test_a_journal_that_ends_in_the_middle_of_a_line_is_drawn(
    regard: Command, transformer: Path
) -> None:
    shutil.copytree(transformer, "run", ignore=shutil.ignore_patterns("checkpoints"))
    regard("show", "run", "--view", "curve", "--out", "whole.svg")
    with open("run/journal.jsonl", "a") as file:
        file.write(
            '{"event": "train", "update": 130, "cross_entropy": NaN}\n{"event": "train", "upd'
        )
    regard("show", "run", "--view", "curve", "--out", "cut.svg")
    assert Path("cut.svg").read_text(encoding="utf-8") == Path("whole.svg").read_text(
        encoding="utf-8"
    )


def test_learning_curves_of_several_runs_are_one_figure(
    regard: Command, transformer: Path, recurrent: Path
) -> None:
    run = ["show", transformer, "--with", recurrent]
    regard(*run, "--view", "curve", "--out", "a.svg")
    text = Path("a.svg").read_text(encoding="utf-8")
    for part in (
        "validation loss",
        "validation chrF",
        "attention entropy",
        transformer.name,
        recurrent.name,
    ):
        assert part in text
    regard.fails(
        *run,
        "--view",
        "schedule",
        "--out",
        "a.svg",
        status=2,
        because="--with: only with --view curve",
    )
    regard.fails(
        *run,
        "나는 집에 간다",
        "--out",
        "a.html",
        status=2,
        because="--with: only with --view curve",
    )
    many = [part for _ in range(8) for part in ("--with", recurrent)]
    because = "a figure has colours for 8 runs, got 9"
    regard.fails(
        "show", transformer, *many, "--view", "curve", "--out", "a.svg", status=2, because=because
    )


@pytest.mark.parametrize("view", ["curve", "schedule", "positions"])
def test_curve_schedule_and_positions_of_a_run_are_drawn(
    regard: Command, transformer: Path, view: str
) -> None:
    assert regard("show", transformer, "--view", view, "--out", "a.svg").err == "wrote a.svg\n"
    text = Path("a.svg").read_text(encoding="utf-8")
    assert {
        "curve": "validation score",
        "schedule": "warm-up of 10 updates",
        "positions": "24 dimensions",
    }[view] in text


@pytest.mark.parametrize(
    ("encoder", "decoder", "sides"),
    [
        ("convolutional", "convolutional", ["encoder", "decoder"]),
        ("recurrent", "convolutional", ["decoder"]),
    ],
)
def test_learned_positions_are_drawn(
    regard: Command, encoder: str, decoder: str, sides: list[str]
) -> None:
    folder(Path("run"), encoder, decoder)
    assert regard("show", "run", "--view", "positions", "--out", "a.svg").err == "wrote a.svg\n"
    text = Path("a.svg").read_text(encoding="utf-8")
    assert [
        side for side in ("encoder", "decoder") if f"{side}: 40 positions in 16 dimensions" in text
    ] == sides


def test_positions_of_a_model_without_any_are_refused(regard: Command) -> None:
    folder(Path("run"), "recurrent", "recurrent")
    regard.fails(
        "show",
        "run",
        "--view",
        "positions",
        status=2,
        because="this model has no positional encoding",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "because"),
    [
        ([LINE, "--out", "a.gif", "--view", "heat"], 2, "--view heat: cannot be written as .gif"),
        (
            [LINE, "--out", "a.png", "--view", "player"],
            2,
            "--view player: cannot be written as .png",
        ),
        ([LINE, "--out", "a.pdf"], 2, "--out a.pdf: a figure is written as .svg, .png, .html"),
        ([LINE, "--out", "a"], 2, "--out a: a figure is written as"),
        ([LINE, "--out", "no/a.svg"], 2, "no/a.svg: No such file or directory"),
        ([LINE, "--out", "folder.svg"], 2, "folder.svg: "),
        ([""], 2, "there is nothing to translate: give a line of text"),
        ([" \t "], 2, "there is nothing to translate: give a line of text"),
        ([], 2, "there is nothing to translate: give a line of text"),
        ([LINE, "--beams", "2"], 2, "no such option: --beams"),
        ([LINE, "more"], 2, "more"),
        (
            ["나는 집에 간다. " * 30],
            2,
            "the line is split, and its parts are translated by themselves",
        ),
    ],
)
def test_impossible_figures_are_refused(
    regard: Command, transformer: Path, arguments: list[str], status: int, because: str
) -> None:
    Path("folder.svg").mkdir()
    regard.fails("show", transformer, *arguments, "--beam", 1, status=status, because=because)


def test_an_empty_translation_is_refused(
    regard: Command, transformer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.vocabulary.Vocabulary.decode", lambda *_: "")
    regard.fails(
        "show",
        transformer,
        LINE,
        status=1,
        because="the translation is empty, so there is nothing to draw; show another line",
    )


def test_a_line_in_an_unseen_script_is_shown_with_a_warning(
    regard: Command, transformer: Path
) -> None:
    done = regard("show", transformer, "我们去", "--beam", 1)
    assert any(warning.startswith("the text, line 1: most characters") for warning in done.warnings)
    assert os.listdir() == ["attention.html"]


def test_half_a_surrogate_pair_can_be_drawn(regard: Command, transformer: Path) -> None:
    regard("show", transformer, f"{LINE} \udcff", "--out", "a.svg")
    ElementTree.fromstring(Path("a.svg").read_text(encoding="utf-8"))


def test_a_model_without_attention_is_played_and_has_no_heatmap(
    regard: Command, tmp_path: Path
) -> None:
    run = folder(tmp_path / "rnn", "recurrent", "no_attention", end=-2.0)
    assert regard("show", run, LINE, "--beam", 2, "--out", "rnn.html").err == "wrote rnn.html\n"
    regard("show", run, LINE, "--view", "player", "--out", "rnn.svg")
    for arguments in (
        ["--out", "a.svg"],
        ["--out", "a.png", "--view", "heads"],
        ["--out", "a.svg", "--faithfulness"],
    ):
        because = "this model has no attention to draw; its states are played by --view player"
        regard.fails("show", run, LINE, *arguments, status=2, because=because)


@pytest.mark.parametrize(
    ("attention", "word"), [("cross", ""), ("encoder", "빵을"), ("decoder", "")]
)
def test_all_heads_of_a_word_and_of_a_layer(
    regard: Command, transformer: Path, attention: str, word: str
) -> None:
    line = [
        "show",
        transformer,
        LINE,
        "--beam",
        1,
        "--view",
        "heads",
        "--attention",
        attention,
        "--layer",
        1,
    ]
    output = regard(*line, "--out", "panels.svg").lines[0]
    word = word or output.split()[0]
    regard(*line, "--word", word, "--out", "arcs.svg")
    regard(*line, "--word", word, "--head", 2, "--out", "one.svg")
    arcs, one = (Path(f"{name}.svg").read_text(encoding="utf-8") for name in ("arcs", "one"))
    assert f"“{word}”" in arcs
    assert "head 2: " in one
    assert "head 1: " not in one
    regard(*line, "--word", word, "--out", "arcs.html")
    regard(*line, "--word", word, "--out", "arcs.png")


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            ["--view", "heads", "--word", "없다"],
            "--word 없다: not among the words that attend; the words are ",
        ),
        (["--view", "heads", "--attention", "encoder", "--word", "빵을:2"], "it is there once"),
        (
            ["--view", "heads", "--layer", 9, "--head", 7],
            [
                "--layer 9: this model's layers of cross-attention end with 1",
                "--head 7: the heads of a layer end with 2",
            ],
        ),
        (["--word", "빵을"], "--word: only with --view heads"),
        (["--view", "model", "--preset", "rnn"], "--preset: a run has its architecture already"),
        (
            ["--view", "positions", "--size", 8],
            "--size: only with --view positions and --view schedule, without a run",
        ),
        (
            ["--view", "score"],
            "belongs to the general score (preset rnn-luong); this model has ScaledDot",
        ),
    ],
)
def test_heads_and_options_that_do_not_fit_are_refused(
    regard: Command, transformer: Path, arguments: list[str], because: str | list[str]
) -> None:
    regard.fails(
        "show",
        transformer,
        LINE,
        "--out",
        "a.svg",
        "--beam",
        1,
        *arguments,
        status=2,
        because=because,
    )


def test_an_image_for_a_translator_is_refused(regard: Command, transformer: Path) -> None:
    Path("one.png").write_bytes(b"")
    because = "one.png: an image; this model translates text, and a captioner captions images"
    regard.fails("show", transformer, "one.png", "--out", "a.html", status=2, because=because)


def test_figures_without_a_run(regard: Command) -> None:
    done = regard("show", "--view", "positions", "--size", 20, "--position", 20)
    assert done.err == "wrote positions.svg\n"
    row = [line.split()[-1] for line in done.lines[1:]]
    assert row[4:8] == ["−0.0282", "−0.9996", "+0.9527", "+0.3040"], (
        "note 003 reads these off a graph"
    )
    regard(
        "show",
        "--view",
        "schedule",
        "--size",
        512,
        "--warmup",
        4000,
        "--warmup",
        8000,
        "--out",
        "rates.svg",
    )
    assert "size 512, warm-up 8,000" in Path("rates.svg").read_text(encoding="utf-8")
    regard(
        "show",
        "--view",
        "schedule",
        "--schedule",
        "constant",
        "--peak",
        0.001,
        "--warmup",
        0,
        "--updates",
        10,
    )
    regard(
        "show",
        "--view",
        "model",
        "--preset",
        "rnn-bahdanau",
        "--set",
        "model.decoder.cell=lstm",
        "--out",
        "m.svg",
    )
    text = Path("m.svg").read_text(encoding="utf-8")
    assert "LSTM" in text
    assert "keys, values" in text
    Path("recipe.toml").write_text(
        '[model.encoder]\nkind = "convolutional"\n[model.decoder]\nkind = "recurrent"\n'
    )
    regard("show", "--view", "model", "--config", "recipe.toml", "--out", "own.png")
    assert sorted(os.listdir()) == [
        "m.svg",
        "own.png",
        "positions.svg",
        "rates.svg",
        "recipe.toml",
        "schedule.svg",
    ]


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            ["--view", "heat"],
            "--view heat: needs a run; without one there are --view positions, schedule, model",
        ),
        ([], "--view player: needs a run"),
        (["--view", "model", "--preset", "rnn-luo"], "no preset is called 'rnn-luo'"),
        (["--view", "model", "--set", "model.encoder.layer=3"], "did you mean"),
        (
            ["--view", "positions", "--warmup", 3],
            "--warmup: only with --view schedule, without a run",
        ),
        (
            ["--view", "positions", "--size", 8, "--size", 9],
            "--size: the figure of positions is of one size, got 2",
        ),
        (
            ["--view", "schedule", *["--size", 8] * 2, *["--warmup", 8] * 3],
            "--size and --warmup: got 2 and 3; give as many of both, or one of either",
        ),
    ],
)
def test_figures_without_a_run_that_cannot_be(
    regard: Command, arguments: list[str], because: str
) -> None:
    regard.fails("show", *arguments, status=2, because=because)


def test_architecture_and_score_of_a_run(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        SIDES, "luong", {**SIDES["recurrent"], "order": "luong", "score": "general"}
    )
    run = folder(tmp_path / "luong", "recurrent", "luong")
    regard("show", run, LINE, "--view", "score", "--out", "w.png")
    regard("show", run, "--view", "model", "--out", "model.svg")
    done = regard("show", run, LINE, "--view", "score", "--out", "w.svg")
    assert "16 × 32 weights" in done.err + Path("w.svg").read_text(encoding="utf-8")
