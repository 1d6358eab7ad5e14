"""regard evaluate: scores, with the signature of their computation."""

from __future__ import annotations

import json
import shutil
import unicodedata
from pathlib import Path

import pytest
import sacrebleu
from command import Command

from regard.common.checksums import sealed
from regard.evaluation.significance import paired_tests


@pytest.fixture
def files(data: Path) -> list[str]:
    return ["--source", str(data / "test.ko"), "--reference", str(data / "test.en")]


def test_scores_equal_those_of_the_translations(
    regard: Command, model: Path, data: Path, files: list[str]
) -> None:
    outputs = regard("translate", model, data / "test.ko").lines
    reference = (data / "test.en").read_text(encoding="utf-8").splitlines()
    Path("second").write_text("\n".join(outputs[:6] + reference[6:]), encoding="utf-8")
    done = regard("evaluate", model, *files, "--reference", "second", "--format", "json")
    report = json.loads(done.out)
    assert len(done.lines) == 1
    assert report["beam"] == 3
    references = [reference, outputs[:6] + reference[6:]]
    for name, metric in (
        ("BLEU", sacrebleu.BLEU()),
        ("chrF", sacrebleu.CHRF()),
        ("TER", sacrebleu.TER()),
    ):
        assert report[name]["score"] == pytest.approx(
            metric.corpus_score(outputs, references).score
        )
        assert report[name]["signature"] == str(metric.get_signature())
        assert report[name]["signature"].startswith("nrefs:2|")
    text = regard("evaluate", model, *files, "--reference", "second").lines
    for line, (name, score) in zip(text, list(report.items())[4:], strict=True):
        assert line == f"{name:5} {score['score']:6.2f}   {score['signature']}|beam:3"


def test_beam_and_quiet_are_respected(
    regard: Command, transformer: Path, data: Path, files: list[str]
) -> None:
    done = regard("evaluate", transformer, *files, "--beam", 1)
    assert done.err == f"translating 12 lines of {data / 'test.ko'}\n"
    assert all(line.endswith("|beam:1") for line in done.lines)
    assert regard(
        "evaluate", transformer, *files, "--beam", 1, "--quiet", "--threads", 1, "--seed", 1
    ) == type(done)(0, done.out, "")


def test_bleu_splits_words_as_the_target_language_needs_it(
    regard: Command, transformer: Path, files: list[str]
) -> None:
    run = Path(shutil.copytree(transformer, "run"))
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config["languages"] = {"source": "ko", "target": "zh"}
    (run / "config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    for options, tokenizer in (
        ((), "zh"),
        (("--bleu-tokenizer", "char"), "char"),
        (("--against", transformer), "zh"),
    ):
        (bleu, *_) = [
            line
            for line in regard("evaluate", run, *files, *options).lines
            if line.startswith("BLEU")
        ]
        assert f"|tok:{tokenizer}|" in bleu


def test_byte_order_mark_and_cr_lf_change_nothing(
    regard: Command, transformer: Path, data: Path, files: list[str]
) -> None:
    for side in ("ko", "en"):
        text = (data / f"test.{side}").read_bytes()
        Path(f"windows.{side}").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    plain = regard("evaluate", transformer, *files, "--beam", 1)
    assert (
        regard(
            "evaluate",
            transformer,
            "--source",
            "windows.ko",
            "--reference",
            "windows.en",
            "--beam",
            1,
        ).out
        == plain.out
    )


def test_references_are_compared_in_unicode_nfc(
    regard: Command, transformer: Path, data: Path, files: list[str]
) -> None:
    korean = data / "test.ko"
    swapped = ["--source", data / "test.en", "--reference"]
    Path("nfd").write_text(
        unicodedata.normalize("NFD", korean.read_text(encoding="utf-8")), encoding="utf-8"
    )
    plain = regard("evaluate", transformer, *swapped, korean, "--beam", 1)
    decomposed = regard("evaluate", transformer, *swapped, "nfd", "--beam", 1)
    assert decomposed.out == plain.out
    assert (
        "nfd: 12 lines are not in Unicode's form NFC; they are compared as if they were"
        in decomposed.err
    )
    assert "NFC" not in plain.err


def test_a_figure_that_cannot_be_drawn_costs_no_scores(
    regard: Command, transformer: Path, files: list[str]
) -> None:
    because = "--figure scores.pdf: a figure is written as .svg, .png, .html"
    regard.fails(
        "evaluate", transformer, *files, "--figure", "scores.pdf", status=2, because=because
    )
    Path("one.ko").write_text("나는 집에 간다\n")
    Path("one.en").write_text("I go home\n")
    done = regard(
        "evaluate", transformer, "--source", "one.ko", "--reference", "one.en", "--figure", "a.svg"
    )
    assert len(done.lines) == 3
    assert "a.svg is not drawn" in done.err


def test_bad_files_are_refused(
    regard: Command, transformer: Path, data: Path, files: list[str]
) -> None:
    Path("short").write_text("one\ntwo\n")
    Path("bad").write_bytes(b"one\n\xff\n")
    Path("empty").touch()
    because = (
        f"short has 2 lines and {data / 'test.ko'} has 12; give files whose lines belong together"
    )
    regard.fails("evaluate", transformer, *files, "--reference", "short", status=1, because=because)
    regard.fails(
        *("evaluate", transformer, "--source", "empty", "--reference", "bad", "--reference", "no"),
        status=1,
        because=["empty: the file is empty; give", "bad: line 2 is not UTF-8", "no: no such file"],
    )


def test_translators_are_compared_by_a_paired_bootstrap(
    regard: Command, transformer: Path, recurrent: Path, data: Path, files: list[str]
) -> None:
    report = json.loads(
        regard(
            "evaluate",
            transformer,
            *files,
            "--against",
            recurrent,
            "--by-length",
            "--format",
            "json",
        ).out
    )
    (other,) = report["against"]
    assert other["model"] == str(recurrent)
    reference = (data / "test.en").read_text(encoding="utf-8").splitlines()
    outputs = [
        (str(run), regard("translate", run, data / "test.ko").lines)
        for run in (transformer, recurrent)
    ]
    for first, second in zip(*paired_tests(outputs, [reference]), strict=True):
        for score, values in ((first, report), (second, other)):
            assert values[score.name]["score"] == pytest.approx(score.value)
            assert values[score.name]["p"] == (score.p and pytest.approx(score.p))
            assert values[score.name]["signature"] == score.signature
    assert len(report["by_length"]) == len(other["by_length"]) > 0
    lines = regard(
        "evaluate", transformer, *files, "--against", recurrent, "--figure", "lengths.svg"
    ).lines
    assert [line for line in lines if "/" in line and "|" not in line] == [
        str(transformer),
        str(recurrent),
    ]
    assert sum("p = " in line or "equal" in line for line in lines) == 3
    assert all(
        run.name in Path("lengths.svg").read_text(encoding="utf-8")
        for run in (transformer, recurrent)
    )


def test_a_captioner_is_not_compared_with_a_translator(
    regard: Command, transformer: Path, captioner: Path, files: list[str]
) -> None:
    because = "this model reads images, not text"
    regard.fails("evaluate", transformer, *files, "--against", captioner, status=2, because=because)
    many = [part for _ in range(6) for part in ("--against", transformer)]
    because = "--figure: shows at most 6 models, got 7"
    regard.fails(
        "evaluate", transformer, *files, *many, "--figure", "a.svg", status=2, because=because
    )


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--reference", "a"], "--source"),
        (["--source", "a"], "--reference"),
        (
            ["--source", "a", "--reference", "a", "--format", "xml"],
            "'xml' is not one of 'text', 'json'",
        ),
        (["--source", "a", "--reference", "a", "--beam", "0"], "--beam"),
        (["--source", "a", "--reference", "a", "--nbest", "2"], "no such option: --nbest"),
    ],
)
def test_bad_options_are_refused(
    regard: Command, transformer: Path, options: list[str], because: str
) -> None:
    regard.fails("evaluate", transformer, *options, status=2, because=because)


def test_an_unseen_script_is_warned_of(regard: Command, transformer: Path) -> None:
    Path("mixed").write_text("나는 집에 간다\n我们今天去公园吧\n", encoding="utf-8")
    done = regard("evaluate", transformer, "--source", "mixed", "--reference", "mixed", "--beam", 1)
    assert any(
        warning.startswith("mixed, line 2: most characters were never seen in training")
        for warning in done.warnings
    )


def test_warnings_of_lines_are_counted(regard: Command, transformer: Path) -> None:
    message = (
        ">>deu<< {n, plural, one {나는 간다} other {너는 간다}}"  # with a code it is read whole
    )
    Path("messages").write_text(f"나는 간다\n{message}\n{message}\n", encoding="utf-8")
    done = regard(
        "evaluate", transformer, "--source", "messages", "--reference", "messages", "--beam", 1
    )
    counted = "messages: 2 of 3 lines have a translation with a warning, such as line 2; regard translate prints all"
    assert done.warnings == [counted]


def test_a_file_of_pairs_is_scored_as_its_two_sides(
    regard: Command, transformer: Path, data: Path, files: list[str], tmp_path: Path
) -> None:
    sources, references = (
        (data / name).read_text(encoding="utf-8").splitlines() for name in ("test.ko", "test.en")
    )
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(
        "".join(f"{a}\t{b}\n" for a, b in zip(sources, references, strict=True)), encoding="utf-8"
    )
    assert (
        regard("evaluate", transformer, "--pairs", pairs).out
        == regard("evaluate", transformer, *files).out
    )
    pairs.write_text("\tno source\n", encoding="utf-8")
    regard.fails(
        "evaluate",
        transformer,
        "--pairs",
        pairs,
        status=1,
        because=["none of the 1 pair can be used"],
    )


def test_files_that_are_no_lines_of_text_are_refused(
    regard: Command, transformer: Path, tmp_path: Path
) -> None:
    for name, kind in (("page.html", "html"), ("rows.jsonl", "jsonl")):
        (tmp_path / name).write_text("<p>a</p>\n", encoding="utf-8")
        arguments = ["--source", tmp_path / name, "--reference", tmp_path / name]
        regard.fails(
            "evaluate",
            transformer,
            *arguments,
            status=2,
            because=[f"{name}: is {kind}, and lines of text"],
        )


def test_lines_with_tabs_are_warned_of(regard: Command, transformer: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text("a b\tc d\n" * 3, encoding="utf-8")
    done = regard(
        "evaluate", transformer, "--source", tmp_path / "pairs", "--reference", tmp_path / "pairs"
    )
    assert "most lines hold tabs; if it is a file of pairs, give it as --pairs" in done.err
    assert (
        "most lines hold tabs; of pairs or a table"
        in regard("translate", transformer, tmp_path / "pairs").err
    )
