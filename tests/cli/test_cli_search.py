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

DOCS = Path(__file__).parent.parent.parent / "docs" / "translation.md"


@pytest.fixture
def example_folder(transformer: Path, data: Path, regard: Command) -> Path:
    """Write the files of the documentation: two runs with one vocabulary, a text, JSON lines with
    constraints.
    """
    for name in ("first", "second"):
        shutil.copytree(transformer, Path("runs") / name)

    write_lines("test.ko", lines_of(data / "test.ko")[:3])
    write_lines("strings.txt", lines_of(data / "test.ko")[:3])
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
    command = f"translate {transformer} rows --input jsonl"
    outputs = regard(command).lines
    assert [outputs[0], outputs[4]] == plain
    assert outputs[1].startswith("the bread")
    assert re.search(r"\bhome\b", outputs[2])
    assert outputs[3] == ""

    prefixed = regard(f"{command} --prefix you").lines
    assert prefixed[0].startswith("you")
    assert prefixed[1].startswith("the bread"), "a line's own prefix counts"
    assert prefixed[4] == plain[1], "even an empty one"


def test_a_repetitive_translation_is_reported(
    regard: Command, transformer: Path, data: Path
) -> None:
    stdin = f"\n{lines_of(data / 'test.ko')[0]}\n"
    translate = f"translate {transformer} --min-length 120 --no-repeat-ngram 0"
    done = regard(f"{translate} --beam 1 --format jsonl", stdin=stdin)
    empty, row = map(json.loads, done.lines)
    assert empty["repetition"] is None
    assert row["repetition"]["times"] >= 5, (
        "so small a model repeats itself at such length"
    )
    assert row["repetition"]["text"] in row["text"]

    (repeats,) = (warning for warning in done.warnings if "doubtful" not in warning)
    assert repeats.startswith("standard input, line 2: the translation repeats ")
    assert regard(f"{translate} --stream", stdin=stdin).warnings == [repeats]
