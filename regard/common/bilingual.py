"""Texts in English and Korean, for experiments and worked examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import east_asian_width

from regard.common.errors import DataError
from regard.common.reading import package_toml

Language = Literal["en", "ko"]


@dataclass(frozen=True)
class Text:
    """A text in English and in Korean."""

    en: str
    ko: str

    def by(self, language: Language) -> str:
        """Return the text in one of the languages."""
        return self.ko if language == "ko" else self.en

    def __add__(self, other: Text) -> Text:
        return Text(self.en + other.en, self.ko + other.ko)

    def fill(self, **values: object) -> Text:
        """Fill in placeholders such as {score:.1f}; a bilingual value is filled in by language."""
        return Text(
            self.en.format(**_values_by(values, "en")),
            self.ko.format(**_values_by(values, "ko")),
        )


Words = Text | str
"""A text in both languages, or a text that is the same in both, such as a number."""


def words_by(words: Words, language: Language) -> str:
    """Return words in one of the languages."""
    return words if isinstance(words, str) else words.by(language)


def join_texts(texts: Sequence[Text], separator: Text | str) -> Text:
    """Join texts by the separator of each language."""
    return Text(
        words_by(separator, "en").join(text.en for text in texts),
        words_by(separator, "ko").join(text.ko for text in texts),
    )


def text_width(text: str) -> int:
    """Return the width of a text in columns of a terminal; Hangul takes two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _values_by(values: Mapping[str, object], language: Language) -> dict[str, object]:
    return {
        name: value.by(language) if isinstance(value, Text) else value
        for name, value in values.items()
    }


class Texts(dict[str, Text]):
    """Texts of a file by dotted key, such as "steps.add.title". A missing key raises DataError."""

    def __init__(self, texts: Mapping[str, Text], origin: str) -> None:
        super().__init__(texts)
        self.origin = origin

    def __missing__(self, key: str) -> Text:
        raise DataError(
            f"{self.origin}: `{key}` is missing; wanted a text in English and in Korean"
        )

    def table(self, name: str) -> Texts:
        """Return the texts of a table, by their keys in it."""
        inside = {
            key.removeprefix(f"{name}."): text
            for key, text in self.items()
            if key.startswith(f"{name}.")
        }
        return Texts(inside, f"{self.origin}: {name}")


def read_texts(package: str, name: str, keys: Collection[str]) -> Texts:
    """Read the texts of a TOML file of a package: {en = "…", ko = "…"}, or tables of such texts.

    A string stands for both languages. `keys` are the keys at the top. Raises DataError with all
    keys that are unknown or missing, and all texts that lack a language.
    """
    values = package_toml(package, name)
    causes = [
        f"{name}: `{key}` is unknown; wanted {', '.join(keys)}"
        for key in values
        if key not in keys
    ]
    causes += [
        f"{name}: `{key}` is missing; wanted {', '.join(keys)}"
        for key in keys
        if key not in values
    ]
    texts = dict(_flatten(values, "", causes, name))
    DataError.raise_all(causes)
    return Texts(texts, name)


def _flatten(
    values: Mapping[str, object], prefix: str, causes: list[str], origin: str
) -> Iterator[tuple[str, Text]]:
    """Yield the texts of nested tables by dotted key; append errors to the causes."""
    for name, value in values.items():
        key = prefix + name
        if isinstance(value, str):
            yield key, Text(value, value)
        elif isinstance(value, dict) and not {"en", "ko"} & value.keys():
            yield from _flatten(value, f"{key}.", causes, origin)
        elif (
            isinstance(value, dict)
            and value.keys() == {"en", "ko"}
            and all(isinstance(v, str) for v in value.values())
        ):
            yield key, Text(**value)
        else:
            causes.append(
                f"{origin}: `{key}` is no text; wanted a string, or a table of `en` and `ko`, got "
                f"{value!r}"
            )
