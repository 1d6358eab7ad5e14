"""Exceptions, as a tree; every message says what was wanted, what came, where, and what to do.

RegardError anything Regard refuses; `exit_status` is the command line's exit status ├── UsageError
(2) the call itself is wrong: options, names, unusable text │ ├── ConfigurationError (2) a settings
file or an override: unknown keys, wrong values, contradictions │ ├── LineError (2) some of the
lines that are to be translated cannot be │ └── UnknownKey (2) no key of a soft dictionary equals
the query; a KeyError too ├── DataError (1) a data file cannot be read or does not fit its partner
├── ModelFolderError (1) a model folder with a missing or damaged file ├── TrainingError (1)
training cannot start or continue ├── WorkerError (1) one of several processes has died ├──
ExportError (1) a model cannot be converted, or computes something else after conversion ├──
MissingKernels (1) the C library cannot be used here; a RuntimeError too └── MissingExtra (1) an
optional package is not installed; the message is the line that installs it

LineWarning not an error: a warning about one of the lines that are being translated

A message names arguments and settings as Python does, in backticks: `resume=True`, `out=`,
`training.minutes=30`. The command line prints them as its own options (`regard.cli.app.in_flags`);
nothing below it writes flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_SHOWN = 20
"""Causes of one kind that are listed."""


class RegardError(Exception):
    """Base class: an error that the user can correct. Takes one sentence per cause and reports all
    of them.
    """

    exit_status = 1

    def __init__(self, *causes: str) -> None:
        assert causes, "an error needs at least one cause"
        super().__init__("\n".join(causes))
        self.causes = causes

    @classmethod
    def raise_all(cls, causes: Iterable[Any], *more: str) -> None:
        """Raise the error with all these causes, and `more` sentences behind them, if there is a
        cause.
        """
        if causes := tuple(causes):
            raise cls(*causes, *more)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled whole, whatever the subclass constructor takes.
        return rebuild, (
            type(self),
            self.causes,
        )


def rebuild(kind: type[RegardError], causes: tuple[str, ...]) -> RegardError:
    """Return an error of another process, of which kind and causes are known."""
    error = kind.__new__(kind)
    RegardError.__init__(error, *causes)
    return error


class UsageError(RegardError):
    """The call itself is wrong: options, names, unusable text."""

    exit_status = 2


class ConfigurationError(UsageError):
    """A setting is unknown, has the wrong type, or contradicts another."""


class LineError(UsageError):
    """Some input lines cannot be used: `problems` are their indices, counted from 0, and a sentence
    on each.
    """

    problems: tuple[tuple[int, str], ...] = ()

    def __init__(self, *problems: tuple[int, str]) -> None:
        super().__init__(
            *(f"line {index + 1} {problem}" for index, problem in problems[:_SHOWN])
        )
        self.problems = problems

    def in_file(self, name: str, start: int = 1) -> DataError:
        """Return the error of a file whose line number `start` has the index 0."""
        return DataError(
            *(
                f"{name}: line {start + index} {problem}"
                for index, problem in self.problems[:_SHOWN]
            )
        )


class UnknownKey(UsageError, KeyError):
    """No key of a soft dictionary equals the query."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotation marks


class DataError(RegardError):
    """A data file cannot be read or does not fit its partner."""


class ModelFolderError(RegardError):
    """A model folder lacks a file, or a file in it is damaged."""


class TrainingError(RegardError):
    """Training cannot start or continue."""


class WorkerError(RegardError):
    """One of several worker processes has died."""


class ExportError(RegardError):
    """A model cannot be converted to or from another toolkit, or computes something else after
    conversion.
    """


class MissingKernels(RegardError, RuntimeError):
    """The C library cannot be used here."""


class MissingExtra(RegardError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}: pip install 'regard[{extra}]'"
        )


class LineWarning(UserWarning):
    """Warning about one input line: `index` counts lines from 0, so that the caller can name file
    and line.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def repetition_note(repetition: tuple[str, int], kind: str = "translation") -> str:
    """Return the warning of a text that is repeated over and over, and how often."""
    text, times = repetition
    return (
        f"the {kind} repeats {text!r} {times} times and is probably wrong; `no_repeat_ngram=4` "
        "prevents that"
    )
