"""Generate the Korean–English sample corpus and its splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random

from regard.common.errors import UsageError
from regard.learn.samples.aligned_pairs import AlignedPair, Sample, checked_sizes
from regard.learn.samples.derivation import Clause, Frame, Sentence
from regard.learn.samples.grammar import SHORTEST, Combination, Grammar
from regard.learn.samples.lexicon import GREETINGS, PLACES, THINGS, I, by_name
from regard.learn.samples.realisation import realise
from regard.learn.samples.verbs import VERBS, Verb

SIZES = {
    "train": 24_000,
    "valid": 500,
    "test": 500,
    "recombination": 500,
    "length": 500,
}
SHORT = 12  # words of the longest short sentence
COMMON = 6  # words of the most frequent short sentences
TAIL = 20  # about the mean number of words beyond SHORT in long sentences, if there were no limit
WELL_COVERED = 10_000
"""Number of training pairs from which on recombinations use only words that occur in training."""
TRIES = 1000  # draws of a new pair until its split is given up

Draw = Callable[[], Sentence | None]


def korean_english(
    seed: int = 1,
    sizes: Mapping[str, int] | None = None,
    short: float = 0.75,
    longest: int = 80,
) -> Sample:
    """Generate Korean sentences, their English translations and gold word alignments from a
    grammar.

    Each side determines the other, so that the correct translation is unique. No sentence of either
    language occurs twice in the corpus. `sizes` replaces some of SIZES. The splits:

    - train: begins with 나는 집에 간다 = I go home, 나는 빵을 먹고 있었다 = I was eating bread, and
      greetings.
    - valid, test: drawn like train.
    - recombination: sentences with a verb and an object that are never combined in other splits
      (see `held_out`), though each of their words occurs in train (if train has 10,000 pairs or
      more).
    - length: all lengths from 2 to `longest` equally often.

    Length is counted in English words; the Korean sentence has about 0.7 times as many. A share
    `short` of the sentences has 2 to 12 words, the others more, up to `longest`.
    """
    split_sizes = checked_sizes(SIZES, sizes)
    if not 0 <= short <= 1:
        raise UsageError(f"short: wanted a share between 0 and 1, got {short}")
    if longest < SHORTEST:
        raise UsageError(f"longest: wanted {SHORTEST} or more, got {longest}")
    sampler = _Sampler(seed, short, longest)
    # The small splits come before train, which could use up the few shortest sentences.
    # Recombination comes after train, to whose words it keeps (from WELL_COVERED pairs on).
    order = ("length", "valid", "test", "train", "recombination")
    splits = {name: sampler.split(name, split_sizes[name]) for name in order}
    return Sample({name: splits[name] for name in SIZES})


def held_out(seed: int = 1) -> tuple[Combination, ...]:
    """Return the combinations of verb and object that occur in the split "recombination" only.

    They are a tenth of all combinations, chosen by the seed. Each verb keeps its first object and
    at least three quarters of its objects, and each object keeps at least one verb.
    """
    rng = Random(f"{seed} held out")
    pairs = [(verb, noun) for verb in VERBS for noun in verb.objects if not verb.copula]
    count = len(pairs) // 10
    rng.shuffle(pairs)
    verbs_left = Counter(noun for _, noun in pairs)
    objects_lost = Counter[Verb]()
    combinations: list[Combination] = []
    for verb, noun in pairs:
        may_be_held_out = (
            4 * (objects_lost[verb] + 1) <= len(verb.objects)
            and noun is not verb.objects[0]
            and verbs_left[noun] > 1
        )
        if may_be_held_out and len(combinations) < count:
            combinations.append((verb, noun))
            objects_lost[verb] += 1
            verbs_left[noun] -= 1
    return tuple(combinations)


class _Sampler:
    """Draws one split after another, and records all sentences so that none occurs twice."""

    def __init__(self, seed: int, short: float, longest: int) -> None:
        self.seed = seed
        self.short = short
        self.longest = longest
        self.held_out = held_out(seed)
        self.first = [realise(sentence) for sentence in _first_sentences()]
        self.seen = {side for pair in self.first for side in (pair.source, pair.target)}
        self.train_words: set[str] = set()  # empty if any word is allowed

    def split(self, name: str, size: int) -> tuple[AlignedPair, ...]:
        """Draw the pairs of a split."""
        rng = Random(f"{self.seed} {name}")
        grammar = Grammar(rng, self.held_out)
        pairs = self.first[:size] if name == "train" else []
        for number in range(len(pairs), size):
            pair = self._draw_new(self._drawer(name, number, rng, grammar))
            if pair is None:
                raise UsageError(
                    f"sizes: {name} has {size} pairs, but after {number} no new one was found; ask "
                    "for fewer"
                )
            pairs.append(pair)
        if name == "train" and size >= WELL_COVERED:
            self.train_words = set(_words(pairs))
        return tuple(pairs)

    def _drawer(self, name: str, number: int, rng: Random, grammar: Grammar) -> Draw:
        """Return the function that draws sentences for the pair of this number in a split."""
        if name == "length":
            words = SHORTEST + number % (self.longest - SHORTEST + 1)
            return lambda: grammar.sentence(words)
        if name == "recombination":
            return lambda: grammar.sentence(
                self._length(rng), rng.choice(self.held_out)
            )
        return lambda: grammar.sentence(self._length(rng))

    def _draw_new(self, draw: Draw) -> AlignedPair | None:
        """Draw until both sentences of a pair are new; None after `TRIES` failures."""
        for _ in range(TRIES):
            sentence = draw()
            if sentence is None:
                continue
            pair = realise(sentence)
            if pair.source in self.seen or pair.target in self.seen:
                continue
            if self.train_words and not self.train_words.issuperset(_words([pair])):
                continue

            self.seen |= {pair.source, pair.target}
            return pair
        return None

    def _length(self, rng: Random) -> int:
        """Draw a length: short with probability `short`, else from an exponential tail."""
        if self.longest <= SHORT or rng.random() < self.short:
            longest = min(SHORT, self.longest)
            most_frequent = min(COMMON, self.longest)
            return round(rng.triangular(SHORTEST, longest, most_frequent))
        words = self.longest + 1
        while words > self.longest:
            words = SHORT + 1 + int(rng.expovariate(1 / TAIL))
        return words


def _first_sentences() -> list[Sentence]:
    """Return the first sentences of train: I go home; I was eating bread; greetings alone."""
    verbs = {verb.english: verb for verb in VERBS}
    (home,) = by_name(PLACES, "home")
    bread = by_name(THINGS, "bread")
    go = Clause(Frame("present"), verbs["go"], (I,), place=home)
    eat = Clause(Frame("past", progressive=True), verbs["eat"], (I,), bread)
    greetings = [
        Sentence(greeting=greeting, full_stop=stop)
        for greeting in GREETINGS
        for stop in (False, True)
    ]
    return [Sentence((go,)), Sentence((eat,)), *greetings]


def _words(pairs: Iterable[AlignedPair]) -> list[str]:
    """Return the words of both sides without their commas and full stops."""
    return [
        word.rstrip(",.")
        for pair in pairs
        for word in f"{pair.source} {pair.target}".split()
    ]
