"""regard translate: search options and constraints."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.small_models import folder

DOCS = Path(__file__).parent.parent.parent / "docs" / "translation.md"


@pytest.fixture
def example_folder(transformer: Path, data: Path, regard: Command) -> Path:
    """Write the files of the documentation: two runs with one vocabulary, a text, JSON lines with
    constraints.
    """
    for name in ("first", "second"):
        shutil.copytree(transformer, Path("runs") / name)

    write_lines("test.ko", lines_of(data / "test.ko")[:3])
    (constraints,) = re.findall(r"```json\n(.*?)```", text_of(DOCS), re.DOTALL)
    Path("constraints.jsonl").write_text(constraints, encoding="utf-8")
    texts = ("나는 집에 간다", "너는 <b>책을</b> 읽는다", "비가 온다")
    write_lines("page.html", [f"<p>{text}</p>" for text in texts])
    return Path.cwd()


COMMANDS = [
    line.strip().removeprefix("regard ")
    for line in lines_of(DOCS)
    if line.startswith("    regard translate")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_the_docs_work(
    regard: Command, example_folder: Path, command: str
) -> None:
    done = regard(command)
    words = shlex.split(command)
    values = list(itertools.pairwise(words))
    options = dict(values)
    lines = lines_of(options["--output"]) if "--output" in options else done.lines
    nbest = int(options.get("--nbest", 1))
    texts = [line.split("\t")[2] for line in lines] if nbest > 1 else lines
    count = 2 if "constraints.jsonl" in words else 3
    assert count <= len(texts) <= count * nbest

    for option, word in values:
        if option in ("--term", "--forbid"):
            found = [bool(re.search(rf"(?<!\w){word}(?!\w)", text)) for text in texts]
            assert set(found) == {option == "--term"}
    assert all(text.startswith(options.get("--prefix", "")) for text in texts)


def test_the_python_in_the_docs_runs(example_folder: Path) -> None:
    names: dict[str, object] = {}
    codes = re.findall(r"```python\n(.*?)```", text_of(DOCS), re.DOTALL)
    assert len(codes) == 2
    for code in codes:
        exec(compile(code, str(DOCS), "exec"), names)


def test_json_lines_have_constraints_of_their_own(
    regard: Command, transformer: Path, data: Path
) -> None:
    first, second, third, fourth = lines_of(data / "test.ko")[:4]
    rows = [
        {"text": first},
        {"text": second, "prefix": "the bread"},
        {"text": third, "terms": ["home"]},
        {"text": fourth, "prefix": ""},
    ]
    write_lines("rows", [*map(json.dumps, rows[:3]), "", json.dumps(rows[3])])
    write_lines("lines", [first, fourth])
    plain = regard(f"translate {transformer} lines").lines
    outputs = regard(f"translate {transformer} rows --input jsonl").lines
    assert [outputs[0], outputs[4]] == plain
    assert outputs[1].startswith("the bread")
    assert re.search(r"\bhome\b", outputs[2])
    assert outputs[3] == ""

    prefixed = regard(f"translate {transformer} rows --input jsonl --prefix you").lines
    assert prefixed[0].startswith("you")
    assert prefixed[1].startswith("the bread"), "a line's own prefix counts"
    assert prefixed[4] == plain[1], "even an empty one"


def test_bad_json_lines_are_named(regard: Command, transformer: Path) -> None:
    rows = [
        '{"text": "나는"}',
        "나는",
        '{"txt": "나는"}',
        '{"text": 3, "terms": "bread"}',
        '{"text": "나는", "trems": []}',
    ]
    causes = [
        "line 2: not JSON",
        "line 3: wanted a JSON object with the key text",
        "line 4: text: wanted a text, got 3",
        "line 4: terms: wanted a list of texts",
        "line 5: unknown key 'trems'; known are text, prefix, terms, forbid",
    ]
    command = f"translate {transformer} --input jsonl"
    regard.fails(command, status=1, because=causes, stdin="\n".join(rows))


UNUSED = "search: temperature: used by sampling only; set sample too, or leave it out; a beam of 4"


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (
            "--temperature 0.5 --beam 4 --groups 3 --min-length 9 --max-length 3",
            [UNUSED],
        ),
        ("--term bread --forbid bread --term ' '", ["term ' '", "forbid 'bread'"]),
        ("--term bread --beam 2 --sample", ["terms and sample: "]),
        ("--term bread --beam 2 --groups 2", ["terms and groups: "]),
        (
            "--stream --nbest 2 --mbr --format jsonl",
            ["--stream and --nbest, --format, --mbr: text already printed"],
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_all_reasons(
    regard: Command, transformer: Path, options: str, because: list[str]
) -> None:
    regard.fails(f"translate {transformer} {options}", because=because, stdin="나는\n")


def test_streaming_equals_a_beam_of_one(
    regard: Command, transformer: Path, data: Path
) -> None:
    translate = f"translate {transformer} {data}/test.ko"
    greedy = regard(f"{translate} --beam 1")
    assert regard(f"{translate} --stream").out == greedy.out
    sampling = f"{translate} --sample --seed 5 --temperature 1.5"
    sampled = regard(sampling)
    assert regard(f"{sampling} --stream").out == sampled.out
    assert sampled.out != greedy.out


def test_a_repetitive_translation_is_reported(
    regard: Command, transformer: Path, data: Path
) -> None:
    stdin = f"\n{lines_of(data / 'test.ko')[0]}\n"
    translate = f"translate {transformer} --min-length 120"
    done = regard(
        f"{translate} --beam 1 --no-repeat-ngram 0 --format jsonl", stdin=stdin
    )
    empty, row = map(json.loads, done.lines)
    assert empty["repetition"] is None
    assert row["repetition"]["times"] >= 5, (
        "so small a model repeats itself at such length"
    )
    assert row["repetition"]["text"] in row["text"]

    (repeats,) = (warning for warning in done.warnings if "doubtful" not in warning)
    assert repeats.startswith("standard input, line 2: the translation repeats ")
    assert regard(f"{translate} --stream", stdin=stdin).warnings == [repeats]


def test_models_with_one_vocabulary_form_an_ensemble(
    regard: Command, other: Path, tmp_path: Path
) -> None:
    second = folder(tmp_path / "second")
    translate = f"translate {other} --format jsonl"
    rows = []
    for more in ("", f"--with {other}", f"--with {second}"):
        done = regard(f"{translate} {more}", stdin="나는 집에 간다\n")
        rows.append(json.loads(done.out))

    single, doubled, ensemble = rows
    assert doubled["tokens"] == single["tokens"]
    assert doubled["score"] == pytest.approx(single["score"], abs=1e-4)
    assert ensemble["score"] != pytest.approx(single["score"], abs=1e-4)
