"""Upper and lower case by the rules of a language, as in Unicode CLDR and ICU, and the spellings in
small letters that a word in capitals may have.

Most languages need no rules of their own, because Unicode's default rules, which Python follows,
fit them. Patterns are compiled at their first use, since most processes need none.
"""

from __future__ import annotations

import re
import unicodedata

from regard.data.text import nfc

_INITIAL = "['’]?[^\\W\\d_][\u0300-\u036f]*"
_TONOS = "\u0301"
_DIALYTIKA = "\u0308"
LONGEST_WORD = 40
"""Characters of the longest word for which several spellings are returned."""
_PARTED_SYLLABLES = 5
"""Last syllables of a Greek word in which two vowels may be parted by a dialytika."""


class LetterCase:
    """The rules of most languages; subclasses have those of other languages."""

    def upper(self, text: str) -> str:
        """Return a text in capitals."""
        return text.upper()

    def lower(self, text: str) -> str:
        """Return a text in small letters."""
        # The default rule would turn İ into an i and a combining dot.
        return text.replace("İ", "i").lower()

    def initial(self, text: str) -> str:
        """Return a text with a capital at its start, if it begins with a letter, or with an
        apostrophe and a letter.
        """
        match = re.match(_INITIAL, text)
        return self._titlecase(match[0]) + text[match.end() :] if match else text

    def spellings(self, word: str) -> list[str]:
        """Return the spellings in small letters that a word in capitals may have, the likeliest
        first.
        """
        return [self.lower(word)]

    def _titlecase(self, letter: str) -> str:
        """Return a letter and its marks in the form that begins a word with a capital."""
        return letter.title()


class _Turkic(LetterCase):
    """Latin letters with two kinds of i: İ and i have a dot, I and ı have none."""

    def upper(self, text: str) -> str:
        return text.replace("i", "İ").upper()

    def lower(self, text: str) -> str:
        return text.replace("İ", "i").replace("I", "ı").lower()

    def _titlecase(self, letter: str) -> str:
        return letter.replace("i", "İ").title()


class _Lithuanian(LetterCase):
    """An i or j with an accent keeps its dot, which Unicode writes as a combining mark; capitals
    have no dot.
    """

    _ACCENTED = "([IJ]\u0328?)(?=[\u0300\u0301\u0303])"
    _DOTTED = "([ij]\u0328?)\u0307"

    def upper(self, text: str) -> str:
        return nfc(re.sub(self._DOTTED, r"\1", _nfd(text)).upper())

    def lower(self, text: str) -> str:
        return nfc(re.sub(self._ACCENTED, "\\1\u0307", _nfd(text))).lower()

    def _titlecase(self, letter: str) -> str:
        return self.upper(letter)


class _Dutch(LetterCase):
    """The letters ij are one, and begin a word as IJ; the 's of 's avonds never has a capital."""

    _CLITIC = r"(?i)['’][dkmnst][\s-]+"
    _IJ = "(?i)['’]?(?:ij(?!\u0301)|íj\u0301)"

    def initial(self, text: str) -> str:
        match = re.match(self._CLITIC, text)
        clitic = match[0] if match else ""
        words = text[len(clitic) :]
        digraph = re.match(self._IJ, words)
        if digraph:
            return clitic.lower() + digraph[0].upper() + words[digraph.end() :]
        return clitic.lower() + super().initial(words)

    def spellings(self, word: str) -> list[str]:
        small = self.lower(word)
        return [*dict.fromkeys([small.replace("ĳ", "ij"), small])]


class _Greek(LetterCase):
    """Capitals lose accents and breathings, but keep the dialytika; they get one if an accent has
    shown that two vowels are no diphthong.

    The word ή ("or") keeps its accent.
    """

    _OR = "(?<![^\\W\\d_])(?<![\u0300-\u036f])[ηΗ]\u0301(?![\\w\u0300-\u036f])"
    _PARTED = (
        "([αεηιουωΑΕΗΙΟΥΩ][\u0313\u0314]?[\u0300\u0301\u0342][ιυΙΥ])"
        "(?![\u0300-\u0345]?\u0308)"
    )
    _MARKED = "[\u0370-\u03ff][\u0300-\u0345]+"
    _DROPPED = dict.fromkeys(
        map(ord, "\u0300\u0301\u0302\u0303\u0304\u0306\u0311\u0313\u0314\u0342\u0343")
    )
    _SYLLABLE = "(?:[αεηο]υ|[αεου]ι)(?!\u0308)|[αεηιουω]\u0308?"

    def upper(self, text: str) -> str:
        decomposed = re.sub(self._OR, "Ή", _nfd(text))
        parted = re.sub(self._PARTED, r"\1" + _DIALYTIKA, decomposed)
        without_accents = re.sub(
            self._MARKED, lambda match: match[0].translate(self._DROPPED), parted
        )
        return nfc(without_accents.upper())

    def spellings(self, word: str) -> list[str]:
        """Return the word with an accent on each of its last three syllables, also with vowels
        parted by a dialytika.

        The form without an accent comes first for a word of one syllable, and last for others.
        """
        small = _nfd(self.lower(word))
        if small == "η":
            # It is the article, since the word "or" keeps its accent in capitals.
            return [small]
        if _TONOS in small or len(small) > LONGEST_WORD:
            return [nfc(small)]

        syllables = [*re.finditer(self._SYLLABLE, small)]
        diphthongs = [
            match
            for match in syllables[-_PARTED_SYLLABLES:]
            if match[0][-1] in "ιυ" and len(match[0]) > 1
        ]
        parted = [_inserted(small, _DIALYTIKA, match.end()) for match in diphthongs]
        joined = small.replace(_DIALYTIKA, "")  # ΡΟΪΔΙ may be ρόιδι
        accented = [
            form for base in (small, *parted, joined) for form in self._accented(base)
        ]
        forms = [small, *accented] if len(syllables) < 2 else [*accented, small]
        return [*dict.fromkeys(map(nfc, forms))]

    def _accented(self, word: str) -> list[str]:
        """Return a word with each accent that it may have, and with two accents, as in το όνομά
        μου.
        """
        syllables = [*re.finditer(self._SYLLABLE, word)][-3:]
        ends = [match.end() for match in syllables]
        # After the first vowel of a diphthong.
        middles = [
            match.start() + 1
            for match in syllables
            if len(match[0]) > 1 and match[0][-1] in "ιυ"
        ]
        offsets = [*ends[-2:], *ends[:-2], *middles]
        forms = [_inserted(word, _TONOS, offset) for offset in offsets]
        if len(ends) == 3:
            last_accented = _inserted(word, _TONOS, ends[-1])
            forms.append(_inserted(last_accented, _TONOS, ends[0]))
        return forms


class _German(LetterCase):
    """The letter ß is SS in capitals; ẞ is seldom written."""

    def spellings(self, word: str) -> list[str]:
        small = self.lower(word)
        offsets = [match.start() for match in re.finditer("ss", small)][:3]
        with_eszett = [f"{small[:start]}ß{small[start + 2 :]}" for start in offsets]
        return [small, *with_eszett]


class _Armenian(LetterCase):
    """The ligature և, which is also a word, is ԵՎ in capitals."""

    def upper(self, text: str) -> str:
        return text.replace("և", "ԵՎ").upper()

    def spellings(self, word: str) -> list[str]:
        small = self.lower(word)
        return [*dict.fromkeys([small.replace("եվ", "և"), small])]

    def _titlecase(self, letter: str) -> str:
        return letter.replace("և", "Եվ").title()


PLAIN = LetterCase()
_TURKIC = _Turkic()
_GREEK = _Greek()
_GERMAN = _German()
_DUTCH = _Dutch()
_LANGUAGES = {
    **dict.fromkeys(("tr", "az", "crh", "gag", "lzz", "tly"), _TURKIC),
    "el": _GREEK,
    "lt": _Lithuanian(),
    "nl": _DUTCH,
    "de": _GERMAN,
    "hy": _Armenian(),
}
"""Rules by language."""
_IN_LATIN = dict.fromkeys(("kk", "kaa", "tt", "ba"), _TURKIC)
"""Rules of languages that are usually written in another script, if their code names the Latin
script.
"""


def letter_case(code: str) -> LetterCase:
    """Return the rules of a language by its code, in any form, such as kk-Latn or OPUS-MT's
    kaz_Latn.
    """
    from regard.data.language_codes import base_language, script_of

    language = base_language(code)
    if language in _IN_LATIN and script_of(code) == "Latn":
        return _IN_LATIN[language]
    return _LANGUAGES.get(language, PLAIN)


def _inserted(text: str, mark: str, offset: int) -> str:
    return f"{text[:offset]}{mark}{text[offset:]}"


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", nfc(text))
