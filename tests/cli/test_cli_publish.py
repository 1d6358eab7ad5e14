"""regard publish: a folder for any web space, read with tools that share no code with Regard."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command, files, lines_of, text_of
from helpers.browser import assert_accessible_and_narrow
from helpers.small_models import captioner_folder, folder
from helpers.system_marks import posix
from markdown_it import MarkdownIt

import regard as package
from regard.common.errors import ExportError, UsageError
from regard.explain import publication
from regard.runtime import native

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

STATED = "--licence CC-BY-4.0 --author 'Jana Nowak' --source-of-data 'Songs, CC0'"
NAMES = {"LICENSE", "README.md", "SHA256SUMS", "index.html", "model.regard"}
NAMES |= {"CHECKLIST.md", "train.toml"}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
PAUSING = """
import sys, time
from regard.cli import main
from regard.explain import publication
def pause(*_):
    print("paused", flush=True)
    time.sleep(600)
publication._sizes = pause
main(sys.argv[1:])
"""


def metadata(card: str) -> dict[str, Any]:
    """Return the metadata at the head of a card."""
    _, head, _ = card.split("---\n", 2)
    values: dict[str, Any] = yaml.safe_load(head)
    return values


def check_sums(out: Path) -> None:
    """Check SHA256SUMS by hand, and by the program if there is one."""
    rows = [row.split("  ") for row in lines_of(out / "SHA256SUMS")]
    sums = {name: digest for digest, name in rows}
    for name, digest in sums.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    written = {path for path, content in files(out).items() if content is not None}
    assert written - {"SHA256SUMS", "CHECKLIST.md"} == sums.keys()
    if shutil.which("sha256sum"):
        command = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
        subprocess.run(command, cwd=out, check=True, capture_output=True)


def test_a_run_becomes_a_folder_for_a_web_space(
    regard: Command, run: Path, wasm: Path
) -> None:
    (run / "ABOUT.md").write_text("Za Serbow.\n", encoding="utf-8")
    command = f"publish run out {STATED} --threads 1"
    done = regard(command)
    out = Path("out")
    assert {path.name for path in out.iterdir()} == NAMES
    check_sums(out)

    card = text_of(out / "README.md")
    values = metadata(card)
    assert values["language"] == ["ko", "en"]
    assert values["license"] == "cc-by-4.0"
    assert (values["pipeline_tag"], values["library_name"]) == ("translation", "regard")
    (result,) = values["model-index"][0]["results"]
    journal = [json.loads(line) for line in lines_of(run / "journal.jsonl")]
    (valid,) = [event for event in journal if event["event"] == "valid"]
    assert {"type": "chrf", "value": round(valid["chrf"], 2), "name": "chrF"} in (
        result["metrics"]
    )
    assert card.split("---\n", 2)[2].startswith("# Korean → English\n\nZa Serbow.\n")
    for file in json.loads(text_of(run / "data.json"))["files"].values():
        assert file["sha256"] in card
    (machine,) = [event for event in journal if event["event"] == "machine"]
    assert machine["command"] in card
    assert text_of(out / "LICENSE").startswith("Creative Commons Attribution 4.0 ")
    assert (out / "train.toml").read_bytes() == (run / "train.toml").read_bytes()

    assert '"greeting":"Za Serbow.' in text_of(out / "index.html")

    (compared, _) = (line for line in done.err.splitlines() if "translates" in line)
    assert re.fullmatch(
        r"model\.regard translates like the model \(\d of [\d,]+ sentences otherwise\)",
        compared,
    )

    checklist = text_of(out / "CHECKLIST.md")
    assert "Nothing was uploaded" in checklist
    assert "Nothing was uploaded" in done.err
    assert checklist.count("- [ ] ") == done.err.count("\n  → ") > 0
    assert "there is no test" in checklist
    assert "name folders of your machine" in checklist
    for stated in ("licence", "author", "origin", "words of yours", "languages"):
        assert stated not in checklist

    lines = "나는 집에 간다\n나는 빵을 먹고 있었다\n"
    assert regard("translate out/model.regard", stdin=lines).lines

    before = files(out)
    regard(f"{command} --quiet")
    assert files(out) == before, "the same bytes, in the place of the old ones"

    made = package.publish("run", "again", licence="CC-BY-4.0", author="Jana Nowak")
    assert made.folder == Path("again")
    assert made.sizes["train.toml"] == len((run / "train.toml").read_bytes())
    problems = [item.problem for item in made.checklist]
    assert any("origin of the data" in problem for problem in problems)


def test_the_command_on_the_card_writes_the_same_folder(
    regard: Command, run: Path
) -> None:
    regard(f"publish run out {STATED} --no-page --precision float32 --languages ko,fr")
    (line,) = [
        row for row in lines_of("out/README.md") if row.startswith("    regard publish")
    ]
    words = shlex.split(line.replace("RUN", "run").replace("OUT", "again"))
    regard(*words[1:])
    assert files(Path("again")) == files(Path("out"))


def test_the_page_translates(
    regard: Command, run: Path, wasm: Path, open_page: Callable[..., Any]
) -> None:
    regard("publish run out --threads 1")
    page = open_page(
        Path("out/index.html").absolute(), "html[data-loaded]", offline=True
    )
    page.fill("#input", "나는 집에 간다")
    page.wait_for_selector("#translation[aria-busy=false] .line-of-text:not(.pending)")
    assert page.inner_text("#translation").strip()
    page.click("#about summary")
    about = page.text_content("#readme")
    assert "What to watch out for" in about
    assert "none is stated" in about
    assert "index.html)" not in about, "it is this page"


def test_a_captioner_is_published_as_a_folder(
    regard: Command, captioner: Path, image_folder: Path, open_page: Callable[..., Any]
) -> None:
    regard(f"publish {captioner} out --licence MIT --author 'A <b>& C'")
    out = Path("out")
    check_sums(out)
    assert "Copyright (c) A <b>& C\n" in text_of(out / "LICENSE")
    image = next((image_folder / "images").iterdir())
    captions = [
        regard(f"caption {model} {image} --threads 1").out
        for model in (captioner, out / "model")
    ]
    assert captions[0] == captions[1] != ""
    assert metadata(text_of(out / "README.md"))["pipeline_tag"] == "image-to-text"

    page = open_page(Path("out/index.html").absolute(), "h1", offline=True)
    assert page.inner_text("h1").startswith("Captions")
    assert "does not run in the browser" in page.inner_text("main")
    assert "Author: A <b>& C." in page.inner_text("main")


def test_the_page_that_describes_is_for_everybody(
    regard: Command, tmp_path: Path, open_page: Callable[..., Any], axe: str
) -> None:
    captioner_folder(tmp_path / "run")
    regard("publish run out --licence MPL-2.0 --author A")
    page = open_page(Path("out/index.html").absolute(), "h1", offline=True)
    assert_accessible_and_narrow(page, axe)


def test_two_directions_are_one_page(
    regard: Command, tmp_path: Path, wasm: Path
) -> None:
    folder(tmp_path / "there", end=0.5, languages=("ko", "en"))
    folder(tmp_path / "back", "recurrent", "recurrent", end=0.5, languages=("en", "ko"))
    regard("publish there out --reverse back --threads 1")
    assert {"model.regard", "reverse.regard"} < {p.name for p in Path("out").iterdir()}
    assert "# Korean ↔ English" in text_of("out/README.md")
    assert "how the model was made is not recorded" in text_of("out/CHECKLIST.md")

    because = "translates ko → en, and the reverse of there is en → ko"
    regard.fails("publish there new --reverse there", because=because)


def test_a_model_that_no_runtime_file_holds_is_published_as_a_folder(
    regard: Command, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", end=0.5, languages=("ko", "en"), groups=3, beam=3)
    regard("publish run out")
    assert Path("out/model/model.safetensors").is_file()
    assert "search.groups = 3" in text_of("out/index.html")
    assert "search.groups = 3" in text_of("out/CHECKLIST.md")
    assert run.is_dir()


def test_nothing_of_others_is_overwritten(regard: Command, tmp_path: Path) -> None:
    folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    command = "publish run out --no-page"
    regard(command)
    Path("out/CHECKLIST.md").unlink()  # as it asks for
    regard(command)

    with Path("out/README.md").open("a", encoding="utf-8") as card:
        card.write("mine")
    Path("out/CNAME").write_text("example.org", encoding="utf-8")
    because = "or was changed since: CNAME, README.md; choose a new folder"
    regard.fails(command, because=because, status=1)
    regard.fails("publish run run", because="was not published here", status=1)
    Path("file").touch()
    regard.fails("publish run file", because="file: is a file", status=1)
    with pytest.raises(UsageError, match="wanted an SPDX licence"):
        package.publish("run", "new", licence="mine")
    with pytest.raises(ExportError, match="out: holds"):
        package.publish("run", "out", page=False)


def test_a_missing_library_for_browsers_is_named(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "run", end=0.5)
    (tmp_path / "libraries").mkdir()
    monkeypatch.setattr(native, "FOLDER_OF_LIBRARIES", tmp_path / "libraries")
    because = "or publish without a page that translates: --no-page"
    regard.fails("publish run out", because=because, status=1)


def test_a_stop_leaves_nothing(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "run", end=0.5)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publication, "_sizes", stop)
    regard.fails("publish run out --no-page", because="stopped", status=130)


@posix
def test_a_killed_command_leaves_no_half_folder(
    regard: Command, tmp_path: Path
) -> None:
    """It is killed when all but the card is written."""
    folder(tmp_path / "run", end=0.5)
    regard("publish run out --no-page")
    before = files(Path("out"))
    words = [sys.executable, "-c", PAUSING, "publish", "run", "out", "--no-page"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "paused\n"
        process.send_signal(signal.SIGKILL)
    assert files(Path("out")) == before

    regard("publish run out --no-page")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}


def test_hostile_statements_stay_text(regard: Command, tmp_path: Path) -> None:
    captioner_folder(tmp_path / "run")
    hostile = "</li><script>alert(1)</script>\n---\nlicense: mit\n# b `c` [d](e)"
    regard("publish", "run", "out", "--author", hostile, "--source-of-data", hostile)
    card = text_of("out/README.md")
    assert "license" not in metadata(card)
    body = card.split("---\n", 2)[2]
    tokens = MarkdownIt("commonmark").parse(body)
    parts = [part for token in tokens for part in (token, *(token.children or []))]
    assert not [part for part in parts if part.type.startswith("html")]
    assert "<script>alert" not in text_of("out/index.html")


def test_hugging_face_reads_the_card(
    regard: Command, transformer: Path, tmp_path: Path
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="regard[hf] is not installed")
    regard(f"publish {transformer} out --no-page --licence GPL-3.0-only")
    data = hub.ModelCard.load(tmp_path / "out" / "README.md").data
    assert (data.license, data.language) == ("gpl-3.0", ["ko", "en"])
    assert {result.metric_type for result in data.eval_results} == {"bleu", "chrf"}
    assert "the text of GPL-3.0-only is missing" in text_of("out/CHECKLIST.md")
