"""The entry point answers the plainest call itself, with the output, messages and status of the
command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small import SENTENCES, folder
from systems import posix

from regard.interchange.runtime import export
from regard.pipeline import export_cache
from regard.pipeline.bulk.chunk_translator import UNLEARNT
from regard.runtime import native
from regard.translate_stdin import PipeCall, pipe_call

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a runtime file."""
    path = folder(tmp_path_factory.mktemp("pipe") / "run", end=0.5)
    sentences = path.with_name("sentences.txt")
    sentences.write_text("\n".join(SENTENCES), encoding="utf-8")
    export(path, path.with_suffix(".regard"), source=sentences)
    return path.with_suffix(".regard")


def run(
    *arguments: str, lines: bytes, command: str = "regard"
) -> subprocess.CompletedProcess[bytes]:
    """Run the entry point, or the command line alone (`regard.cli`)."""
    return subprocess.run(
        [*entry(command), *arguments], input=lines, capture_output=True, check=False, timeout=120
    )


def entry(command: str) -> list[str]:
    code = (
        ["-m", "regard"] if command == "regard" else ["-c", "from regard.cli import main; main()"]
    )
    return [sys.executable, *code]


def test_only_the_plainest_calls_are_answered(model: Path, tmp_path: Path) -> None:
    file = str(model)
    assert pipe_call(["translate", file]) == PipeCall(file)
    assert pipe_call(["translate", file, "-"]) == PipeCall(file)
    assert pipe_call(["translate", "--beam", "3", file, "--threads=2"]) == PipeCall(file, 3, 2)
    (tmp_path / "text").write_text("REGAR", encoding="utf-8")
    for arguments in (
        [],
        ["--help"],
        ["doctor"],
        ["translate"],
        ["translate", str(model.with_suffix(""))],
        ["translate", str(tmp_path / "text")],
        ["translate", str(tmp_path / "nowhere")],
        ["translate", file, "lines.txt"],
        ["translate", file, "--nbest", "2"],
        ["translate", file, "--beam", "0"],
        ["translate", file, "--beam", "many"],
        ["translate", file, "--beam"],
        ["translate", file, "--beam=2", "--beam=3"],
        ["translate", file, "--help"],
        ["translate", file, "--", "-"],
    ):
        assert pipe_call(arguments) is None, arguments


@pytest.mark.system
@pytest.mark.parametrize("options", [[], pytest.param(["--beam", "2"], marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "lines",
    [
        "\n".join(SENTENCES).encode() + b"\n\n",
        "나는 집에 간다".encode(),
        b"",
        b"\xef\xbb\xbfI go home\r\n",
        b"\xff\xfe\n",
        b"I\0go\n",
        ("집" * 150).encode(),
        "مرحبا بالعالم".encode() * 3,
    ],
)
def test_the_answer_is_that_of_the_command_line(
    model: Path, lines: bytes, options: list[str]
) -> None:
    done, reference = (
        run("translate", str(model), *options, lines=lines, command=c)
        for c in ("regard", "regard.cli")
    )
    assert done.stdout == reference.stdout
    assert done.stderr == reference.stderr
    assert done.returncode == reference.returncode


@posix
@pytest.mark.system
def test_a_person_at_a_terminal_is_told_what_translates_and_asked_for_each_line(
    tmp_path: Path,
) -> None:
    path = folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    export(path, path.with_suffix(".regard"))
    answers = list[tuple[str, str]]()
    for file, command in (
        (path.with_suffix(".regard"), "regard"),
        (path.with_suffix(".regard"), "regard.cli"),
        (path, "regard"),
    ):
        (keyboard, typed), (screen, shown) = os.openpty(), os.openpty()
        os.write(keyboard, "나는 집에 간다\n\x04".encode())
        process = subprocess.run(
            [*entry(command), "translate", str(file)],
            stdin=typed,
            stdout=subprocess.PIPE,
            stderr=shown,
            check=True,
            timeout=120,
        )
        answers.append(
            (process.stdout.decode(), os.read(screen, 65536).decode().replace("\r\n", "\n"))
        )
        for number in (keyboard, typed, screen, shown):
            os.close(number)
    welcome = "{} translates Korean to English. Type a sentence, such as 나는 집에 간다, and press Enter; Ctrl-D ends.\nregard> "
    welcome += f"warning: {UNLEARNT}\nregard> \n"
    (translation, messages), *others = answers
    assert translation.count("\n") == 1
    assert messages == welcome.format(path.with_suffix(".regard"))
    assert others == [
        (translation, messages),
        (translation, f"opening {path} …\n{welcome.format(path)}"),
    ]


@pytest.mark.system
def test_a_plain_line_loads_and_compiles_little(model: Path) -> None:
    """Each module and pattern delays the first translation: a new process loads those that a plain
    line needs.
    """
    code = (
        "import re, sys; compile = re.compile; patterns = []\n"
        "re.compile = lambda *arguments: patterns.append(arguments) or compile(*arguments)\n"
        "from regard.translate_stdin import PipeCall, translate_pipe\n"
        "translate_pipe(PipeCall(sys.argv[1]))\n"
        "own = [name for name in sys.modules if name.startswith('regard')]\n"
        "unneeded = ('ssl', 'logging', 'email', 'tomllib', 'html', 'regard.text.markup.document', 'regard.data.language_codes')\n"
        "print(len(own), len(patterns), *(name for name in unneeded if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)],
        input=b"I go home\n",
        capture_output=True,
        check=True,
    )
    own, patterns, *unneeded = done.stdout.decode().split("\n")[1].split()
    assert not unneeded
    assert int(own) <= 46
    assert int(patterns) <= 30


@pytest.mark.system
def test_nothing_heavy_is_loaded(model: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Nor for a model folder, from the second call on."""
    code = (
        "import atexit, sys; sys.argv = ['regard', 'translate', sys.argv[1], '--beam=1']\n"
        "heavy = ('torch', 'numpy', 'pydantic', 'typer', 'sentencepiece')\n"
        "atexit.register(lambda: print('loaded:', *(name for name in heavy if name in sys.modules)))\n"
        "from regard.translate_stdin import main\n"
        "main()"
    )

    def outputs(path: Path) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            input=b"I go home\n",
            capture_output=True,
            check=True,
        )
        assert not done.stderr
        translation, loaded = done.stdout.decode().split("\n")[:2]
        return translation, loaded

    assert outputs(model)[1] == "loaded:"
    monkeypatch.setenv(export_cache.SWITCH, "on")
    if not export_cache.find_export(model.with_suffix(""))[0]:
        pytest.skip("needs Linux without a GPU: elsewhere PyTorch is asked whether there is one")
    first, second = (outputs(model.with_suffix("")) for _ in range(2))
    assert "torch" in first[1]
    assert second == (first[0], "loaded:")
    (export,) = cache.glob("model-*")
    export.write_bytes(export.read_bytes()[:-9])
    assert outputs(model.with_suffix("")) == first
