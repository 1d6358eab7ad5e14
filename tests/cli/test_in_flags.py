"""Messages of the library name Python arguments; the command line rewrites them as options."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli.app import _status_and_causes, flags_of, in_flags
from regard.cli.translate import _open_output
from regard.common.errors import UsageError
from regard.requests.translate_request import TranslateCommand

AS_FLAGS = [
    ("train", "add `resume=True` or another `out=`", "add --resume or another --out"),
    ("train", "`out=runs/a b`, `parent=`", "--out runs/a b, --from"),
    ("train", "`training.minutes=30`", "--set training.minutes=30"),
    ("train", "give `reads=` a file `3`", "give `reads=` a file `3`"),
    ("doctor", "`training.minutes=3` or `out=`", "training.minutes=3 or `out=`"),
    ("publish", "or `page=False`", "or --no-page"),
    ("translate", "set `no_repeat_ngram=4`", "set --no-repeat-ngram 4"),
]


@pytest.mark.parametrize(("command", "message", "expected"), AS_FLAGS)
def test_arguments_are_rewritten_as_options_of_the_command(
    command: str, message: str, expected: str
) -> None:
    assert in_flags(message, flags_of((command, "config.toml"))) == expected


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("can't allocate memory: 8 bytes"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_too_little_memory_is_a_sentence(problem: Exception) -> None:
    status, (cause,) = _status_and_causes(problem)
    assert (status, "not enough memory" in cause) == (1, True)


def test_an_output_that_links_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    command = TranslateCommand(run=tmp_path, output=tmp_path / "loop")
    with (
        pytest.raises(UsageError, match="leads to itself"),
        _open_output(command, {}),
    ):
        pass
