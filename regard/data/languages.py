"""Languages of a model: codes as in BCP 47, and what the names of files tell of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache
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
"""Endings of names that come after the language."""
_NO_LANGUAGES = {
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
"""Endings that are a code of a table and mean something else."""
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
"""Names that those of Unicode CLDR do not have."""
NAMES_FILE = Path(__file__).parent / "languages.tsv"


@cache
def language_names() -> dict[str, tuple[str, ...]]:
    """Return the names of each language of Unicode CLDR by its code: in English, in Korean and in
    itself, if known.
    """
    lines = NAMES_FILE.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {code: tuple(names) for code, *names in rows}


@cache
def _codes() -> dict[str, str]:
    """Return the code of each name in lower case; of a name of several languages the first."""
    names = (
        (name.casefold(), code)
        for code, names in language_names().items()
        for name in names
        if name
    )
    return dict(reversed([*names]))


def english_name(code: str) -> str:
    """Return the English name of a language, with its region or script in brackets; the code if
    nothing is known.
    """
    base, _, rest = code.partition("-")
    own = language_names().get(base)
    if own is None or code in _REGIONAL_NAMES:
        return _REGIONAL_NAMES.get(code, code)
    return f"{own[0]} ({rest})" if rest else own[0]


def code_of(text: str) -> str:
    """Return the code that a text is or names, such as hsb for Upper Sorbian. Raises ValueError for
    others.

    What can be a code is one: ga is Irish, and Ga the language of that name, whose code is gaa.
    """
    named = _codes().get(text.casefold(), "")
    is_code = code_exists(text) and not (named and text.istitle())
    return canonical_code(named) if named and not is_code else existing_code(text)


def existing_code(text: str) -> str:
    """Return a code in its shortest form. Raises ValueError, with what may be meant, if there is no
    such language.
    """
    if not text or code_exists(text):
        return canonical_code(text)
    near = code_of_country(text) or _code_of_similar(text)
    hint = f"; did you mean {near} ({english_name(near)})?" if near else ""
    if parse_tag(text) is None:
        raise ValueError(f"{WANTED_CODE}, got {text[:MAX_CODE]!r}{hint}")
    raise ValueError(
        f"{text} is not a code of ISO "
        f"639{hint or '; for a language without one write x- and a name of it'}"
    )


def describe_code(text: str, kept: str) -> list[str]:
    """Describe a given code that is kept in another form, or that is easily meant for another
    language.
    """
    sentences = []
    if code_exists(text) and canonical_code(text) == kept != text:
        sentences.append(f"language {text}: kept as {kept} ({english_name(kept)})")
    if meant := confused_with(text):
        sentences.append(
            f"language {text}: is {english_name(text)}; if {english_name(meant)} is meant, write "
            f"{meant}"
        )
    return sentences


def as_given(text: str, languages: Languages) -> tuple[str, str]:
    """Return the codes of an option as they are written there, and those of languages that it
    names.
    """
    given = ["", *(code.strip() for code in text.split(","))][-2:]
    source, target = (
        code if code_exists(code) and canonical_code(code) == kept else kept
        for code, kept in zip(given, languages.pair, strict=True)
    )
    return source, target


def describe_codes(text: str, languages: Languages) -> list[str]:
    """Describe the codes of an option for both languages, or of captions for the target."""
    codes = [code.strip() for code in text.split(",")]
    pairs = zip(codes, languages.pair[-len(codes) :], strict=True)
    return [sentence for code, kept in pairs for sentence in describe_code(code, kept)]


def _code_of_similar(text: str) -> str:
    near = difflib.get_close_matches(text.casefold(), _codes(), 1, 0.8)
    return canonical_code(_codes()[near[0]]) if near else ""


def _existing_or_auto(code: str) -> str:
    return code if code == AUTO else existing_code(code)


LanguageCode = Annotated[str, AfterValidator(canonical_code)]
LanguageSetting = Annotated[str, AfterValidator(_existing_or_auto)]


class Languages(Settings):
    """The languages of a model's source and target; empty: unknown, or images."""

    source: LanguageCode = Field("", description="language of the source")
    target: LanguageCode = Field("", description="language of the target")

    def __str__(self) -> str:
        return " → ".join(self.codes)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes that are known, each once."""
        return tuple(dict.fromkeys(filter(None, self.pair)))

    @property
    def pair(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source, self.target


def parse_languages(text: str, origin: str, captions: bool = False) -> Languages:
    """Parse codes or names such as ko,Upper Sorbian; of captions one. Raises UsageError that names
    their `origin`.
    """
    codes = [code.strip() for code in text.split(",")]
    wanted = (
        "one code, that of the captions, such as en"
        if captions
        else "codes of source and target, such as ko,en"
    )
    if len(codes) != (1 if captions else 2):
        raise UsageError(f"{origin}: wanted {wanted}; got {text[:80]!r}")
    try:
        source, target = ("", *map(code_of, codes)) if captions else map(code_of, codes)
    except ValueError as problem:
        raise UsageError(f"{origin}: {problem}") from None
    return Languages(source=source, target=target)


def language_of_name(path: str | Path) -> str:
    """Return the language that the name of a file ends in, such as train.ko or train.ko.txt.gz;
    empty: none.
    """
    return named_code(_last_part(path))


def named_code(text: str) -> str:
    """Return the code that a text is, in its usual form, such as pt-BR for pt_br; empty: it is
    none.

    It has to be a language of Unicode CLDR by one of its codes.
    """
    match = _NAMED.fullmatch(text)
    if match is None or match[0] in _NO_LANGUAGES:
        return ""
    code = canonical_code(text)
    return code if base_language(code) in language_names() else ""


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
    """Return the one code that occurs; empty: none, or several."""
    different = {code for code in codes if code}
    return different.pop() if len(different) == 1 else ""


def _last_part(path: str | Path) -> str:
    """Return the last part of a file's name after its first one that says more than its format;
    empty: none.
    """
    parts = [part for part in Path(path).name.split(".") if part][1:]
    return next((part for part in reversed(parts) if part.lower() not in _ENDINGS), "")
