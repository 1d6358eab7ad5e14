"""Run the real command in this process; check its output, exit status and files."""

from __future__ import annotations

import io
import shlex
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli import main

SMALL = """
tokenizer.size=1200 batching.tokens=256 schedule.warmup=10 schedule.peak=0.015
search.beam=3 search.max_ratio=1.0 search.max_extra=5
training.precision=float32 training.ema_decay=0.9 training.best_by=loss training.validate_with=3
model.encoder.size=24 model.encoder.dropout=0 model.decoder.size=24 model.decoder.dropout=0
"""
TRANSFORMER = f"""{SMALL}
model.encoder.layers=1 model.encoder.heads=2 model.encoder.feedforward=48
model.decoder.layers=1 model.decoder.heads=2 model.decoder.feedforward=48
"""
CAPTIONER = """
data.images.height=8 data.images.width=8 data.images.cell=4 tokenizer.size=280 search.beam=2
model.encoder.size=24 model.encoder.heads=2 model.encoder.depths=[1] model.encoder.width=16
model.encoder.stem=strided model.encoder.dropout=0
model.decoder.size=24 model.decoder.heads=2 model.decoder.layers=1 model.decoder.feedforward=32
model.decoder.dropout=0
batching.tokens=256 batching.micro_batches=1 schedule.warmup=10 schedule.peak=0.02
training.precision=float32 training.ema_decay=0.9 training.best_by=cider
"""


def sets(*settings: str) -> list[str]:
    """Return settings, which spaces part, as --set options."""
    options = []
    for setting in " ".join(settings).split():
        options += ["--set", setting]
    return options


@dataclass(frozen=True)
class CommandResult:
    """Exit status, stdout and stderr of a command that has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        assert self.out.endswith("\n"), (
            f"the last line is not whole: {self.out[-100:]!r}"
        )
        return self.out.removesuffix("\n").split("\n")

    @property
    def causes(self) -> list[str]:
        return self._lines_after("regard: ")

    @property
    def warnings(self) -> list[str]:
        return self._lines_after("warning: ")

    def _lines_after(self, prefix: str) -> list[str]:
        lines = self.err.split("\n")
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


class Command:
    """Run `regard …` in the current folder.

    A single argument is a command line, of which the shell's quotes part the words.
    """

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, *arguments: object, stdin: str | bytes = b"") -> CommandResult:
        """Run a command that must succeed."""
        done = self.ended(*arguments, stdin=stdin)
        assert done.status == 0, done.err
        assert done.causes == [], done.err
        return done

    def fails(
        self,
        *arguments: object,
        because: str | list[str],
        status: int = 2,
        stdin: str | bytes = b"",
    ) -> CommandResult:
        """Run a command that must fail, with one sentence per cause, and check that it changes no
        file.
        """
        before = files()
        done = self.ended(*arguments, stdin=stdin)
        expected = [because] if isinstance(because, str) else because
        assert done.status == status, done
        assert len(done.causes) == len(expected), done.err

        for cause, part in zip(done.causes, expected, strict=True):
            assert part in cause, f"expected {part!r} in {cause!r}"

        for text in ("Traceback", "internal error", "pydantic", "Error:", "Usage:"):
            assert text not in done.err, done.err

        after = files()
        assert after == before, (
            f"changed files: {sorted(dict(after.items() ^ before.items()))}"
        )

        return done

    def ended(self, *arguments: object, stdin: str | bytes = b"") -> CommandResult:
        """Run a command that may succeed or fail."""
        words = [str(argument) for argument in arguments]
        if len(words) == 1:
            words = shlex.split(words[0])
        content = stdin.encode() if isinstance(stdin, str) else stdin
        self.capture.readouterr()
        with (
            _standard_input(content),
            pytest.raises(SystemExit) as ended,
            as_the_shell_does(),
        ):
            main(words)

        printed = self.capture.readouterr()
        assert isinstance(ended.value.code, int)

        return CommandResult(ended.value.code, printed.out, printed.err)


@contextmanager
def as_the_shell_does() -> Iterator[None]:
    """Print warnings, and restore the signal handler that a command replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _standard_input(content: bytes) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(content))
    try:
        yield
    finally:
        sys.stdin = before


def text_of(path: str | Path) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")


def lines_of(path: str | Path) -> list[str]:
    """Return the lines of a file."""
    return text_of(path).splitlines()


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write a file of lines."""
    text = "".join(f"{line}\n" for line in lines)
    Path(path).write_text(text, encoding="utf-8")


def files(folder: Path | None = None) -> dict[str, bytes | None]:
    """Return the contents of every file below a folder, by path."""
    folder = folder or Path.cwd()
    contents = {}
    for path in sorted(folder.rglob("*")):
        contents[str(path.relative_to(folder))] = (
            path.read_bytes() if path.is_file() else None
        )
    return contents
