"""Write the tables by which JavaScript treats texts and search settings as Python does:
`regard/runtime/js/text_tables.js`, and of contracts `contract_tables.js` beside it.

Patterns, kinds of spans, rules of letters, lists of words and bounds stand in the modules of Python
alone.
A pattern is written as JavaScript reads it with the flag u, where `\\w`, `\\d` and `\\s` are those
of Python. A test tells when it is old.
"""

from __future__ import annotations

import json
import math
import re
import sys
import typing
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "regard" / "runtime" / "js" / "text_tables.js"
CONTRACTS = MODULE.with_name("contract_tables.js")
NOT_JUDGED = frozenset(("about", "sentence_end"))
"""Entries of the table of contracts that only the judge of words reads."""
UNICODE_SPACES = (
    r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
)
ASCII_SPACES = r" \t\n\r\f\v"
LETTERS = r"\p{L}\p{No}\p{Nl}"
CLASSES = {"w": rf"{LETTERS}\p{{Nd}}_", "d": r"\p{Nd}", "s": UNICODE_SPACES}
"""The inner parts of classes; an ASCII pattern has JavaScript's own, but for white space."""
TURNED = {
    r"[^\W\d_": f"[{LETTERS}]",
    r"[^\W_": rf"[{LETTERS}\p{{Nd}}]",
    r"[\W\d_": f"[^{LETTERS}]",
}
"""Classes, by their beginning, with one inside that leaves characters out; what follows in them is
no letter anyway.
"""
TOKEN = r"\[\^?\\W(?:\\d)?_[^]\\]*\]|\\U[0-9a-f]{8}|\\.|\(\?P<|\(\?i\)|\[\^?|."


def javascript(pattern: str | re.Pattern[str], is_anchored: bool = False) -> str:
    """Return a pattern of Python as a regular expression of JavaScript: anchored at the start, or
    for all matches.
    """
    compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
    classes = {"s": ASCII_SPACES} if compiled.flags & re.ASCII else CLASSES
    parts = list[str]()
    inside = False
    for part in re.findall(TOKEN, compiled.pattern, re.DOTALL):
        parts.append(_translated(part, classes, inside))
        inside = part.rstrip("^") == "[" or (inside and part != "]")
    case = "i" if compiled.flags & re.IGNORECASE else ""
    return (
        f"/^(?:{''.join(parts)})/u{case}"
        if is_anchored
        else f"/{''.join(parts)}/gu{case}"
    )


def _translated(part: str, classes: dict[str, str], inside: bool) -> str:
    """Return a token of a pattern, `inside` of a class or not, as JavaScript writes it."""
    if turned := next(
        (turned for start, turned in TURNED.items() if part.startswith(start)), ""
    ):
        return turned
    if part.startswith(r"\U"):
        return rf"\u{{{part[2:].lstrip('0')}}}"
    if part[0] == "\\" and part[1].lower() in classes:
        own = classes[part[1].lower()]
        assert not (inside and part[1].isupper()), (
            "a class inside of another that leaves characters out"
        )
        return own if inside else f"[{'^' * part[1].isupper()}{own}]"
    others = {
        "(?P<": "(?<",
        "(?i)": "",
        r"\#": "#",
        r"\"": '"',
        r"\A": "^",
        r"\Z": "$",
        "/": r"\/",
    }
    return _escaped(others.get(part, part))


def _escaped(text: str) -> str:
    """Return a text whose characters beyond ASCII are escapes, as combining ones cannot be read in
    a source.
    """
    codes = ((character, ord(character)) for character in text)
    return "".join(
        c
        if 32 <= code < 127
        else f"\\u{code:04x}"
        if code < 1 << 16
        else f"\\u{{{code:x}}}"
        for c, code in codes
    )


ANCHORED = (
    "languageCode",
    "initial",
    "clitic",
    "digraph",
    "particle",
    "constant",
)
"""Patterns that are looked for at the start of a text alone."""


def patterns() -> dict[str, str | re.Pattern[str]]:
    """Return the patterns that JavaScript has, too, by name."""
    from regard.data import (
        copy_tokens,
        given_words,
        letter_case,
        sentence_marks,
        sentences,
        spans,
        text,
    )
    from regard.text import casing, contracts, escapes, mnemonics, particles
    from regard.text.markup import document, projection

    return {
        "spans": spans._PATTERN,
        "spanSign": spans._SIGN,
        "messagePart": spans._MESSAGE_PART,
        "copies": copy_tokens._COPIES,
        "invisible": text.INVISIBLE,
        "lineBreak": sentences.NEWLINE,
        "unspaced": f"[{sentence_marks.character_class(sentence_marks.UNSPACED)}]",
        "givenWord": given_words.WORD,
        "languageCode": casing.LANGUAGE_CODE,
        "word": casing._WORD,
        "sentenceStart": casing._START,
        "initial": letter_case._INITIAL,
        "accented": letter_case._Lithuanian._ACCENTED,
        "dotted": letter_case._Lithuanian._DOTTED,
        "clitic": letter_case._Dutch._CLITIC,
        "digraph": letter_case._Dutch._IJ,
        "greekOr": letter_case._Greek._OR,
        "parted": letter_case._Greek._PARTED,
        "marked": letter_case._Greek._MARKED,
        "syllable": letter_case._Greek._SYLLABLE,
        "mark": mnemonics._MARK,
        "markAtEnd": mnemonics._AT_END,
        "markWithin": mnemonics._WITHIN,
        "labelEnd": mnemonics._SENTENCE_END,
        "letter": mnemonics._LETTER,
        "noLatin": mnemonics._NO_LATIN,
        "particle": particles._PARTICLE,
        "constant": contracts.CONSTANT,
        "otherScript": casing._OTHER_SCRIPT,
        "doubledQuote": escapes._DOUBLED,
        "singleQuote": escapes._SINGLE,
        "atom": document._ATOM,
        "escapedBreak": document._ESCAPED_BREAK,
        "separatedNumber": projection._NUMBER,
    }


def values() -> dict[str, Any]:
    """Return the other values that JavaScript has, too, by name, as JSON holds them."""
    from regard.contracts import codes, faults
    from regard.data import copy_tokens, letter_case, spans
    from regard.text import (
        casing,
        contracts,
        mnemonics,
        particles,
        protected_line,
        quality,
    )
    from regard.text.markup import document, elements, projection, tagged_sentence

    return {
        "KEPT": sorted(spans.KEPT - {"own"}),
        "KEPT_ON_RETRY": sorted(spans.KEPT_ON_RETRY - {"own"}),
        "NOT_COPIED": sorted(copy_tokens.NOT_COPIED),
        "MOST_COPIED": protected_line.MOST_COPIED,
        "COPY_CHARACTERS": copy_tokens.COPY_CHARACTERS,
        "OPENING": copy_tokens._OPENING,
        "APART_OPENING": contracts.OPENING,
        "APART_CLOSING": contracts.CLOSING,
        "JOINED_CODE": sorted(contracts.JOINED),
        "SHOWN": contracts.SHOWN,
        "WORDLESS": contracts.WORDLESS,
        "FEWEST": contracts.FEWEST,
        "BREAKING": sorted(faults._BREAKING),
        "GLUED": sorted(codes._GLUED),
        "SCRIPTS": casing.SCRIPTS,
        "TITLE_WORDS": casing.TITLE_WORDS,
        "TITLE_SHARE": casing.TITLE_SHARE,
        "LONGEST_WORD": letter_case.LONGEST_WORD,
        "PARTED_SYLLABLES": letter_case._PARTED_SYLLABLES,
        "LONGEST_LABEL": mnemonics.LONGEST,
        "DOUBTFUL": quality.DOUBTFUL,
        "FEW_WORDS": mnemonics.FEW_WORDS,
        "SMALL_WORDS": sorted(mnemonics._SMALL),
        "PARTICLES": particles.PARTICLES,
        "GREEK_DROPPED": "".join(map(chr, letter_case._Greek._DROPPED)),
        "TITLE_LETTERS": title_letters(),
        "LETTER_CASES": letter_cases(),
        "PUNCTUATION": sorted({*tagged_sentence._PUNCTUATION}),
        "CLOSING": sorted(document._CLOSING),
        "ENDS": sorted(projection._ENDS),
        "BLOCKS": sorted(elements.BLOCKS),
        "LINE_TAGS": sorted(elements.LINE_TAGS),
        "MOST_WORDS": document._MOST_WORDS,
        "LONGEST_WHOLE": document._LONGEST,
        "SEARCH_BOUNDS": search_bounds(),
    }


def search_bounds() -> dict[str, tuple[float, float, bool, bool]]:
    """Return of each search setting that is a number, by name: the least, the most, whether it is
    a whole number, and whether it may be null.
    """
    from regard.search import SearchSettings

    bounds = {}
    for name, field in SearchSettings.model_fields.items():
        types = typing.get_args(field.annotation) or (field.annotation,)
        if not {int, float}.isdisjoint(types):
            limits = {}
            for constraint in field.metadata:
                limits |= asdict(constraint)
            least = limits["ge"] if "ge" in limits else math.ulp(limits["gt"])
            most = limits["le"] if "le" in limits else limits["lt"] - 1
            bounds[name] = (least, most, int in types, type(None) in types)
    return bounds


def title_letters() -> dict[str, str]:
    """Return the letters that a word begins with in another form than in capitals, such as ß, ǆ and
    Georgian ones.
    """
    letters = (
        chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000
    )
    return {
        letter: letter.title() for letter in letters if letter.title() != letter.upper()
    }


def letter_cases() -> dict[str, str]:
    """Return the name of the rules of each language that has its own, by its codes in small
    letters.
    """
    from regard.data import language_codes, letter_case

    aliases = language_codes._table().aliases
    own = letter_case._LANGUAGES
    in_latin = letter_case._IN_LATIN
    codes = [*own, *(alias for alias, language in aliases.items() if language in own)]
    codes += [f"{code}-latn" for code in in_latin]
    codes += [
        f"{alias}-latn" for alias, language in aliases.items() if language in in_latin
    ]
    return {
        code: type(letter_case.letter_case(code)).__name__.removeprefix("_")
        for code in sorted(codes)
    }


def lines_of(name: str, items: Iterable[str]) -> str:
    return "\n".join(
        (f"export const {name} = {{", *(f"  {item}," for item in items), "};")
    )


def module() -> str:
    """Return the text of the module."""
    head = (
        "// Tables of texts and search settings, from the modules of Python. "
        "Written by tools/make_text_tables.py.\n"
    )
    compiled = lines_of(
        "PATTERNS",
        (
            f"{name}: {javascript(pattern, name in ANCHORED)}"
            for name, pattern in patterns().items()
        ),
    )
    others = (
        f"export const {name} = {json.dumps(value)};"
        for name, value in values().items()
    )
    return "\n".join((head, compiled, "", *others, ""))


def contracts_module() -> str:
    """Return the text of the module of contracts.

    It makes the table when it is first called, so that texts without code cost nothing.
    """
    from regard.contracts.dialects import table

    judged = {key: value for key, value in table().items() if key not in NOT_JUDGED}
    judged["dialects"] = {
        name: {key: value for key, value in entry.items() if key != "example"}
        for name, entry in judged["dialects"].items()
    }
    compact = json.dumps(judged, ensure_ascii=False, separators=(",", ":"))
    return (
        "// Spans of strings of programs, of regard/contracts/dialects.json. "
        "Written by tools/make_text_tables.py.\n\n"
        "let contracts;\n\n"
        f"export const CONTRACTS = () => (contracts ??= {compact});\n"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    MODULE.write_text(module(), encoding="utf-8")
    CONTRACTS.write_text(contracts_module(), encoding="utf-8")
