"""Texts in another language than the model reads are told, and no others."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from regard.data.language_id import LanguageId
from regard.text.language_note import LETTERS, language_note

ROOT = Path(__file__).resolve().parents[2]
ROTATED = str.maketrans(
    string.ascii_lowercase, string.ascii_lowercase[13:] + string.ascii_lowercase[:13]
)


def prose(*names: str) -> list[str]:
    """Return the sentences of pages, without their code."""
    texts = [(ROOT / name).read_text("utf-8") for name in names]
    lines = [line for text in texts for line in text.splitlines()]
    words = [re.sub(r"`[^`]*`|\([^()]*\)", "", line) for line in lines]
    return [line for line in words if re.match(r"[^\W\d_]", line)]


@pytest.fixture(scope="module")
def language_id() -> LanguageId:
    pages = ("training.md", "translation.md", "server.md", "models.md")
    english = prose(*(f"docs/{page}" for page in pages))
    korean = prose(*(f"docs/ko/{page}" for page in pages))
    return LanguageId.learn({"en": english, "ko": korean})


ENGLISH = prose("README.md", "docs/documents.md", "docs/strings.md")
KOREAN = prose("README.ko.md", "docs/ko/documents.md", "docs/ko/strings.md")


def test_clear_cases_are_told_and_no_others(language_id: LanguageId) -> None:
    for lines, source, other in ((ENGLISH, "en", "ko"), (KOREAN, "ko", "en")):
        for start in range(0, len(lines) - 5, 5):
            document = lines[start : start + 5]
            assert not language_note(document, source, lambda: language_id)
            (note,) = language_note(document, other, lambda: language_id)
            assert note.startswith("the text looks like ")
    rotated = [line.lower().translate(ROTATED) for line in ENGLISH]
    (note,) = language_note(rotated, "en", lambda: language_id)
    assert note.startswith("the text does not look like English, which the model reads")


@pytest.mark.parametrize(
    "lines", [[], [""], ["12 + 3 = 15"] * 30, ["나는"], ["OK", "3", "{name}"]]
)
def test_little_text_loads_no_identification(lines: list[str]) -> None:
    def identify() -> LanguageId:
        raise AssertionError("it was loaded")

    assert language_note(lines, "en", identify) == ()
    assert language_note(ENGLISH, "", identify) == ()
    assert language_note(["a" * LETTERS], "en", identify, LETTERS + 1) == ()


def test_models_that_know_no_languages_tell_nothing(language_id: LanguageId) -> None:
    assert language_note(ENGLISH, "ko", lambda: None) == ()
    assert language_note(ENGLISH, "de", lambda: language_id) == ()
