"""Tables of sentence splitting: sentence marks, abbreviations, and the characters of scripts.

`tools/make_sentence_tables.py` generates `regard/runtime/c/sentence_tables.h` from them.
"""

from __future__ import annotations

from typing import Final

from regard.data.sentence_terminal import SENTENCE_TERMINAL

Ranges = tuple[tuple[int, int], ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SPACED: Final = (
    ".!?…\u2024\u203c\u203d\u2047\u2048\u2049"
    "\u2e2e\u2e3c\u2e53\u2e54\u2e60\u2e61\ufe52\uff0e"
)
"""Marks of all scripts. They end a sentence only before white space, since they also occur in
numbers, addresses and code.
"""
_COMMAS = "\u104a\u1b5e\ua9c8"
"""Marks of Burmese, Balinese and Javanese that Unicode calls terminal, but that are used as commas.
"""
TIBETAN: Final = "\u0f0d\u0f0e\u0f0f\u0f10\u0f11\u0f12\u0f14"
"""The shad and similar marks, which Unicode does not call terminal, because they also end clauses.
"""
_ALSO_TERMINAL = TIBETAN + "\u05c3\u0df4\u0e5a\u0e5b\u10fb\u17da"
"""Further marks: those at the end of a Hebrew verse, and of a Sinhala, Thai, Georgian or Khmer
paragraph.
"""
GLUED: Final = "".join(
    sorted({*SENTENCE_TERMINAL, *_ALSO_TERMINAL} - {*SPACED, *_COMMAS})
)
"""Marks of one script, or of East Asian width; they also end a sentence without white space."""
MARKS: Final = SPACED + GLUED
CALLS: Final = "!?\u203c\u203d\u2047\u2048\u2049\ufe52\uff0e"
"""The spaced marks that end a sentence between two letters of scripts without capitals."""
QUIET: Final = ".…:\u2024\ufe52\uff0e"
"""Marks that do not end a sentence before a small letter, unlike `?` and `!`."""
BETWEEN_DIGITS: Final = "\u0589\u06d4"
"""Glued marks that also occur in times and numbers."""

CLOSERS: Final = "\"'”’»›)]}」』）】》〉"
OPENERS: Final = "\"'“‘«‹([{¿¡„‚「『（【《〈"
BEFORE_WORDS: Final = "(\"'“‘[„«"
"""Characters that may stand before an abbreviation."""
NOTES: Final[Ranges] = (
    (0x2A, 0x2A),
    (0xB2, 0xB3),
    (0xB9, 0xB9),
    (0x200D, 0x200D),
    (0x2020, 0x2021),
    (0x2070, 0x2070),
    (0x2074, 0x2079),
    (0x2600, 0x27BF),
    (0xFE0F, 0xFE0F),
    (0x1F000, 0x1FAFF),
)
"""Superscript figures, signs of footnotes, and emoji."""

CJK: Final[Ranges] = (
    (0x2E80, 0x2FDF),
    (0x3000, 0x30FF),
    (0x3130, 0x318F),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
)
UNSPACED: Final[Ranges] = (
    (0x2E80, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF01, 0xFF60),
)
"""Characters of Chinese and Japanese, and their punctuation; Korean has spaces between words."""
UNCASED: Final[Ranges] = (
    (0x0590, 0x109F),
    (0x1100, 0x139F),
    (0x1400, 0x1AFF),
    (0x1B00, 0x1C4F),
    (0x1CD0, 0x1CFF),
    (0x2D30, 0x2DDF),
    (0x2E80, 0xA4CF),
    (0xA500, 0xA63F),
    (0xA6A0, 0xA6FF),
    (0xA800, 0xAB2F),
    (0xABC0, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFB1D, 0xFDFF),
    (0xFE70, 0xFEFC),
)
"""Scripts without capital letters, from Hebrew to Chinese."""
GEORGIAN: Final[Ranges] = ((0x10A0, 0x10FF),)
"""Georgian, whose small letters begin sentences."""
GREEK: Final[Ranges] = ((0x0370, 0x037D), (0x037F, 0x03FF), (0x1F00, 0x1FFF))
ARMENIAN: Final[Ranges] = ((0x0531, 0x0556), (0x0560, 0x0588))
INDIC: Final[Ranges] = ((0x0900, 0x0963), (0x0971, 0x0DFF))
ETHIOPIC: Final[Ranges] = (
    (0x1200, 0x135A),
    (0x1380, 0x138F),
    (0x2D80, 0x2DDF),
    (0xAB00, 0xAB2F),
)
THAI_AND_LAO: Final[Ranges] = ((0x0E01, 0x0E4E), (0x0E81, 0x0ECE))
CLAUSES: Final[Ranges] = (
    (0x0E01, 0x0E2E),
    (0x0E30, 0x0E45),
    (0x0E47, 0x0E4E),
    (0x0E81, 0x0EAE),
    (0x0EB0, 0x0EC4),
    (0x0EC8, 0x0ECE),
    (0x0EDC, 0x0EDF),
    (0x1780, 0x17D3),
    (0x17DD, 0x17DD),
    (0x1950, 0x1974),
    (0x1980, 0x19C9),
    (0xAA80, 0xAADB),
)
"""Letters of Thai, Lao, Khmer, Tai Le, New Tai Lue and Tai Viet, in which white space separates
clauses and sentences.

The signs of repetition and of abbreviation (ๆ ฯ ໆ ຯ ៗ) are left out, since white space follows them
within a clause.
"""

KOREAN_ENDINGS: Final = "다요죠까"
"""Last syllables of verbs; a full stop after them ends a sentence without white space."""
HINDI_ENDINGS: Final = (
    "है",
    "हैं",
    "हूँ",
    "हूं",
    "हो",
    "था",
    "थी",
    "थे",
    "थीं",
    "गा",
    "गे",
    "गी",
    "आहे",
    "आहेत",
)
"""Endings of Hindi and Marathi verbs; a full stop after them also ends a sentence without white
space.
"""

NEVER_LAST: Final = _words("""
    mr mrs ms mx dr prof st ste vs rev hon gen col maj capt cmdr lt sgt gov sen rep pres supt messrs
    mme mlle mgr fr hr frl hrn dipl ing bzw vgl bspw sog usw ggf evtl inkl exkl zzgl ca approx viz
    cf al ibid resp sr sra srta dra ud uds jr med jur rer डॉ डा प्रो पं मो कु ডা মো
    """)
"""Abbreviations that never, or seldom, end a sentence."""
BEFORE_NUMBERS: Final = _words(
    "no nos nr nrn art fig figs vol vols ch chap sec eq p pp abb tab abs bd num núm n°"
)
BEFORE_SMALL: Final = _words("""
    eg ie etc meas inc ltd corp co dept univ min max incl excl temp tel ext avg std est ref orig
    misc asst assoc intl natl govt jan feb apr aug sept oct nov dec tue tues thu thurs fri op ed eds
    ex cit loc seq abk abt allg angew anm anz arch aufl ausg bearb begr bes betr bez bzgl dgl ebd
    ehem einschl entspr erg etw ev fam geb gebr geg gegr gek gesch gest gez ggfs hist hrsg inh insb
    jew kath lat math mio mrd möbl nachm nördl od östl phil phys priv qual rd reg röm schwed sonst
    spez staatl std stellv str südl tel tgl übers usf urspr verf verh vorm wg westl wiss zit zus zw
    zt av env éd ét fasc hab obs réf suiv trad boul apr aprox avda depto ej máx mín pág págs teléf
    ecc pag sig sigg dott avv bijv enz evt evtl osv fx feks esim jne ym np itd itp tzn tzw godz tys
    zob např atd apod popř tzv tj tis obr stb ún örn bkz npr god
    руб коп тыс млн млрд им ул обл рис табл тел акад ред изд гл стр см др пр гг напр тис ім вул див
    проф доц δηλ κλπ βλ αρ σελ τηλ εκ χιλ
    """)
"""Abbreviations that may end a sentence, but not before a small letter or a number."""
CONSONANTS: Final = frozenset(
    "bcdfghjklmnpqrstvwxzßçčćďłńňřśšťźžбвгджзйклмнпрстфхцчшщъьβγδζθκλμνξπρστφχψς"
)
"""Letters; a word that has no others is an abbreviation."""
MONTHS: Final = tuple(
    sorted(
        _words(
            "Januar Jänner Februar März April Mai Juni Juli August September Oktober November "
            "Dezember Jahrhundert"
        )
    )
)
"""Words that follow German ordinals."""
URDU_LETTERS: Final = _words(
    "اے بی سی ڈی ای ایف جی ایچ آئی جے کے ایل ایم این او پی کیو آر ایس ٹی یو وی ڈبلیو ایکس وائی زیڈ "
    "زی"
)
"""Urdu names of Latin letters; a mark between two of them belongs to an abbreviation."""
TIBETAN_CONNECTIVES: Final = _words(
    "དང ནི ནས ན ཏེ སྟེ ཞིང ཅིང ཤིང ཀྱང ཡང འང ཀྱི གྱི གི ཀྱིས གྱིས གིས པས བས པར བར ཞེས ཅེས"
)
"""Syllables after which a clause ends, but no sentence."""
TIBETAN_GENITIVE: Final = "འི"
KHMER_ETC: Final = ("ល។", "បេ។")
"""Continuations of the first mark of ។ល។, which is "and so on"."""
SHORTEST_LAST: Final = 5
"""Letters of the shortest word that cannot be an unlisted abbreviation; a small letter after it may
begin a sentence.
"""
LONGEST_ABBREVIATION: Final = 12
"""Characters before a mark that are examined for an abbreviation."""


def character_class(ranges: Ranges) -> str:
    """Return ranges of characters as they are written between the brackets of a regular
    expression.
    """
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _folded_letters() -> dict[int, int]:
    """Map the capitals in abbreviations to small letters, whose code points are 32 or 80 larger."""
    ranges = (
        (0x41, 0x5A, 32),
        (0xC0, 0xD6, 32),
        (0xD8, 0xDE, 32),
        (0x391, 0x3A9, 32),
        (0x400, 0x40F, 80),
        (0x410, 0x42F, 32),
    )
    return {
        code: code + step
        for first, last, step in ranges
        for code in range(first, last + 1)
    }


FOLDED: Final = _folded_letters()
