"""Write the language codes that exist, their aliases and likely scripts:
regard/data/language_codes.tsv.

    pip install babel==2.19.0 langcodes==3.5.1 pycountry==26.2.16 && python
    tools/make_language_codes.py

Aliases, likely scripts and countries are those of Unicode CLDR 49 by way of Babel, under the
Unicode License v3. Codes are those, with the tables of ISO 639-3 and 639-5 by way of pycountry, and
the IANA registry by way of langcodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[1] / "regard" / "data" / "language_codes.tsv"
HEADER = """\
# Aliases, scripts that languages are likely in, likely regions of the best known, and languages of countries:
# Unicode CLDR 49, (c) Unicode, Inc., Unicode License v3 (https://www.unicode.org/license.txt). Codes, with those of no
# known script: also ISO 639-3, ISO 639-5 and the IANA registry of subtags. Written by tools/make_language_codes.py
"""
OF_PROGRAMS = {
    "pb": "pt-BR",
    "pob": "pt-BR",
    "zt": "zh-Hant",
    "zh-chs": "zh-Hans",
    "zh-cht": "zh-Hant",
}
"""Codes of programs that are none of ISO 639: those of LibreTranslate, of subtitles and of older
Windows.
"""
OF_COUNTRIES = {"by": "be", "kz": "kk", "uk": "en"}
"""What is meant by a country's code, if that is another language than the likeliest there."""


def main() -> None:
    """Write a line for each alias, script, region and country."""
    from babel.core import get_global

    likely = {
        code.replace("_", "-"): value.split("_")
        for code, value in get_global("likely_subtags").items()
    }
    del likely["und"]
    aliases = {
        code: value.replace("_", "-")
        for code, value in get_global("language_aliases").items()
    }
    aliases |= registry_aliases(aliases) | OF_PROGRAMS
    codes = (
        iso_codes()
        | registry_codes()
        | {code for code in likely if re.fullmatch("[a-z]{2,3}", code)}
    )
    codes -= {*aliases}
    lines = [f"alias\t{code}\t{value}" for code, value in sorted(aliases.items())]
    for script, languages in sorted(scripts(likely, codes).items()):
        lines.append(f"script\t{script}\t{' '.join(sorted(languages))}")
    for code in sorted(codes):
        if len(code) == 2 and code in likely:
            lines.append(f"region\t{likely[code][2]}\t{code}")
    for country, language in sorted(countries(likely, codes | {*aliases}).items()):
        lines.append(f"country\t{country}\t{language}")
    OUT.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def scripts(likely: dict[str, list[str]], codes: set[str]) -> dict[str, list[str]]:
    """Return languages by their likely script, and those of a region where it is another; empty:
    none is known.
    """
    groups = defaultdict(list)
    for code in codes:
        groups[likely[code][1] if code in likely else ""].append(code)
    for code, (_, script, _) in likely.items():
        language, _, region = code.partition("-")
        if (
            language in codes & likely.keys()
            and re.fullmatch("[A-Z]{2}|[0-9]{3}", region)
            and script != likely[language][1]
        ):
            groups[script].append(code)
    return groups


def countries(likely: dict[str, list[str]], codes: set[str]) -> dict[str, str]:
    """Return the likeliest language of each country whose code is not that of a language."""
    languages = {}
    for code, (language, script, _) in likely.items():
        country = code.removeprefix("und-").lower()
        if re.fullmatch("und-[A-Z]{2}", code) and country not in codes:
            languages[country] = (
                f"{language}-{script}"
                if (language, script) == ("zh", "Hant")
                else language
            )
    languages |= {"us": "en", "gb": "en"}
    return languages | {
        country: language
        for country, language in OF_COUNTRIES.items()
        if country not in codes
    }


def iso_codes() -> set[str]:
    """Return the codes of ISO 639-3, in their two letters if there are, and those of families in
    ISO 639-5.
    """
    import pycountry

    languages: Any = pycountry.languages
    codes = {getattr(language, "alpha_2", language.alpha_3) for language in languages}
    return codes | {family.alpha_3 for family in pycountry.language_families}


def registry() -> list[dict[str, str]]:
    """Return the records of the IANA registry."""
    text = (files("langcodes") / "data" / "language-subtag-registry.txt").read_text(
        encoding="utf-8"
    )
    return [
        dict(re.findall(r"^([\w-]+): (.*)$", record, re.MULTILINE))
        for record in text.split("%%")
    ]


def registry_codes() -> set[str]:
    """Return the codes of languages in the IANA registry."""
    codes = {
        record["Subtag"] for record in registry() if record.get("Type") == "language"
    }
    return {code for code in codes if re.fullmatch("[a-z]{2,3}", code)}


def registry_aliases(aliases: dict[str, str]) -> dict[str, str]:
    """Return the tags that the IANA registry replaced as a whole, such as i-klingon."""
    tags = {
        record["Tag"].lower(): record["Preferred-Value"]
        for record in registry()
        if record.get("Type") in ("grandfathered", "redundant")
        and "Preferred-Value" in record
    }
    return {tag: aliases.get(value, value) for tag, value in tags.items()}


if __name__ == "__main__":
    main()
