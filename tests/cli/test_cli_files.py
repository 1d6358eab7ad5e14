"""Bulk translation: however it is interrupted and resumed, the result is that of an uninterrupted
run.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import Command
from small import SENTENCES, folder
from systems import posix

import regard as package
from regard.pipeline.bulk import OutputMark

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(package.__file__).parent.parent),
}
CHUNK = 5
PAUSING = """
import os, signal, sys
from regard.pipeline.bulk.resumable_output import ResumableOutput
from regard.cli import main
write, at, stage = ResumableOutput._write_journal, int(sys.argv[1]), sys.argv[2]
def pause(self, mark, previous):
    if stage == "before" and mark.chunks == at:
        os.kill(os.getpid(), signal.SIGSTOP)
    write(self, mark, previous)
    if stage == "after" and mark.chunks == at:
        os.kill(os.getpid(), signal.SIGSTOP)
ResumableOutput._write_journal = pause
main(sys.argv[3:])
"""
"""The command, which stops itself before or after it notes that a chunk is written."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model folder with random weights; its translations are long and meaningless."""
    return folder(tmp_path_factory.mktemp("random") / "run", end=3.0, score_threshold=None)


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file of many chunks, the last one incomplete."""
    rng = random.Random(3)
    words = " ".join(SENTENCES).split()
    lines = (" ".join(rng.choices(words, k=rng.randint(0, 5))) for _ in range(40 * CHUNK + 2))
    path = tmp_path_factory.mktemp("long") / "long.ko"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def whole(run: Path, long: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the output of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "out"
    _run_to_end(*_arguments(run, long, out))
    assert len({json.loads(line)["text"] for line in out.read_bytes().splitlines()}) > 30, (
        "a test of order needs lines that differ"
    )
    return out.read_bytes()


def _arguments(run: Path, file: object, output: object, *more: object) -> list[str]:
    arguments = [
        "translate",
        run,
        file,
        "--output",
        output,
        "--beam",
        1,
        "--chunk",
        CHUNK,
        "--format",
        "jsonl",
        *more,
    ]
    return list(map(str, arguments))


def _start_process(
    *arguments: str,
    before: Callable[[], None] | None = None,
    start: tuple[str, ...] = ("-m", "regard"),
) -> subprocess.Popen[str]:
    line = [sys.executable, *start, *arguments]
    return subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, preexec_fn=before
    )


def _run_to_end(*arguments: str) -> str:
    """Return the stderr of a run that must succeed; a separate process is faster, since it checks
    no annotations.
    """
    with _start_process(*arguments) as command:
        _, stderr = command.communicate()
    assert command.returncode == 0, stderr
    return stderr


def _mark(output: Path) -> OutputMark:
    """Return the mark of an unfinished output."""
    with contextlib.suppress(FileNotFoundError):
        return OutputMark(
            **json.loads(output.with_name(output.name + ".part.json").read_text())["mark"]
        )
    return OutputMark()


@contextlib.contextmanager
def _paused(chunks: int, *arguments: str, stage: str = "after") -> Iterator[subprocess.Popen[str]]:
    """Start the command and yield it once it stands still: before or after it notes that so many
    chunks are done.
    """
    with _start_process(*arguments, start=("-c", PAUSING, str(chunks), stage)) as command:
        _, status = os.waitpid(command.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "the command ended before that"
        yield command


def _file_names() -> list[str]:
    return sorted(path.name for path in Path.cwd().iterdir())


# Interrupted and resumed


@posix
@pytest.mark.parametrize(
    "kills",
    [
        [(2, "before"), (30, "after")],
        pytest.param([(1, "after"), (15, "before"), (30, "after")], marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_any_chunk_resumes_to_the_same_result(
    regard: Command, run: Path, long: Path, whole: bytes, kills: list[tuple[int, str]]
) -> None:
    output = Path("out")
    for chunks, stage in kills:
        arguments = _arguments(run, long, output, "--resume")
        with _paused(chunks, *arguments, stage=stage) as command:
            command.kill()
        assert command.returncode == -signal.SIGKILL
        assert _mark(output).chunks == chunks - (stage == "before")
        assert not output.exists()
    stderr = regard(*_arguments(run, long, output, "--resume")).err
    assert f"continuing after line {_resumed_chunk(30, stderr) * CHUNK:,}\n" in stderr
    assert output.read_bytes() == whole
    assert _file_names() == ["out"]


def _resumed_chunk(chunks: int, stderr: str) -> int:
    chunks_done = (
        int(stderr.split("continuing after line ")[1].split("\n")[0].replace(",", "")) // CHUNK
    )
    assert chunks_done >= chunks
    return chunks_done


@posix
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_run_stopped_by_a_signal_prints_how_to_resume(
    regard: Command, run: Path, long: Path, whole: bytes, number: signal.Signals, status: int
) -> None:
    output = Path("out")
    with _paused(5, *_arguments(run, long, output)) as command:
        command.send_signal(number)
        command.send_signal(signal.SIGCONT)
        assert command.stderr is not None
        stderr = command.stderr.read()
        assert command.wait() == status, stderr
    done = _mark(output).lines
    assert (
        f"out.part holds lines 1 to {done}; the same command with --resume continues after them\n"
        in stderr
    )
    assert "Traceback" not in stderr
    assert _file_names() == ["out.part", "out.part.json"]
    assert (
        f"continuing after line {done}\n" in regard(*_arguments(run, long, output, "--resume")).err
    )
    assert output.read_bytes() == whole


@pytest.fixture
def stopped(regard: Command, run: Path, long: Path) -> Path:
    """Leave an output with three finished chunks."""
    output = Path("out")
    lines = long.read_bytes().splitlines(keepends=True)[: 3 * CHUNK]
    Path("long.ko").write_bytes(long.read_bytes())
    regard.ended(*_arguments(run, "-", output), stdin=b"".join(lines) + b"\xff\n")
    assert _mark(output).lines == 3 * CHUNK
    return output


def test_a_bad_line_is_named_and_earlier_results_are_kept(
    regard: Command, run: Path, long: Path, whole: bytes, stopped: Path
) -> None:
    bad = b"".join(long.read_bytes().splitlines(keepends=True)[: 4 * CHUNK]) + b"a \xff\n"
    done = regard.ended(*_arguments(run, "-", stopped, "--resume"), stdin=bad)
    assert done.status == 1
    assert done.causes == [
        f"standard input: line {4 * CHUNK + 1} is not UTF-8 (byte 0xFF, the line's byte number 3); save the file as UTF-8"
    ]
    assert f"out.part holds lines 1 to {4 * CHUNK}; the same command" in done.err
    Path("bad.ko").write_bytes(bad)
    because = f"bad.ko: line {4 * CHUNK + 1} is not UTF-8"
    # Before any line is translated.
    regard.fails(*_arguments(run, "bad.ko", "other"), status=1, because=because)
    regard(*_arguments(run, long, stopped, "--resume"))
    assert stopped.read_bytes() == whole


def test_a_resumed_file_may_be_longer_and_compressed(
    regard: Command, run: Path, long: Path, whole: bytes, stopped: Path
) -> None:
    Path("long.ko.gz").write_bytes(gzip.compress(long.read_bytes().replace(b"\n", b"\r\n")))
    regard(*_arguments(run, "long.ko.gz", stopped, "--resume"))
    assert stopped.read_bytes() == whole


def test_resume_without_an_earlier_run_starts_one(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    stderr = regard(*_arguments(run, long, "out", "--resume")).err
    assert stderr == "nothing to resume: starting at line 1\n"
    assert Path("out").read_bytes() == whole


def test_an_earlier_result_stays_until_the_next_is_complete(
    regard: Command, run: Path, stopped: Path, whole: bytes
) -> None:
    stopped.write_bytes(b"earlier")
    regard(*_arguments(run, "long.ko", stopped, "--resume"))
    assert stopped.read_bytes() == whole


def test_interrupted_work_is_not_overwritten_without_resume(
    regard: Command, run: Path, whole: bytes, stopped: Path
) -> None:
    because = (
        f"--output out: out.part holds lines 1 to {3 * CHUNK} of interrupted work; add --resume"
    )
    regard.fails(*_arguments(run, "long.ko", stopped), status=2, because=because)
    Path("out.part").unlink()
    assert regard(*_arguments(run, "long.ko", stopped)).err == ""
    assert (stopped.read_bytes(), _file_names()) == (whole, ["long.ko", "out"])


# Changed options, models and lines are refused


def test_changed_options_are_refused_all_at_once(regard: Command, run: Path, stopped: Path) -> None:
    changed = [
        "--resume",
        "--beam",
        2,
        "--nbest",
        2,
        "--format",
        "text",
        "--alignments",
        "--chunk",
        CHUNK + 1,
    ]
    causes = [
        "--resume: option --nbest: was 1, is 2",
        "--resume: option --alignments: was False, is True",
        "--resume: option --beam: was 1, is 2",
        "--resume: option --format: was jsonl, is text",
        f"--resume: option --chunk: was {CHUNK}, is {CHUNK + 1}",
        "out.part was written with other options, models or files: give the same again, or another --output",
    ]
    regard.fails(*_arguments(run, "long.ko", stopped, *changed), status=2, because=causes)


def test_another_model_is_refused(
    regard: Command, run: Path, stopped: Path, tmp_path: Path
) -> None:
    other_model = folder(tmp_path / "other", decoder="recurrent")
    done = regard.ended(*_arguments(other_model, "long.ko", stopped, "--resume"))
    assert done.status == 2
    assert [cause.split(":")[:2] for cause in done.causes[:-1]] == [
        ["--resume", f" file {name}"] for name in ("config.json", "model.safetensors")
    ]
    same = Path(shutil.copytree(run, "same"))
    (same / "README.md").write_text("a description of the model changes nothing")
    regard(*_arguments(same, "long.ko", stopped, "--resume"))


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a word": lambda lines: [lines[0], b"I go\n", *lines[2:]],
    "a line more before": lambda lines: [b"\n", *lines],
    "too few lines": lambda lines: lines[: 3 * CHUNK - 1],
    "no lines": lambda lines: lines[:1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_lines_are_refused(
    regard: Command, run: Path, long: Path, stopped: Path, change: str
) -> None:
    Path("long.ko").write_bytes(
        b"".join(CHANGES[change](long.read_bytes().splitlines(keepends=True)))
    )
    because = f"long.ko: lines 1 to {3 * CHUNK} are translated already, and have changed since; give the file"
    regard.fails(*_arguments(run, "long.ko", stopped, "--resume"), status=1, because=because)


@pytest.mark.parametrize(
    "harm",
    [lambda data: data[:-1], lambda data: b"x" + data[1:], lambda data: data[:0]],
    ids=["cut", "other", "empty"],
)
def test_a_damaged_part_file_is_refused(
    regard: Command, run: Path, stopped: Path, harm: Callable[[bytes], bytes]
) -> None:
    Path("out.part").write_bytes(harm(Path("out.part").read_bytes()))
    because = "out.part: damaged, or not what out.part.json describes; delete both"
    regard.fails(*_arguments(run, "long.ko", stopped, "--resume"), status=1, because=because)


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "{",
        "[]",
        '{"mark": {"chunk": 1}, "conditions": {}}',
        '{"format": 2, "mark": {}, "conditions": {}}',
    ],
)
def test_a_damaged_journal_is_refused(
    regard: Command, run: Path, stopped: Path, journal: str
) -> None:
    Path("out.part.json").write_text(journal)
    because = "out.part.json: damaged, not a journal; delete it and begin again without --resume"
    regard.fails(*_arguments(run, "long.ko", stopped, "--resume"), status=1, because=because)
    regard.fails(*_arguments(run, "long.ko", stopped), status=1, because=because)


def test_only_a_regular_file_can_be_resumed(regard: Command, run: Path) -> None:
    because = (
        "--resume: only an --output that is a regular file can be continued; give it as before"
    )
    regard.fails("translate", run, "--resume", stdin=b"I\n", status=2, because=because)
    regard.fails(
        *_arguments(run, "-", os.devnull, "--resume"), stdin=b"I\n", status=2, because=because
    )


# The disk


@posix
def test_a_full_disk_keeps_finished_chunks(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    import resource  # not on Windows

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    output = Path("out")
    with _start_process(*_arguments(run, long, output), before=limit_file_size) as command:
        assert command.stderr is not None
        stderr = command.stderr.read()
        assert command.wait() == 1
    mark = _mark(output)
    assert 0 < mark.written == Path("out.part").stat().st_size <= 5_000
    assert (
        "regard: out.part: cannot be written (File too large); make room on the disk, or" in stderr
    )
    assert f"out.part holds lines 1 to {mark.lines}; the same command with --resume" in stderr
    assert _file_names() == ["out.part", "out.part.json"]
    regard(*_arguments(run, long, output, "--resume"))
    assert output.read_bytes() == whole


def test_an_output_can_be_compressed(regard: Command, run: Path, long: Path, whole: bytes) -> None:
    regard(*_arguments(run, long, "out.gz"))
    assert gzip.decompress(Path("out.gz").read_bytes()) == whole


def test_workers_without_a_cluster_are_refused(regard: Command, run: Path, long: Path) -> None:
    because = "--workers 2: threads of one process translate a file; say how many with --threads, or translate on a"
    regard.fails(*_arguments(run, long, "out", "--workers", 2), status=2, because=because)


# Warnings


def test_warnings_name_the_line_in_the_file(regard: Command, run: Path) -> None:
    lines = ["I go"] * 10
    lines[4] = "나는 집에 " * 30
    lines[7] = "我们今天去公园吧"
    Path("file").write_text("\n".join(lines), encoding="utf-8")
    done = regard("translate", run, "file", "--chunk", 3, "--beam", 1)
    *named, last = done.warnings
    assert all(warning.startswith("file, line ") for warning in named)
    assert last.startswith("file: 1 of 10 lines is doubtful: ")
    (long,) = (warning for warning in named if "a sentence of " in warning)
    (note,) = (warning for warning in named if "most characters" in warning)
    assert long.startswith("file, line 5: a sentence of ")
    assert note.startswith("file, line 8: most characters were never seen")


def test_unknown_lines_before_the_interruption_count(regard: Command, run: Path) -> None:
    foreign = "我们今天去公园吧\n" * 4
    regard.ended(*_arguments(run, "-", "out", "--chunk", 2), stdin=foreign.encode() + b"\xff")
    assert (_mark(Path("out")).known, _mark(Path("out")).unknown) == (0, 4)
    done = regard.ended(
        *_arguments(run, "-", "out", "--chunk", 2, "--resume"), stdin=foreign.encode()
    )
    assert done.causes[0].startswith("standard input: no line is in a script")
    assert _file_names() == []


# Streams


@pytest.fixture
def named_pipe(tmp_path: Path) -> Path:
    """Make a named pipe, as a shell does for <(…)."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@posix
@pytest.mark.parametrize("source", ["named pipe", "standard input"])
def test_a_pipe_is_answered_before_more_lines_come(
    regard: Command, run: Path, named_pipe: Path, source: str
) -> None:
    file = str(named_pipe) if source == "named pipe" else "-"
    command = [sys.executable, "-m", "regard", "translate", str(run), file, "--chunk", "2"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with named_pipe.open("wb", buffering=0) if file != "-" else process.stdin as pipe:
            for _ in range(3):
                pipe.write(b"I go\nI go\n")
                pipe.flush()
                assert process.stdout.readline() == process.stdout.readline() != b""
        assert process.wait() == 0


@posix
def test_a_command_that_waits_for_a_pipe_can_be_stopped(run: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", str(run), "-", "--chunk", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"I go\n")
        process.stdin.flush()
        assert process.stdout.readline() != b""
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_json_lines_are_checked_before_work_begins(regard: Command, run: Path) -> None:
    Path("in.jsonl").write_text('{"text": "I go"}\n' * 7 + '{"txt": "I go"}\n')
    because = 'in.jsonl, line 8: wanted a JSON object with the key text, such as {"text": …}'
    arguments = _arguments(run, "in.jsonl", "out", "--input", "jsonl")
    regard.fails(*arguments, status=1, because=because)
    constraints = ['"terms": ["", "go"]', '"forbid": ["go"], "prefix": "we go"', '"terms": ["go"]']
    Path("in.jsonl").write_text(
        '{"text": "I go"}\n' * 7
        + "".join(f'{{"text": "I", {constraint}}}\n' for constraint in constraints)
    )
    causes = [
        "in.jsonl, line 8: term '': is empty; give a word",
        "in.jsonl, line 9: forbid 'go': is also required",
    ]
    regard.fails(*arguments, status=1, because=causes)
