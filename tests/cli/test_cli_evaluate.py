"""regard evaluate: scores, with the signature of their computation."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, astuple
from pathlib import Path

import pytest
import sacrebleu
from command import Command, lines_of, text_of, write_lines

from regard.common.checksums import sealed
from regard.evaluation.significance import paired_tests


@pytest.fixture(autouse=True)
def _files(regard: Command, data: Path) -> None:
    """Write both sides of the test file into the current folder."""
    for side in ("ko", "en"):
        write_lines(side, lines_of(data / f"test.{side}"))


@pytest.fixture
def scored(transformer: Path) -> str:
    """Return the command that scores the test file."""
    return f"evaluate {transformer} --source ko --reference en"


def test_scores_equal_those_of_the_translations(
    regard: Command, transformer: Path, scored: str
) -> None:
    outputs = regard(f"translate {transformer} ko --beam 1").lines
    references = [lines_of("en"), outputs[:6] + lines_of("en")[6:]]
    write_lines("second", references[1])
    command = f"{scored} --reference second --beam 1"
    done = regard(f"{command} --format json")
    report = json.loads(done.out)
    assert len(done.lines) == 1
    assert report["beam"] == 1

    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()):
        expected = metric.corpus_score(outputs, references)
        score = report[expected.name.removesuffix("2")]
        assert score["score"] == pytest.approx(expected.score)
        assert score["signature"] == str(metric.get_signature())

    text = regard(command)
    assert text.err == "translating 12 lines of ko\n"
    for line, (name, score) in zip(text.lines, list(report.items())[4:], strict=True):
        assert line == f"{name:5} {score['score']:6.2f}   {score['signature']}|beam:1"

    quiet = regard(f"{command} --quiet --threads 1 --seed 1")
    assert (quiet.out, quiet.err) == (text.out, "")


def test_a_corrected_table_says_how_the_scores_change(
    regard: Command, transformer: Path
) -> None:
    sources, references = lines_of("ko"), lines_of("en")
    outputs = regard(f"translate {transformer} ko --beam 1").lines
    corrected = [*references[:3], *outputs[3:5], *references[5:]]
    header = "source;reference;translation;correction"
    rows = [
        f"{source};{reference};old;{correction if correction != reference else ''}"
        for source, reference, correction in zip(
            sources, references, corrected, strict=True
        )
    ]
    write_lines("table.csv", [header, *rows])
    command = f"evaluate {transformer} --corrections table.csv --beam 1"
    report = json.loads(regard(f"{command} --format json").out)
    changed = sum(map(str.__ne__, references, corrected))
    assert (report["corrected"], report["pairs"]) == (changed, 12)
    for name, expected in (("before", references), ("after", corrected)):
        for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
            score = report[name][metric.corpus_score(outputs, [expected]).name[:4]]
            value = metric.corpus_score(outputs, [expected]).score
            assert score["score"] == pytest.approx(value)

    done = regard(command)
    assert done.lines[0] == f"{changed} of 12 references were corrected"
    before, after = (report[name]["chrF"]["score"] for name in ("before", "after"))
    assert done.lines[2].startswith(f"chrF  {before:6.2f} → {after:6.2f}   ")


def test_bleu_splits_words_as_the_target_language_needs_it(
    regard: Command, run: Path
) -> None:
    config = json.loads(text_of("run/config.json"))
    config["languages"] = {"source": "ko", "target": "zh"}
    Path("run/config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    files = "--source ko --reference en --beam 1"
    for more, tokenizer in (("", "zh"), ("--bleu-tokenizer char", "char")):
        bleu = regard(f"evaluate run {files} {more}").lines[0]
        assert bleu.startswith("BLEU")
        assert f"|tok:{tokenizer}|" in bleu


def test_normal_forms_and_pairs_in_one_file_change_no_score(
    regard: Command, transformer: Path
) -> None:
    evaluate = f"evaluate {transformer} --beam 1"
    plain = regard(f"{evaluate} --source en --reference ko")
    korean = [unicodedata.normalize("NFD", line) for line in lines_of("ko")]
    write_lines("nfd", korean)
    decomposed = regard(f"{evaluate} --source en --reference nfd")
    assert decomposed.out == plain.out

    note = (
        "nfd: 12 lines are not in Unicode's form NFC; they are compared as if they were"
    )
    assert note in decomposed.err
    assert "NFC" not in plain.err

    pairs = zip(lines_of("en"), lines_of("ko"), strict=True)
    write_lines("pairs.tsv", [f"{source}\t{target}" for source, target in pairs])
    assert regard(f"{evaluate} --pairs pairs.tsv").out == plain.out

    pairs = zip(lines_of("ko"), lines_of("en"), strict=True)
    rows = [f"k.{i}\t{target}\t{source}" for i, (target, source) in enumerate(pairs)]
    write_lines("table.tsv", ["key\tx\ty", *rows])
    assert regard(f"{evaluate} --pairs table.tsv --columns y,2").out == plain.out
    write_lines("table.tsv", ["key\tKorean\tEnglish", *rows])
    assert regard(f"{evaluate} --pairs table.tsv --columns 3,2").out == plain.out

    write_lines("pairs.tsv", ["\tno source"])
    because = "none of the 1 pair can be used"
    regard.fails(f"{evaluate} --pairs pairs.tsv", status=1, because=because)


def test_translators_are_compared_by_a_paired_bootstrap(
    regard: Command, transformer: Path, run: Path, scored: str
) -> None:
    config = json.loads(text_of("run/config.json"))
    config["search"]["max_length"] = 4
    Path("run/config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    compared = f"{scored} --against run"
    report = json.loads(regard(f"{compared} --by-length --format json").out)
    (second,) = report["against"]
    assert second["model"] == "run"
    assert len(report["by_length"]) == len(second["by_length"]) > 0

    outputs = []
    for model in (str(transformer), "run"):
        outputs.append((model, regard(f"translate {model} ko").lines))

    expected = paired_tests(outputs, [lines_of("en")])
    for scores, values in zip(expected, (report, second), strict=True):
        for score in scores:
            assert values[score.name]["score"] == pytest.approx(score.value)
            assert values[score.name]["p"] == (score.p and pytest.approx(score.p))
            assert values[score.name]["signature"] == score.signature
            assert values[score.name]["difference"] == (
                score.difference and asdict(score.difference)
            )

    lines = regard(f"{compared} --figure lengths.svg").lines
    assert (lines[0], lines[4]) == (str(transformer), "run")
    assert lines[8] == f"run − {transformer}, 95 % interval of the paired resamples"
    for line, score in zip(lines[9:], expected[1], strict=True):
        name, difference, low, _, high, *_ = line.replace("−", "-").split()
        assert score.difference is not None
        shown = [float(difference), float(low), float(high)]
        assert shown == pytest.approx([*astuple(score.difference)], abs=0.006)
        assert name == score.name
        assert line.endswith("equal" if score.equal else f"p = {score.p:.4f}")
    assert "run" in text_of("lengths.svg")

    write_lines("ko", ["나는 집에 간다"])
    write_lines("en", ["I go home"])
    done = regard(f"{scored} --figure a.svg")
    assert len(done.lines) == 3
    assert "a.svg is not drawn" in done.err


def test_lines_unlike_those_of_training_are_warned_of(
    regard: Command, transformer: Path
) -> None:
    evaluate = f"evaluate {transformer} --beam 1"
    write_lines("mixed", ["나는 집에 간다", "我们今天去公园吧"])
    done = regard(f"{evaluate} --source mixed --reference mixed")
    assert "mixed, line 2: most characters were never seen in training" in done.err
    long = "나는 집에 " * 30
    write_lines("messages", ["나는 간다", long, long])
    done = regard(f"{evaluate} --source messages --reference messages")
    counted = "messages: 2 of 3 lines have a translation with a warning, such as line 2"
    assert done.warnings == [f"{counted}; regard translate prints all"]

    write_lines("pairs", ["a b\tc d"] * 3)
    done = regard(f"{evaluate} --source pairs --reference pairs")
    assert (
        "most lines hold tabs; if it is a file of pairs, give it as --pairs" in done.err
    )

    translated = regard(f"translate {transformer} pairs")
    assert "most lines hold tabs; of pairs or a table" in translated.err
