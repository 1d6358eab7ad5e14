"""Faults of a translated string."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One fault of a translation.

    `kind` is one of `lost`, `doubled`, `invented`, `altered`, `moved`, `glued`, `unpaired`,
    `branch`, `malformed`, `escape`, `untranslated`, `repeated`, `segment`, `space`, `bracket` and
    `length`; `what` is the span or the words concerned, and `detail` a sentence about them.
    """

    kind: str
    what: str
    detail: str
