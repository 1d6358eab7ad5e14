"""The pages of the documentation, and what stands on them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LOGS = sorted(DOCS.glob("log/*.md"))  # they keep the names of their time
KOREAN = sorted(DOCS.glob("ko/**/*.md"))
PAGES = sorted({*ROOT.glob("README*.md"), *DOCS.glob("**/*.md")} - {*LOGS})


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def fenced(path: Path, language: str) -> list[str]:
    """Return the blocks of code of a page in a language."""
    block = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return block.findall(read(path))


def english(path: Path) -> Path:
    """Return the English page that a Korean one translates."""
    if path.parent == ROOT:
        return ROOT / "README.md"
    return DOCS / path.relative_to(DOCS / "ko")
