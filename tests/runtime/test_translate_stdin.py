"""The entry point answers the plainest call itself, with the output, messages and status of the
command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import SENTENCES, folder
from helpers.system_marks import posix

from regard.interchange.runtime import export
from regard.pipeline import export_cache
from regard.pipeline.bulk.chunk_translator import UNLEARNT
from regard.runtime import native
from regard.translate_stdin import PipeCall, pipe_call

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

ENTRIES = {
    "regard": ["-m", "regard"],
    "regard.cli": ["-c", "from regard.cli import main; main()"],
}
"""The entry point, and the command line alone."""
run_program: Any = subprocess.run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a runtime file of a translator from Korean to English."""
    path = folder(
        tmp_path_factory.mktemp("pipe") / "run",
        end=0.5,
        languages=("ko", "en"),
    )
    sentences = path.with_name("sentences.txt")
    sentences.write_text("\n".join(SENTENCES), encoding="utf-8")
    export(path, path.with_suffix(".regard"), source=sentences)
    return path.with_suffix(".regard")


def test_only_the_plainest_calls_are_answered(model: Path, tmp_path: Path) -> None:
    file = str(model)

    assert pipe_call(["translate", file]) == PipeCall(file)
    assert pipe_call(["translate", file, "-"]) == PipeCall(file)
    assert pipe_call(["translate", "--beam", "3", file, "--threads=2"]) == PipeCall(
        file,
        3,
        2,
    )

    text = tmp_path / "text"
    text.write_text("REGAR", encoding="utf-8")

    for arguments in (
        [],
        ["doctor"],
        ["translate"],
        ["translate", str(model.with_suffix(""))],
        ["translate", str(text)],
        ["translate", str(tmp_path / "nowhere")],
        ["translate", file, "lines.txt"],
        ["translate", file, "--nbest", "2"],
        ["translate", file, "--beam", "many"],
        ["translate", file, "--beam"],
        ["translate", file, "--beam=2", "--beam=3"],
        ["translate", file, "--", "-"],
    ):
        assert pipe_call(arguments) is None, arguments


@pytest.mark.system
@pytest.mark.parametrize(
    "options", [[], pytest.param(["--beam", "2"], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "lines",
    [
        "\ufeffI go home\r\n".encode(),
        "\n".join([*SENTENCES, "", "집" * 150, "مرحبا بالعالم" * 3, ""]).encode(),
        b"\xff\xfe\n",
    ],
)
def test_the_answer_is_that_of_the_command_line(
    model: Path,
    lines: bytes,
    options: list[str],
) -> None:
    answers = []
    for entry in ENTRIES.values():
        command = [sys.executable, *entry, "translate", model, *options]
        done = run_program(
            command,
            input=lines,
            capture_output=True,
            check=False,
            timeout=120,
        )
        answers.append((done.stdout, done.stderr, done.returncode))
    assert answers[0] == answers[1]


def _at_a_terminal(file: Path, entry: list[str]) -> tuple[str, str]:
    """Type a line at a terminal; return the translation and the messages."""
    keyboard, typed = os.openpty()
    screen, shown = os.openpty()
    os.write(keyboard, "나는 집에 간다\n\x04".encode())
    command = [sys.executable, *entry, "translate", file]
    done = run_program(
        command,
        stdin=typed,
        stdout=subprocess.PIPE,
        stderr=shown,
        check=True,
        timeout=120,
    )
    messages = os.read(screen, 65536).decode().replace("\r\n", "\n")
    for number in (keyboard, typed, screen, shown):
        os.close(number)
    return done.stdout.decode(), messages


@posix
@pytest.mark.system
def test_a_person_at_a_terminal_is_told_what_translates_and_asked_for_each_line(
    model: Path,
) -> None:
    run = model.with_suffix("")
    welcome = (
        "{} translates Korean to English. Type a sentence, such as 나는 집에 간다, and press "
        f"Enter; Ctrl-D ends.\nregard> warning: {UNLEARNT}\nregard> \n"
    )
    translation, messages = _at_a_terminal(model, ENTRIES["regard"])

    assert translation.count("\n") == 1
    assert messages == welcome.format(model)

    _, messages = _at_a_terminal(run, ENTRIES["regard"])

    assert messages == f"opening {run} …\n{welcome.format(run)}"


@pytest.mark.system
@pytest.mark.usefixtures("cache")
def test_nothing_heavy_is_loaded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for a model folder, from the second call on."""
    code = """
import atexit, sys
sys.argv = ['regard', 'translate', sys.argv[1], '--beam=1']
atexit.register(lambda: print(*sys.modules))
from regard.translate_stdin import main
main()
"""

    def heavy(path: Path) -> tuple[str, set[str]]:
        command = [sys.executable, "-c", code, path]
        line = b"I go home\n"
        done = run_program(
            command,
            input=line,
            capture_output=True,
            check=True,
        )

        assert not done.stderr

        translation, modules = done.stdout.decode().splitlines()
        heavy = {"torch", "numpy", "pydantic", "typer", "sentencepiece"}
        return translation, heavy & {*modules.split()}

    assert heavy(model)[1] == set()

    monkeypatch.setenv(export_cache.SWITCH, "on")
    run = model.with_suffix("")
    if not export_cache.find_export(run)[0]:
        pytest.skip(
            "needs Linux without a GPU: elsewhere PyTorch is asked whether there is one"
        )
    first = heavy(run)

    assert "torch" in first[1]
    assert heavy(run) == (first[0], set())
