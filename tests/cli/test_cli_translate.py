"""regard translate: input and output formats, and bad input."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import unicodedata
from pathlib import Path

import pytest
from command import Command
from systems import posix

from regard.data.word_alignments import read_gold
from regard.model_folder import load_settings, write_settings


@pytest.fixture
def korean(data: Path) -> bytes:
    """Return five lines, among them an empty one."""
    lines = (data / "test.ko").read_bytes().splitlines(keepends=True)
    return b"".join([*lines[:3], b"\n", lines[3]])


def test_each_line_gives_one_line(regard: Command, model: Path, korean: bytes) -> None:
    Path("five.ko").write_bytes(korean)
    lines = regard("translate", model, "five.ko").lines
    assert lines[3] == ""
    assert len({*lines}) > 2, "a test of order needs lines that differ"
    for number, line in enumerate(korean.splitlines()):
        assert regard("translate", model, stdin=line + b"\n").lines == [lines[number]]


def test_what_patterns_match_is_kept(regard: Command, transformer: Path) -> None:
    line = "나는 집에 Foobar 12-3 Quux 간다"
    words = ["Foobar", "12-3", "Quux"]
    Path("words").write_text("Foobar\n\nQuux\n", encoding="utf-8")
    (out,) = regard(
        "translate", transformer, "--keep", "words", "--keep", r"\d+-\d+", stdin=line.encode()
    ).lines
    assert [out.count(word) for word in words] == [1, 1, 1]
    (plain,) = regard("translate", transformer, "--no-keep", stdin=line.encode()).lines
    assert not all(word in plain for word in words), (
        "a test of patterns needs a model that loses the words"
    )


@posix
def test_a_pipe_that_nobody_has_opened_is_no_file_of_patterns(
    regard: Command, transformer: Path
) -> None:
    os.mkfifo("pipe")
    regard.fails(
        "translate",
        transformer,
        "--keep",
        "pipe",
        stdin=b"a\n",
        status=1,
        because="pipe or a device",
    )


def test_words_with_slashes_and_dots_are_patterns(regard: Command, transformer: Path) -> None:
    line = "나는 TCP/IP Node.js 집에 간다"
    (out,) = regard(
        "translate", transformer, "--keep", "TCP/IP", "--keep", "Node.js", stdin=line.encode()
    ).lines
    assert [out.count(word) for word in ("TCP/IP", "Node.js")] == [1, 1]


@pytest.mark.parametrize("pattern", ["NFC", "NFD"])
@pytest.mark.parametrize("line", ["NFC", "NFD"])
def test_patterns_keep_decomposed_text_as_it_is(
    regard: Command, transformer: Path, pattern: str, line: str
) -> None:
    kept = [unicodedata.normalize(pattern, word) for word in ("집에", "Café")]
    Path("words").write_text("\n".join(kept) + "\n", encoding="utf-8")
    given = unicodedata.normalize(line, "나는 집에 Café 간다")
    done = regard("translate", transformer, "--keep", "words", stdin=given.encode())
    for word in ("집에", "Café"):
        assert done.out.count(unicodedata.normalize(line, word)) == 1
    assert "lacks" not in done.err


FORMS = {
    "CRLF": lambda text: text.replace(b"\n", b"\r\n"),
    "a byte-order mark": lambda text: b"\xef\xbb\xbf" + text,
    "both": lambda text: b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"),
    "no newline at the end": lambda text: text.removesuffix(b"\n"),
    "decomposed Hangul": lambda text: unicodedata.normalize("NFD", text.decode()).encode(),
    "spaces around": lambda text: b"".join(
        b"  " + line + b" \t\n" for line in text.split(b"\n")[:-1]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_line_ends_and_normal_forms_change_nothing(
    regard: Command, transformer: Path, korean: bytes, form: str
) -> None:
    Path("plain").write_bytes(korean)
    Path("other").write_bytes(FORMS[form](korean))
    Path("other.gz").write_bytes(gzip.compress(FORMS[form](korean)))
    plain = regard("translate", transformer, "plain")
    assert FORMS[form](korean) != korean
    assert regard("translate", transformer, "other") == plain
    assert regard("translate", transformer, "other.gz") == plain
    for arguments in ([], ["-"]):
        assert regard("translate", transformer, *arguments, stdin=FORMS[form](korean)) == plain


def test_lines_that_end_in_cr_alone_are_refused(
    regard: Command, transformer: Path, korean: bytes
) -> None:
    old = korean.replace(b"\n", b"\r")
    Path("old").write_bytes(old)
    because = "its lines end in CR alone, so it would be one line; save it with line feeds"
    regard.fails("translate", transformer, "old", status=1, because=f"old: {because}")
    regard.fails(
        "translate", transformer, stdin=old, status=1, because=f"standard input: {because}"
    )


def test_json_equals_text(regard: Command, model: Path, korean: bytes) -> None:
    text = regard("translate", model, "--alignments", stdin=korean).lines
    lines = regard("translate", model, "--alignments", "--format", "jsonl", stdin=korean).lines
    rows = [json.loads(line) for line in lines]
    names = [
        "line",
        "text",
        "score",
        "tokens",
        "alignments",
        "nbest",
        "repetition",
        "doubtful",
        "parts",
    ]
    assert [list(row) for row in rows] == [names] * 5
    assert all(" ".join(part["text"] for part in row["parts"]) == row["text"] for row in rows)
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5]
    expected = [
        "\t".join([row["text"], " ".join(f"{s}-{t}" for s, t in sorted(row["alignments"]))])
        for row in rows
    ]
    assert expected == text
    assert all(row["nbest"] == [] for row in rows)
    assert all(row["score"] < 0 for row in rows if row["text"])
    assert rows[3] == {
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
    assert {
        json.loads(line)["alignments"]
        for line in regard("translate", model, "--format", "jsonl", stdin=korean).lines
    } == {None}


def test_alignments_link_existing_words(regard: Command, model: Path, data: Path) -> None:
    sources = (data / "test.ko").read_text(encoding="utf-8").splitlines()
    plain = regard("translate", model, data / "test.ko").lines
    rows = [
        line.split("\t")
        for line in regard("translate", model, data / "test.ko", "--alignments").lines
    ]
    assert [text for text, _ in rows] == plain
    for source, (text, links) in zip(sources, rows, strict=True):
        sure, possible = read_gold(links)
        assert sure == possible
        word_links = sorted(sure)
        assert " ".join(f"{s}-{t}" for s, t in word_links) == links
        assert sorted(t for _, t in word_links) == list(range(len(text.split())))
        assert all(0 <= s < len(source.split()) for s, _ in word_links)


@pytest.mark.parametrize("alignments", [[], ["--alignments"]])
def test_the_n_best_begin_with_the_best(
    regard: Command, model: Path, korean: bytes, alignments: list[str]
) -> None:
    best = regard("translate", model, *alignments, stdin=korean).lines
    rows = [
        line.split("\t", 2)
        for line in regard("translate", model, "--nbest", 3, *alignments, stdin=korean).lines
    ]
    by_line = {n: [row for row in rows if row[0] == str(n)] for n in range(1, 6)}
    assert [rows[0][2] for rows in by_line.values()] == best
    assert [len(rows) for n, rows in by_line.items() if n != 4] == [3] * 4
    assert by_line[4] == [["4", "0.0000", "\t" if alignments else ""]]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    for hypotheses in by_line.values():
        scores = [float(score) for _, score, _ in hypotheses]
        assert scores == sorted(scores, reverse=True)
    json_rows = [
        json.loads(line)
        for line in regard(
            "translate", model, "--nbest", 3, "--format", "jsonl", *alignments, stdin=korean
        ).lines
    ]
    for row, hypotheses in zip(json_rows, by_line.values(), strict=True):
        assert (
            row["nbest"][:1]
            == [{key: row[key] for key in ("text", "score", "tokens", "alignments")}][
                : len(row["nbest"])
            ]
        )
        assert [hypothesis["text"] for hypothesis in row["nbest"] or [row]] == [
            columns[2].split("\t")[0] for columns in hypotheses
        ]
        assert [hypothesis["score"] for hypothesis in row["nbest"] or [row]] == pytest.approx(
            [float(columns[1]) for columns in hypotheses], abs=1e-4
        )


def test_the_default_beam_is_that_of_the_recipe(
    regard: Command, transformer: Path, data: Path
) -> None:
    widths = {
        beam: regard("translate", transformer, data / "test.ko", "--beam", beam).out
        for beam in (1, 3)
    }
    assert regard("translate", transformer, data / "test.ko").out == widths[3]
    assert widths[1] != widths[3]


def test_the_length_penalty_divides_the_score(regard: Command, model: Path, korean: bytes) -> None:
    options = ["--beam", 1, "--format", "jsonl", "--length-penalty"]
    for plain, divided in zip(
        *(regard("translate", model, *options, a, stdin=korean).lines for a in (0, 1)), strict=True
    ):
        plain_row = json.loads(plain)
        divided_row = json.loads(divided)
        assert plain_row["tokens"] == divided_row["tokens"], "greedy search ignores the penalty"
        assert divided_row["score"] == pytest.approx(
            plain_row["score"] / ((5 + len(plain_row["tokens"]) + 1) / 6), abs=1e-5
        )


def test_threads_seed_and_quiet_change_no_result(
    regard: Command, transformer: Path, korean: bytes
) -> None:
    plain = regard("translate", transformer, stdin=korean)
    assert plain.err == ""
    assert (
        regard("translate", transformer, "--threads", 1, "--seed", 3, "--quiet", stdin=korean)
        == plain
    )


def test_many_lines_keep_their_order_across_chunks(
    regard: Command, transformer: Path, data: Path
) -> None:
    whole = regard("translate", transformer, data / "test.ko", "--beam", 1)
    assert regard("translate", transformer, data / "test.ko", "--beam", 1, "--chunk", 5) == whole
    rows = regard(
        "translate", transformer, data / "test.ko", "--beam", 1, "--format", "jsonl", "--chunk", 5
    ).lines
    assert [json.loads(row)["line"] for row in rows] == list(range(1, 13))


# Output files


def test_an_output_file_holds_what_would_be_printed(
    regard: Command, transformer: Path, korean: bytes
) -> None:
    printed = regard("translate", transformer, stdin=korean).out
    Path("out.txt").write_text("old")
    done = regard("translate", transformer, "--output", "out.txt", stdin=korean)
    assert done.out == ""
    assert Path("out.txt").read_bytes() == printed.encode()
    assert os.listdir() == ["out.txt"]


def test_a_device_is_not_replaced(regard: Command, transformer: Path, korean: bytes) -> None:
    regard("translate", transformer, "--output", os.devnull, stdin=korean)
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("output", "because"),
    [
        (
            "nowhere/out.txt",
            "--output nowhere/out.txt: cannot be written (No such file or directory); choose",
        ),
        ("folder", "--output folder: cannot be written (Is a directory); choose"),
        ("file/out.txt", "--output file/out.txt: cannot be written (Not a directory); choose"),
    ],
)
def test_bad_output_paths_are_refused(
    regard: Command, transformer: Path, output: str, because: str
) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    regard.fails(
        "translate", transformer, "--output", output, stdin=b"a\n", status=2, because=because
    )


def test_an_output_file_is_complete_or_missing(
    regard: Command, transformer: Path, korean: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("old.txt").write_text("old")
    bad = korean + b"\xff\n"
    done = regard.fails(
        "translate",
        transformer,
        "--output",
        "old.txt",
        stdin=bad,
        status=1,
        because="line 6 is not UTF-8",
    )
    assert done.out == ""
    monkeypatch.setattr("regard.pipeline.Translator.begin", _interrupted)
    regard.fails(
        "translate", transformer, "--output", "new.txt", stdin=korean, status=130, because="stopped"
    )


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


# Bad input

GZIP = gzip.compress("나는 집에 간다\n".encode())
BAD = {
    "not UTF-8": (b"a\nb \xff\xfe\n", "line 2 is not UTF-8 (byte 0xFF, the line's byte number 3)"),
    "latin-1": (
        "a\nné\n".encode("latin-1"),
        "line 2 is not UTF-8 (byte 0xE9, the line's byte number 2)",
    ),
    "NUL": (b"a\n\nb\0c\n", "line 3 holds a NUL character; remove it"),
}


@pytest.mark.parametrize("kind", BAD)
def test_lines_that_are_not_text_are_refused(regard: Command, transformer: Path, kind: str) -> None:
    content, because = BAD[kind]
    regard.fails(
        "translate", transformer, stdin=content, status=1, because=f"standard input: {because}"
    )
    Path("bad.ko").write_bytes(content)
    done = regard.fails("translate", transformer, "bad.ko", status=1, because=f"bad.ko: {because}")
    assert done.out == ""


@pytest.mark.parametrize(
    ("name", "content", "because"),
    [
        ("empty.ko", b"", "empty.ko: the file is empty; give"),
        ("only-a-mark.ko", b"\xef\xbb\xbf", "only-a-mark.ko: the file is empty; give"),
        ("plain.ko.gz", b"a\n", "plain.ko.gz: damaged, or not gzip at all"),
        ("half.ko.gz", GZIP[:-4], "half.ko.gz: damaged, or not gzip at all"),
    ],
    ids=lambda value: (
        value if isinstance(value, str) and value.isascii() and ":" not in value else ""
    ),
)
def test_unreadable_files_are_refused(
    regard: Command, transformer: Path, name: str, content: bytes, because: str
) -> None:
    Path(name).write_bytes(content)
    done = regard.fails(
        "translate", transformer, name, "--output", "out.txt", status=1, because=because
    )
    assert done.out == ""


@pytest.mark.parametrize(
    ("content", "because"),
    [
        (GZIP, "it looks gzipped: let its name end in .gz"),
        ("나는\n".encode("utf-16"), "it looks like UTF-16: save it as UTF-8"),
    ],
    ids=["gzip", "UTF-16"],
)
def test_the_apparent_format_of_a_bad_file_is_named(
    regard: Command, transformer: Path, content: bytes, because: str
) -> None:
    Path("file").write_bytes(content)
    done = regard.ended("translate", transformer, "file")
    assert (done.status, done.out) == (1, "")
    assert because in done.causes[0]


def test_a_missing_file_and_a_folder_are_refused(regard: Command, transformer: Path) -> None:
    Path("test.ko").touch()
    regard.fails(
        "translate",
        transformer,
        "tset.ko",
        status=1,
        because="tset.ko: no such file; did you mean test.ko?",
    )
    regard.fails(
        "translate",
        transformer,
        "no/test.ko",
        status=1,
        because="no/test.ko: no such file, nor a folder no",
    )
    Path("folder").mkdir()
    regard.fails(
        "translate",
        transformer,
        "folder",
        status=1,
        because="folder: is a folder; give a text file",
    )


def test_empty_input_gives_empty_output(regard: Command, transformer: Path) -> None:
    assert regard("translate", transformer, stdin=b"").out == ""
    Path("blank").write_bytes(b"\n  \n\r\n")
    assert regard("translate", transformer, "blank").out == "\n\n\n"
    assert regard("translate", transformer, "blank", "--alignments").out == "\t\n\t\n\t\n"
    assert regard("translate", transformer, stdin=b"\n").err == ""


# Unseen scripts


def test_lines_without_letters_are_in_no_unknown_script(regard: Command, transformer: Path) -> None:
    done = regard("translate", transformer, stdin="123\n🙂 ✓\n---\n".encode())
    assert (done.out, done.err) == ("123\n🙂 ✓\n---\n", "")


def test_doubtful_lines_are_marked_and_counted_at_the_end(
    regard: Command, transformer: Path, korean: bytes
) -> None:
    settings = load_settings(Path(shutil.copytree(transformer, "sure")))
    assert settings.search.score_threshold is not None
    assert settings.familiar is not None, "the sample is a small world"
    lines = regard("translate", "sure", "--format", "jsonl", stdin=korean).lines
    scores = sorted(part["score"] for line in lines for part in json.loads(line)["parts"])
    limit = (scores[1] + scores[2]) / 2
    write_settings(
        Path("sure"),
        settings.with_values(search={**settings.search.model_dump(), "score_threshold": limit}),
    )
    for options in (["--chunk", 2], ["--chunk", 5, "--output", "out"]):
        done = regard("translate", "sure", *options, "--format", "jsonl", stdin=korean)
        lines = done.lines if done.out else Path("out").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["doubtful"] for row in rows] == [
            any(p["score"] < limit for p in row["parts"]) for row in rows
        ]
        (warning,) = (warning for warning in done.warnings if "doubtful" in warning)
        assert warning.startswith(
            f"standard input: {sum(row['doubtful'] for row in rows)} of 5 lines are doubtful: "
        )
        assert "JSON lines (--format jsonl) mark them" in warning
    other = regard("translate", "sure", "--length-penalty", 0, stdin=korean)
    assert not any("doubtful" in warning for warning in other.warnings), (
        "scores of another kind are not compared"
    )


CHINESE = "我们今天去公园吧"
THAI = "สวัสดีชาวโลก"
KOREAN = "나는 집에 간다"


def test_lines_in_an_unseen_script_are_named(regard: Command, model: Path) -> None:
    Path("mixed").write_text(f"{KOREAN}\n{CHINESE}\n\n{THAI}\n", encoding="utf-8")
    done = regard("translate", model, "mixed")
    assert len(done.lines) == 4
    (warning,) = (warning for warning in done.warnings if "never seen" in warning)
    assert warning.startswith(
        "mixed, lines 2, 4: most characters were never seen in training, so the translations mean nothing; check"
    )
    assert regard("translate", model, "mixed", "--quiet").err == ""
    streamed = regard("translate", model, "mixed", "--stream")
    named = [warning.split(":")[0] for warning in streamed.warnings if "never seen" in warning]
    assert named == ["mixed, line 2", "mixed, line 4"]
    single = regard("translate", model, stdin=f"{KOREAN}\n{CHINESE}".encode())
    assert any(
        warning.startswith("standard input, line 2: most characters") for warning in single.warnings
    )


def test_input_in_unseen_scripts_only_fails(regard: Command, transformer: Path) -> None:
    Path("foreign").write_text(f"{CHINESE}\n\n{THAI}\n" * 4, encoding="utf-8")
    because = f"foreign: no line is in a script that {transformer} has seen in training, so no translation can be right; check"
    for options in ([], ["--output", "out.txt"], ["--quiet"]):
        regard.fails(
            "translate", transformer, "foreign", "--beam", 1, *options, status=1, because=because
        )
    regard.fails("translate", transformer, "foreign", "--stream", status=1, because=because)
    done = regard.fails(
        "translate",
        transformer,
        "--beam",
        1,
        stdin=CHINESE.encode(),
        status=1,
        because="standard input: no line",
    )
    assert "line 1: most characters" in done.err


# Options


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--nbest", "4"], "nbest: wanted 1 to 3 (the beam), got 4; lower it, or widen the beam"),
        (["--nbest", "2", "--beam", "1"], "nbest: wanted 1 to 1 (the beam), got 2"),
        (["--nbest", "0"], "--nbest"),
        (["--beam", "0"], "--beam"),
        (["--beam", "wide"], "--beam"),
        (["--format", "xml"], "'xml' is not one of 'text', 'jsonl'"),
        (["--length-penalty", "-1"], "--length-penalty"),
        (["--length-penalty", "nan"], "--length-penalty"),
        (["--beams", "2"], "--beams"),
        (["second"], "second"),
        (["--device", "gpu"], "--device gpu: wanted auto, cpu, cuda or mps"),
        (["--keep", "(?=a)"], "keep: '(?=a)' is no pattern of RE2"),
        (["--keep", "a", "--keep", ".*"], "keep: '.*' matches everything"),
        (["--keep", "missing.txt"], "--keep missing.txt: no such file"),
        (["--keep", "../lists/words.gz"], r"for a pattern write '\.\./lists/words\.gz'"),
        (["--keep", "/no/such/words"], "--keep /no/such/words: no such file"),
        (["--keep", "/"], "--keep /: is a folder; give a file of patterns"),
        (["--keep", "a", "--no-keep"], "--keep does not go with --no-keep"),
        (["--keep", "a", "--stream"], "--stream and --keep"),
        (
            ["--keep", "a", "--nbest", "2"],
            "patterns of what to keep go with the best translation alone",
        ),
    ],
)
def test_bad_options_are_refused(
    regard: Command, transformer: Path, options: list[str], because: str
) -> None:
    done = regard.fails(
        "translate", transformer, "-", *options, stdin=b"a\n", status=2, because=because
    )
    assert done.out == ""
