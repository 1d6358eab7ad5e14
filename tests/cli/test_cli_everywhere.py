"""Every command: help, exit statuses, signals, pipes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from command import TRANSFORMER, Command, sets
from helpers.system_marks import posix

import regard as package
from regard.cli import doctor
from regard.cli.app import app
from regard.common.errors import DataError
from regard.common.reading import MAGIC
from regard.runtime import native

COMMANDS = """
align caption compare demo doctor evaluate export import lab sample serve show train translate
walkthrough
"""
WITHOUT_DEVICE = ("doctor", "export", "import", "lab", "sample", "serve")


def run_process(
    *arguments: object, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a separate process."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    environment = {**ENVIRONMENT, **options.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, env=environment, check=False, **options
    )


def start_process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT
    )


ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(package.__file__).parent.parent),
}


# Help and misuse


def test_help_lists_the_commands_and_their_options(regard: Command) -> None:
    done = run_process("--help")
    assert (done.returncode, done.stderr) == (0, b"")

    shown = regard("--help")
    assert done.stdout.decode() == shown.out
    assert regard() == shown

    listed = [
        line.split()[0]
        for line in shown.lines
        if line.startswith("  ") and line.strip()
    ]
    commands = COMMANDS.split()
    assert [name for name in listed if name in commands] == commands
    assert len(app.registered_commands) == len(commands)
    assert regard("--version").out == f"regard {package.__version__}\n"

    for command in commands:
        page = regard(f"{command} --help")
        assert page.err == ""
        options = {word for word in page.out.split() if word.startswith("--")}
        assert {"--threads", "--quiet", "--debug"} <= options
        assert command in WITHOUT_DEVICE or {"--device", "--seed"} <= options


@pytest.mark.parametrize(
    ("command", "because"),
    [
        (
            "trian",
            "no such command 'trian'. Did you mean 'train'? – see `regard --help`",
        ),
        ("--verbose", "no such option: --verbose"),
        ("translate", "missing argument"),
        ("translate run --beam", "--beam"),
        ("doctor --threads none", "--threads"),
        ("doctor --threads 99999", "--threads"),
        ("demo --device gpu", "--device gpu: wanted auto, cpu, cuda or mps"),
    ],
)
def test_misuse_is_reported_in_a_sentence(
    regard: Command, command: str, because: str
) -> None:
    done = regard.fails(command, because=because)
    assert done.out == ""
    assert done.err.count("\n") == 1


# Errors


def test_debug_adds_the_traceback_and_changes_nothing_else(regard: Command) -> None:
    plain = regard.fails("translate no", status=1, because="no: no such folder; give")
    debug = regard.ended("translate no --debug")
    assert (debug.status, debug.causes) == (plain.status, plain.causes)
    assert "Traceback (most recent call last)" in debug.err
    assert "Traceback" not in regard.ended("translate no").err


FULL = OSError(28, "No space left on device", "big")
INTERNAL = "internal error (ZeroDivisionError: by zero); run again with --debug for the traceback"


@pytest.mark.parametrize(
    ("problem", "status", "causes"),
    [
        (DataError("one", "two"), 1, ["one", "two"]),
        (KeyboardInterrupt(), 130, ["stopped"]),
        (
            FULL,
            1,
            [
                "big: No space left on device; check the path, its permissions and the free"
            ],
        ),
        (ZeroDivisionError("by zero"), 1, [INTERNAL]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exceptions_become_statuses_and_messages(
    regard: Command,
    transformer: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    status: int,
    causes: list[str],
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("regard.pipeline.load_translator", fail)
    done = regard.ended(f"translate {transformer}")
    assert (done.status, done.out) == (status, "")
    assert len(done.causes) == len(causes)

    for cause, expected in zip(done.causes, causes, strict=True):
        assert cause.startswith(expected)
    assert "Traceback" not in done.err


# Pipes


def test_lines_flow_through_a_pipe_in_utf8(
    regard: Command, transformer: Path, data: Path
) -> None:
    text = (data / "test.ko").read_bytes()
    options = ["translate", transformer, "--format", "jsonl", "--threads", 1]
    done = run_process(
        *options, input=text, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    here = regard(*options, stdin=text)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (
        0,
        here.out,
        here.err,
    )
    assert not done.stdout.isascii()


def test_a_closed_pipe_ends_the_command_quietly(transformer: Path, data: Path) -> None:
    options = ["--beam", 1, "--threads", 1]
    with start_process("translate", transformer, data / "test.ko", *options) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == ""
        assert command.wait() == 1


@posix
@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        pytest.param("<&-", 0, "", marks=pytest.mark.slow),
        pytest.param("2>&-", 0, "", marks=pytest.mark.slow),
        (">&-", 1, "regard: Bad file descriptor"),
        ("<&- >&- 2>&-", 1, ""),
    ],
)
def test_closed_streams_give_no_traceback(
    transformer: Path, closed: str, status: int, said: str
) -> None:
    """Nor does a file get the number of one, to be written into by whoever prints."""
    command = f"'{sys.executable}' -m regard doctor '{transformer}' {closed}"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == bool(said)


@posix
def test_closed_streams_stay_taken_in_a_program_that_follows() -> None:
    """The socket of a server, and its pipes, do not get their numbers, under which its processes
    have others.
    """
    follows = "import os; [os.fstat(number) for number in range(3)]"
    code = f"import os, sys; from regard.translate_stdin import _open_streams; _open_streams(); {follows}"
    code += f"; os.execv(sys.executable, [sys.executable, '-c', {follows!r}])"
    command = ["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == 0


@posix
def test_names_that_are_not_utf8_give_sentences(
    regard: Command, transformer: Path, run: Path, corpus: list[str]
) -> None:
    name = os.fsdecode(b"b\xff")
    run.rename(name)
    because = "the name is not UTF-8, and weights cannot be read by such names"
    regard.fails("translate", name, status=1, because=because)

    Path(f"{name}.ko").write_text("나는 집에 간다\n", encoding="utf-8")
    regard("translate", transformer, f"{name}.ko", "--output", f"{name}.en")
    assert Path(f"{name}.en").read_bytes().count(b"\n") == 1

    files = ["--source", f"{name}.ko", "--target", f"{name}.ko", *corpus[4:]]
    done = regard.ended("train", *files, "--out", "run")
    assert "a name that is not UTF-8 cannot be written or shown here" in done.causes[-1]


def test_a_runtime_file_needs_a_compiler(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_load", lambda: "there is no C compiler")
    Path("x.regard").write_bytes(MAGIC)
    because = (
        "which translates runtime files, cannot be used here: there is no C compiler"
    )
    regard.fails("translate x.regard", status=1, because=because)


def test_messages_name_commands_that_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for path in Path(package.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"`regard ([a-z]+)", text):
            assert name in commands, (path, name)


# Signals


@posix
@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_an_interrupted_training_is_saved_and_resumes(
    regard: Command, corpus: list[str], number: signal.Signals, status: int
) -> None:
    endless = (
        "training.updates=1000000 training.log_every=1 training.validate_every=1000000"
    )
    options = [*corpus, *sets(TRANSFORMER, endless), "--threads", "1"]
    with start_process("train", *options, "--out", "run") as command:
        assert command.stderr is not None
        assert command.stdout is not None
        next(line for line in command.stderr if line.startswith("update 3/"))
        command.send_signal(number)
        stderr = command.stderr.read()
        assert command.wait() == status
        assert command.stdout.read() == ""

    resume = "to resume: regard train --out run --resume --threads 1"
    assert f"stopped by {number.name}\n{resume}\n" in stderr
    assert "Traceback" not in stderr

    (checkpoint,) = Path("run/checkpoints").iterdir()
    updates = int(checkpoint.name.removeprefix("update-"))
    assert updates >= 3

    state = json.loads((checkpoint / "state.json").read_text())["state"]
    assert state["update"] == updates
    assert not list(Path("run").rglob("*.part*"))

    more = sets(f"training.updates={updates + 2} training.validate_with=1")
    done = regard("train", "--out", "run", "--resume", *more, "--threads", 1)
    assert f"resuming from update {updates}" in done.err
    assert f"training ended after {updates + 2} updates" in done.err
    assert regard("translate run", stdin="나는\n").out


def test_doctor_passes_on_this_machine(regard: Command) -> None:
    done = regard("doctor --threads 1")
    assert all(line.startswith("ok  ") for line in done.lines)
    assert done.err == ""
    assert sum("beside other work: " in line for line in done.lines) == (
        sys.platform == "linux"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1\n", "autogroup is on, so nice counts only within a session"),
        ("0\n", "autogroup is off"),
        (None, "nobody groups"),
    ],
)
def test_doctor_says_how_the_processor_is_shared_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, expected: str
) -> None:
    file = tmp_path / "sched_autogroup_enabled"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(doctor, "AUTOGROUP", file)
    works, line = doctor._scheduling()
    assert works
    assert line.startswith(f"beside other work: {expected}")

    is_told = "/proc/PID/autogroup" in line
    assert is_told == (content == "1\n"), "what to write is said where it helps"


def test_doctor_reports_what_is_broken_and_goes_on(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pydantic looks at the version of Python while settings are defined.
    doctor._learning()

    def unreadable() -> tuple[bool, str]:
        raise RuntimeError("not here")

    def full(**_: object) -> None:
        raise FULL

    monkeypatch.setattr(doctor, "_font", unreadable)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", full)
    monkeypatch.setattr(doctor.os, "sysconf", lambda _: 1, raising=False)
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    monkeypatch.setitem(
        sys.modules, "tomli", sys.modules.get("tomllib", sys.modules.get("tomli"))
    )
    monkeypatch.setattr(
        "regard.runtime.native.why_unavailable", lambda: "there is no C compiler"
    )
    done = regard.ended("doctor --threads 1")
    assert done.status == 1

    python, disk, font = (line for line in done.lines if line.startswith("BAD "))
    assert "Python 3.10 or newer is needed" in python
    assert disk.startswith("BAD disk: ")
    assert "No space left on device" in disk
    assert font == "BAD unreadable: RuntimeError: not here"
    assert (
        "ok  memory: 0.0 GiB free; close other programs, or train with --set"
        in done.out
    )
    assert "ok  no native kernels: there is no C compiler" in done.out
    assert done.lines[-1].startswith("ok  training: "), (
        "the checks after a broken one are made too"
    )

    def unknown(_: str) -> int:
        raise ValueError

    monkeypatch.setattr(doctor.os, "sysconf", unknown, raising=False)
    assert doctor._memory() == (True, "memory: unknown")


@pytest.mark.parametrize(
    ("device", "expected"), [("cuda", "GPU: H200 (--device cuda)"), ("mps", "mps)")]
)
def test_doctor_names_the_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: device == "mps")
    works, line = doctor._devices()
    assert works
    assert line.endswith(expected)
