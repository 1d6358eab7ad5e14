"""Exceptions, each with a message that states what was wanted, what was given, where, and the
remedy.

    RegardError               an error that the user can correct
    ├── UsageError            the call itself is wrong: options, names, unusable text
    │   ├── ConfigurationError  unknown keys, wrong values or contradictions in settings
    │   ├── PluginError         a plug-in cannot be imported, or computes something unusable
    │   ├── LineError           some of the lines cannot be translated
    │   └── UnknownKey          no key of a soft dictionary equals the query; also a KeyError
    ├── DataError             a data file cannot be read, or does not fit its partner
    ├── ModelFolderError      a model folder with a missing or damaged file
    ├── TrainingError         training cannot start or continue
    ├── WorkerError           one of several processes has died
    ├── ExportError           a model cannot be converted, or computes something else afterwards
    ├── MissingKernels        the C library cannot be used here; also a RuntimeError
    └── MissingExtra          an optional package is not installed

`exit_status` is the exit status of the command line: 2 for UsageError and its subclasses, else 1.
LineWarning is no error, but a warning about one of the lines that are translated.

A message names arguments and settings in the form of Python, in backticks: `resume=True`, `out=`,
`training.minutes=30`. The command line prints them as its own options (`regard.cli.app.in_flags`);
no other module writes flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_SHOWN = 20
"""Maximum number of causes of one kind that a message lists."""


class RegardError(Exception):
    """Base class of errors that the user can correct. It takes one sentence per cause, and reports
    all.
    """

    exit_status = 1

    def __init__(self, *causes: str) -> None:
        assert causes, "an error needs at least one cause"
        super().__init__("\n".join(causes))
        self.causes = causes

    @classmethod
    def raise_all(cls, causes: Iterable[Any], *more: str) -> None:
        """Raise the error if there are any causes, with `more` sentences after them."""
        all_causes = tuple(causes)
        if all_causes:
            raise cls(*all_causes, *more)

    def __reduce__(self) -> tuple[object, ...]:
        # The constructors of subclasses take other arguments, so pickling must not call them.
        return rebuild, (type(self), self.causes)


def rebuild(kind: type[RegardError], causes: tuple[str, ...]) -> RegardError:
    """Rebuild an error of another process from its class and causes."""
    error = kind.__new__(kind)
    RegardError.__init__(error, *causes)
    return error


class UsageError(RegardError):
    """The call itself is wrong: options, names, unusable text."""

    exit_status = 2


class ConfigurationError(UsageError):
    """A setting is unknown, has the wrong type, or contradicts another."""


class PluginError(UsageError):
    """A plug-in cannot be imported, or what it computes cannot be used."""


class LineError(UsageError):
    """Some input lines cannot be used. `problems` holds their indices, counted from 0, with a
    sentence each.
    """

    problems: tuple[tuple[int, str], ...] = ()

    def __init__(self, *problems: tuple[int, str]) -> None:
        super().__init__(
            *(f"line {index + 1} {problem}" for index, problem in problems[:_SHOWN])
        )
        self.problems = problems

    def in_file(self, name: str, start: int = 1) -> DataError:
        """Return the error for a file in which line number `start` has index 0."""
        return DataError(
            *(
                f"{name}: line {start + index} {problem}"
                for index, problem in self.problems[:_SHOWN]
            )
        )


class UnknownKey(UsageError, KeyError):
    """No key of a soft dictionary equals the query."""

    # That of KeyError puts the message into quotation marks.
    __str__ = Exception.__str__


class DataError(RegardError):
    """A data file cannot be read or does not fit its partner."""


class ModelFolderError(RegardError):
    """A model folder lacks a file, or a file in it is damaged."""


class TrainingError(RegardError):
    """Training cannot start or continue."""


class WorkerError(RegardError):
    """One of several worker processes has died."""


class ExportError(RegardError):
    """A model cannot be converted to or from another toolkit, or computes something else
    afterwards.
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
    """Warning about an input line. The caller names its file and line by `index`, counted from
    0.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def repetition_note(repetition: tuple[str, int], kind: str = "translation") -> str:
    """Return the warning of a text that an output keeps repeating."""
    text, times = repetition
    return (
        f"the {kind} repeats {text!r} {times} times and is probably wrong; `no_repeat_ngram=4` "
        "prevents that"
    )
