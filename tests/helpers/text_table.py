"""Tables of test cases, written as text: a case a line, its cells between bars."""

from __future__ import annotations

import re


def lines(text: str) -> list[str]:
    """Return the lines that are not empty, without white space around them."""
    stripped = map(str.strip, text.splitlines())
    return [line for line in stripped if line]


def rows(text: str) -> list[list[str]]:
    """Return the cells of each line, without white space around them."""
    return [[cell.strip() for cell in line.split("|")] for line in lines(text)]


def blocks(text: str) -> list[list[str]]:
    """Return the lines of each block; blocks stand between empty lines, and lines that begin with
    a # and a space are comments.
    """
    parts = [lines(part) for part in re.split(r"\n\s*\n", text)]
    return [[line for line in part if not line.startswith("# ")] for part in parts]


def items(text: str) -> list[str]:
    """Return what stands between white space."""
    return text.split()
