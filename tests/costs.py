"""Write how long a case of each of the longest tests takes, by which `make quick` chooses its
cases.

    pytest -n 2 --junitxml=times.xml && python tests/costs.py times.xml

Run it on a quiet machine when `make quick` has become too long; a test that the table lacks runs
whole there.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

TABLE = Path(__file__).parent / "costs.json"
LEAST = 0.2
"""Seconds of all cases of a test below which it is always quick."""


def mean_seconds(report: Path) -> dict[str, float]:
    """Return the mean seconds of a case of each test in a report of pytest, by the test's name, if
    they add up.
    """
    seconds = defaultdict[str, list[float]](list)
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            parts = case.attrib["classname"].split(".")
            *folders, file = (part for part in parts if not part.startswith("Test"))
            group = [part for part in parts if part.startswith("Test")]
            test = "::".join(
                ["/".join([*folders, f"{file}.py"]), *group, case.attrib["name"].partition("[")[0]]
            )
            seconds[test].append(float(case.attrib["time"]))
    means = {
        test: round(sum(times) / len(times), 3)
        for test, times in seconds.items()
        if sum(times) > LEAST
    }
    return dict(sorted(means.items()))


if __name__ == "__main__":
    TABLE.write_text(json.dumps(mean_seconds(Path(sys.argv[1])), indent=0) + "\n", encoding="utf-8")
