"""`make affected` runs what a change can affect, its own tests first, and leaves the others out."""

from __future__ import annotations

import affected
import pytest

pytestmark = pytest.mark.system  # reads every file of package and tests
TESTS = affected.ROOT / "tests"


@pytest.mark.parametrize(
    ("change", "first", "chosen", "left"),
    [
        ("regard/serving/limits.py", "serving/", "cli/test_cli_translate.py", "laws/"),
        ("regard/attention/scores.py", "attention/", "search/test_limits.py", "data/test_shards"),
        ("tests/laws/searching.py", "laws/", "laws/test_law_4_search.py", "data/"),
        ("tests/conftest.py", "", "data/test_shards.py", None),
    ],
)
def test_a_change_runs_what_is_built_on_it(
    change: str, first: str, chosen: str, left: str | None
) -> None:
    selected, others = affected.selected([affected.ROOT / change])
    names = [path.relative_to(TESTS).as_posix() for path in selected]

    assert not first or names[0].startswith(first) or change.startswith("tests/")
    assert chosen in names
    assert "test_docs.py" in names, "tests at the top always run"

<<<<<<< HEAD
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
=======
    left_out = [path.relative_to(TESTS).as_posix() for path in others]
    assert any(name.startswith(left) for name in left_out) if left else not left_out
>>>>>>> cut-top
