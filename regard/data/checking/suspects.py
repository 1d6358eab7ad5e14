"""Kinds of suspect pairs, and what training does with each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.pairs import excerpt_of

Action = Literal["repaired", "dropped", "kept"]
Side = Literal["source", "target", ""]

KINDS: dict[str, tuple[Action, str]] = {
    "empty": ("dropped", "a side is empty"),
    "spreadsheet error": ("dropped", "what a spreadsheet writes for an error"),
    "garbled": ("repaired", "UTF-8 that was read in another encoding"),
    "lost letters": ("dropped", "letters have become question marks"),
    "entities": ("repaired", "HTML entities instead of letters"),
    "swapped": ("repaired", "source and target are exchanged"),
    "shifted": ("repaired", "the translation stands some lines away"),
    "unrelated": ("dropped", "the words of the sides do not translate each other"),
    "other language": ("dropped", "a side is in another language than its column"),
    "untranslated": ("dropped", "a side is in the language of the other"),
    "copy": ("dropped", "both sides are the same, in more than two words"),
    "boilerplate": ("dropped", "the same target for many different sources"),
    "odd length": ("dropped", "far longer or shorter than such sources are translated"),
    "numbers differ": ("kept", "a number is another one"),
    "placeholders differ": (
        "kept",
        "a placeholder, tag or address is lost or invented",
    ),
    "broken string": ("kept", "what a program needs is lost, altered or invented"),
    "several variants": ("kept", "several translations in one cell"),
    "improbable": ("kept", "a model finds it hardly likelier than unrelated sides"),
    "uncovered": ("kept", "a model's attention leaves words of the source out"),
    "no letters": ("kept", "neither side has a letter"),
    "near-duplicate": ("kept", "the letters of an earlier pair"),
}
"""Action of training on pairs of each kind, and the kind in words; the gravest first."""
MAY_BE_USUAL = {
    "boilerplate": 0.2,
    "odd length": 0.2,
    "other language": 0.2,
    "untranslated": 0.2,
    "copy": 0.5,
}
"""Kinds that are no dirt where a larger share of the pairs is of them, such as the few targets of a
classification.
"""
HARMLESS = ("no letters", "near-duplicate")
"""Kinds that may be in a test set."""


REPAIRED_IN_PLACE = ("garbled", "entities")
"""Kinds of which a few letters are repaired, which examples show."""
_BEFORE = 8
"""Characters before these letters that examples show."""


def _first_difference(text: str, other: str) -> int:
    """Return where two texts begin to differ; 0 if they are equal."""
    pairs = zip(text, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), 0)


def _excerpt_from(text: str, start: int) -> str:
    """Return a text from shortly before an offset on."""
    return f"…{text[start - _BEFORE :]}" if start > _BEFORE else text


@dataclass(frozen=True)
class Suspect:
    """A suspect pair: its line, what is wrong, and how it could be right, if that is known."""

    line: int
    kind: str
    source: str
    target: str
    detail: str = ""
    proposal: tuple[str, str] | None = None

    def describe(self) -> str:
        """Return the line with the beginning of both sides, and how the pair could be right."""
        pairs = [(self.source, self.target)]
        if self.proposal is not None:
            pairs.append(self.proposal)
        if self.kind in REPAIRED_IN_PLACE and self.proposal is not None:
            starts = [*map(_first_difference, *pairs)]
            pairs = [
                (_excerpt_from(source, starts[0]), _excerpt_from(target, starts[1]))
                for source, target in pairs
            ]
        shown = [" ↔ ".join(map(excerpt_of, pair)) for pair in pairs]
        detail = f" ({self.detail})" if self.detail else ""
        return f"line {self.line}: {' → '.join([shown[0] + detail, *shown[1:]])}"

    @property
    def action(self) -> Action:
        """The action of training: it repairs the pair, leaves it out, or keeps it."""
        action, _ = KINDS[self.kind]
        if action == "repaired" and self.proposal is None:
            return "dropped"
        return action
