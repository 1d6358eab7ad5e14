"""Languages of a model: codes as in BCP 47, names, and the languages in the names of files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from regard.common.errors import UsageError
from regard.common.settings import Settings
from regard.data.language_codes import (
    MAX_CODE,
    WANTED_CODE,
    base_language,
    canonical_code,
    code_exists,
    code_of_country,
    confused_with,
    parse_tag,
)

AUTO = "auto"
_NAMED = re.compile(r"([a-z]{2,3})(?:[-_]([A-Za-z]{2}|[A-Za-z]{4}))?")
_BOTH_NAMED = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
_ENDINGS = {
    "gz",
    "txt",
    "tsv",
    "csv",
    "json",
    "jsonl",
    "ndjson",
    "raw",
    "tok",
    "bpe",
    "lc",
    "tc",
}
"""Endings of file names that may follow the language."""
NO_LANGUAGES = {
    "src",
    "ada",
    "bin",
    "del",
    "ext",
    "in",
    "man",
    "mid",
    "min",
    "new",
    "rom",
    "sas",
    "sh",
    "vec",
}
"""Language codes that mean something else in names of files, and often of columns."""
_REGIONAL_NAMES = {
    "en-GB": "English (British)",
    "en-US": "English (American)",
    "pt-BR": "Portuguese (Brazilian)",
    "pt-PT": "Portuguese (European)",
    "sr-Cyrl": "Serbian (Cyrillic)",
    "sr-Latn": "Serbian (Latin)",
    "zh-Hans": "Chinese (simplified)",
    "zh-Hant": "Chinese (traditional)",
}
"""Names that Unicode CLDR lacks."""
_FURTHER_NAMES = {"nah": "nah", "nahuatl": "nah", "náhuatl": "nah"}
"""Codes by what a header calls a language that Unicode CLDR lacks."""
NAMES_FILE = Path(__file__).parent / "languages.tsv"
FOREIGN_NAMES_FILE = Path(__file__).parent / "foreign_names.tsv"


@cache
def language_names() -> dict[str, tuple[str, ...]]:
    """Return the names of each language of Unicode CLDR by its code: in English, in Korean, and in
    the language itself, if known.
    """
    return _read_names(NAMES_FILE)


def _read_names(path: Path) -> dict[str, tuple[str, ...]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {code: tuple(names) for code, *names in rows}


@cache
def _codes() -> dict[str, str]:
    """Return the code of each name in lower case; the first code if several languages share it."""
    codes: dict[str, str] = {}
    for code, names in language_names().items():
        for name in names:
            if name:
                codes.setdefault(name.casefold(), code)
    return codes


@cache
def _foreign_codes() -> dict[str, str]:
    """Return the code of each name that `foreign_names.tsv` adds."""
    rows = _read_names(FOREIGN_NAMES_FILE).items()
    regional = {name.casefold(): code for code, name in _REGIONAL_NAMES.items()}
    return (
        _FURTHER_NAMES
        | regional
        | {name: code for code, names in rows for name in names}
    )


def english_name(code: str) -> str:
    """Return the English name of a language, with its region or script in brackets; the code if the
    language is unknown.
    """
    base, _, subtags = code.partition("-")
    names = language_names().get(base)
    if names is None or code in _REGIONAL_NAMES:
        return _REGIONAL_NAMES.get(code, code)
    return f"{names[0]} ({subtags})" if subtags else names[0]


def code_of(text: str) -> str:
    """Return the code of a language by its code or name, such as hsb for Upper Sorbian.

    A text that is both is taken for the code, unless it is capitalised: ga is Irish, but Ga is the
    language of that name, whose code is gaa. Raises ValueError for other text.
    """
    named = _codes().get(text.casefold(), "")
    is_code = code_exists(text) and not (named and text.istitle())
    return canonical_code(named) if named and not is_code else existing_code(text)


def existing_code(text: str) -> str:
    """Return a code in its shortest form.

    Raises ValueError if there is no such language; the message suggests another code if one is
    similar.
    """
    if not text or code_exists(text):
        return canonical_code(text)
    similar = code_of_country(text) or _code_of_similar_name(text)
    hint = f"; did you mean {similar} ({english_name(similar)})?" if similar else ""
    if parse_tag(text) is None:
        raise ValueError(f"{WANTED_CODE}, got {text[:MAX_CODE]!r}{hint}")
    hint = hint or "; for a language without one write x- and a name of it"
    raise ValueError(f"{text} is not a code of ISO 639{hint}")


def describe_code(text: str, kept: str) -> list[str]:
    """Return sentences on a code that is `kept` in another form, or that is often confused with
    another.
    """
    sentences = []
    if code_exists(text) and canonical_code(text) == kept != text:
        sentences.append(f"language {text}: kept as {kept} ({english_name(kept)})")
    meant = confused_with(text)
    if meant:
        sentences.append(
            f"language {text}: is {english_name(text)}; if {english_name(meant)} is meant, write "
            f"{meant}"
        )
    return sentences


def as_given(text: str, languages: Languages) -> tuple[str, str]:
    """Return the codes of both languages as an option spells them; a language that the option names
    in words has the canonical code.
    """
    spellings = ["", *(code.strip() for code in text.split(","))][-2:]
    source, target = (
        spelling if code_exists(spelling) and canonical_code(spelling) == code else code
        for spelling, code in zip(spellings, languages.pair, strict=True)
    )
    return source, target


def describe_codes(text: str, languages: Languages) -> list[str]:
    """Return sentences on the codes of an option, as `describe_code` does for each; captions have
    only a target.
    """
    codes = [code.strip() for code in text.split(",")]
    pairs = zip(codes, languages.pair[-len(codes) :], strict=True)
    return [sentence for code, kept in pairs for sentence in describe_code(code, kept)]


def _code_of_similar_name(text: str) -> str:
    names = difflib.get_close_matches(text.casefold(), _codes(), 1, 0.8)
    return canonical_code(_codes()[names[0]]) if names else ""


def _existing_or_auto(code: str) -> str:
    return code if code == AUTO else existing_code(code)


LanguageCode = Annotated[str, AfterValidator(canonical_code)]
LanguageSetting = Annotated[str, AfterValidator(_existing_or_auto)]


class Languages(Settings):
    """The languages of a model's source and target; empty if unknown, or if the source is
    images.
    """

    source: LanguageCode = Field("", description="language of the source")
    target: LanguageCode = Field("", description="language of the target")

    def __str__(self) -> str:
        return " → ".join(self.codes)

    @property
    def codes(self) -> tuple[str, ...]:
        """The known codes, each once."""
        return tuple(dict.fromkeys(filter(None, self.pair)))

    @property
    def pair(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source, self.target

    @property
    def reversed(self) -> Languages:
        """The languages of the reverse direction."""
        return Languages(source=self.target, target=self.source)


def parse_languages(text: str, origin: str, captions: bool = False) -> Languages:
    """Parse codes or names such as ko,Upper Sorbian; captions have only one.

    Raises UsageError whose message begins with the `origin` of the text.
    """
    texts = [code.strip() for code in text.split(",")]
    if captions and len(texts) != 1:
        wanted = "one code, that of the captions, such as en"
        raise UsageError(f"{origin}: wanted {wanted}; got {text[:80]!r}")
    if not captions and len(texts) != 2:
        wanted = "codes of source and target, such as ko,en"
        raise UsageError(f"{origin}: wanted {wanted}; got {text[:80]!r}")
    try:
        codes = [code_of(name) for name in texts]
    except ValueError as problem:
        raise UsageError(f"{origin}: {problem}") from None
    return Languages(source="" if captions else codes[0], target=codes[-1])


def language_of_name(path: str | Path) -> str:
    """Return the language at the end of a file's name, such as train.ko or train.ko.txt.gz; empty
    if there is none.
    """
    return named_code(_last_part(path))


def named_code(text: str) -> str:
    """Return a code in its usual form, such as pt-BR for pt_br; empty if the text is no code of a
    language in Unicode CLDR.
    """
    return "" if text in NO_LANGUAGES else _known_code(text)


def _known_code(text: str) -> str:
    code = canonical_code(text) if _NAMED.fullmatch(text) else ""
    return code if base_language(code) in language_names() else ""


def language_called(text: str) -> str:
    """Return the code of a language by its code, in any case, or by its name in any language; empty
    for other text.
    """
    name = text.casefold()
    code = _known_code(name)
    spaced = name.replace("-", " ").replace("_", " ")
    forms = product((_codes(), _foreign_codes()), (name, spaced))
    named = next((codes[form] for codes, form in forms if form in codes), "")
    if code and not (named and text.istitle()):
        return code
    return canonical_code(named)


def languages_of_name(path: str | Path) -> Languages:
    """Return the languages in the name of a file of pairs, such as news.ko-en.tsv or
    app.en-hsb.train.tsv.
    """
    for part in reversed(Path(path).name.split(".")[1:]):
        match = _BOTH_NAMED.fullmatch(part)
        source, target = map(named_code, match.groups()) if match else ("", "")
        if source and target:
            return Languages(source=source, target=target)
    return Languages()


def only(codes: Iterable[str]) -> str:
    """Return the code if all codes that are not empty are the same; otherwise an empty string."""
    different = {code for code in codes if code}
    return different.pop() if len(different) == 1 else ""


def _last_part(path: str | Path) -> str:
    """Return the last part of a file's name that is not its first part and not the ending of a
    format; empty if there is none.
    """
    parts = [part for part in Path(path).name.split(".") if part][1:]
    return next((part for part in reversed(parts) if part.lower() not in _ENDINGS), "")
