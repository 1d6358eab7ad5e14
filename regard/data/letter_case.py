"""Upper and lower case by the rules of a language, as Unicode CLDR and ICU have them, and what
capitals do not show.

Most languages need no rule of their own: Unicode's, which are Python's, fit them. Patterns are
compiled at their first use, as most processes need none.
"""

from __future__ import annotations

import re
import unicodedata

from regard.data.text import nfc

_INITIAL = "['’]?[^\\W\\d_][\u0300-\u036f]*"
_TONOS = "\u0301"
_DIALYTIKA = "\u0308"
LONGEST_WORD = 40
"""Characters of a word that has several spellings at most."""
_PARTED_SYLLABLES = 5
"""Last syllables of a word whose two vowels may be parted."""


class LetterCase:
    """The rules of most languages. A word in capitals may have several spellings in small letters,
    as ΑΛΛΑ has.
    """

    def upper(self, text: str) -> str:
        """Return a text in capitals."""
        return text.upper()

    def lower(self, text: str) -> str:
        """Return a text in small letters."""
        # Unicode's own rule leaves a dot beside the i.
        return text.replace("İ", "i").lower()

    def initial(self, text: str) -> str:
        """Return a text with a capital at its start, if a letter stands there, or an apostrophe and
        a letter.
        """
        match = re.match(_INITIAL, text)
        return self._titlecase(match[0]) + text[match.end() :] if match else text

    def spellings(self, word: str) -> list[str]:
        """Return what a word in capitals may be in small letters, the likeliest first."""
        return [self.lower(word)]

    def _titlecase(self, letter: str) -> str:
        """Return a letter with its marks as a capital, as a word begins with it."""
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
    """An i or j under an accent shows its dot, which Unicode writes as a mark of its own; a capital
    has none.
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
        clitic = match[0] if (match := re.match(self._CLITIC, text)) else ""
        rest = text[len(clitic) :]
        if digraph := re.match(self._IJ, rest):
            return clitic.lower() + digraph[0].upper() + rest[digraph.end() :]
        return clitic.lower() + super().initial(rest)

    def spellings(self, word: str) -> list[str]:
        small = self.lower(word)
        return [*dict.fromkeys([small.replace("ĳ", "ij"), small])]


class _Greek(LetterCase):
    """Capitals have no accents and breathings, but the dialytika, also where an accent has shown
    that vowels part.

    The word ή, which is "or", keeps its accent.
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
        return nfc(
            re.sub(
                self._MARKED, lambda match: match[0].translate(self._DROPPED), parted
            ).upper()
        )

    def spellings(self, word: str) -> list[str]:
        """Return the word with an accent on each of its last three syllables, on those that may
        have parted vowels too.

        A word of one syllable has an accent seldom; any other seldom has none.
        """
        small = _nfd(self.lower(word))
        if small == "η":  # the article: "or" keeps its accent in capitals
            return [small]
        if _TONOS in small or len(small) > LONGEST_WORD:
            return [nfc(small)]
        syllables = [*re.finditer(self._SYLLABLE, small)]
        pairs = [
            match
            for match in syllables[-_PARTED_SYLLABLES:]
            if match[0][-1] in "ιυ" and len(match[0]) > 1
        ]
        parted = [_inserted(small, _DIALYTIKA, match.end()) for match in pairs]
        joined = small.replace(_DIALYTIKA, "")  # ΡΟΪΔΙ may be ρόιδι
        accented = [
            form for base in (small, *parted, joined) for form in self._accented(base)
        ]
        forms = [small, *accented] if len(syllables) < 2 else [*accented, small]
        return [*dict.fromkeys(map(nfc, forms))]

    def _accented(self, word: str) -> list[str]:
        """Return a word with each accent that it may have, and with two, as όνομά in το όνομά
        μου.
        """
        syllables = [*re.finditer(self._SYLLABLE, word)][-3:]
        ends = [match.end() for match in syllables]
        firsts = [
            match.start() + 1
            for match in syllables
            if len(match[0]) > 1 and match[0][-1] in "ιυ"
        ]
        forms = [
            _inserted(word, _TONOS, end) for end in [*ends[-2:], *ends[:-2], *firsts]
        ]
        if len(ends) == 3:
            forms.append(_inserted(_inserted(word, _TONOS, ends[-1]), _TONOS, ends[0]))
        return forms


class _German(LetterCase):
    """In capitals ß is SS, unless somebody writes ẞ."""

    def spellings(self, word: str) -> list[str]:
        small = self.lower(word)
        places = [match.start() for match in re.finditer("ss", small)][:3]
        sharp = [f"{small[:place]}ß{small[place + 2 :]}" for place in places]
        return [small, *sharp]


class _Armenian(LetterCase):
    """The ligature և, which is a word as well, is ԵՎ in capitals."""

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
"""Languages with rules of their own."""
_IN_LATIN = dict.fromkeys(("kk", "kaa", "tt", "ba"), _TURKIC)
"""Languages that have rules of their own if their code names the Latin script, which is not the
likeliest.
"""


def letter_case(code: str) -> LetterCase:
    """Return the rules of a language, whose code may have any form, such as kk-Latn or OPUS-MT's
    kaz_Latn.
    """
    from regard.data.language_codes import base_language, script_of

    language = base_language(code)
    if language in _IN_LATIN and script_of(code) == "Latn":
        return _IN_LATIN[language]
    return _LANGUAGES.get(language, PLAIN)


def _inserted(text: str, mark: str, place: int) -> str:
    return f"{text[:place]}{mark}{text[place:]}"


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", nfc(text))
