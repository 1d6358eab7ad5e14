"""Files translated on a Ray cluster: the same bytes as by one process, whatever is killed
meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_plugins
from helpers import small_models
from helpers.forgotten_plugins import forgotten_plugins
from helpers.system_marks import linux
from helpers.time_limits import wait_until

import regard as regard_package
from regard.common.plugins import import_named
from regard.common.processes import module_command

pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[scale]'")
pytestmark = [pytest.mark.system, pytest.mark.slow, linux]
Run = Callable[..., str]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sentences of many lengths, with empty lines among them."""
    file = tmp_path_factory.mktemp("lines") / "lines.ko"
    words = " ".join(small_models.SENTENCES).split()
    texts = [" ".join(words[i % 11 : i % 11 + i % 7]) for i in range(COUNT)]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def expected(
    model: Path, lines: Path, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    """Translate with one process."""
    output = tmp_path_factory.mktemp("expected") / "lines.en"
    arguments = ["translate", str(model), str(lines), "--output", str(output)]
    command = module_command("regard.translate_stdin", *arguments)
    subprocess.run([*command, *map(str, SEARCH)], check=True)
    return output.read_bytes()


SEARCH = ("--beam", 8, "--chunk", 100, "--threads", 1)
COUNT = 12_000  # lines


def _lines_done(output: Path) -> int:
    try:
        return int(json.loads(Path(f"{output}.part.json").read_text())["mark"]["lines"])
    except (OSError, ValueError):
        return 0


def _wait_for(
    process: subprocess.Popen[str], condition: Callable[[], Any], seconds: float = 120
) -> Any:
    def check() -> Any:
        value = condition()

        assert value or process.poll() is None, process.communicate()[1][-3000:]

        return value

    return wait_until(check, "the command gets there", seconds)


def test_a_killed_worker_changes_nothing_and_standard_output_has_only_results(
    start: Start,
    workers: Callable[[int, str], list[int]],
    model: Path,
    lines: Path,
    expected: bytes,
) -> None:
    process = start(
        "translate", model, lines, "--cluster", "local", "--workers", 2, *SEARCH
    )
    worker, *_ = _wait_for(
        process, lambda: workers(process.pid, "ray::translate_chunk")
    )
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=240)

    assert process.returncode == 0, err[-3000:]
    assert out.encode() == expected
    assert "A worker died" in err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)]
)
def test_a_command_that_was_ended_is_gone_on_with(  # noqa: PLR0913 - fixtures
    start: Start,
    regard: Run,
    model: Path,
    lines: Path,
    expected: bytes,
    tmp_path: Path,
    number: signal.Signals,
    status: int,
) -> None:
    output = tmp_path / "out"
    cluster = ("--output", output, "--cluster", "local", "--workers", 2)
    options = ("translate", model, lines, *cluster, *SEARCH)
    process = start(*options)
    _wait_for(process, lambda: _lines_done(output) > 400)
    os.kill(process.pid, number)
    process.communicate(timeout=60)

    assert process.returncode == status
    assert not output.exists()
    assert 400 < _lines_done(output) < COUNT
    assert "continuing after line" in regard(*options, "--resume")
    assert output.read_bytes() == expected


def test_machines_import_the_plugins_that_the_command_names(
    regard: Run, one_machine: str, tmp_path: Path
) -> None:
    plugin = test_plugins.write(tmp_path / "own.py")
    with forgotten_plugins():
        import_named([str(plugin)])
        made = test_plugins.folder(tmp_path / "made")
    lines = tmp_path / "lines.ko"
    lines.write_text("".join(f"{line}\n" for line in small_models.SENTENCES))
    words = ("translate", made, lines, "--plugin", plugin, "--output")
    regard(*words, tmp_path / "here")
    regard(*words, tmp_path / "there", "--cluster", one_machine)

    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_workers_import_nothing_from_the_current_folder(
    start: Start,
    model: Path,
    lines: Path,
    expected: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(regard_package.__file__).parents[1]))
    for name in ("torch", "numpy", "json", "pyarrow", "yaml", "msgpack", "functools"):
        source = "open(__file__ + '.imported', 'w')\nraise SystemExit\n"
        (tmp_path / f"{name}.py").write_text(source)

    monkeypatch.chdir(tmp_path)
    command = module_command(
        "regard.translate_stdin", "translate", str(model), str(lines), "--output", "out"
    )
    process = start("--cluster", "local", *SEARCH, command=command)
    _, err = process.communicate(timeout=240)

    assert process.returncode == 0, err[-3000:]
    assert (tmp_path / "out").read_bytes() == expected
    assert not list(tmp_path.glob("*.imported"))


def test_a_lost_machine_changes_nothing(
    start: Start,
    two_machines: tuple[str, Callable[[], None]],
    model: Path,
    lines: Path,
    expected: bytes,
    tmp_path: Path,
) -> None:
    output = tmp_path / "out"
    address, lose = two_machines
    options = ("--output", output, "--cluster", address)
    process = start("translate", model, lines, *options, *SEARCH)
    _wait_for(process, lambda: _lines_done(output) > 1000)
    lose()
    _, err = process.communicate(timeout=240)

    assert process.returncode == 0, err[-3000:]
    assert output.read_bytes() == expected


def test_bad_input_is_refused_in_sentences(
    refused: Run, model: Path, lines: Path, tmp_path: Path
) -> None:
    def translate(cluster: str, file: object = lines) -> str:
        options = ("--output", tmp_path / "out", "--cluster", cluster)
        return refused("translate", model, file, *options)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    assert f"--cluster {address}: no cluster answers there" in translate(address)
    assert "wanted local, or HOST:PORT" in translate("here")
    assert "give the name of a file" in translate("local", "-")
    assert not list(tmp_path.iterdir())


def test_another_version_on_a_machine_is_refused(
    start: Start,
    two_machines: tuple[str, Callable[[], None]],
    model: Path,
    lines: Path,
    tmp_path: Path,
) -> None:
    change = "from regard.common import version; version.__version__ = '9.9'; "
    program = change + "from regard.translate_stdin import main; main()"
    options = ("--output", tmp_path / "out", "--cluster", two_machines[0])
    command = (sys.executable, "-c", program)
    process = start("translate", model, lines, *options, command=command)
    _, err = process.communicate(timeout=200)

    assert process.returncode == 2, err[-2000:]
    assert "wanted regard 9.9 as here" in err
    assert not list(tmp_path.iterdir())
