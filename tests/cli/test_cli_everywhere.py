"""Every command: help, exit statuses, signals, pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import typer
from command import TRANSFORMER, Command, sets
from helpers.small_models import folder
from helpers.system_marks import posix

import regard as package
from regard.cli import doctor
from regard.cli.app import app
from regard.common.errors import DataError
from regard.common.reading import MAGIC
from regard.interchange.runtime import export
from regard.runtime import native

COMMANDS = """
align calibrate caption check compare demo doctor evaluate export import lab publish reproduce sample serve show train translate
walkthrough
"""
WITHOUT_DEVICE = (
    "check",
    "doctor",
    "export",
    "import",
    "lab",
    "publish",
    "reproduce",
    "sample",
    "serve",
)


def start_process(*arguments: object) -> subprocess.Popen[str]:
    """Run the command in a separate process."""
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


@pytest.fixture(scope="module")
def runtime_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model for processes that need not wait for PyTorch."""
    path = folder(tmp_path_factory.mktemp("model") / "run")
    export(path, path.with_suffix(".regard"))
    return path.with_suffix(".regard")


# Help and misuse


def test_help_lists_the_commands_and_their_options(regard: Command) -> None:
    shown = regard("--help")
    with start_process("--help") as process:
        assert process.communicate() == (shown.out, "")
    assert regard() == shown

    listed = re.findall(r"^  (\w+)", shown.out, re.MULTILINE)
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
        (FULL, 1, ["big: No space left on device; check the path, its permissions"]),
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
    load = Mock(side_effect=problem)
    monkeypatch.setattr("regard.pipeline.load_translator", load)
    done = regard.ended(f"translate {transformer}")
    assert (done.status, done.out) == (status, "")
    for cause, expected in zip(done.causes, causes, strict=True):
        assert cause.startswith(expected)
    assert "Traceback" not in done.err


# Pipes


def test_lines_flow_through_a_pipe_in_utf8(regard: Command, runtime_file: Path) -> None:
    text = "나는 집에 간다\n🙂 ✓\n"
    options = ["translate", runtime_file, "--format", "jsonl", "--threads", 1]
    command = [sys.executable, "-X", "utf8=0", "-m", "regard", *map(str, options)]
    done = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    here = regard(*options, stdin=text)
    assert (done.stdout.decode(), done.stderr.decode()) == (here.out, here.err)
    assert "🙂" in here.out


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
    ("closed", "message"),
    [(">&-", "regard: Bad file descriptor"), ("<&- >&- 2>&-", "")],
)
def test_closed_streams_give_no_traceback(
    runtime_file: Path, closed: str, message: str
) -> None:
    """Nor does a file get the number of one, to be written into by whoever prints."""
    command = f"'{sys.executable}' -m regard doctor '{runtime_file}' {closed}"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == bool(message)


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

    file = Path(f"{name}.ko")
    file.write_text("나는 집에 간다\n", encoding="utf-8")
    regard("translate", transformer, file, "--output", f"{name}.en")
    assert Path(f"{name}.en").read_bytes().count(b"\n") == 1

    files = ["--source", file, "--target", file, *corpus[4:]]
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
def test_an_interrupted_training_is_saved_and_resumes(
    regard: Command, corpus: list[str]
) -> None:
    endless = (
        "training.updates=1000000 training.log_every=1 training.validate_every=1000000"
    )
    options = [*corpus, *sets(TRANSFORMER, endless), "--threads", "1"]
    with start_process("train", *options, "--out", "run") as command:
        assert command.stderr is not None
        assert command.stdout is not None
        next(line for line in command.stderr if line.startswith("update 3/"))
        command.send_signal(signal.SIGTERM)
        stderr = command.stderr.read()
        assert command.wait() == 143
        assert command.stdout.read() == ""

    resume = "to resume: regard train --out run --resume --threads 1"
    assert f"stopped by SIGTERM\n{resume}\n" in stderr
    assert "Traceback" not in stderr

    (checkpoint,) = Path("run/checkpoints").iterdir()
    updates = int(checkpoint.name.removeprefix("update-"))
    assert updates >= 3
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
    (extras,) = (line for line in done.lines if line.startswith("ok  extras: "))
    assert "tables" in extras


def test_doctor_names_autogroup_only_if_it_holds_up_and_names_the_gpu(
    regard: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "sched_autogroup_enabled"
    monkeypatch.setattr(doctor, "AUTOGROUP", file)
    load = [100.0 * (os.cpu_count() or 1)]
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: load, raising=False)
    assert not doctor._is_held_up(), "nobody groups"
    file.write_text("0\n")
    assert not doctor._is_held_up(), "it is off"
    file.write_text("1\n")
    assert doctor._is_held_up()
    assert "autogroup is on" in regard("doctor --threads 1").out
    load[0] = 0.0
    assert not doctor._is_held_up(), "nothing else is running"
    assert "beside other work" not in regard("doctor --threads 1").out

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert doctor._devices() == (True, "GPU: Apple (--device mps)")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    assert doctor._devices() == (True, "GPU: H200 (--device cuda)")


def test_doctor_reports_what_is_broken_and_goes_on(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pydantic looks at the version of Python while settings are defined.
    doctor._learning()
    why = "there is no C compiler"
    toml = sys.modules.get("tomllib", sys.modules.get("tomli"))
    monkeypatch.setattr(doctor, "_font", Mock(__name__="font", side_effect=KeyError))
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", Mock(side_effect=FULL))
    monkeypatch.setattr(doctor.os, "sysconf", lambda _: 1, raising=False)
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    monkeypatch.setitem(sys.modules, "tomli", toml)
    monkeypatch.setattr("regard.runtime.native.why_unavailable", lambda: why)
    done = regard.ended("doctor --threads 1")
    assert done.status == 1

    python, disk, font = (line for line in done.lines if line.startswith("BAD "))
    assert "Python 3.10 or newer is needed" in python
    assert disk.startswith("BAD disk: ")
    assert "No space left on device" in disk
    assert font == "BAD font: KeyError: "
    memory = "ok  memory: 0.0 GiB free; close other programs, or train with --set"
    assert memory in done.out
    assert f"ok  no native kernels: {why}" in done.out
    assert done.lines[-1].startswith("ok  training: "), (
        "the checks after a broken one are made too"
    )

    unknown = Mock(side_effect=ValueError)
    monkeypatch.setattr(doctor.os, "sysconf", unknown, raising=False)
    assert doctor._memory() == (True, "memory: unknown")
