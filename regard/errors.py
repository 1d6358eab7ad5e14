"""What can go wrong, as a tree; every message says what was wanted, what came, where, and what to do.

RegardError                      anything Regard refuses; `exit_status` is what the command line answers with
├── UsageError (2)               the call itself is wrong: options, names, a text that cannot be meant
│   ├── ConfigurationError (2)   a settings file or --set: unknown keys, wrong values, contradictions
│   └── UnknownKey (2)           no key of a soft dictionary equals the query; a KeyError too
├── DataError (1)                a file of sentences that cannot be read or does not fit its partner
├── ModelFolderError (1)         a model folder with a missing or damaged file
├── TrainingError (1)            training cannot start or go on
├── WorkerError (1)              one of several processes has died
├── ExportError (1)              a model cannot be taken to another toolkit, or does not do the same there
└── MissingExtra (1)             an optional package is not installed; the message is the line that installs it

LineWarning                      no error: something to know about one of the lines that are being translated
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConfigurationError",
    "DataError",
    "ExportError",
    "LineWarning",
    "MissingExtra",
    "ModelFolderError",
    "RegardError",
    "TrainingError",
    "UnknownKey",
    "UsageError",
    "WorkerError",
]


class RegardError(Exception):
    """Something the user can mend; takes one sentence per cause, and reports all of them."""

    exit_status = 1

    def __init__(self, *causes: str) -> None:
        assert causes, "an error needs at least one cause"
        super().__init__("\n".join(causes))
        self.causes = causes

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.causes)  # so that it can be sent from process to process


def _again(kind: type[RegardError], causes: tuple[str, ...]) -> RegardError:
    error = kind.__new__(kind)
    RegardError.__init__(error, *causes)
    return error


class UsageError(RegardError):
    """The call itself is wrong."""

    exit_status = 2


class ConfigurationError(UsageError):
    """A setting is unknown, of the wrong kind, or contradicts another."""


class UnknownKey(UsageError, KeyError):
    """No key equals the query."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotation marks


class DataError(RegardError):
    """A data file cannot be read as what it should be."""


class ModelFolderError(RegardError):
    """A model folder lacks a file or holds a damaged one."""


class TrainingError(RegardError):
    """Training cannot start or cannot go on."""


class WorkerError(RegardError):
    """One of the processes that share the work has died."""


class ExportError(RegardError):
    """A model cannot be taken to another toolkit or from it, or does not do the same there."""


class MissingExtra(RegardError):
    """An optional dependency is needed and absent."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'regard[{extra}]'")


class LineWarning(UserWarning):
    """Something to know about one line of those given; `place` counts them from 0, so that a caller who knows where
    they came from can say which line of which file it is.
    """

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place
