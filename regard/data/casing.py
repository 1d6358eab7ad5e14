"""Lines in capitals and in Title Case, which a model reads in the letters in which it knows their words."""

from __future__ import annotations

import re
from typing import NamedTuple

from regard.data.mnemonics import Encode

TITLE_WORDS, TITLE_SHARE = 4, 0.75
"""Words of a line, and the share of them with a capital, from which on it is a title and no name or label."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_START = re.compile(r"(?:\A[\W\d_]*|[.!?…][^\w\s]{0,4}\s{1,4}[^\w\s]{0,4})[^\W\d_]")
_CODE = re.compile(r"\s*>>\w+<<")


class KnownCase(NamedTuple):
    """A line in known letters, and whether its translation is to be in capitals."""

    line: str
    is_capital: bool = False

    def restore(self, text: str) -> str:
        """Return what is translated in capitals, if the line was."""
        return text.upper() if self.is_capital else text


def in_known_case(line: str, encode: Encode) -> KnownCase:
    """Return a line of capitals, or a title, with each word in known letters; any other line as it is."""
    code = match[0] if (match := _CODE.match(line)) else ""
    rest = line[len(code) :]
    words = _WORD.findall(rest)
    is_cased = all(word.lower() != word.upper() for word in words)  # 한글 has no capitals
    is_capital = is_cased and rest.isupper() and any(len(word) > 1 for word in words)
    capitalised = is_cased and sum(word[0].isupper() for word in words)
    if not is_capital and (len(words) < TITLE_WORDS or capitalised < TITLE_SHARE * len(words)):
        return KnownCase(line)
    known = _WORD.sub(lambda match: _known(match[0], encode), rest)
    known = _START.sub(lambda match: match[0].upper(), known)
    return KnownCase(code + known, is_capital and known != rest)


def _known(word: str, encode: Encode) -> str:
    """Return a word in the letters that make the fewest tokens; of those with one, the most frequent."""
    forms = dict.fromkeys([word.lower(), word.capitalize(), word])
    return min(forms, key=lambda form: (len(ids := encode(form)), ids[0] if len(ids) == 1 else 0))
