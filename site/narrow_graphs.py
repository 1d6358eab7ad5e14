"""Graphs of experiments for narrow screens, whose text has the same size as on wide ones."""

from __future__ import annotations

import re
from typing import Any

GRAPH = re.compile(r"^!\[(.*)\]\((.*/lab/[\w-]+)\.svg\)$", re.MULTILINE)


def add(app: Any, docname: str, source: list[str]) -> None:
    """Put the narrow graph beside each wide one; the style sheet shows one of the two."""
    source[0] = GRAPH.sub(
        r"![\1](\2.svg){.wide-graph}\n![\1](\2-narrow.svg){.narrow-graph}", source[0]
    )
