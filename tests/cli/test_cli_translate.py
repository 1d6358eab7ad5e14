"""regard translate: input and output formats, and bad input."""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
from pathlib import Path

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.system_marks import posix

from regard.model_folder import load_settings, write_settings


@pytest.fixture(autouse=True)
def korean(regard: Command, data: Path) -> list[str]:
    """Write five lines, among them an empty one, into the file `five`."""
    lines = lines_of(data / "test.ko")
    five = [*lines[:3], "", lines[3]]
    write_lines("five", five)
    return five


@pytest.fixture
def translate(transformer: Path) -> str:
    return f"translate {transformer}"


def test_each_line_gives_one_line(
    regard: Command, translate: str, korean: list[str]
) -> None:
    done = regard(f"{translate} five")
    assert done.lines[3] == ""
    assert len({*done.lines}) > 2, "a test of order needs lines that differ"

    for line, translation in zip(korean, done.lines, strict=True):
        assert regard(translate, stdin=f"{line}\n").lines == [translation]
    assert regard(f"{translate} five --threads 1 --seed 3 --quiet --chunk 2") == done
    assert done.err == ""
    assert regard(f"{translate} five --beam 3") == done, "the width of the recipe"
    assert regard(f"{translate} five --beam 1").out != done.out


def test_what_patterns_match_is_kept(regard: Command, translate: str) -> None:
    line = "나는 집에 Foobar 12-3 Quux TCP/IP Node.js 간다"
    kept = ["Foobar", "12-3", "Quux", "TCP/IP", "Node.js"]
    write_lines("words", ["Foobar", "", "Quux"])
    options = r"--keep words --keep '\d+-\d+' --keep TCP/IP --keep Node.js"
    out = regard(f"{translate} {options}", stdin=line).out
    assert [out.count(word) for word in kept] == [1] * 5

    plain = regard(f"{translate} --no-keep", stdin=line).out
    assert not all(word in plain for word in kept), "the model loses the words"


@posix
def test_a_pipe_that_nobody_has_opened_is_no_file_of_patterns(
    regard: Command, translate: str
) -> None:
    os.mkfifo("pipe")
    because = "pipe or a device"
    regard.fails(f"{translate} --keep pipe", stdin="a\n", status=1, because=because)


FORMS = {
    "CRLF and a byte-order mark": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "no newline at the end": lambda text: text.removesuffix("\n"),
    "decomposed Hangul": lambda text: unicodedata.normalize("NFD", text),
    "spaces around": lambda text: text.replace("\n", " \t\n  "),
}


@pytest.mark.parametrize("form", FORMS)
def test_line_ends_and_normal_forms_change_nothing(
    regard: Command, translate: str, form: str
) -> None:
    plain = regard(f"{translate} five")
    content = FORMS[form](text_of("five")).rstrip(" ").encode()
    assert content != Path("five").read_bytes()
    Path("other").write_bytes(content)
    Path("other.gz").write_bytes(gzip.compress(content, mtime=0))
    for arguments in ("other", "other.gz", "", "-"):
        assert regard(f"{translate} {arguments}", stdin=content) == plain


def test_json_equals_text(regard: Command, translate: str) -> None:
    text = regard(f"{translate} five --alignments").lines
    lines = regard(f"{translate} five --alignments --format jsonl").lines
    rows = [json.loads(line) for line in lines]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5]

    for row, line in zip(rows, text, strict=True):
        links = [f"{source}-{target}" for source, target in sorted(row["alignments"])]
        assert f"{row['text']}\t{' '.join(links)}" == line
        assert row["text"] == " ".join(part["text"] for part in row["parts"])
        assert row["nbest"] == []
        assert row["score"] < 0 or not row["text"]

    empty = {
        "line": 4,
        "text": "",
        "score": 0.0,
        "tokens": [],
        "alignments": [],
        "nbest": [],
        "repetition": None,
        "doubtful": False,
        "parts": [],
    }
    assert list(rows[0]) == list(empty)
    assert rows[3] == empty

    plain = regard(f"{translate} five --format jsonl").lines
    assert {json.loads(line)["alignments"] for line in plain} == {None}


def test_the_n_best_begin_with_the_best(regard: Command, translate: str) -> None:
    best = regard(f"{translate} five --alignments").lines
    options = "five --nbest 3 --alignments"
    rows = [line.split("\t", 2) for line in regard(f"{translate} {options}").lines]
    lines = regard(f"{translate} {options} --format jsonl").lines
    for number, line in enumerate(map(json.loads, lines), 1):
        hypotheses = [row for row in rows if row[0] == str(number)]
        assert hypotheses[0][2] == best[number - 1]
        if number == 4:
            assert hypotheses == [["4", "0.0000", "\t"]]
            assert line["nbest"] == []
        else:
            assert len(hypotheses) == 3
            assert line["nbest"][0].items() <= line.items()
            for one, (_, score, columns) in zip(line["nbest"], hypotheses, strict=True):
                assert columns.startswith(f"{one['text']}\t")
                assert float(score) == pytest.approx(one["score"], abs=1e-4)


# Output files


def test_an_output_file_is_complete_or_missing(
    regard: Command, translate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = regard(f"{translate} five").out
    Path("out").write_text("old")
    bad = Path("five").read_bytes() + b"\xff\n"
    because = "line 6 is not UTF-8"
    regard.fails(f"{translate} --output out", stdin=bad, status=1, because=because)

    done = regard(f"{translate} five --output out")
    assert done.out == ""
    assert Path("out").read_bytes() == printed.encode()
    assert sorted(os.listdir()) == ["five", "out"]

    regard(f"{translate} five --output {os.devnull}")
    assert Path(os.devnull).is_char_device()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.pipeline.Translator.begin", interrupted)
    regard.fails(f"{translate} five --output new", status=130, because="stopped")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("nowhere/out", "No such file or directory"),
        ("folder", "Is a directory"),
        ("five/out", "Not a directory"),
    ],
)
def test_bad_output_paths_are_refused(
    regard: Command, translate: str, output: str, reason: str
) -> None:
    Path("folder").mkdir()
    because = f"--output {output}: cannot be written ({reason}); choose"
    regard.fails(f"{translate} five --output {output}", because=because)


# Bad input

GZIP = gzip.compress("나는 집에 간다\n".encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "because"),
    [
        (
            b"a\nb \xff\xfe\n",
            "line 2 is not UTF-8 (byte 0xFF, the line's byte number 3)",
        ),
        (b"a\n\nb\0c\n", "line 3 holds a NUL character; remove it"),
        (
            b"a\rb\r",
            "its lines end in CR alone, so it would be one line; save it with line feeds",
        ),
    ],
)
def test_lines_that_are_not_text_are_refused(
    regard: Command, translate: str, content: bytes, because: str
) -> None:
    because_of_stdin = f"standard input: {because}"
    regard.fails(translate, stdin=content, status=1, because=because_of_stdin)
    Path("bad").write_bytes(content)
    done = regard.fails(f"{translate} bad", status=1, because=f"bad: {because}")
    assert done.out == ""


@pytest.mark.parametrize(
    ("name", "content", "because"),
    [
        ("empty", b"\xef\xbb\xbf", "empty: the file is empty; give"),
        ("plain.gz", b"a\n", "plain.gz: damaged, or not gzip at all"),
        ("half.gz", GZIP[:-4], "half.gz: damaged, or not gzip at all"),
        ("file", GZIP, "it looks gzipped: let its name end in .gz"),
        ("file", "나는\n".encode("utf-16"), "it looks like UTF-16: save it as UTF-8"),
    ],
)
def test_unreadable_files_are_refused(
    regard: Command, translate: str, name: str, content: bytes, because: str
) -> None:
    Path(name).write_bytes(content)
    done = regard.ended(f"{translate} {name} --output out")
    assert (done.status, done.out) == (1, "")
    assert because in done.causes[0]
    assert not Path("out").exists()


def test_a_missing_file_and_a_folder_are_refused(
    regard: Command, translate: str
) -> None:
    Path("folder").mkdir()
    Path("test.ko").touch()
    for name, because in (
        ("tset.ko", "tset.ko: no such file; did you mean test.ko?"),
        ("no/test.ko", "no/test.ko: no such file, nor a folder no"),
        ("folder", "folder: is a folder; give a text file"),
    ):
        regard.fails(f"{translate} {name}", status=1, because=because)


def test_lines_without_letters_are_copied(regard: Command, translate: str) -> None:
    assert regard(translate).out == ""
    Path("blank").write_bytes(b"\n  \n\r\n")
    assert regard(f"{translate} blank").out == "\n\n\n"
    assert regard(f"{translate} blank --alignments").out == "\t\n\t\n\t\n"
    done = regard(translate, stdin="123\n🙂 ✓\n\n---\n")
    assert (done.out, done.err) == ("123\n🙂 ✓\n\n---\n", ""), (
        "they are in no unknown script"
    )


# Doubtful lines and unseen scripts


def test_doubtful_lines_are_marked_and_counted_at_the_end(
    regard: Command, run: Path
) -> None:
    settings = load_settings(run)
    assert settings.search.score_threshold is not None
    assert settings.familiar is not None, "the sample is a small world"

    jsonl = "translate run --format jsonl"
    rows = [json.loads(line) for line in regard(f"{jsonl} five").lines]
    scores = sorted(part["score"] for row in rows for part in row["parts"])
    limit = (scores[1] + scores[2]) / 2
    search = settings.search.model_dump() | {"score_threshold": limit}
    write_settings(run, settings.with_values(search=search))
    for options in ("five --chunk 2", "five --chunk 5 --output out"):
        done = regard(f"{jsonl} {options}")
        lines = done.lines if done.out else lines_of("out")
        doubtful = 0
        for row in map(json.loads, lines):
            assert row["doubtful"] == any(
                part["score"] < limit for part in row["parts"]
            )
            doubtful += row["doubtful"]
        (warning,) = (warning for warning in done.warnings if "doubtful" in warning)
        assert warning.startswith(f"five: {doubtful} of 5 lines are doubtful: ")
        assert "JSON lines (--format jsonl) mark them" in warning

    other = regard("translate run five --length-penalty 0")
    assert "doubtful" not in other.err, "scores of another kind are not compared"


KOREAN = "나는 집에 간다"
CHINESE = "我们今天去公园吧"
THAI = "สวัสดีชาวโลก"


def test_lines_in_an_unseen_script_are_named(regard: Command, translate: str) -> None:
    write_lines("mixed", [KOREAN, CHINESE, "", THAI])
    done = regard(f"{translate} mixed")
    assert len(done.lines) == 4

    unseen = "most characters were never seen in training, so the translations mean nothing; check"
    assert f"warning: mixed, lines 2, 4: {unseen}" in done.err
    assert regard(f"{translate} mixed --quiet").err == ""

    streamed = regard(f"{translate} mixed --stream")
    named = [
        warning.split(":")[0]
        for warning in streamed.warnings
        if "never seen" in warning
    ]
    assert named == ["mixed, line 2", "mixed, line 4"]


def test_input_in_unseen_scripts_only_fails(
    regard: Command, transformer: Path, translate: str
) -> None:
    write_lines("foreign", [CHINESE, "", THAI] * 4)
    reason = f"no line is in a script that {transformer} has seen in training"
    because = f"{reason}, so no translation can be right; check"
    for options in ("--beam 1", "--beam 1 --output out --quiet", "--stream"):
        command = f"{translate} foreign {options}"
        regard.fails(command, status=1, because=f"foreign: {because}")

    command = f"{translate} --beam 1"
    done = regard.fails(
        command, stdin=CHINESE, status=1, because=f"standard input: {because}"
    )
    assert "line 1: most characters" in done.err


# Options


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (
            "--nbest 4",
            "nbest: wanted 1 to 3 (the beam), got 4; lower it, or widen the beam",
        ),
        ("--nbest 2 --beam 1", "nbest: wanted 1 to 1 (the beam), got 2"),
        ("--beam wide", "--beam"),
        ("--format xml", "'xml' is not one of 'text', 'jsonl'"),
        ("--beams 2", "--beams"),
        ("second", "second"),
        ("--device gpu", "--device gpu: wanted auto, cpu, cuda or mps"),
        ("--keep '(?=a)'", "keep: '(?=a)' is no pattern of RE2"),
        ("--keep a --keep '.*'", "keep: '.*' matches everything"),
        ("--keep missing.txt", "--keep missing.txt: no such file"),
        ("--keep ../lists/words.gz", r"for a pattern write '\.\./lists/words\.gz'"),
        ("--keep /no/such/words", "--keep /no/such/words: no such file"),
        ("--keep /", "--keep /: is a folder; give a file of patterns"),
        ("--keep a --no-keep", "--keep does not go with --no-keep"),
        ("--keep a --stream", "--stream and --keep"),
        (
            "--keep a --nbest 2",
            "patterns of what to keep go with the best translation alone",
        ),
    ],
)
def test_bad_options_are_refused(
    regard: Command, translate: str, options: str, because: str
) -> None:
    done = regard.fails(f"{translate} - {options}", stdin="a\n", because=because)
    assert done.out == ""
