"""Why interfaces may differ: the reasons that docs/translation.md names.

Each explains a field of results on some lines and interfaces. A reason that explains nothing any
more is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from laws.interfaces import Result

FIELDS = ("text", "score", "doubtful", "parts", "warnings", "quality")
SCORE_TOLERANCE = 1e-4
COMMAND = frozenset({"json lines"})
SERVER = frozenset({"v1", "libretranslate", "deepl"})
BROWSERS = frozenset({"node", "page"})
DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = {
    "translation.md": "Where interfaces differ",
    "ko/translation.md": "인터페이스마다 다른 점",
}
"""The pages that list the reasons, and the heading that they list them under."""


@dataclass(frozen=True)
class Case:
    """A line of a kind, the result that is expected, and the actual one."""

    kind: str
    line: str
    expected: Result
    actual: Result

    @property
    def differing(self) -> list[str]:
        """The fields of which the interface tells something else."""
        return [
            field
            for field in FIELDS
            if getattr(self.actual, field) is not None and not self._is_same(field)
        ]

    def _is_same(self, field: str) -> bool:
        expected = getattr(self.expected, field)
        actual = getattr(self.actual, field)
        if field in ("score", "quality") and expected is not None:
            return abs(expected - actual) <= SCORE_TOLERANCE
        return actual == (
            len(expected) if isinstance(actual, int) and field == "parts" else expected
        )

    def describe(self, field: str) -> str:
        """Say how a field differs."""
        expected = getattr(self.expected, field)
        actual = getattr(self.actual, field)
        return f"{self.kind}, {field} of {self.line!r}: wanted {expected!r}, got {actual!r}"


Holds = Callable[[Case], bool]


@dataclass(frozen=True)
class Reason:
    """A reason for differences in some fields: on which lines and interfaces; `most`: on what share
    of the lines.
    """

    name: str
    interfaces: frozenset[str]
    holds: Holds
    fields: tuple[str, ...] = FIELDS
    precisions: tuple[str, ...] = ("float32", "int8")
    most: float = 1.0

    def explains(self, case: Case, field: str) -> bool:
        """Return whether a field of a line may differ for this reason."""
        return field in self.fields and self.holds(case)


def _of(*kinds: str) -> Holds:
    """Return whether a case is of a kind that contains one of these texts."""
    return lambda case: any(kind in case.kind for kind in kinds)


def _has_layout(case: Case) -> bool:
    """Return whether a line has other white space than single blanks between its words, or breaks,
    or nothing else.
    """
    return case.kind == "empty" or case.line != " ".join(case.line.split())


def _in_words_of_command(case: Case) -> bool:
    def reworded(note: str) -> str:
        return re.sub(r"`(\w+)=(\w+)`", option, note)

    def option(match: re.Match[str]) -> str:
        return f"--{match[1].replace('_', '-')} {match[2]}"

    return case.actual.warnings == tuple(map(reworded, case.expected.warnings or ()))


_HAS_SPANS = _of("span", "tagged", "private", "very long")
_IS_READ_OTHERWISE = _of(
    "span",
    "tagged",
    "private",
    "very long",
    "letterless",
    "capitals",
    "title",
    "label",
    "script",
    "language code",
)


def _by_sentences(case: Case) -> bool:
    """Return whether only what is told of sentences differs, or the spans of a line stood in
    several.
    """
    return _HAS_SPANS(case) or case.actual.text == case.expected.text


def _of_library(case: Case) -> bool:
    """Return whether a line is read otherwise by the way of a text, or only its repetition is not
    noted.
    """
    return _IS_READ_OTHERWISE(case) or case.differing == ["warnings"]


REASONS = [
    Reason("Words of the command", COMMAND, _in_words_of_command, ("warnings",)),
    Reason("Texts of the server", SERVER, _has_layout),
    Reason("Sentences of the server", frozenset({"v1"}), _by_sentences),
    Reason("The library alone", frozenset({"c"}), _of_library),
    Reason(
        "int8 in a run folder",
        frozenset({"run folder"}),
        _HAS_SPANS,
        precisions=("int8",),
        most=0.01,
    ),
    Reason(
        "int8 in WebAssembly",
        BROWSERS,
        lambda _: True,
        precisions=("int8",),
        most=0.05,
    ),
    Reason(
        "Fields of a page",
        frozenset({"page"}),
        _of("carriage return", "breaks"),
    ),
]
"""What docs/translation.md names, in its order."""


def reasons_of(interface: str, precision: str) -> list[Reason]:
    """Return why an interface may differ, those last that may explain few lines."""
    reasons = [
        reason
        for reason in REASONS
        if interface in reason.interfaces and precision in reason.precisions
    ]
    return sorted(reasons, key=lambda reason: -reason.most)


def documented(page: str) -> list[str]:
    """Return what a page of `SECTIONS` lists, each in bold at the start of its item."""
    _, _, rest = (DOCS / page).read_text("utf-8").partition(f"\n## {SECTIONS[page]}\n")
    section, _, _ = rest.partition("\n## ")
    return re.findall(r"^- \*\*(.+?)\*\*", section, re.M)
