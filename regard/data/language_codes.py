"""Language codes: bring the codes of all clients into one form (BCP 47), by the aliases and likely
scripts of Unicode CLDR.

This module alone decides what a code means, for training, export, the server and its clients. It
has its own table, because the package langcodes takes 1 MB and calls Croatian a good match for
Serbian; the tests compare with that package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from regard.common.lazy import lazy_pattern

CODES_FILE = Path(__file__).parent / "language_codes.tsv"
MAX_CODE = 35
"""Characters of the longest code (RFC 5646, section 4.4.1)."""
WANTED_CODE = (
    "wanted a language code such as ko, en or zh-Hans (BCP 47; empty: unknown)"
)
_LANGUAGE = lazy_pattern("[A-Za-z]{2,3}")
_EXTENDED = lazy_pattern("[A-Za-z]{3}")
_SCRIPT = lazy_pattern("[A-Za-z]{4}")
_REGION = lazy_pattern("[A-Za-z]{2}|[0-9]{3}")
_REGION_OF_ANDROID = lazy_pattern("r[A-Z]{2}")
_VARIANT = lazy_pattern("[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}")
_PRIVATE = lazy_pattern("x(-[a-z0-9]{1,8})+")
_LOCAL_USE = lazy_pattern("q[a-t][a-z]")
_EXTENSIONS = lazy_pattern("(-[a-wy-z0-9](-[a-z0-9]{2,8})+)*(-x(-[a-z0-9]{1,8})+)?")
_ENCODING = lazy_pattern(r"(?<=_[A-Z]{2})\.[A-Za-z0-9-]+\Z")
"""The encoding in the name of a locale, such as de_DE.UTF-8."""
_REGIONS = {"UK": "GB"}
_MODIFIERS = {
    "latin": "Latn",
    "cyrillic": "Cyrl",
    "devanagari": "Deva",
    "arabic": "Arab",
    "iqtelif": "Latn",
}
"""Modifiers of a locale, such as sr@latin, that name a script."""
_NO_VARIANTS = ("euro", "cjknarrow")
"""Modifiers of a locale that do not concern the language."""
_ROMANISED = (
    "alalc97",
    "hepburn",
    "heploc",
    "jyutping",
    "pinyin",
    "tongyong",
    "wadegile",
)
"""Variants of a code that name a romanisation."""
_SCRIPT_VARIANTS = {
    "Aran": "Arab",
    "Cyrs": "Cyrl",
    "Hang": "Kore",
    "Hanb": "Hant",
    "Latf": "Latn",
    "Latg": "Latn",
}
"""The script that a variant or combination of scripts belongs to."""
_SAME_LANGUAGE = {"no": "nb"}
"""Norwegian is taken for Bokmål unless it is called Nynorsk."""
_NO_LANGUAGE = frozenset(("und", "mul", "mis"))
"""Codes of texts in an unknown language, or in several."""
_CONFUSED = {"kr": "ko", "se": "sv", "ee": "et"}
"""Codes of small languages that usually stand for the language of the country with the same code.
"""


@dataclass(frozen=True)
class _Table:
    """The rows of the file of codes."""

    aliases: dict[str, str]
    """Another code of the same language, by code."""
    scripts: dict[str, str]
    """The likely script by language, or by language and region, such as zh-TW."""
    regions: dict[str, str]
    """The likely region by language."""
    countries: dict[str, str]
    """A language by the code of a country."""
    by_region: frozenset[str]
    """Languages whose script depends on the region."""


@cache
def _table() -> _Table:
    aliases: dict[str, str] = {}
    scripts: dict[str, str] = {}
    regions: dict[str, str] = {}
    countries: dict[str, str] = {}
    for line in CODES_FILE.read_text(encoding="utf-8").splitlines():
        kind, _, fields = line.partition("\t")
        key, _, value = fields.partition("\t")
        if kind == "alias":
            aliases[key] = value
        elif kind == "script":
            scripts.update(dict.fromkeys(value.split(" "), key))
        elif kind == "region":
            regions[value] = key
        elif kind == "country":
            countries[key] = value
    by_region = frozenset(code.partition("-")[0] for code in scripts if "-" in code)
    return _Table(aliases, scripts, regions, countries, by_region)


@dataclass(frozen=True)
class LanguageTag:
    """Subtags of a language code in their usual capitalisation."""

    language: str
    script: str = ""
    region: str = ""
    rest: str = ""  # variants, extensions and private use

    def __str__(self) -> str:
        return "-".join(
            filter(None, (self.language, self.script, self.region, self.rest))
        )

    @property
    def likely_script(self) -> str:
        """The script or, if none is named, the likeliest script of the language in the region;
        empty if unknown.
        """
        scripts = _table().scripts
        written = (
            self.script
            or scripts.get(f"{self.language}-{self.region}")
            or scripts.get(self.language, "")
        )
        return _SCRIPT_VARIANTS.get(written, written)


@lru_cache(maxsize=4096)
def parse_tag(text: str) -> LanguageTag | None:
    """Parse a code as clients write it, such as zh_CN, PT-BR, sr@latin, kor_Hang or de_DE.UTF-8;
    None if the text has not the form of a code.
    """
    locale, at, modifier = text.partition("@")
    code = _ENCODING.sub("", locale).replace("_", "-")
    if len(text) > MAX_CODE or not code.isascii():
        return None
    if _PRIVATE.fullmatch(code.lower()):
        return LanguageTag(code.lower()) if not at else None

    if "-" in code:
        code = _table().aliases.get(code.lower()) or code
    tag = _parse_subtags(code.split("-"))
    return tag if tag is None or not at else _with_modifier(tag, modifier.lower())


def _parse_subtags(subtags: list[str]) -> LanguageTag | None:
    if not _LANGUAGE.fullmatch(subtags[0]):
        return None
    language, *others = subtags
    has_region = others and _REGION_OF_ANDROID.fullmatch(others[0])
    if others and not has_region and _EXTENDED.fullmatch(others[0]):
        language = others.pop(0)
    tag = _from_alias(language.lower())
    if others and _SCRIPT.fullmatch(others[0]):
        tag = replace(tag, script=others.pop(0).title())
    if others and _REGION_OF_ANDROID.fullmatch(others[0]):
        others[0] = others[0][1:]
    if others and _REGION.fullmatch(others[0]):
        region = others.pop(0).upper()
        tag = replace(tag, region=_REGIONS.get(region, region))
    variants = []
    while others and _VARIANT.fullmatch(others[0]):
        variants.append(others.pop(0).lower())
    extensions = "".join(f"-{subtag.lower()}" for subtag in others)
    if not _EXTENSIONS.fullmatch(extensions):
        return None
    if not tag.script and any(variant in _ROMANISED for variant in variants):
        tag = replace(tag, script="Latn")
    return replace(tag, rest=("-".join(variants) + extensions).strip("-"))


def _from_alias(language: str) -> LanguageTag:
    """Return the tag for a language subtag; an alias may add a script or region, such as sr-Latn
    for sh.
    """
    language, *others = _table().aliases.get(language, language).split("-")
    script = next((subtag for subtag in others if len(subtag) == 4), "")
    region = next((subtag for subtag in others if len(subtag) == 2), "")
    return LanguageTag(language, script, region)


def _with_modifier(tag: LanguageTag, modifier: str) -> LanguageTag | None:
    if modifier in _MODIFIERS:
        return replace(tag, script=_MODIFIERS[modifier])
    if modifier in _NO_VARIANTS:
        return tag
    if not _VARIANT.fullmatch(modifier):
        return None
    return replace(tag, rest=f"{modifier}-{tag.rest}".strip("-"))


def canonical_code(text: str) -> str:
    """Return a language code in its shortest form, such as de for deu_Latn; an empty text stays
    empty.

    A script is left out if the language is written in no other, in any region. Raises ValueError if
    the text has not the form of a code.
    """
    if not text:
        return ""
    tag = parse_tag(text)
    if tag is None:
        raise ValueError(f"{WANTED_CODE}, got {text[:MAX_CODE]!r}")
    if not tag.script or tag.language in _table().by_region:
        return str(tag)
    if any(variant in tag.rest for variant in _ROMANISED):
        return str(tag)
    without_script = replace(tag, script="")
    is_likely = without_script.likely_script == tag.likely_script
    return str(without_script if is_likely else tag)


def code_exists(code: str) -> bool:
    """Return whether the language of a code is in ISO 639 or the IANA registry, or is for private
    use.
    """
    tag = parse_tag(code)
    if tag is None:
        return False
    if tag.language.startswith("x-") or _LOCAL_USE.fullmatch(tag.language):
        return True
    return tag.language in _table().scripts


def code_of_country(code: str) -> str:
    """Return the language for which the code of a country may stand by mistake, such as ja for jp;
    empty if there is none.
    """
    return _table().countries.get(code.lower().replace("_", "-").partition("-")[0], "")


def confused_with(code: str) -> str:
    """Return the language that users often mean by the code of another, such as ko for kr, which is
    Kanuri; empty if there is none.
    """
    return _CONFUSED.get(code, "")


def base_language(code: str) -> str:
    """Return the language of a code without script, region and variants; a text that is no code is
    returned as it is.
    """
    tag = parse_tag(code)
    return code if tag is None else tag.language


def is_same_language(code: str, other: str) -> bool:
    """Return whether two codes may be of one language, in whatever script or region: also if one
    names no known language, or is often mistaken for the other.
    """
    tags = [parse_tag(text) for text in (code, other) if code_exists(text)]
    named = [tag for tag in tags if tag and tag.language not in _NO_LANGUAGE]
    languages = [
        {_merged_language(tag), confused_with(tag.language) or tag.language}
        for tag in named
    ]
    return len(languages) < 2 or not languages[0].isdisjoint(languages[1])


def script_of(code: str) -> str:
    """Return the script of a code, or else the likeliest script of its language; empty if
    unknown.
    """
    tag = parse_tag(code)
    return "" if tag is None else tag.likely_script


class CodeIndex:
    """Index of the codes of models; `match` finds the code that a client means.

    A region or variant may be left out or added, so that en-US matches en. A code in another script
    does not match: neither sr-Latn matches sr, which is Cyrillic, nor zh-TW matches zh. `stand_ins`
    are names that are only matched literally.
    """

    def __init__(self, codes: Iterable[str], stand_ins: Iterable[str] = ()) -> None:
        self._by_name: dict[str, str] = {}
        self._by_language: dict[str, list[tuple[LanguageTag, str]]] = defaultdict(list)
        for code in codes:
            self._by_name.setdefault(code.lower(), code)
            tag = parse_tag(code)
            if tag is not None and code not in stand_ins:
                self._by_language[_merged_language(tag)].append((tag, code))

    def match(self, text: str) -> str | None:
        """Return the model's code that a client's code means; None if there is none."""
        name = text.lower()
        named = self._by_name.get(name.replace("_", "-")) or self._by_name.get(name)
        wanted = parse_tag(text)
        if named is not None or wanted is None:
            return named

        best: str | None = None
        best_closeness: tuple[bool, ...] = ()
        for tag, code in self._by_language.get(_merged_language(wanted), []):
            closeness = _closeness(wanted, tag)
            if closeness > best_closeness:
                best = code
                best_closeness = closeness
        return best


def _merged_language(tag: LanguageTag) -> str:
    """Return the language of a tag; languages that match each other are the same."""
    return _SAME_LANGUAGE.get(tag.language, tag.language)


def _closeness(wanted: LanguageTag, tag: LanguageTag) -> tuple[bool, ...]:
    """Rank how close a tag of the same language is to `wanted`; empty if it does not match."""
    scripts = {wanted.likely_script, tag.likely_script} - {""}
    if len(scripts) > 1:
        return ()
    has_other_region = bool(tag.region) and wanted.region not in ("", tag.region)
    if has_other_region and tag.language not in _table().by_region:
        return ()
    is_likely = tag.region == _table().regions.get(tag.language, tag.region)
    return (
        True,
        wanted.language == tag.language,
        wanted.region == tag.region,
        wanted.rest == tag.rest,
        not tag.region,
        not tag.rest,
        is_likely,
    )
