"""The commands of docs/strings.md, and those of its hook and its CI, do what the page says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.system_marks import posix

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "strings.md"
CATALOGUE = """msgid ""
msgstr "Language: {language}\\n"

#, python-brace-format
msgid "Hello {{name}}"
msgstr "{hello}"

msgid "Quit"
msgstr "{quit}"
"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>Open %s</source><target>%s öffnen</target></trans-unit>
</body></file></xliff>
"""
PAIRS = [
    {"source": "Delete {name}?", "target": "Smazat {name}?"},
    {"source": "Open {file}", "target": "Otevřít {fil}"},
]
BROKEN = {"locale/ko.po": 4, "strings.cs": 1}
"""Line of the broken string of each file that has one."""


def catalogue(language: str, hello: str, word: str) -> str:
    return CATALOGUE.format(language=language, hello=hello, quit=word)


@pytest.fixture
def example_folder(transformer: Path, data: Path, regard: Command) -> Command:
    """Write the files of the page; return the command."""
    shutil.copytree(transformer, Path("runs") / "first")
    Path("locale").mkdir()
    for name, text in {
        "ko.po": catalogue("ko", "안녕하세요 {nam}", "끝내기"),
        "cs.po": catalogue("cs", "Ahoj {name}", "Konec"),
        "de.xlf": XLIFF,
        "cs.jsonl": "\n".join(map(json.dumps, PAIRS)) + "\n",
    }.items():
        Path("locale", name).write_text(text, encoding="utf-8")
    write_lines("strings.en", ["Delete %s?", "Paste"])
    write_lines("strings.cs", ["Smazat?", "Vložit"])
    write_lines("strings.txt", lines_of(data / "test.ko")[:3])
    return regard


COMMANDS = [
    line.strip().removeprefix("regard ")
    for line in lines_of(PAGE)
    if line.startswith("    regard ")
]


@pytest.mark.parametrize("call", COMMANDS)
def test_the_commands_of_the_page_run(example_folder: Command, call: str) -> None:
    done = example_folder.ended(call)
    if not call.startswith("check"):
        assert done.status == 0
        count = len(lines_of("strings.ko.txt") if "--output" in call else done.lines)
        assert count == 3
        if "--max-characters" in call:
            for value in map(json.loads, done.lines):
                assert len(value["text"]) <= 40 or value["broken"]
        return

    assert done.status == ("--strict" in call)
    broken = {(name, line) for name, line in BROKEN.items() if name in call}
    if "json" in call:
        values = map(json.loads, done.lines)
        reported = {(value["file"], value["line"]) for value in values}
    elif "sarif" in call:
        (run,) = json.loads(done.out)["runs"]
        places = [result["locations"][0] for result in run["results"]]
        files = [place["physicalLocation"] for place in places]
        reported = {
            (file["artifactLocation"]["uri"], file["region"]["startLine"])
            for file in files
        }
    else:
        assert f"line {BROKEN['locale/ko.po']}: Hello" in done.out
        return
    assert reported == broken


def test_the_report_is_that_of_the_page(example_folder: Command) -> None:
    (report,) = re.findall(r"```text\n(.*?)```", text_of(PAGE), re.DOTALL)
    assert example_folder(COMMANDS[0]).out == report


def test_the_hook_and_the_workflow_of_the_page_find_broken_strings(
    example_folder: Command,
) -> None:
    yaml = pytest.importorskip("yaml")
    blocks = re.findall(r"```yaml\n(.*?)```", text_of(PAGE), re.DOTALL)
    configuration, workflow = map(yaml.safe_load, blocks)
    (hook,) = yaml.safe_load(text_of(ROOT / ".pre-commit-hooks.yaml"))
    files = [str(path) for path in sorted(Path("locale").iterdir())]
    reports = []
    for own in configuration["repos"][0]["hooks"]:
        assert own["id"] == hook["id"]
        merged = hook | own
        names = [name for name in files if re.search(merged["files"], name)]
        words = [*shlex.split(merged["entry"])[1:], *merged["args"], *names]
        done = example_folder.ended(*words)
        assert done.status == 1
        reports.append(done.out)
    assert ["안녕하세요" in report for report in reports] == [True, False]
    assert ["Otevřít" in report for report in reports] == [False, True]

    (job,) = workflow["jobs"].values()
    (run,) = [s["run"] for s in job["steps"] if "regard check" in s.get("run", "")]
    words = run.replace("locale/*.po", "locale/cs.po locale/ko.po").split(" ", 1)[1]
    done = example_folder.ended(words)
    (line,) = done.lines
    assert line.startswith("::warning file=locale/ko.po,line=4,")
    assert done.status == 1


@posix
@pytest.mark.skipif(shutil.which("msginit") is None, reason="gettext is not installed")
def test_the_ci_of_the_page_translates_what_commits_add(
    example_folder: Command,
) -> None:
    page = text_of(ROOT / "docs" / "documents" / "strings.md")
    (block,) = re.findall(r"(?m)^    mkdir -p build locale\n(?:    .*\n)+", page)
    script = re.sub(r"\bregard (?=translate)", f"{sys.executable} -m regard ", block)
    shutil.copytree("runs/first", "runs/de")
    Path("src").mkdir()
    strings = lines_of("strings.txt")
    for count in (1, 3):
        calls = "".join(f'puts(_("{text}"));\n' for text in strings[:count])
        Path("src/app.c").write_text(calls, encoding="utf-8")
        subprocess.run(["sh", "-ec", script], check=True, timeout=120)
        written = text_of("locale/de.po")
        assert written.count("#, fuzzy") == count
        assert all(f'msgid "{text}"' in written for text in strings[:count])
    corrected = written.replace("#, fuzzy\n", "", 1)
    Path("locale/de.po").write_text(corrected, encoding="utf-8")
    subprocess.run(["sh", "-ec", script], check=True, timeout=120)
    assert text_of("locale/de.po") == corrected
