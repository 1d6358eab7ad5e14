"""regard translate: input and output formats, and bad input."""

from __future__ import annotations

import gzip
import json
import os
import re
import unicodedata
from pathlib import Path

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.spreadsheets import write_xlsx
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


@posix
def test_what_patterns_match_is_kept(regard: Command, translate: str) -> None:
    line = "나는 집에 Foobar 12-3 Quux TCP/IP Node.js 간다"
    kept = ["Foobar", "12-3", "Quux", "TCP/IP", "Node.js"]
    write_lines("words", ["Foobar", "", "Quux"])
    options = r"--keep words --keep '\d+-\d+' --keep TCP/IP --keep Node.js"
    out = regard(f"{translate} {options}", stdin=line).out
    assert [out.count(word) for word in kept] == [1] * 5

    plain = regard(f"{translate} --no-keep", stdin=line).out
    assert not all(word in plain for word in kept), "the model loses the words"

    os.mkfifo("pipe")  # which nobody has opened
    because = "pipe or a device"
    regard.fails(f"{translate} --keep pipe", stdin="a\n", status=1, because=because)


def test_line_ends_and_normal_forms_change_nothing(
    regard: Command, translate: str
) -> None:
    plain = regard(f"{translate} five")
    text = unicodedata.normalize("NFD", text_of("five"))
    content = "\ufeff" + text.removesuffix("\n").replace("\n", " \t\r\n  ")
    Path("other").write_text(content, encoding="utf-8", newline="")
    Path("other.gz").write_bytes(gzip.compress(content.encode(), mtime=0))
    for arguments in ("other", "other.gz", "", "-"):
        assert regard(f"{translate} {arguments}", stdin=content) == plain


def test_json_equals_text(regard: Command, translate: str) -> None:
    text = regard(f"{translate} five --alignments").lines
    lines = regard(f"{translate} five --alignments --format jsonl").lines
    rows = [json.loads(line) for line in lines]
    for number, (row, line) in enumerate(zip(rows, text, strict=True), 1):
        links = [f"{source}-{target}" for source, target in sorted(row["alignments"])]
        assert f"{row['text']}\t{' '.join(links)}" == line
        assert row["text"] == " ".join(part["text"] for part in row["parts"])
        assert (row["line"], row["nbest"]) == (number, [])
        assert row["score"] < 0 or not row["text"]

    empty = {"line": 4, "text": "", "score": 0.0, "tokens": [], "alignments": []}
    empty |= {"nbest": [], "repetition": None, "doubtful": False, "broken": False}
    empty |= {"quality": None, "warnings": [], "parts": []}
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
            continue
        assert line["nbest"][0].items() <= line.items()
        for one, (_, score, columns) in zip(line["nbest"], hypotheses, strict=True):
            assert columns.startswith(f"{one['text']}\t")
            assert float(score) == pytest.approx(one["score"], abs=1e-4)


# Output files


def test_an_output_file_is_complete_or_missing(regard: Command, translate: str) -> None:
    printed = regard(f"{translate} five").out
    Path("out").write_text("old")
    bad = Path("five").read_bytes() + b"\xff\n"
    because = "line 6 is not UTF-8"
    regard.fails(f"{translate} --output out", stdin=bad, status=1, because=because)

    assert regard(f"{translate} five --output out").out == ""
    assert Path("out").read_bytes() == printed.encode()
    assert sorted(os.listdir()) == ["five", "out"]

    regard(f"{translate} five --output {os.devnull}")
    assert Path(os.devnull).is_char_device()


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

    jsonl = "translate run five --format jsonl"
    rows = [json.loads(line) for line in regard(jsonl).lines]
    scores = sorted(part["score"] for row in rows for part in row["parts"])
    limit = (scores[1] + scores[2]) / 2
    search = settings.search.model_dump() | {"score_threshold": limit}
    write_settings(run, settings.with_values(search=search))
    done = regard(f"{jsonl} --chunk 2 --output out")
    rows = [json.loads(line) for line in lines_of("out")]
    for row in rows:
        is_low = any(part["score"] < limit for part in row["parts"])
        assert row["doubtful"] == is_low
    doubtful = sum(row["doubtful"] for row in rows)
    (warning,) = (warning for warning in done.warnings if "doubtful" in warning)
    assert warning.startswith(f"five: {doubtful} of 5 lines are doubtful: ")
    assert "JSON lines (--format jsonl) mark them" in warning

    other = regard("translate run five --length-penalty 0")
    assert "doubtful" not in other.err, "scores of another kind are not compared"


def test_a_text_in_another_language_is_told_once(
    regard: Command, translate: str, data: Path
) -> None:
    for name, language in (("test.en", "English"), ("test.ko", "")):
        lines = lines_of(data / name)[:40]
        write_lines("lines", lines)
        rows = [json.dumps({"text": line}, ensure_ascii=False) for line in lines]
        write_lines("lines.jsonl", rows)
        page = "".join(f"<p>{line}</p>" for line in lines)
        Path("lines.html").write_text(page, "utf-8")
        for name in ("lines", "lines --chunk 7", "lines.jsonl", "lines.html"):
            done = regard(f"{translate} {name} --beam 1")
            notes = [note for note in done.warnings if ": the text looks" in note]
            assert len(notes) == bool(language), name
            assert all(f"looks like {language}, and" in note for note in notes)
            strict = regard.ended(f"{translate} {name} --beam 1 --strict --quiet")
            assert (strict.status, ": the text looks" in strict.err) == (
                int(bool(language)),
                bool(language),
            )


def test_a_page_that_declares_another_language_is_an_error_if_strict(
    regard: Command, translate: str
) -> None:
    Path("a.html").write_text("<html lang=de><p>Ein Hund</p></html>", "utf-8")
    done = regard(f"{translate} a.html --output b.html")
    assert "a.html: there is nothing to translate" in done.err
    strict = regard.ended(f"{translate} a.html --output b.html --strict --quiet")
    assert strict.status == 1
    assert "a.html: declares another language than the model reads" in strict.err


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

    warnings = regard(f"{translate} mixed --stream").warnings
    named = [text.split(":")[0] for text in warnings if "never seen" in text]
    assert named == ["mixed, line 2", "mixed, line 4"]


def test_input_in_unseen_scripts_only_fails(
    regard: Command, transformer: Path, translate: str
) -> None:
    write_lines("foreign", [CHINESE, "", THAI] * 4)
    reason = f"no line is in a script that {transformer} has seen in training"
    because = f"foreign: {reason}, so no translation can be right; check"
    for options in ("--beam 1 --output out --quiet", "--stream"):
        command = f"{translate} foreign {options}"
        regard.fails(command, status=1, because=because)

    because = f"standard input: {reason}"
    done = regard.fails(translate, stdin=CHINESE, status=1, because=because)
    assert "line 1: most characters" in done.err


def test_a_column_of_a_table_is_translated_as_lines_are(
    regard: Command, translate: str, korean: list[str]
) -> None:
    expected = regard(f"{translate} five --quiet").out
    rows = [[f"k.{number}", "a note", line] for number, line in enumerate(korean)]
    write_lines("a.csv", ["key;note;한국어", *map(";".join, rows)])
    write_lines("a.tsv", ["\t".join(row) for row in rows])
    write_xlsx(
        Path("a.xlsx"), {"About": [["x"]], "Words": [["key", "note", "ko"], *rows]}
    )
    for file, column in (
        ("a.csv", "ko"),
        ("a.csv", "Korean"),
        ("a.csv", "3"),
        ("a.tsv", "3"),
        ("a.xlsx", "ko"),
        ("a.xlsx#Words", "Korean"),
    ):
        assert regard(f"{translate} {file} --column {column} --quiet").out == expected
    done = regard(f"{translate} a.csv --column ko --output out --chunk 2 --quiet")
    assert (done.out, text_of("out")) == ("", expected)
    regard(f"{translate} a.csv --column ko --output b.csv --quiet")
    cells = [line.split(";") for line in lines_of("b.csv")]
    assert [row[:2] for row in cells] == [["key", "note"], *(row[:2] for row in rows)]
    assert [row[2] for row in cells[1:]] == expected.splitlines()

    because = (
        "a.csv: has no column 'English'; there are 1 ('key'), 2 ('note'), 3 ('한국어')"
    )
    regard.fails(f"{translate} a.csv --column English", status=1, because=because)
    write_lines("a.csv", ["ko;en", "x" * 30_000 + ";y", "z;z;z"])
    row = "a.csv, column ko: row"
    causes = [
        f"{row} 2 has more than 20,000 characters",
        f"{row} 3: cells do not hold exactly 2 fields",
    ]
    regard.fails(f"{translate} a.csv --column ko", status=1, because=causes)
    regard.fails(
        f"{translate} none.csv --column ko", status=1, because="none.csv: no such file"
    )
    regard.fails(
        f"{translate} a.xlsx",
        status=1,
        because="is a spreadsheet, which is not translated as it is; save it as .csv",
    )


def test_warnings_name_the_rows_of_a_table_as_programs_show_them(
    regard: Command, translate: str
) -> None:
    rows = [["key", "ko"], ["a", "나는 집에 간다"], ["b", CHINESE], ["c", "나는 간다"]]
    write_xlsx(Path("a.xlsx"), {"Words": [["A title"], *rows, ["d", CHINESE]]})
    done = regard(f"{translate} a.xlsx --column ko --chunk 2")
    warned = [line for line in done.err.splitlines() if "never seen" in line]
    assert [line.split(":")[1].strip() for line in warned] == [
        "a.xlsx, row 4",
        "a.xlsx, row 6",
    ]
    write_lines("a.csv", ["key,ko", 'a,"나는', '집에 간다"', f"b,{CHINESE}"])
    for option in ("", "--stream"):
        done = regard(f"{translate} a.csv --column ko {option}")
        assert "a.csv, row 4: most characters" in done.err


def test_an_output_that_is_named_like_a_spreadsheet_is_refused(
    regard: Command, translate: str
) -> None:
    for name in ("y.xlsx", "y.XLS", "y.ods", "y.docx"):
        regard.fails(
            f"{translate} five --output {name}",
            status=2,
            because=f"--output {name}: translations are written as text",
        )
        assert not list(Path().glob("y.*"))


def test_strings_that_would_break_stay_and_are_marked(
    regard: Command, translate: str
) -> None:
    lines = ["나는 %1$s 집에 간다 [b]빵[/b]", "{name} <0>을</0>", "Delete {file}?"]
    write_lines("strings", lines)
    call = f"{translate} strings --dialect auto"
    rows = [json.loads(line) for line in regard(f"{call} --format jsonl").lines]
    for line, row in zip(lines, rows, strict=True):
        assert not row["broken"] or (row["text"] == line and row["warnings"])
        assert sorted(
            re.findall(r"\{\w+\}|%1\$s|\[.?b\]|<.?0>", row["text"])
        ) == sorted(re.findall(r"\{\w+\}|%1\$s|\[.?b\]|<.?0>", line))
    is_broken = any(row["broken"] for row in rows)
    assert regard.ended(f"{call} --strict").status == int(is_broken)
    regard.fails(f"{call} --dialect d", because="dialect 'd' is not known")


def test_the_best_hypothesis_within_a_limit_of_characters_is_taken(
    regard: Command, translate: str, data: Path
) -> None:
    """Compared with the hypotheses that --nbest prints of lines without spans."""
    lines = lines_of(data / "test.ko")[:8]
    write_lines("eight", lines)
    rows = [
        line.split("\t")
        for line in regard(f"{translate} eight --beam 4 --nbest 4").lines
    ]
    ranked = [[row[2] for row in rows if row[0] == f"{n}"] for n in range(1, 9)]
    lengths = sorted(len(text) for texts in ranked for text in texts)
    for limit in (lengths[0] - 1, lengths[8], lengths[-1]):
        call = f"{translate} eight --beam 4 --max-characters {limit}"
        short = [[t for t in texts if len(t) <= limit] for texts in ranked]
        expected = [(s or texts)[0] for s, texts in zip(short, ranked, strict=True)]
        values = [*map(json.loads, regard(f"{call} --format jsonl").lines)]
        assert [value["text"] for value in values] == expected
        assert [value["broken"] for value in values] == [not texts for texts in short]
        assert all(value["nbest"] == [] for value in values)
        for value in values:
            note = f"has {len(value['text'])} characters, and the limit is {limit}"
            assert any(note in text for text in value["warnings"]) == value["broken"]
        assert regard.ended(f"{call} --strict").status == int(not all(short))
    for options in ("--nbest 2", "--alignments", "--sample --top-k 3"):
        because = "a limit chooses the one best translation"
        regard.fails(f"{call} {options}", because=because)
    regard.fails(f"{call} --stream", because="--stream and --max-characters, --beam")
