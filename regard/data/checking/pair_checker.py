"""Judge pairs by what is usual in their own corpus: languages, lengths, and words that translate
each other.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from regard.data.checking.key_index import Ints
from regard.data.checking.lengths import BUCKETS, Lengths
from regard.data.checking.lexicon import Floats
from regard.data.checking.numbers import different_numbers
from regard.data.checking.pair_lexicon import LONGEST_CHECKED, PairLexicon, read_texts
from regard.data.checking.placeholders import placeholders, without_placeholders
from regard.data.checking.suspects import Suspect
from regard.data.checking.text_damage import (
    has_lost_letters,
    is_spreadsheet_error,
    letters_of,
    unescaped,
    ungarbled,
)
from regard.data.checking.variants import Variants
from regard.data.language_id import UNKNOWN_RATIO, UNKNOWN_WIDTH, LanguageId
from regard.data.pairs import Pair

BLOCK = 200
"""Lines of a block of the sample."""
OFFSETS = range(-5, 6)
"""Lines by which the sides of pairs may be shifted against each other."""
TRIED_PAIRS = 2_000
"""Pairs by which it is decided whether the sides differ in language."""
MOST_TOLD = 0.75
"""Share of them whose sides then have the language of their column."""
TRIED_BLOCKS = 8
"""Blocks of lines on which offsets are tried."""
SWAPPED_NATS = 6.0
"""Evidence, in nats, that both sides are in the language of the other column."""
UNTRANSLATED_NATS = 12.0
"""Evidence, in nats, that one side is in the language of the other column."""
OTHER_CERTAINTY = -2.0
"""Certainty below which a text is in no language of the corpus; see `LanguageId.detect`."""
FEWEST_LETTERS = 9
"""Letters below which no language is told."""
LONGEST_WORD = 20
"""Characters of the longest text that counts as a single word."""
WORDS_FOR_ONE = 5
"""Words that may translate a single one, at most."""
ODD_DEVIATIONS = 4.0
"""Deviations from the usual length of a translation."""
SEVERAL = 5
"""Different sources that have a boilerplate target, at least."""
BOILERPLATE_SHARE = 0.0005
"""Share of the pairs that have it, at least."""


@dataclass(frozen=True)
class PairChecker:
    """Judges the pairs of the corpus from a sample of which it was learnt."""

    lengths: Lengths
    languages: LanguageId
    has_two_languages: bool  # the sides of most pairs differ in language
    scripts: tuple[str, str]  # in which most letters of each side are written
    boilerplate: frozenset[str]
    variants: Variants
    lexicon: PairLexicon
    unrelated: float  # score below which sides are unrelated
    usual: float  # median score of the pairs
    offsets: Sequence[int]  # lines by which the targets of the sample stand lower

    @classmethod
    def learn(
        cls, sample: Sequence[Pair], offsets: Sequence[int] | None = None
    ) -> PairChecker | None:
        """Learn what is usual; None if the sample has too few pairs with letters.

        The sample consists of blocks of `BLOCK` lines. `offsets`: for each pair, by how many lines
        the translation of its source stands lower; by default the same for all, that with which the
        sides of pairs translate each other best.
        """
        if len(_with_letters(sample)) < 2 * BUCKETS:
            return None
        if offsets is None:
            offsets = [_best_offset(sample)] * len(sample)
        pairs = _with_letters(aligned(sample, offsets))
        sources, targets = read_texts(pairs)
        languages = LanguageId.learn({"source": sources, "target": targets})
        lexicon = PairLexicon.learn(pairs)
        if lexicon is None:
            return None
        unrelated, usual = lexicon.levels(pairs)
        return cls(
            Lengths.learn(pairs),
            languages,
            _has_two_languages(languages, pairs),
            (_main_script(sources), _main_script(targets)),
            _boilerplate(pairs),
            Variants.learn(pairs),
            lexicon,
            unrelated,
            usual,
            offsets,
        )

    def check(
        self, pairs: Sequence[Pair], is_learnt: npt.NDArray[np.bool_]
    ) -> tuple[list[Suspect], Floats]:
        """Return the suspects among pairs, and the score of the lexicon of each pair; NaN: unknown.

        `is_learnt`: which of the pairs were in the sample.
        """
        suspects = list[Suspect]()
        whole = list[int]()
        for row, pair in enumerate(pairs):
            damage = list(damage_of(pair))
            suspects += damage
            if not damage:
                whole.append(row)
        scores = np.full(len(pairs), math.nan)
        if not whole:
            return suspects, scores
        sound = [pairs[row] for row in whole]
        foreign = list(self._by_language(sound))
        suspects += foreign
        is_swapped = {s.line for s in foreign if s.kind == "swapped"}
        suspects += [s for s in self._by_content(sound) if s.line not in is_swapped]
        scores[whole] = self.lexicon.scores(sound, sound, is_learnt[whole])
        suspects += [
            _suspect(pairs[row], "unrelated")
            for row in np.flatnonzero(scores < self.unrelated).tolist()
            if pairs[row].line not in is_swapped
        ]
        return suspects, scores

    def _by_language(self, pairs: Sequence[Pair]) -> Iterator[Suspect]:
        """Yield pairs with a side that is not in the language of its column."""
        if not self.has_two_languages:
            return
        nats = [profile.nats for profile in self.languages.profiles.values()]
        sides = [*zip(*map(_own_words, pairs), strict=True)]
        own = []  # evidence for the language of the column, against that of the other
        certainty = []
        letters = []
        for side, texts in enumerate(sides):
            log_probs, sizes = self.languages.line_log_probabilities(texts)
            own.append(log_probs[side] - log_probs[1 - side])
            ratio = -log_probs[side] / (sizes + 1) / nats[side]
            evidence = np.sqrt(np.minimum(sizes, 100))
            certainty.append((UNKNOWN_RATIO - ratio) * evidence / UNKNOWN_WIDTH)
            letters.append(sizes)
        is_swapped = (own[0] + own[1] < -SWAPPED_NATS) & (own[0] < 0) & (own[1] < 0)
        for row in np.flatnonzero(is_swapped).tolist():
            pair = pairs[row]
            yield _suspect(pair, "swapped", proposal=(pair.target, pair.source))
        for side, name in enumerate(("source", "target")):
            is_long = (letters[side] >= FEWEST_LETTERS) & ~is_swapped
            is_long &= [" " in text for text in sides[side]]  # single words are kept
            is_other = own[side] < -UNTRANSLATED_NATS
            is_unknown = certainty[side] < OTHER_CERTAINTY
            is_unknown |= [self._lacks_script(text, side) for text in sides[side]]
            for row in np.flatnonzero(is_long & (is_other | is_unknown)).tolist():
                kind = "untranslated" if is_other[row] else "other language"
                yield _suspect(pairs[row], kind, name)

    def _lacks_script(self, text: str, side: int) -> bool:
        """Return whether no letter of a text is in the script of its side."""
        return not any(script_of(letter) == self.scripts[side] for letter in text)

    def _by_content(self, pairs: Sequence[Pair]) -> Iterator[Suspect]:
        """Yield pairs that are unusual in other respects."""
        deviations = self.lengths.deviations(pairs)
        for pair, deviation in zip(pairs, deviations.tolist(), strict=True):
            is_odd = abs(deviation) > ODD_DEVIATIONS
            if is_odd and not (_is_word(pair.source) and _is_term(pair.target)):
                yield _suspect(pair, "odd length", "long" if deviation > 0 else "short")
            if pair.target in self.boilerplate:
                yield _suspect(pair, "boilerplate")
            if self.has_two_languages and _is_copy(pair):
                yield _suspect(pair, "copy")
            lost, invented = _difference(pair)
            if lost or invented:
                yield _suspect(pair, "placeholders differ", ", ".join(lost + invented))
            lost, invented = different_numbers(pair.source, pair.target)
            # Words of a side may stand for numbers that the other has alone.
            if lost and invented:
                yield _suspect(pair, "numbers differ", ", ".join(lost + invented))
            variant = self.variants.first_of(pair)
            if variant:
                yield _suspect(
                    pair, "several variants", proposal=(pair.source, variant)
                )


def _has_two_languages(languages: LanguageId, pairs: Sequence[Pair]) -> bool:
    """Return whether the sides of most pairs can be told apart by their language, as they cannot
    where texts are corrected, or letters are copied or sorted.
    """
    if len(languages.profiles) < 2:
        return False
    tried = [pair for pair in pairs if not _is_copy(pair)]
    tried = tried[:: 1 + len(tried) // TRIED_PAIRS]
    evidence = np.zeros(len(tried))
    for side, texts in enumerate(zip(*map(_own_words, tried), strict=True)):
        log_probs, _ = languages.line_log_probabilities(texts)
        evidence += log_probs[side] - log_probs[1 - side]
    return int((evidence > 0).sum()) > MOST_TOLD * len(tried)


def aligned(sample: Sequence[Pair], offsets: Sequence[int]) -> list[Pair]:
    """Return each source with the target so many lines below it, within blocks of the sample."""
    rows = np.flatnonzero(stays_in_block(np.array(offsets))).tolist()
    return [
        Pair(sample[row].source, sample[row + offsets[row]].target, sample[row].line)
        for row in rows
    ]


def stays_in_block(offsets: Ints) -> npt.NDArray[np.bool_]:
    """Return for each row whether the one so many below it is in the same block of lines."""
    rows = np.arange(len(offsets))
    others = rows + offsets
    stays: npt.NDArray[np.bool_] = others // BLOCK == rows // BLOCK
    return stays & (others < len(rows))


def _best_offset(sample: Sequence[Pair]) -> int:
    """Return the offset of the targets with which the sides of pairs translate each other best."""
    blocks = range(0, len(sample), BLOCK)
    tried = list[Pair]()
    for start in blocks[:: 1 + len(blocks) // TRIED_BLOCKS]:
        tried += sample[start : start + BLOCK]
    best = 0
    best_usual = -math.inf
    for offset in sorted(OFFSETS, key=abs):
        offsets = [offset] * len(tried)
        pairs = _with_letters(aligned(tried, offsets))
        if len(pairs) >= 2 * BUCKETS:
            lexicon = PairLexicon.learn(pairs)
            level, usual = lexicon.levels(pairs) if lexicon else (0, -math.inf)
            if offset and usual <= level:
                continue  # as good as sides that are drawn
            if usual > best_usual:
                best, best_usual = offset, usual
    return best


def _with_letters(pairs: Sequence[Pair]) -> list[Pair]:
    return [p for p in pairs if _has_letters(p.source) and _has_letters(p.target)]


def damage_of(pair: Pair) -> Iterator[Suspect]:
    """Yield what is wrong with the texts of a pair themselves."""
    source, target = pair.source, pair.target
    if not source or not target:
        yield _suspect(pair, "empty")
    elif is_spreadsheet_error(source) or is_spreadsheet_error(target):
        yield _suspect(pair, "spreadsheet error")
    elif not _has_letters(source) and not _has_letters(target):
        yield _suspect(pair, "no letters")
    elif has_lost_letters(source, target) or has_lost_letters(target, source):
        yield _suspect(pair, "lost letters")
    else:
        sides = ungarbled(source), ungarbled(target)
        proposal = unescaped(sides[0]), unescaped(sides[1])
        if sides != (source, target):
            yield _suspect(pair, "garbled", proposal=proposal)
        if (unescaped(source), unescaped(target)) != (source, target):
            yield _suspect(pair, "entities", proposal=proposal)


def _suspect(
    pair: Pair, kind: str, detail: str = "", proposal: tuple[str, str] | None = None
) -> Suspect:
    return Suspect(pair.line, kind, pair.source, pair.target, detail, proposal)


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


@lru_cache(maxsize=1 << 16)
def script_of(letter: str) -> str:
    """Return the script of a letter, such as "HANGUL"; empty for other characters."""
    return unicodedata.name(letter, "").split(" ")[0] if letter.isalpha() else ""


def _main_script(texts: Sequence[str]) -> str:
    """Return the script in which most letters of texts are written."""
    counts = Counter[str]()
    for letter, count in Counter("".join(texts)).items():
        counts[script_of(letter)] += count
    del counts[""]
    return counts.most_common(1)[0][0]


def _is_word(text: str) -> bool:
    return " " not in text and len(text) <= LONGEST_WORD


def _is_term(text: str) -> bool:
    """Return whether a text may stand for a single word."""
    return text.count(" ") < WORDS_FOR_ONE


def _own_words(pair: Pair) -> tuple[str, str]:
    """Return the words of each side that the other lacks, without placeholders: names and code are
    in no language.
    """
    source, target = _language(pair.source).split(), _language(pair.target).split()
    shared = {*source} & {*target}
    if shared:
        source, target = (
            [word for word in side if word not in shared] for side in (source, target)
        )
    return " ".join(source), " ".join(target)


def _language(text: str) -> str:
    """Return the beginning of a text without its placeholders."""
    return without_placeholders(text[:LONGEST_CHECKED])


def _difference(pair: Pair) -> tuple[list[str], list[str]]:
    """Return the placeholders of a source that its target lacks, and the reverse."""
    source = Counter(placeholders(pair.source))
    target = Counter(placeholders(pair.target))
    if source == target:
        return [], []
    return [*(source - target).elements()], [*(target - source).elements()]


def _is_copy(pair: Pair) -> bool:
    """Return whether both sides have the same letters, in more than two words, one of which
    at least is language.
    """
    if pair.source.count(" ") < 2 or letters_of(pair.source) != letters_of(pair.target):
        return False
    return sum(map(_has_letters, _language(pair.source).split())) > 0


def _boilerplate(pairs: Sequence[Pair]) -> frozenset[str]:
    """Return the targets that many different sources have; single words have synonyms."""
    sources = defaultdict[str, set[str]](set)
    for pair in pairs:
        if not _is_word(pair.source):
            sources[pair.target].add(letters_of(pair.source))
    fewest = max(SEVERAL, BOILERPLATE_SHARE * len(pairs))
    return frozenset(target for target, own in sources.items() if len(own) >= fewest)
