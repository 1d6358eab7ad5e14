"""The commands of the tutorials, as they stand in docs/tutorials, on the sample cut short and with
tiny models.

The Korean tutorials have the same commands (tests/repository/test_pages.py).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from command import (
    CAPTIONER,
    SMALL,
    TRANSFORMER,
    Command,
    lines_of,
    sets,
    text_of,
    write_lines,
)
from helpers.image_folders import COLOURS, noise
from helpers.small_models import folder
from helpers.spreadsheets import write_xlsx
from helpers.system_marks import posix

from regard.learn.samples.aligned_pairs import AlignedPair, Sample
from regard.learn.samples.images import image_sample
from regard.learn.samples.images.scene_corpus import ImageSample
from regard.learn.samples.korean_english_corpus import SIZES, korean_english
from regard.runtime import native

DOCS = Path(__file__).parents[2] / "docs" / "tutorials"
NOT_RUN = {
    "regard serve": "does not end by itself; tests/serving asks servers",
    "curl": "needs a server; tests/serving/test_server_docs.py asks one",
    "python -m http.server": "does not end by itself; the standard library's",
    "pip install": "needs a network; tests/test_wheel.py installs the wheel",
    "msgattrib": "needs gettext",
    "python tools/build_library.py wasm": "needs a compiler, which pip gets; .ci/run does it before the tests",
}
"""Commands that no test here runs, and why."""
EMBEDDINGS = "model.encoder.embedding=24 model.decoder.embedding=24"
LINES = 120
"""Pairs that are left of each file of the sample."""
PO = """msgid ""
msgstr ""
"Language: ko\\n"

"""


def commands_of(page: str) -> Iterator[str]:
    """Yield the command lines of a tutorial that are run."""
    text = re.sub(r" \\\n *", " ", text_of(DOCS / page))
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE):
        if not line.startswith(tuple(NOT_RUN)):
            yield line


def tiny(line: str) -> list[str]:
    """Return the words of a command with a budget of a few updates instead of minutes."""
    words = shlex.split(line, comments=True)
    settings = CAPTIONER if "--images" in words else TRANSFORMER
    is_small = "--images" in words or "strings.en-ko.jsonl" in words
    settings += f" tokenizer.size={400 if is_small else 600}"
    if "rnn,rnn-luong" in words:
        settings = f"{SMALL} {EMBEDDINGS} tokenizer.size=600"
    if "--budget" in words:
        at = words.index("--budget")
        words[at : at + 2] = sets(settings, "training.updates=2")
    if "--minutes" in words:
        at = words.index("--minutes")
        words[at : at + 4] = ["--updates", "2", "--seeds", "1", *sets(settings)]
    if words[1] == "compare":
        words += ["--no-speed", "--no-ter", "--beam", "1"]
    if "--test" in words:
        words[words.index("--test") + 1] = "10"
    return words


def run(regard: Command, line: str) -> str:
    """Run a line of a tutorial; return what it printed."""
    if line.startswith("echo "):
        text, _, line = line.partition(" | ")
        return regard(*tiny(line)[1:], stdin=f"{shlex.split(text)[1]}\n").out
    if line.startswith("regard "):
        printed = regard(*tiny(line)[1:]).out
        if " sample " in line:
            shorten()
        # The two models that are there already, in what follows.
        if "--out sampled" in line:
            trained = sorted(Path("sampled/runs").iterdir())
            for name, source in zip(("first", "second"), trained, strict=True):
                shutil.copytree(source, Path("runs") / name)
        return printed
    line = line.replace("shuf -n 1000", f"shuf -n {LINES // 10}")  # of so few pairs
    line = re.sub("^python ", f"{shlex.quote(sys.executable)} ", line)
    subprocess.run(line, shell=True, check=True)
    return ""


def shorten() -> None:
    """Leave the first lines of each file of the sample, which belong together."""
    for path in Path().rglob("*"):
        if path.suffix in {".ko", ".en", ".align", ".tsv"}:
            write_lines(path, lines_of(path)[:LINES])


def code_of(page: str) -> str:
    """Return the Python of a tutorial."""
    (code,) = re.findall(r"```python\n(.*?)```", text_of(DOCS / page), re.DOTALL)
    return str(code)


@cache
def sample() -> Sample:
    """Return a small sample."""
    return korean_english(sizes=dict.fromkeys(SIZES, LINES))


@cache
def pictures() -> ImageSample:
    """Return a small sample of images."""
    return image_sample(train=40, valid=5, test=5)


def few_pairs() -> tuple[AlignedPair, ...]:
    """Return a few pairs of the sample."""
    return sample().splits["train"]


def prepare(page: str) -> None:
    """Write what a reader of the page has already: models, or the strings of a program."""
    if page in {"phone.md", "serve.md", "inside.md"}:
        # One token is soon animated.
        folder(Path("runs") / "first", max_length=1 if page == "inside.md" else None)
    if page == "translator.md":
        rows = [[pair.target, pair.source] for pair in few_pairs()]
        write_xlsx(Path("words.xlsx"), {"Words": [["English", "Korean"], *rows]})
    if page == "compare.md":
        write_lines(
            "pairs.ko-en.tsv",
            [f"{pair.source}\t{pair.target}" for pair in few_pairs()],
        )
    if page == "captions.md":
        rows = ["File,Caption"]
        for number, colour in enumerate([*COLOURS] * 5):
            Path("pictures").mkdir(exist_ok=True)
            noise(seed=number).save(f"pictures/{number}.png")
            rows.append(f'{number}.png,"A {colour} picture, of number {number}."')
        write_lines("captions.csv", rows)
        shutil.copy("pictures/9.png", "pictures/dog.jpg")
    if page == "inside.md":
        write_lines("test.ko", ["나는 집에 간다"])
        write_lines("test.en", ["I go home"])
        write_lines("test.align", ["0-0 1-2 2-1"])
    if page == "strings.md":
        strings = []
        for number in range(LINES):
            strings.append(f'msgid "Open file {number} of %d"')
            strings.append(f'msgstr ""\n"{number}번 파일 "\n"%d개"\n')
        strings.append('#, fuzzy\nmsgid "Close"\nmsgstr "열기"\n')
        strings.append('msgid "Open \\"file\\" 7 of %d\\n"\nmsgstr ""\n')
        strings.append('msgid "file"\nmsgid_plural "files"\nmsgstr[0] "파일"\n')
        write_po(*strings)


def write_po(*strings: str) -> None:
    """Write the strings of a program, and the script that reads them."""
    Path("po.py").write_text(code_of("strings.md"), encoding="utf-8")
    Path("ko.po").write_text(PO + "\n".join(strings), encoding="utf-8")


def rows_of(path: str) -> list[dict[str, str]]:
    """Return the JSON lines of a file."""
    return [json.loads(line) for line in lines_of(path)]


PLURAL = """msgid ""
msgstr "Plural-Forms: nplurals=2;\\n"

#, fuzzy
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "{}"
msgstr[1] "{}"
"""


def fill(regard: Command, *drafts: str, doubtful: bool = False) -> str:
    """Fill the open strings with drafts; return the file that is written."""
    rows = [{"text": draft, "doubtful": doubtful} for draft in drafts]
    write_lines("drafts.jsonl", map(json.dumps, rows))
    run(regard, [*commands_of("strings.md")][4])
    return text_of("ko.new.po")


RESULTS = {
    "translator.md": [
        "suspects.csv",
        "runs/first/report.html",
        "translated.txt",
        "published/index.html",
    ],
    "strings.md": ["strings.en-ko.jsonl", "drafts.jsonl", "ko.new.po"],
    "captions.md": [
        "runs/captions/report.html",
        "published/README.md",
        "caption.html",
    ],
    "compare.md": ["compared/report.html", "sampled/report.html", "pair/report.html"],
    "phone.md": ["translator.html", "translator.regard"],
    "serve.md": ["ko-en.regard", "keys.json"],
    "lesson.md": ["numbers.html", "numbers.ko.html"],
    "inside.md": [
        "attention.html",
        "attention.svg",
        "player.gif",
        "heads.svg",
        "block.html",
    ],
}


def test_every_tutorial_is_tried() -> None:
    by_examples = {"score.md"}  # tests/test_examples.py trains and compares its score
    assert {path.name for path in DOCS.glob("*.md")} == {*RESULTS, *by_examples}


@posix
@pytest.mark.parametrize(
    "page",
    [
        *(page for page in RESULTS if page != "compare.md"),
        pytest.param("compare.md", marks=pytest.mark.slow),
    ],
)
def test_the_commands_of_a_tutorial_run(
    regard: Command, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in {"phone.md", "translator.md"}:
        try:
            native.wasm_file()
        except RuntimeError as problem:
            pytest.skip(str(problem))
    monkeypatch.setattr("regard.learn.samples.writing.image_sample", pictures)
    monkeypatch.setattr("regard.learn.samples.writing.korean_english", sample)
    prepare(page)
    printed = [run(regard, line) for line in commands_of(page)]
    assert printed

    for name in RESULTS[page]:
        assert Path(name).stat().st_size > 100, name


def test_the_python_of_a_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare("inside.md")
    exec(compile(code_of("inside.md"), "inside.md", "exec"), {})
    assert "[[" in capsys.readouterr().out


def test_strings_become_pairs_and_open_strings_are_filled(regard: Command) -> None:
    """A string is filled line by line if its draft keeps what it has, with its white space."""
    prepare("strings.md")
    write_pairs, write_open, *_ = commands_of("strings.md")
    run(regard, write_pairs)
    run(regard, write_open)
    pairs = rows_of("strings.en-ko.jsonl")
    assert pairs[7] == {"source": "Open file 7 of %d", "target": "7번 파일 %d개"}
    assert len(pairs) == LINES + 1, "no header, no fuzzy string, one plural form"
    assert pairs[-1] == {"source": "files", "target": "파일"}
    assert rows_of("open.jsonl") == [{"text": 'Open "file" 7 of %d\n'}]

    for source, drafts, filled in (
        ("Open %s {name}", ["Datei {name} öffnen"], ""),
        ("  Open %d\\n", [" %d 열기\n\n"], "  %d 열기\\n"),
        ("Open\\n  %d files\\n\\nClose", ["1", "2 %d", "3"], "1\\n  2 %d\\n\\n3"),
        ("%d%% of\\n%s", ["1 %d of", "2 %s"], ""),
    ):
        write_po(f'msgid "{source}"\nmsgstr ""\n')
        run(regard, write_open)
        assert len(rows_of("open.jsonl")) == len(drafts)
        assert f'msgid "{source}"\nmsgstr "{filled}"\n' in fill(regard, *drafts)

    given = PLURAL.replace("#, fuzzy\n", "")
    Path("ko.po").write_text(given.format("%d a", "%d b"))
    run(regard, write_pairs)
    pairs = [(row["source"], row["target"]) for row in rows_of("strings.en-ko.jsonl")]
    assert pairs == [("%d file", "%d a"), ("%d files", "%d b")]

    Path("ko.po").write_text(given.format("", ""))
    run(regard, write_open)
    assert fill(regard, "%d 0", "%d 1").strip() == PLURAL.format("%d 0", "%d 1").strip()
    assert 'msgstr[0] ""' in fill(regard, "%d 0", "%d 1", doubtful=True)
