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
        (
            "regard/attention/scores.py",
            "attention/",
            "search/test_limits.py",
            "data/test_shards",
        ),
        ("tests/laws/searching.py", "laws/", "laws/test_search_laws.py", "data/"),
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
    assert "repository/test_docs.py" in names, "these checks always run"

    left_out = [path.relative_to(TESTS).as_posix() for path in others]
    assert any(name.startswith(left) for name in left_out) if left else not left_out
