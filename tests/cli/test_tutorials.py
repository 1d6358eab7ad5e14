"""The commands of the tutorials, as they stand in docs/tutorials, on the sample cut short and with
tiny models.

The Korean tutorials have the same commands (tests/test_pages.py).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import CAPTIONER, RECURRENT, TRANSFORMER, Command, sets
from small import folder
from systems import posix

from regard.learn.samples.images import image_sample
from regard.learn.samples.korean_english_corpus import SIZES, korean_english
from regard.runtime import native

DOCS = Path(__file__).parents[2] / "docs" / "tutorials"
NOT_RUN = {
    "regard serve": "does not end by itself; tests/serving asks servers",
    "curl": "needs a server; tests/serving/test_server_docs.py asks one",
    "python -m http.server": "does not end by itself; the standard library's",
    "pip install": "needs a network; tests/test_wheel.py installs the wheel",
    "msgattrib": "needs gettext; test_guesses_are_opened_anew runs it if there is one",
    "python tools/build_library.py wasm": "needs a compiler, which pip gets; .ci/run does it before the tests",
}
"""Commands that no test here runs, and why."""
LINES = 120
"""Pairs that are left of each file of the sample."""
PO = """msgid ""
msgstr ""
"Language: ko\\n"

"""


def lines_of(page: str) -> Iterator[str]:
    """Yield the command lines of a tutorial that are run."""
    text = re.sub(r" \\\n *", " ", (DOCS / page).read_text(encoding="utf-8"))
    for line in re.findall(
        r"^    (\S.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    ):
        if not line.startswith(tuple(NOT_RUN)):
            yield line


def tiny(line: str) -> list[str]:
    """Return the words of a command with a budget of a few updates instead of minutes."""
    words = shlex.split(line, comments=True)
    is_small = "--images" in words or "strings.en-ko.jsonl" in words
    settings = [
        *(CAPTIONER if "--images" in words else TRANSFORMER),
        f"tokenizer.size={400 if is_small else 600}",
    ]
    if "rnn,rnn-luong" in words:
        settings = [setting for setting in RECURRENT if "attention_size" not in setting]
        settings = [*settings, "tokenizer.size=600"]
    if "--budget" in words:
        at = words.index("--budget")
        words[at : at + 2] = sets([*settings, "training.updates=2"])
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
        return regard(*tiny(line)[1:], stdin=f"{shlex.split(text)[1]}\n".encode()).out
    if line.startswith("regard "):
        printed = regard(*tiny(line)[1:]).out
        if " sample " in line:
            shorten()
        if "--out sampled" in line:  # the two models that are there already, in what follows
            for name, trained in zip(
                ("first", "second"), sorted(Path("sampled/runs").iterdir()), strict=True
            ):
                shutil.copytree(trained, Path("runs") / name)
        return printed
    line = line.replace("shuf -n 1000", f"shuf -n {LINES // 10}")  # of so few pairs
    line = re.sub("^python ", f"{shlex.quote(sys.executable)} ", line)
    subprocess.run(line, shell=True, check=True)
    return ""


def shorten() -> None:
    """Leave the first lines of each file of the sample, which belong together."""
    for path in Path().rglob("*"):
        if path.suffix in {".ko", ".en", ".align", ".tsv"}:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            path.write_text("".join(lines[:LINES]), encoding="utf-8")


def prepare(page: str) -> None:
    """Write what a reader of the page has already: models, or the strings of a program."""
    if page in {"phone.md", "serve.md", "inside.md"}:
        # Few tokens are soon animated.
        folder(Path("runs") / "first", end=1.0 if page == "inside.md" else -2.0)
    if page == "compare.md":
        pairs = korean_english(sizes={**dict.fromkeys(SIZES, 0), "train": LINES}).splits["train"]
        lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        Path("pairs.ko-en.tsv").write_text(lines, encoding="utf-8")
    if page == "inside.md":
        for name, text in {
            "ko": "나는 집에 간다\n",
            "en": "I go home\n",
            "align": "0-0 1-2 2-1\n",
        }.items():
            Path(f"test.{name}").write_text(text, encoding="utf-8")
    if page == "strings.md":
        (code,) = re.findall(
            r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL
        )
        Path("po.py").write_text(code, encoding="utf-8")
        strings = [
            f'msgid "Open file {n} of %d"\nmsgstr ""\n"{n}번 파일 "\n"%d개"\n' for n in range(LINES)
        ]
        strings += [
            '#, fuzzy\nmsgid "Close"\nmsgstr "열기"\n',
            'msgid "Open \\"file\\" 7 of %d\\n"\nmsgstr ""\n',
        ]
        strings += ['msgid "file"\nmsgid_plural "files"\nmsgstr[0] "파일"\n']
        Path("ko.po").write_text(PO + "\n".join(strings), encoding="utf-8")


RESULTS = {
    "translator.md": ["runs/first/report.html", "translated.en"],
    "strings.md": ["strings.en-ko.jsonl", "drafts.jsonl", "ko.new.po"],
    "captions.md": ["caption.html"],
    "compare.md": ["compared/report.html", "sampled/report.html", "pair/report.html"],
    "phone.md": ["translator.html", "translator.regard"],
    "serve.md": ["ko-en.regard", "keys.json"],
    "lesson.md": ["numbers.html", "numbers.ko.html"],
    "inside.md": ["attention.html", "attention.svg", "player.gif", "heads.svg", "block.html"],
}


def test_every_tutorial_is_tried() -> None:
    assert {path.name for path in DOCS.glob("*.md")} == set(RESULTS)


@posix
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page == "compare.md" else page
        for page in RESULTS
    ],
)
def test_the_commands_of_a_tutorial_run(
    regard: Command, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page == "phone.md":
        try:
            native.wasm_file()
        except RuntimeError as problem:
            pytest.skip(str(problem))
    images = image_sample(train=40, valid=5, test=5)
    pairs = korean_english(sizes=dict.fromkeys(SIZES, LINES))
    monkeypatch.setattr("regard.learn.samples.writing.image_sample", lambda: images)
    monkeypatch.setattr("regard.learn.samples.writing.korean_english", lambda: pairs)
    prepare(page)
    printed = [run(regard, line) for line in lines_of(page)]
    assert printed
    for name in RESULTS[page]:
        assert Path(name).stat().st_size > 100, name


def test_the_python_of_a_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare("inside.md")
    (code,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "inside.md").read_text(encoding="utf-8"), re.DOTALL
    )
    exec(compile(code, "inside.md", "exec"), {})
    assert "[[" in capsys.readouterr().out


def test_strings_become_pairs_and_open_strings_lines(regard: Command) -> None:
    prepare("strings.md")
    for line in list(lines_of("strings.md"))[:2]:
        run(regard, line)
    pairs = [
        json.loads(line)
        for line in Path("strings.en-ko.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert pairs[7] == {"source": "Open file 7 of %d", "target": "7번 파일 %d개"}
    assert len(pairs) == LINES + 1, "no header, no fuzzy string, one plural form"
    assert pairs[-1] == {"source": "files", "target": "파일"}
    drafts = [{"text": 'Öffne "x" %d\n', "doubtful": False}]
    Path("drafts.jsonl").write_text("\n".join(map(json.dumps, drafts)), encoding="utf-8")
    run(regard, list(lines_of("strings.md"))[4])
    before, after = (
        Path(name).read_text(encoding="utf-8").rstrip() for name in ("ko.po", "ko.new.po")
    )
    empty = '7 of %d\\n"\nmsgstr ""'
    filled = '7 of %d\\n"\nmsgstr "Öffne \\"x\\" %d\\n"'
    assert after.replace('#, fuzzy\nmsgid "Open \\"', 'msgid "Open \\"') == before.replace(
        empty, filled
    )
    assert [
        json.loads(line) for line in Path("open.jsonl").read_text(encoding="utf-8").splitlines()
    ] == [{"text": 'Open "file" 7 of %d\n'}]


@pytest.mark.parametrize(
    "draft", ["Datei %s öffnen", "Datei {name} öffnen", "Datei öffnen", "Datei %s {name}s"]
)
def test_a_draft_without_a_placeholder_is_left_out(regard: Command, draft: str) -> None:
    prepare("strings.md")
    Path("ko.po").write_text(f'{PO}msgid "Open %s {{name}}"\nmsgstr ""\n', encoding="utf-8")
    Path("drafts.jsonl").write_text(
        json.dumps({"text": draft, "doubtful": False}), encoding="utf-8"
    )
    run(regard, list(lines_of("strings.md"))[4])
    is_whole = "%s" in draft and "{name}" in draft
    assert (f'msgstr "{draft}"' in Path("ko.new.po").read_text(encoding="utf-8")) == is_whole


@pytest.mark.parametrize(
    ("source", "texts", "filled"),
    [
        (
            "Open\\n  %d files\\n\\nClose\\n",
            ["Open", "%d files", "Close\n"],
            "1\\n  2 %d\\n\\n3\\n",
        ),
        ("\\n Open\\t%s", ["\n Open\t%s"], "\\n 1 %s"),
        ("%d%% of\\n%s", ["%d%% of", "%s"], ""),
    ],
)
def test_a_string_of_several_lines_is_drafted_line_by_line(
    regard: Command, source: str, texts: list[str], filled: str
) -> None:
    """The last draft has lost its %%, so the string stays open."""
    prepare("strings.md")
    Path("ko.po").write_text(f'{PO}msgid "{source}"\nmsgstr ""\n', encoding="utf-8")
    _, write_open, *_, fill = lines_of("strings.md")
    run(regard, write_open)
    opened = [
        json.loads(line)["text"]
        for line in Path("open.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert opened == texts
    kept = [re.findall("%[ds]", text) for text in texts]
    drafts = [
        {"text": " ".join([str(n), *spans]), "doubtful": False} for n, spans in enumerate(kept, 1)
    ]
    Path("drafts.jsonl").write_text("\n".join(map(json.dumps, drafts)), encoding="utf-8")
    run(regard, fill)
    assert f'msgstr "{filled}"' in Path("ko.new.po").read_text(encoding="utf-8")


def test_guesses_are_opened_anew(regard: Command) -> None:
    prepare("strings.md")
    commands = re.findall(
        r"^    (msgattrib .*)$", (DOCS / "strings.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(commands) == 2
    if not shutil.which("msgattrib"):
        return
    header = f'{PO.strip()}\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    guess = 'msgid "Close"\nmsgstr "열기"\n'
    others = 'msgid "Open"\nmsgstr "열기"\n\nmsgid "File"\nmsgstr ""\n'
    Path("ko.po").write_text(f"{header}#, fuzzy\n{guess}\n{others}", encoding="utf-8")
    for command in commands:
        run(regard, command)
    assert Path("ko.open.po").read_text("utf-8") == f'{header}msgid "Close"\nmsgstr ""\n\n{others}'


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [("  Open %d\\n", "  ", "\\n"), ("\\n", "", "\\n"), ("Open %d", "", "")],
)
def test_a_draft_gets_the_white_space_of_its_source(
    regard: Command, source: str, before: str, after: str
) -> None:
    prepare("strings.md")
    Path("ko.po").write_text(f'{PO}#, c-format\nmsgid "{source}"\nmsgstr ""\n', encoding="utf-8")
    draft = "%d 열기" if "%d" in source else ""
    Path("drafts.jsonl").write_text(
        json.dumps({"text": f" {draft}\n\n", "doubtful": False}), encoding="utf-8"
    )
    run(regard, list(lines_of("strings.md"))[4])
    assert f'msgstr "{before}{draft}{after}"' in Path("ko.new.po").read_text(encoding="utf-8")
    if shutil.which("msgfmt"):
        subprocess.run(
            ["msgfmt", "--check-format", "--output-file", "ko.mo", "ko.new.po"], check=True
        )


PLURALS = """msgid ""
msgstr "Plural-Forms: nplurals={count};\\n"

msgid "%d file"
msgid_plural "%d files"
{forms}
"""


@pytest.mark.parametrize(("count", "sources"), [(1, ["%d files"]), (2, ["%d file", "%d files"])])
def test_plural_forms_are_paired_and_filled(
    regard: Command, count: int, sources: list[str]
) -> None:
    prepare("strings.md")
    for texts in ([""] * count, [f"%d {n}" for n in range(count)]):
        forms = "\n".join(f'msgstr[{n}] "{text}"' for n, text in enumerate(texts))
        Path("ko.po").write_text(PLURALS.format(count=count, forms=forms), encoding="utf-8")
        for line in list(lines_of("strings.md"))[:2]:
            run(regard, line)
        pairs, opened = (
            Path(name).read_text("utf-8").splitlines()
            for name in ("strings.en-ko.jsonl", "open.jsonl")
        )
        rows = [json.loads(line) for line in [*pairs, *opened]]
        assert [row.get("source") or row["text"] for row in rows] == sources
        assert [row.get("target", "") for row in rows] == texts
    empty = "\n".join(f'msgstr[{n}] ""' for n in range(count))
    Path("ko.po").write_text(PLURALS.format(count=count, forms=empty), encoding="utf-8")
    drafts = [{"text": f"%d {n}", "doubtful": n == 1} for n in range(count)]
    Path("drafts.jsonl").write_text("\n".join(map(json.dumps, drafts)), encoding="utf-8")
    run(regard, list(lines_of("strings.md"))[4])
    filled = empty.replace('msgstr[0] ""', 'msgstr[0] "%d 0"')
    expected = PLURALS.format(count=count, forms=filled).replace(
        'msgid "%d file"', '#, fuzzy\nmsgid "%d file"'
    )
    assert Path("ko.new.po").read_text(encoding="utf-8").rstrip() == expected.rstrip()
    if shutil.which("msgfmt"):
        subprocess.run(
            ["msgfmt", "--check-format", "--output-file", "ko.mo", "ko.new.po"], check=True
        )
