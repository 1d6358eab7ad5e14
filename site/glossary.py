"""Write docs/glossary.md and docs/ko/glossary.md from glossary.toml, and find rejected words in
Korean texts.

python site/glossary.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
TERMS: list[dict[str, Any]] = tomllib.loads(
    (HERE / "glossary.toml").read_text(encoding="utf-8")
)["term"]

ENGLISH = """# Glossary

The Korean word for each term, the same in all Korean texts of Regard: that of the [five notes](notes.md) if they have
one, else that of textbooks.

| English | Korean | meaning | not in Korean texts |
|---|---|---|---|
"""
KOREAN = """# 용어집

Regard의 한국어 글에서 쓰는 용어입니다. [노트 다섯 편](notes.md)에 나오는 말은 그대로 따르고, 없으면 교과서의 말을
씁니다.

| 한국어 | 영어 | 뜻 | 쓰지 않는 말 |
|---|---|---|---|
"""


def pages() -> dict[Path, str]:
    """Return the text of both pages."""
    english = [
        (t["en"], t["ko"], t["meaning"]["en"], t["not"])
        for t in sorted(TERMS, key=lambda t: t["en"].lower())
    ]
    korean = [
        (t["ko"], t["en"], t["meaning"]["ko"], t["not"])
        for t in sorted(TERMS, key=lambda t: t["ko"])
    ]
    return {
        DOCS / "glossary.md": ENGLISH + _rows(english),
        DOCS / "ko" / "glossary.md": KOREAN + _rows(korean),
    }


def _rows(rows: list[tuple[str, str, str, list[str]]]) -> str:
    return "".join(
        f"| {a} | {b} | {meaning} | {', '.join(rejected)} |\n"
        for a, b, meaning, rejected in rows
    )


def rejected_words(text: str) -> Iterator[str]:
    """Yield a sentence for each word of a Korean text that the glossary rejects."""
    for number, line in enumerate(text.splitlines(), 1):
        for term in TERMS:
            for word in term["not"]:
                if re.search(f"(?<![가-힣]){word}", line):
                    yield f"line {number}: {word}; the glossary has {term['ko']}"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
