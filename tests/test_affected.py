"""`make affected` runs what a change can affect, its own tests first, and leaves the others out."""

from __future__ import annotations

from pathlib import Path

import affected
import pytest

pytestmark = pytest.mark.system  # reads every file of package and tests
TESTS = affected.ROOT / "tests"


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(TESTS).as_posix() for path in paths]


def test_a_change_of_the_server_leaves_the_laws_out() -> None:
    chosen, left = affected.selected([affected.ROOT / "regard" / "serving" / "limits.py"])
    assert names(chosen)[0].startswith("serving/"), "its own tests come first"
    assert "laws/test_search_laws.py" in names(left)
    assert "cli/test_cli_translate.py" in names(chosen), "the command line imports the server"
    assert "test_docs.py" in names(chosen), "tests at the top always run"


def test_a_change_of_attention_runs_what_is_built_on_it() -> None:
    chosen, left = affected.selected([affected.ROOT / "regard" / "attention" / "scores.py"])
    assert {"laws/test_search_laws.py", "search/test_limits.py", "test_pipeline.py"} <= set(
        names(chosen)
    )
    assert "cli/test_cli_translate.py" in names(chosen), (
        "what is built on it can be seen from outside"
    )
    assert "data/test_marian_vocab.py" in names(left)


def test_a_change_of_a_helper_runs_the_tests_that_import_it() -> None:
    chosen, left = affected.selected([TESTS / "laws" / "searching.py"])
    assert "laws/test_search_laws.py" in names(chosen)
    assert "data/test_sentences.py" in names(left)


def test_a_change_of_the_set_up_runs_everything() -> None:
    assert affected.selected([TESTS / "conftest.py"])[1] == []
