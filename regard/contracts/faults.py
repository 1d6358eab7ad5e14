"""Faults of a translated string."""

from __future__ import annotations

from dataclasses import dataclass

from regard.contracts.dialects import table

_BREAKING = {"unpaired", "branch", "malformed"}


@dataclass(frozen=True)
class Fault:
    """One fault of a translation.

    `kind` is one of `lost`, `doubled`, `invented`, `altered`, `moved`, `glued`, `unpaired`,
    `branch`, `malformed`, `escape`, `untranslated`, `repeated`, `segment`, `space`, `bracket` and
    `length`; `what` is the span or the words concerned, and `detail` a sentence about them. `span`
    is the kind of the span; empty for a fault that is of words, or of several spans.
    """

    kind: str
    what: str
    detail: str
    span: str = ""

    @property
    def breaks_programs(self) -> bool:
        """Return whether a program that shows the translation may fail, or show its code."""
        return self.kind in _BREAKING or self.span in table()["breaking"]
