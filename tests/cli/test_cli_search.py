"""regard translate: search options and constraints."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from command import Command

DOCS = Path(__file__).parent.parent.parent / "docs" / "translation.md"


@pytest.fixture
def example_folder(transformer: Path, data: Path, regard: Command) -> Path:
    """Write the files of the documentation: two runs with one vocabulary, a text, JSON lines with
    constraints.
    """
    for name in ("first", "second"):
        shutil.copytree(transformer, Path("runs") / name)
    text = (data / "test.ko").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("test.ko").write_text("".join(text[:3]), encoding="utf-8")
    (constraints,) = re.findall(r"```json\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    Path("constraints.jsonl").write_text(constraints, encoding="utf-8")
    Path("page.html").write_text(
        "<p>나는 집에 간다</p>\n<p>너는 <b>책을</b> 읽는다</p>\n<p>비가 온다</p>", encoding="utf-8"
    )
    return Path.cwd()


COMMANDS = [
    line.strip().removeprefix("regard ")
    for line in DOCS.read_text(encoding="utf-8").splitlines()
    if line.startswith("    regard translate")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_the_docs_work(regard: Command, example_folder: Path, command: str) -> None:
    words = shlex.split(command)
    done = regard(*words)
    options = dict(itertools.pairwise(words))
    nbest = int(options.get("--nbest", 1))
    count = 2 if "constraints.jsonl" in words else 3
    lines = (
        Path(options["--output"]).read_text("utf-8").splitlines()
        if "--output" in options
        else done.lines
    )
    texts = [line.split("\t")[2] for line in lines] if nbest > 1 else lines
    assert count <= len(texts) <= count * nbest
    for option, present in (("--term", True), ("--forbid", False)):
        for word in (value for name, value in itertools.pairwise(words) if name == option):
            assert all(bool(re.search(rf"(?<!\w){word}(?!\w)", text)) == present for text in texts)
    assert all(text.startswith(options.get("--prefix", "")) for text in texts)
    assert regard(*words) == done, "the search is deterministic"


def test_the_python_in_the_docs_runs(example_folder: Path, regard: Command) -> None:
    names: dict[str, object] = {}
    codes = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(codes) == 2
    for code in codes:
        exec(compile(code, str(DOCS), "exec"), names)


def test_json_lines_have_constraints_of_their_own(
    regard: Command, transformer: Path, data: Path
) -> None:
    texts = (data / "test.ko").read_text(encoding="utf-8").splitlines()[:4]
    requests = [
        {"text": texts[0]},
        {"text": texts[1], "prefix": "the bread"},
        {"text": texts[2], "terms": ["home"]},
    ]
    rows = [json.dumps(row) for row in requests] + [
        "",
        json.dumps({"text": texts[3], "prefix": ""}),
    ]
    stdin = "\n".join(rows).encode()
    plain = regard("translate", transformer, stdin="\n".join(texts).encode()).lines
    outputs = regard("translate", transformer, "--input", "jsonl", stdin=stdin).lines
    assert outputs[0] == plain[0]
    assert outputs[1].startswith("the bread")
    assert re.search(r"\bhome\b", outputs[2])
    assert outputs[3] == ""
    assert outputs[4] == plain[3]
    prefixed = regard(
        "translate", transformer, "--input", "jsonl", "--prefix", "you", stdin=stdin
    ).lines
    assert prefixed[0].startswith("you")
    assert prefixed[1].startswith("the bread"), "a line's own prefix counts"
    assert prefixed[4] == plain[3], "even an empty one"


def test_bad_json_lines_are_named(regard: Command, transformer: Path) -> None:
    rows = [
        '{"text": "나는"}',
        "나는",
        '{"txt": "나는"}',
        '{"text": 3, "terms": "bread"}',
        '{"text": "나는", "trems": []}',
    ]
    causes = ["line 2: not JSON", "line 3: wanted a JSON object with the key text"]
    causes += ["line 4: text: wanted a text, got 3", "line 4: terms: wanted a list of texts"]
    causes += ["line 5: unknown key 'trems'; known are text, prefix, terms, forbid"]
    regard.fails(
        "translate",
        transformer,
        "--input",
        "jsonl",
        status=1,
        because=causes,
        stdin="\n".join(rows).encode(),
    )


def test_options_that_contradict_each_other_are_refused_with_all_reasons(
    regard: Command, transformer: Path
) -> None:
    options = [
        "--temperature",
        0.5,
        "--beam",
        4,
        "--groups",
        3,
        "--min-length",
        9,
        "--max-length",
        3,
    ]
    because = "search: temperature: used by sampling only; set sample too, or leave it out; a beam of 4 cannot"
    regard.fails(
        "translate", transformer, *options, status=2, because=because, stdin="나는\n".encode()
    )
    options = ["--term", "bread", "--forbid", "bread", "--term", " "]
    regard.fails(
        "translate",
        transformer,
        *options,
        status=2,
        because=["term ' '", "forbid 'bread'"],
        stdin="나는\n".encode(),
    )
    for option in ("--sample", "--groups=2"):
        options = ["--term", "bread", "--beam", 2, option]
        because = f"terms and {option.strip('-').split('=')[0]}: "
        regard.fails(
            "translate", transformer, *options, status=2, because=because, stdin="나는\n".encode()
        )
    regard.fails(
        *("translate", transformer, "--stream", "--nbest", 2, "--mbr", "--format", "jsonl"),
        status=2,
        because="--stream and --nbest, --format, --mbr: text already printed",
        stdin="나는\n".encode(),
    )


def test_streaming_equals_a_beam_of_one(regard: Command, model: Path, data: Path) -> None:
    greedy = regard("translate", model, data / "test.ko", "--beam", 1)
    assert regard("translate", model, data / "test.ko", "--stream").out == greedy.out
    sampling = [*("--sample", "--seed", 5, "--temperature", 1.5)]
    sampled = regard("translate", model, data / "test.ko", *sampling)
    assert regard("translate", model, data / "test.ko", *sampling, "--stream").out == sampled.out
    assert sampled.out != greedy.out


def test_a_repetitive_translation_is_reported(
    regard: Command, transformer: Path, data: Path
) -> None:
    line = (data / "test.ko").read_bytes().splitlines()[0]
    options = ["--beam", 1, "--min-length", 120, "--no-repeat-ngram", 0, "--format", "jsonl"]
    done = regard("translate", transformer, *options, stdin=b"\n" + line + b"\n")
    empty, row = map(json.loads, done.lines)
    assert empty["repetition"] is None
    assert row["repetition"]["times"] >= 5, "so small a model repeats itself at such length"
    assert row["repetition"]["text"] in row["text"]
    (repeats,) = (warning for warning in done.warnings if "doubtful" not in warning)
    assert repeats.startswith("standard input, line 2: the translation repeats ")
    streamed = regard(
        "translate", transformer, "--stream", "--min-length", 120, stdin=b"\n" + line + b"\n"
    )
    assert streamed.warnings == [repeats]


def test_models_with_one_vocabulary_form_an_ensemble(
    regard: Command, transformer: Path, recurrent: Path
) -> None:
    text = "아이와 민지는 걷고\n".encode()
    single = regard("translate", transformer, "--format", "jsonl", stdin=text).lines
    doubled = regard(
        "translate", transformer, "--with", transformer, "--format", "jsonl", stdin=text
    ).lines
    assert json.loads(doubled[0])["tokens"] == json.loads(single[0])["tokens"]
    assert json.loads(doubled[0])["score"] == pytest.approx(
        json.loads(single[0])["score"], abs=1e-4
    )
    ensemble = regard(
        "translate", transformer, "--with", recurrent, "--format", "jsonl", stdin=text
    ).lines
    assert json.loads(ensemble[0])["score"] != pytest.approx(
        json.loads(single[0])["score"], abs=1e-4
    )
