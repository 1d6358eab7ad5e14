"""Bulk translation: however it is interrupted and resumed, the result is that of an uninterrupted
run.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.small_models import SENTENCES, folder
from helpers.system_marks import posix

import regard as package
from regard.interchange.runtime import export
from regard.pipeline.bulk import ChunkTranslator, OutputMark

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
    """Write a runtime file with random weights, whose translations are long and meaningless.

    A process that translates with it does not wait for PyTorch.
    """
    path = tmp_path_factory.mktemp("random") / "run"
    export(folder(path, end=3.0, score_threshold=None), path.with_suffix(".regard"))
    return path.with_suffix(".regard")


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file of many chunks, the last one incomplete."""
    rng = random.Random(3)
    words = " ".join(SENTENCES).split()
    path = tmp_path_factory.mktemp("long") / "long.ko"
    counts = [rng.randint(0, 5) for _ in range(12 * CHUNK + 2)]
    write_lines(path, (" ".join(rng.choices(words, k=count)) for count in counts))
    return path


@pytest.fixture(scope="session")
def whole(run: Path, long: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the output of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with _start_process(_command(run, long, out)) as command:
        assert command.wait() == 0
    texts = {json.loads(line)["text"] for line in lines_of(out)}
    assert len(texts) > 15, "a test of order needs lines that differ"
    return out.read_bytes()


def _command(run: Path, file: object, output: object, more: str = "") -> str:
    options = f"--beam 1 --chunk {CHUNK} --format jsonl"
    return f"translate {run} {file} --output {output} {options} {more}"


def _start_process(
    command: str, *start: str, before: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    words = [sys.executable, *(start or ("-m", "regard")), *command.split()]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, stderr=pipe, text=True, env=ENVIRONMENT, preexec_fn=before
    )


def _mark(output: Path) -> OutputMark:
    """Return the mark of an unfinished output."""
    with contextlib.suppress(FileNotFoundError):
        journal = json.loads(text_of(output.with_name(f"{output.name}.part.json")))
        return OutputMark(**journal["mark"])
    return OutputMark()


@contextlib.contextmanager
def _paused(
    chunks: int, command: str, stage: str = "after"
) -> Iterator[subprocess.Popen[str]]:
    """Start the command and yield it once it stands still: before or after it notes that so many
    chunks are done.
    """
    with _start_process(command, "-c", PAUSING, str(chunks), stage) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "the command ended before that"
        yield process


# Interrupted and resumed


@posix
def test_a_run_killed_at_any_chunk_resumes_to_the_same_result(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    output = Path("out")
    resumed = _command(run, long, output, "--resume")
    for chunks, stage in ((2, "before"), (9, "after")):
        with _paused(chunks, resumed, stage) as process:
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert _mark(output).chunks == chunks - (stage == "before")
        assert not output.exists()

    done = _mark(output).lines
    assert f"continuing after line {done}\n" in regard(resumed).err
    assert output.read_bytes() == whole
    assert os.listdir() == ["out"]


@posix
def test_a_killed_document_resumes_to_the_same_bytes(
    regard: Command, run: Path, long: Path
) -> None:
    cues = (
        f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},900\n{line}\n"
        for number, line in enumerate(lines_of(long))
        if line
    )
    Path("film.srt").write_text("\n".join(cues), encoding="utf-8")
    command = f"translate {run} film.srt --beam 1 --chunk {CHUNK}"
    regard(f"{command} --output whole.srt")
    resumed = f"{command} --output film.ko.srt --resume"
    for chunks in (2, 5):
        with _paused(chunks, resumed) as process:
            process.kill()
        assert not Path("film.ko.srt").exists()
    done = _mark(Path("film.ko.srt")).lines
    assert done == 5 * CHUNK
    assert f"continuing after sentence {done}\n" in regard(resumed).err
    whole = Path("whole.srt").read_bytes()
    assert Path("film.ko.srt").read_bytes() == whole != Path("film.srt").read_bytes()
    assert sorted(os.listdir()) == ["film.ko.srt", "film.srt", "whole.srt"]


@posix
def test_a_run_stopped_by_a_signal_prints_how_to_resume(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    output = Path("out")
    with _paused(5, _command(run, long, output)) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert process.stderr is not None
        stderr = process.stderr.read()
        assert process.wait() == 130, stderr

    done = _mark(output).lines
    advice = "the same command with --resume continues after them"
    assert f"out.part holds lines 1 to {done}; {advice}\n" in stderr
    assert "Traceback" not in stderr
    assert sorted(os.listdir()) == ["out.part", "out.part.json"]

    assert f"line {done}\n" in regard(_command(run, long, output, "--resume")).err
    assert output.read_bytes() == whole


@pytest.fixture
def stopped(regard: Command, run: Path, long: Path) -> Path:
    """Leave an output with three finished chunks."""
    output = Path("out")
    shutil.copy(long, "long.ko")
    lines = long.read_bytes().splitlines(keepends=True)[: 3 * CHUNK]
    regard.ended(_command(run, "-", output), stdin=b"".join(lines) + b"\xff\n")
    assert _mark(output).lines == 3 * CHUNK
    return output


def test_a_bad_line_is_named_and_earlier_results_are_kept(
    regard: Command, run: Path, long: Path, whole: bytes, stopped: Path
) -> None:
    lines = long.read_bytes().splitlines(keepends=True)
    bad = b"".join([*lines[: 4 * CHUNK], b"a \xff\n"])
    done = regard.ended(_command(run, "-", stopped, "--resume"), stdin=bad)
    assert done.status == 1

    because = f"line {4 * CHUNK + 1} is not UTF-8"
    assert done.causes[0].startswith(f"standard input: {because} (byte 0xFF, the line")
    assert f"out.part holds lines 1 to {4 * CHUNK}; the same command" in done.err

    Path("bad.ko").write_bytes(bad)
    # Before any line is translated.
    because = f"bad.ko: {because}"
    regard.fails(_command(run, "bad.ko", "other"), status=1, because=because)

    content = long.read_bytes().replace(b"\n", b"\r\n")
    Path("long.ko.gz").write_bytes(gzip.compress(content, mtime=0))
    regard(_command(run, "long.ko.gz", stopped, "--resume"))
    assert stopped.read_bytes() == whole, "the file may be longer and compressed"


def test_resume_without_an_earlier_run_starts_one(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    Path("out.gz").write_bytes(b"earlier")
    done = regard(_command(run, long, "out.gz", "--resume"))
    assert done.err == "nothing to resume: starting at line 1\n"
    assert gzip.decompress(Path("out.gz").read_bytes()) == whole


def test_an_interruption_says_that_nothing_is_kept(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ChunkTranslator, "__call__", Mock(side_effect=KeyboardInterrupt)
    )
    Path("a.html").write_text("<p>나는 간다</p>", encoding="utf-8")
    done = regard.ended(f"translate {run} a.html --output out.html --resume")
    assert done.status == 130
    assert "nothing to resume: starting at sentence 1\nnothing is kept" in done.err
    assert os.listdir() == ["a.html"]


def test_interrupted_work_is_not_overwritten_without_resume(
    regard: Command, run: Path, whole: bytes, stopped: Path
) -> None:
    command = _command(run, "long.ko", stopped)
    held = f"out.part holds lines 1 to {3 * CHUNK} of interrupted work; add"
    regard.fails(command, because=f"--output out: {held}")
    Path("out.part").unlink()
    assert regard(command).err == ""
    assert stopped.read_bytes() == whole
    assert sorted(os.listdir()) == ["long.ko", "out"]


# Changed options, models and lines are refused


def test_changed_options_are_refused_all_at_once(
    regard: Command, run: Path, stopped: Path
) -> None:
    changed = f"--resume --beam 2 --format text --alignments --chunk {CHUNK + 1}"
    causes = [
        "--resume: option --alignments: was False, is True",
        "--resume: option --beam: was 1, is 2",
        "--resume: option --format: was jsonl, is text",
        f"--resume: option --chunk: was {CHUNK}, is {CHUNK + 1}",
        "out.part was written with other options, models or files: give the same again, or",
    ]
    regard.fails(_command(run, "long.ko", stopped, changed), because=causes)


def test_another_model_is_refused(
    regard: Command, run: Path, other: Path, stopped: Path
) -> None:
    done = regard.ended(_command(other, "long.ko", stopped, "--resume"))
    assert done.status == 2
    for cause, name in zip(done.causes, (run.name, "config.json"), strict=False):
        assert cause.startswith(f"--resume: file {name}:")


CHANGED = f"long.ko: lines 1 to {3 * CHUNK} are translated already, and have changed since; give"
DAMAGED = "out.part: damaged, or not what out.part.json describes; delete both"
NO_JOURNAL = "out.part.json: damaged, not a journal; delete it and begin again without"


@pytest.mark.parametrize(
    ("file", "change", "because"),
    [
        ("long.ko", lambda data: data[:9], CHANGED),
        ("out.part", lambda data: data[:-1], DAMAGED),
        ("out.part", lambda data: b"x" + data[1:], DAMAGED),
        ("out.part.json", lambda _: b"[]", NO_JOURNAL),
        ("out.part.json", lambda data: data.replace(b": 3,", b": -3,"), NO_JOURNAL),
        ("out.part.json", lambda data: data.replace(b": 1,", b": 2,", 1), NO_JOURNAL),
    ],
)
def test_changed_files_are_refused(
    regard: Command,
    run: Path,
    stopped: Path,
    file: str,
    change: Callable[[bytes], bytes],
    because: str,
) -> None:
    Path(file).write_bytes(change(Path(file).read_bytes()))
    command = _command(run, "long.ko", stopped)
    regard.fails(f"{command} --resume", status=1, because=because)
    if because == NO_JOURNAL:
        regard.fails(command, status=1, because=because)


# The disk


@posix
def test_a_full_disk_keeps_finished_chunks(
    regard: Command, run: Path, long: Path, whole: bytes
) -> None:
    import resource  # not on Windows

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    output = Path("out")
    with _start_process(_command(run, long, output), before=limit_file_size) as process:
        assert process.stderr is not None
        stderr = process.stderr.read()
        assert process.wait() == 1

    mark = _mark(output)
    assert 0 < mark.written == Path("out.part").stat().st_size <= 5_000
    assert "out.part: cannot be written (File too large); make room on" in stderr
    assert f"out.part holds lines 1 to {mark.lines}; the same command" in stderr

    regard(_command(run, long, output, "--resume"))
    assert output.read_bytes() == whole


# Warnings


def test_warnings_name_the_line_in_the_file(regard: Command, run: Path) -> None:
    lines = ["I go"] * 10
    lines[4] = "나는 집에 " * 30
    lines[7] = "我们今天去公园吧"
    write_lines("file", lines)
    *named, last = regard(f"translate {run} file --chunk 3 --beam 1").warnings
    starts = ("file, line 5:", "file, line 8:")
    assert all(warning.startswith(starts) for warning in named)
    assert any(warning.startswith("file, line 5: a sentence of ") for warning in named)
    assert any("line 8: most characters were never seen" in text for text in named)
    assert last.startswith("file: 1 of 10 lines is doubtful: ")


def test_unknown_lines_before_the_interruption_count(
    regard: Command, run: Path
) -> None:
    foreign = "我们今天去公园吧\n".encode() * 4
    regard.ended(_command(run, "-", "out"), stdin=foreign * 2 + b"\xff")
    mark = _mark(Path("out"))
    assert (mark.known, mark.unknown) == (0, CHUNK)
    done = regard.ended(_command(run, "-", "out", "--resume"), stdin=foreign * 2)
    assert done.causes[0].startswith("standard input: no line is in a script")
    assert os.listdir() == []


def test_broken_lines_before_the_interruption_count(regard: Command, run: Path) -> None:
    command = _command(run, "-", "out", "--max-characters 1 --strict")
    lines = f"{SENTENCES[0]}\n".encode() * CHUNK
    regard.ended(command, stdin=lines + b"\xff")
    assert _mark(Path("out")).broken == CHUNK
    done = regard.ended(f"{command} --resume", stdin=lines)
    assert done.causes == [f"{CHUNK} strings are broken, too long or refused"]
    assert done.status == 1
    assert len(lines_of("out")) == CHUNK


# Streams


@posix
@pytest.mark.parametrize("source", ["pipe", "-"])
def test_a_pipe_is_answered_before_more_lines_come(
    run: Path, tmp_path: Path, source: str
) -> None:
    """A named one, as a shell makes for <(…), or standard input; it is stopped while it waits."""
    named = tmp_path / "pipe"
    os.mkfifo(named)
    file = named if source == "pipe" else "-"
    command = f"{sys.executable} -m regard translate {run} {file} --chunk 2".split()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stream = process.stdin if source == "-" else named.open("wb", buffering=0)
        with stream:
            for _ in range(3):
                stream.write(b"I go\nI go\n")
                stream.flush()
                assert process.stdout.readline() == process.stdout.readline() != b""
            if source == "-":
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
        assert process.wait() in (0, 130)


def test_strict_says_why_it_fails_even_if_quiet(regard: Command, run: Path) -> None:
    """The count, and the first string with its cause."""
    stdin = f"{SENTENCES[0]}\n".encode() * 2
    command = f"translate {run} - --max-characters 1 --quiet"
    assert regard(command, stdin=stdin).err == ""
    done = regard.ended(f"{command} --strict", stdin=stdin)
    (cause,) = done.causes
    assert done.status == 1
    assert cause.startswith("2 strings are broken, too long or refused, such as ")
    assert re.search(r"line 1: too long: \d+ of 1 characters", cause)
    assert done.err.count("\n") == 1


@posix
def test_a_correction_stays_when_a_killed_run_resumes(
    regard: Command, run: Path, long: Path
) -> None:
    texts = {str(key): line for key, line in enumerate(lines_of(long)) if line}
    Path("a.json").write_text(json.dumps(texts), encoding="utf-8")
    first = next(iter(texts))
    Path("b.json").write_text(json.dumps({first: "corrected"}), encoding="utf-8")
    before = Path("b.json").read_bytes()
    command = f"translate {run} a.json --beam 1 --chunk {CHUNK}"
    with _paused(2, f"{command} --output b.json") as process:
        process.kill()
    assert Path("b.json").read_bytes() == before
    done = regard(f"{command} --output b.json --resume")
    assert "1 text stays as in b.json; --retranslate translates all anew" in done.err
    assert "continuing after sentence" in done.err
    result = json.loads(Path("b.json").read_bytes())
    assert result.pop(first) == "corrected"
    regard(f"{command} --output b.json --retranslate")
    whole = json.loads(Path("b.json").read_bytes())
    assert whole.pop(first) != "corrected"
    assert result == whole
