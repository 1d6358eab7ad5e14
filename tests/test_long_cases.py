"""The table of the longest tests names tests that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import costs

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_names_tests_that_exist() -> None:
    stale = []
    for test in json.loads(costs.TABLE.read_text(encoding="utf-8")):
        path = test.split("::")[0]
        name = test.split("::")[-1]
        if not (ROOT / path).is_file() or not re.search(
            rf"^ *(async )?def {name}\(", (ROOT / path).read_text(), re.M
        ):
            stale.append(test)
    assert not stale, (
        "remove their lines from tests/costs.json, or write it anew: see tests/costs.py"
    )


def test_cases_are_added_up_by_test(tmp_path: Path) -> None:
    report = tmp_path / "times.xml"
    cases = [
        ("a", "test_x[1]", 0.1),
        ("a", "test_x[2]", 0.5),
        ("a.b.TestC", "test_y", 2.0),
        ("a", "test_z", 0.01),
    ]
    rows = "".join(f'<testcase classname="tests.{c}" name="{n}" time="{t}"/>' for c, n, t in cases)
    report.write_text(f"<testsuite>{rows}</testsuite>")
    assert costs.mean_seconds(report) == {
        "tests/a.py::test_x": 0.3,
        "tests/a/b.py::TestC::test_y": 2.0,
    }
