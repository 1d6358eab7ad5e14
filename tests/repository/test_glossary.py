"""Korean texts use the words of the glossary, and both pages of it are as the table says."""

from __future__ import annotations

from pathlib import Path

import glossary
import pytest

ROOT = Path(__file__).resolve().parents[2]
HANGUL = range(0xAC00, 0xD7A4)
PAGES = [ROOT / "README.ko.md", *sorted((ROOT / "docs" / "ko").rglob("*.md"))]
PROGRAM = [
    path
    for folder in ("regard", "site/figures")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".toml", ".js", ".html"}
    and any(ord(letter) in HANGUL for letter in path.read_text(encoding="utf-8"))
]
PENDING = {
    "regard/learn/lab/experiments/dictionary.toml": "그래디언트",
    "regard/visualisation/assets/live.js": "매개변수",
}
"""Rejected words that are left, by file; each is to be replaced with the next change of its
file.
"""


@pytest.mark.parametrize(
    "path", [*PAGES, *PROGRAM], ids=lambda path: str(path.relative_to(ROOT))
)
def test_korean_texts_use_the_words_of_the_glossary(path: Path) -> None:
    if path.name == "glossary.md":
        return  # which lists the rejected words
    name = str(path.relative_to(ROOT).as_posix())
    text = path.read_text(encoding="utf-8").replace(PENDING.get(name, "\0"), "")
    assert list(glossary.rejected_words(text)) == []


def test_the_pages_are_up_to_date() -> None:
    for path, text in glossary.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python site/glossary.py"


def test_the_glossary_of_the_readme_agrees() -> None:
    readme = (ROOT / "README.ko.md").read_text(encoding="utf-8").split("## 용어집")[1]
    words = {term["en"]: term["ko"] for term in glossary.TERMS}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[0] not in {"영어", "---"}:
            for english, korean in zip(
                cells[0].split(", "), cells[1].split(", "), strict=True
            ):
                assert words.get(english, korean) == korean, english
