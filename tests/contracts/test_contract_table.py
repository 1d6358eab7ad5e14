"""The table of dialects is read alike by Python and JavaScript, and its patterns take linear time."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from contracts.string_cases import DIALECTS, lines
from helpers.time_limits import LEAST

from regard.contracts.dialects import get_dialect, table
from regard.contracts.spans import scan

READER = """
const fs = require("fs");
const { patterns, groups, lines } = JSON.parse(fs.readFileSync(0, "utf8"));
for (const pattern of patterns) new RegExp(pattern, "u");
const spans = lines.map(({ dialect, text }) => {
  const rules = groups[dialect].map((pattern) => new RegExp(pattern, "uy"));
  const result = [];
  for (let place = 0; place < text.length; ) {
    let matched = "";
    for (const rule of rules) {
      rule.lastIndex = place;
      const match = rule.exec(text);
      if (match && match[0]) { matched = match[0]; break; }
    }
    if (matched) result.push(matched);
    place += matched.length || String.fromCodePoint(text.codePointAt(place)).length;
  }
  return result;
});
console.log(JSON.stringify(spans));
"""


def patterns() -> Iterator[str]:
    """Yield all patterns of the table."""
    for rules in table()["rules"].values():
        for rule in rules:
            yield from (rule[name] for name in ("pattern", "ignore") if name in rule)
    for dialect in table()["dialects"].values():
        yield from (pattern for _, pattern in dialect.get("raw", ()))
        yield from (pattern for pattern, _ in dialect.get("evidence", ()))
    for grammar in table()["grammars"].values():
        yield from (
            grammar[name] for name in ("special", "argument", "selector", "key")
        )
    yield from (*table()["joined"].values(), table()["sentence_end"])


def rules_of(dialect: str) -> list[str]:
    """Return the patterns of the spans of a dialect in their order."""
    groups = [*table()["dialects"][dialect]["rules"], "shared"]
    return [rule["pattern"] for group in groups for rule in table()["rules"][group]]


def outside_classes(pattern: str) -> str:
    """Return a pattern without its escapes and without its classes of letters."""
    return re.sub(r"\[(?:[^\]\\]|\\.)*\]", "x", re.sub(r"\\.", "x", pattern))


def test_repeats_are_bounded_and_classes_plain() -> None:
    for pattern in patterns():
        assert not re.search(r"[*+]", outside_classes(pattern)), pattern
        assert not re.search(r"\{\d+,\}", outside_classes(pattern)), pattern
        assert not re.search(r"\\[dDwWbBpPAZ]|\(\?P", pattern.replace(r"\\", "")), (
            pattern
        )


def test_python_and_javascript_read_the_same_spans(node: str) -> None:
    given = {
        "patterns": list(patterns()),
        "groups": {dialect: rules_of(dialect) for dialect in DIALECTS},
        "lines": lines(),
    }
    done = subprocess.run(
        [node, "-e", READER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=4 * LEAST,
    )
    for line, spans in zip(lines(), json.loads(done.stdout), strict=True):
        dialect = get_dialect(line["dialect"])
        assert [span.text for span in scan(line["text"], dialect)] == spans, line


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_texts_are_read_to_their_end(dialect: str) -> None:
    """Backtracking without bounds would not end on these."""
    for unit in (
        "{",
        "<a ",
        '<a "',
        "[",
        "a.",
        "/a",
        "1,",
        "%",
        "'",
        "{{",
        "{a, plural, other{",
    ):
        text = unit * 1000
        spans = scan(text, get_dialect(dialect))
        assert all(text[span.start : span.end] == span.text for span in spans)


def test_flags_of_file_formats_name_dialects() -> None:
    for flag, name in table()["flags"].items():
        assert get_dialect(flag).name == name, flag


def test_names_of_the_table_are_used() -> None:
    contents: dict[str, Any] = json.loads(
        (resources.files("regard.contracts") / "dialects.json").read_text(
            encoding="utf-8"
        )
    )
    used = {
        group for entry in contents["dialects"].values() for group in entry["rules"]
    }
    assert contents["rules"].keys() == used | {"shared"}
    assert set(DIALECTS) == contents["dialects"].keys()
