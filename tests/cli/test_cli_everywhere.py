"""Every command: help, exit statuses, signals, pipes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from command import TRANSFORMER, Command, sets
from systems import posix

import regard as package
from regard.cli.app import app
from regard.common.errors import DataError
from regard.common.reading import MAGIC
from regard.model_folder import load_tensors
from regard.runtime import native

COMMANDS = [
    "align",
    "caption",
    "compare",
    "demo",
    "doctor",
    "evaluate",
    "export",
    "import",
    "lab",
    "sample",
    "serve",
    "show",
    "train",
    "translate",
    "walkthrough",
]


def run_process(
    *arguments: object, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a separate process."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, env=_environment(**environment), check=False
    )


def start_process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
    )


def _environment(**more: str) -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(package.__file__).parent.parent),
        **more,
    }


# Help and misuse


def test_help_lists_the_commands() -> None:
    done = run_process("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    listed = [
        line.split()[0]
        for line in lines[lines.index("Commands:") + 1 :]
        if line.startswith("  ") and line.split()
    ]
    assert [name for name in listed if name in COMMANDS] == COMMANDS
    assert len(app.registered_commands) == len(COMMANDS)


def test_no_arguments_print_the_help(regard: Command) -> None:
    assert regard() == regard("--help")


def test_the_version_is_printed(regard: Command) -> None:
    assert regard("--version").out == f"regard {package.__version__}\n"
    assert run_process("--version").stdout.decode() == f"regard {package.__version__}{os.linesep}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(regard: Command, command: str) -> None:
    done = regard(command, "--help")
    assert done.err == ""
    options = {word for line in done.lines for word in line.split()[:1] if word.startswith("--")}
    assert {"--threads", "--quiet", "--debug"} <= options
    assert (
        command in ("doctor", "export", "import", "lab", "sample", "serve")
        or {"--device", "--seed"} <= options
    )


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["trian"], "no such command 'trian'. Did you mean 'train'? – see `regard --help`"),
        (["--verbose"], "no such option: --verbose"),
        (["translate"], "missing argument"),
        (["translate", "run", "--beam"], "--beam"),
        (["doctor", "--threads", "none"], "--threads"),
        (["doctor", "--threads", "99999"], "--threads"),
    ],
)
def test_misuse_is_reported_in_a_sentence(
    regard: Command, arguments: list[str], because: str
) -> None:
    done = regard.fails(*arguments, status=2, because=because)
    assert done.out == ""
    assert done.err.count("\n") == 1


def test_the_demonstration_checks_its_options_first(regard: Command) -> None:
    regard.fails(
        "demo", "--device", "gpu", status=2, because="--device gpu: wanted auto, cpu, cuda or mps"
    )


# Errors


def test_debug_adds_the_traceback_and_changes_nothing_else(regard: Command) -> None:
    plain = regard.fails(
        "translate", "no", stdin=b"a\n", status=1, because="no: no such folder; give"
    )
    debug = regard.ended("translate", "no", "--debug", stdin=b"a\n")
    assert (debug.status, debug.causes) == (plain.status, plain.causes)
    assert "Traceback (most recent call last)" in debug.err
    assert "Traceback" not in regard.ended("translate", "no", stdin=b"a\n").err


@pytest.mark.parametrize(
    ("problem", "status", "causes"),
    [
        (DataError("one", "two"), 1, ["one", "two"]),
        (KeyboardInterrupt(), 130, ["stopped"]),
        (
            OSError(28, "No space left on device", "big"),
            1,
            [
                "big: No space left on device; check the path, its permissions and the free disk space"
            ],
        ),
        (
            ZeroDivisionError("by zero"),
            1,
            [
                "internal error (ZeroDivisionError: by zero); run again with --debug for the traceback, and report it"
            ],
        ),
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
    done = regard.ended("translate", transformer)
    assert (done.status, done.out, done.causes) == (status, "", causes)
    assert "Traceback" not in done.err


# Pipes


def test_lines_flow_through_a_pipe_in_utf8(regard: Command, transformer: Path, data: Path) -> None:
    text = (data / "test.ko").read_bytes()
    options = ["--format", "jsonl", "--threads", 1]
    done = run_process(
        "translate", transformer, *options, stdin=text, PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    here = regard("translate", transformer, *options, stdin=text)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, here.out, here.err)
    assert not done.stdout.isascii()


def test_a_closed_pipe_ends_the_command_quietly(transformer: Path, data: Path) -> None:
    with start_process(
        "translate", transformer, data / "test.ko", "--beam", 1, "--threads", 1
    ) as command:
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
        (">&-", 1, "regard: Bad file descriptor"),
        pytest.param("2>&-", 0, "", marks=pytest.mark.slow),
        ("<&- >&- 2>&-", 1, ""),
    ],
)
def test_closed_streams_give_no_traceback(
    transformer: Path, closed: str, status: int, said: str
) -> None:
    """Nor does a file get the number of one, to be written into by whoever prints."""
    command = f"'{sys.executable}' -m regard doctor '{transformer}' {closed}"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=_environment(), check=False
    )
    assert (done.returncode, done.stderr[: len(said)], "Traceback" in done.stderr) == (
        status,
        said,
        False,
    )
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
    assert subprocess.run(command, env=_environment(), check=False).returncode == 0


@posix
def test_names_that_are_not_utf8_give_sentences(
    regard: Command, transformer: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsdecode(b"b\xff")
    shutil.copytree(transformer, name)
    regard.fails(
        "translate",
        name,
        status=1,
        because="the name is not UTF-8, and weights cannot be read by such names",
    )
    Path(f"{name}.ko").write_text("나는 집에 간다\n", encoding="utf-8")
    regard("translate", transformer, f"{name}.ko", "--output", f"{name}.en")
    assert len(Path(f"{name}.en").read_text(encoding="utf-8").splitlines()) == 1
    because = "a name that is not UTF-8 cannot be written or shown here; rename the file or folder"
    done = regard.ended(
        "train", "--source", f"{name}.ko", "--target", f"{name}.ko", *corpus[4:], "--out", "run"
    )
    assert because in done.causes[-1]
    monkeypatch.setattr(native, "_load", lambda: "there is no C compiler")
    Path("x.regard").write_bytes(MAGIC)
    because = (
        "the C library, which translates runtime files, cannot be used here: there is no C compiler"
    )
    regard.fails("translate", "x.regard", status=1, because=because)


def test_messages_name_commands_that_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for path in Path(package.__file__).parent.rglob("*.py"):
        for name, second in re.findall(
            r"`regard ([a-z]+)(?: ([a-z]+))?", path.read_text(encoding="utf-8")
        ):
            assert name in commands, (path, name)
            inner = getattr(commands[name], "commands", None)
            assert inner is None or not second or second in inner, (path, name, second)
            assert not (name == "serve" and second), (path, name, second)


# Signals


@posix
@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_an_interrupted_training_is_saved_and_resumes(
    regard: Command, corpus: list[str], number: signal.Signals, status: int
) -> None:
    endless = [
        *TRANSFORMER,
        "training.updates=1000000",
        "training.log_every=1",
        "training.validate_every=1000000",
    ]
    with start_process("train", *corpus, *sets(endless), "--out", "run", "--threads", 1) as command:
        assert command.stderr is not None
        stderr = next(line for line in command.stderr if line.startswith("update 3/"))
        command.send_signal(number)
        stderr += command.stderr.read()
        assert command.wait() == status
        assert command.stdout is not None
        assert command.stdout.read() == ""
    assert (
        f"stopped by {number.name}\nto resume: regard train --out run --resume --threads 1\n"
        in stderr
    )
    assert "Traceback" not in stderr
    (checkpoint,) = Path("run/checkpoints").iterdir()
    updates = int(checkpoint.name.removeprefix("update-"))
    assert updates >= 3
    assert json.loads((checkpoint / "state.json").read_text())["state"]["update"] == updates
    assert not [path for path in Path("run").rglob("*") if path.suffix in (".part", ".partial")]
    more = sets([f"training.updates={updates + 2}", "training.validate_with=1"])
    done = regard("train", "--out", "run", "--resume", *more, "--threads", 1)
    assert f"resuming from update {updates}" in done.err
    assert f"training ended after {updates + 2} updates" in done.err
    assert load_tensors(Path("run/model.safetensors"))
    assert regard("translate", "run", stdin="나는\n".encode()).out


def test_doctor_passes_on_this_machine(regard: Command) -> None:
    done = regard("doctor", "--threads", 1)
    assert all(line.startswith("ok  ") for line in done.lines)
    assert done.err == ""
    assert sum("beside other work: " in line for line in done.lines) == (sys.platform == "linux")


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
    import regard.cli.doctor as doctor

    file = tmp_path / "sched_autogroup_enabled"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(doctor, "AUTOGROUP", file)
    works, line = doctor._scheduling()
    assert works
    assert line.startswith(f"beside other work: {expected}")
    assert ("/proc/PID/autogroup" in line) == (content == "1\n"), (
        "what to write is said where it helps"
    )


def test_doctor_reports_what_is_broken_and_goes_on(
    regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import regard.cli.doctor as doctor

    doctor._learning()  # pydantic looks at the version of Python while settings are defined

    def unreadable() -> tuple[bool, str]:
        raise RuntimeError("not here")

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor, "_font", unreadable)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", full)
    monkeypatch.setattr(doctor.os, "sysconf", lambda _: 1, raising=False)
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    monkeypatch.setitem(sys.modules, "tomli", sys.modules.get("tomllib", sys.modules.get("tomli")))
    monkeypatch.setattr("regard.runtime.native.why_unavailable", lambda: "there is no C compiler")
    done = regard.ended("doctor", "--threads", 1)
    assert done.status == 1
    bad = [line for line in done.lines if line.startswith("BAD ")]
    assert [line.split(":")[0] for line in bad] == [
        bad[0].split(":")[0],
        "BAD disk",
        "BAD unreadable",
    ]
    assert "Python 3.10 or newer is needed" in bad[0]
    assert "No space left on device" in bad[1]
    assert bad[2] == "BAD unreadable: RuntimeError: not here"
    assert (
        "ok  memory: 0.0 GiB free; close other programs, or train with --set batching.tokens=1024"
        in done.lines
    )
    assert any(
        line.startswith("ok  no native kernels: there is no C compiler") for line in done.lines
    )
    assert done.lines[-1].startswith("ok  training: "), "the checks after a broken one are made too"

    def unknown(_: str) -> int:
        raise ValueError

    monkeypatch.setattr(doctor.os, "sysconf", unknown, raising=False)
    assert doctor._memory() == (True, "memory: unknown")


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, False, "GPU: H200 (--device cuda)"), (False, True, "mps)")]
)
def test_doctor_names_the_gpu(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, expected: str
) -> None:
    import torch

    import regard.cli.doctor as doctor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    works, line = doctor._devices()
    assert works
    assert line.endswith(expected)
