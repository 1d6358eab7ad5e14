"""Messages of the library name Python arguments; the command line rewrites them as options."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli.app import _status_and_causes, flags_of, in_flags
from regard.cli.translate import _open_output
from regard.common.errors import UsageError

AS_FLAGS = {
    "add `resume=True`, or choose another `out=`": "add --resume, or choose another --out",
    "`out=runs/a b`: taken; leave `parent=` out": "--out runs/a b: taken; leave --from out",
    "set `training.minutes=30`, not `training.updates`": "set --set training.minutes=30, not training.updates",
    "give `reads=` and `regard train` a file `3`": "give `reads=` and `regard train` a file `3`",
}


@pytest.mark.parametrize("message", AS_FLAGS)
def test_arguments_are_rewritten_as_options_of_the_command(message: str) -> None:
    assert in_flags(message, flags_of(("train", "config.toml"))) == AS_FLAGS[message]


def test_arguments_without_an_option_are_kept() -> None:
    assert (
        in_flags("`training.minutes=30` or `parent=`", flags_of(("doctor",)))
        == "training.minutes=30 or `parent=`"
    )


def test_search_settings_are_options_too() -> None:
    assert (
        in_flags("set `no_repeat_ngram=4`", flags_of(("translate",)))
        == "set --no-repeat-ngram 4"
    )


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
    with (
        pytest.raises(UsageError, match="leads to itself"),
        _open_output([tmp_path], tmp_path / "loop", False, {}),
    ):
        pass
