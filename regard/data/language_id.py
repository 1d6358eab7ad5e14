"""Language identification: which of a model's languages a text is in, by character n-grams.

Each language has a character n-gram model of order `ORDER`, learnt from the training text of the
translation model. The probability of a character given its context is interpolated with the one
given a context shorter by one character (Jelinek and Mercer 1980; Witten and Bell 1991). A language
is stored as the counts of its most frequent n-grams. Counts can be added, so the profiles of
several models can be merged.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from regard.common.checksums import SEAL, sealed, why_broken
from regard.common.reading import parse_json, reason_of
from regard.data.language_codes import canonical_code
from regard.data.text import nfc

FORMAT: Final = 1
ORDER = 4
"""Longest n-grams, in characters."""
NGRAMS = 12_000
"""N-grams of a language that are kept: the most frequent."""
LINES = 20_000
"""Maximum number of lines from which a language is learnt."""
LINE = 200
"""Characters of each of these lines that are read."""
READ = 2_000
"""Letters of a text that `detect` reads."""
MAX_SIZE = 8_000_000
"""Maximum number of bytes of a file; the file of a model with two languages has 150,000 to
250,000.
"""

# The next three were measured on ten files in five languages (docs/log/quality.md), some of them of
# other domains than the training text.
TEMPERATURE = 2.5
"""Divides log-likelihoods before the softmax over languages."""
UNKNOWN_RATIO = 2.3
"""Nats per character, relative to those of held-out text, at which it is equally likely that a text
is in a known language and that it is not.
"""
UNKNOWN_WIDTH = 1.25
"""Width of the logistic curve over that ratio, for a single character."""

_MAX_EVIDENCE = 100
"""Characters that count as independent evidence at most, since a text is of one domain."""
_SMOOTHING = 20.0
"""Weight of the interpolation, as a number of observations."""
_ALPHABET = 1_000
"""Assumed number of characters of a language."""
_STEP = 12
"""Steps of the rounded logarithm of a count for each factor e."""
_HELD_OUT = 20
"""One line in so many is held out."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier of the hash of n-grams."""
_MALFORMED = (KeyError, TypeError, AttributeError, OverflowError, binascii.Error)
"""Exceptions that JSON values of wrong types or shapes raise."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class LanguageProfile:
    """The character n-gram model of one language."""

    characters: float  # of the text that the n-grams were counted in
    nats: float  # per character of held-out text
    counts: Mapping[str, float]  # by n-gram


@dataclass(frozen=True)
class LanguageId:
    """Profiles of languages by code; `detect` tells the languages apart, and from any other."""

    profiles: Mapping[str, LanguageProfile]

    @classmethod
    def learn(cls, texts: Mapping[str, Sequence[str]]) -> LanguageId:
        """Learn each language from lines of text, by its code; a language without letters is left
        out.
        """
        profiles = {}
        for code, lines in texts.items():
            profile = _learn(lines)
            if profile is not None:
                profiles[code] = profile
        return cls(profiles)

    @classmethod
    def merge(cls, parts: Iterable[LanguageId]) -> LanguageId:
        """Merge the languages of all parts; the counts of a language in several parts are added."""
        profiles: dict[str, LanguageProfile] = {}
        for part in parts:
            for code, profile in part.profiles.items():
                if code in profiles:
                    profile = _merged(profiles[code], profile)
                profiles[code] = profile
        return cls(profiles)

    @classmethod
    def parse(cls, content: bytes, identity: str | None = None) -> LanguageId:
        """Parse the output of `to_json`.

        Raises ValueError if it is damaged or, if an `identity` is given, belongs to another model.
        """
        if len(content) > MAX_SIZE:
            raise ValueError(
                f"of {len(content):,} bytes; at most {MAX_SIZE:,} are read"
            )
        values = parse_json(content)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError(f"not language identification of format {FORMAT}")
        if reason := why_broken(values):
            raise ValueError(reason)
        if identity is not None and values[SEAL].get("id") != identity:
            raise ValueError("learnt for another model")
        try:
            profiles = {
                canonical_code(code): _read_profile(entry)
                for code, entry in values["languages"].items()
            }
        except _MALFORMED as problem:
            raise ValueError(reason_of(problem)) from None
        return cls(profiles)

    def to_json(self, identity: str = "") -> str:
        """Return the languages as JSON with a checksum and the identity of their model.

        Counts are rounded to 4 %.
        """
        languages = {
            code: _profile_values(profile) for code, profile in self.profiles.items()
        }
        values = sealed({"format": FORMAT, "languages": languages}, id=identity)
        return json.dumps(values, ensure_ascii=False) + "\n"

    def renamed(self, codes: Mapping[str, str]) -> LanguageId:
        """Return the languages under other codes.

        A language without a new code keeps its code; a language whose new code is empty is left
        out.
        """
        parts = []
        for code, profile in self.profiles.items():
            new_code = codes.get(code, code)
            if new_code:
                parts.append(LanguageId({new_code: profile}))
        return LanguageId.merge(parts)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return each language with the probability that the text is in it, likeliest first.

        The probabilities sum to less than 1; the difference is the probability that the text is in
        another language, or in none. It is 1 for a text without letters. At most `READ` letters are
        read.
        """
        letters = letters_of_words(text[: 4 * READ])[:READ]
        if not letters.strip() or not self.profiles:
            return [(code, 0.0) for code in sorted(self.profiles)]

        log_probs = self._log_probabilities(letters)  # (L, N)
        total = log_probs.sum(1)
        count = log_probs.shape[1]
        shares = np.exp((total - total.max()) / TEMPERATURE)

        nats = np.array([profile.nats for profile in self.profiles.values()])
        ratios = -total / count / nats
        evidence = math.sqrt(min(count, _MAX_EVIDENCE))
        certainty = (UNKNOWN_RATIO - ratios) * evidence / UNKNOWN_WIDTH
        is_known = 0.5 + 0.5 * np.tanh(0.5 * certainty)

        probabilities = (shares / shares.sum() * is_known).tolist()
        results = zip(self.profiles, probabilities, strict=True)
        return sorted(results, key=lambda item: (-item[1], item[0]))

    def line_log_probabilities(self, lines: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return the log-probability of each line in each language (L, lines), and its number of
        letters.
        """
        texts = [letters_of_words(line) for line in lines]
        sizes = np.array([len(text) for text in texts])
        starts = np.cumsum(sizes) - sizes
        log_probs = np.zeros((len(self.profiles), int(sizes.sum())))
        log_probs[:, 1:] = self._log_probabilities("".join(texts))
        log_probs[:, starts] = 0  # the first character of a line has no context
        return np.add.reduceat(log_probs, starts, axis=1), np.maximum(sizes - 2, 0)

    @cached_property
    def _table(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
        """Hashes of all n-grams, sorted (U,), and their counts in each language (L, U)."""
        parts = [_hashed(profile.counts) for profile in self.profiles.values()]
        keys, indices = np.unique(
            np.concatenate([hashes for hashes, _ in parts]), return_inverse=True
        )
        table = np.zeros((len(parts), len(keys)))
        start = 0
        for row, (hashes, counts) in zip(table, parts, strict=True):
            np.add.at(row, indices[start : start + len(hashes)], counts)
            start += len(hashes)
        return keys, table

    def _log_probabilities(self, letters: str) -> Numbers:
        """Return the log-probability of each character but the first in each language (L, N)."""
        totals = np.array([[profile.characters] for profile in self.profiles.values()])
        counts = [self._counts_of(hashes) for hashes in _hashes(_code_points(letters))]
        unigrams = (counts[0] + _SMOOTHING / _ALPHABET) / (totals + _SMOOTHING)
        probabilities = unigrams[:, 1:]
        for shorter, longer in pairwise(counts):
            size = longer.shape[1]
            context = shorter[:, :size]
            # The first characters have no context of this length.
            start = probabilities.shape[1] - size
            smoothing = _SMOOTHING * probabilities[:, start:]
            interpolated = (np.minimum(longer, context) + smoothing) / (
                context + _SMOOTHING
            )
            probabilities = np.concatenate(
                [probabilities[:, :start], interpolated], axis=1
            )
        return np.log(probabilities)

    def _counts_of(self, hashes: npt.NDArray[np.uint64]) -> Numbers:
        """Return the counts of n-grams in each language (L, N)."""
        keys, table = self._table
        indices = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        return np.where(keys[indices] == hashes, table[:, indices], 0.0)


def spread(texts: Sequence[str], count: int = LINES) -> list[str]:
    """Return at most `count` of the texts, spread evenly."""
    stride = max(1, -(-len(texts) // count))
    return list(texts[::stride])


class _LetterTable(dict[int, int]):
    """Table for `str.translate` that keeps letters and their marks, and turns any other character
    into a space.
    """

    def __missing__(self, code: int) -> int:
        is_letter = unicodedata.category(chr(code))[0] in "LM"
        self[code] = code if is_letter else ord(" ")
        return self[code]


_LETTERS = _LetterTable()


def letters_of_words(text: str) -> str:
    """Return the words of a text in lower case, with one space before and after each."""
    words = nfc(text).lower().translate(_LETTERS).split()
    return f" {' '.join(words)} "


def _code_points(text: str) -> npt.NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)


def _hashes(codes: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the hashes of a text's unigrams, then of its bigrams, and so on up to `ORDER`."""
    hashes = np.zeros(len(codes), np.uint64)
    for order in range(1, min(ORDER, len(codes)) + 1):
        size = len(codes) - order + 1
        hashes = hashes[:size] * _MULTIPLIER + codes[order - 1 :] + np.uint64(1)
        yield hashes


def _hashed(counts: Mapping[str, float]) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """Return the hashes of n-grams and their counts."""
    keys = [np.zeros(0, np.uint64)]
    numbers = list[float]()
    for order, texts in enumerate(_by_order(counts), 1):
        codes = _code_points("".join(texts)).reshape(-1, order)
        hashes = np.zeros(len(codes), np.uint64)
        for column in codes.T:
            hashes = hashes * _MULTIPLIER + column + np.uint64(1)
        keys.append(hashes)
        numbers += [counts[text] for text in texts]
    return np.concatenate(keys), np.array(numbers)


def _by_order(counts: Mapping[str, float]) -> list[list[str]]:
    """Return the n-grams, sorted, for each order from 1 to `ORDER`."""
    orders: list[list[str]] = [[] for _ in range(ORDER)]
    for text in sorted(counts):
        orders[len(text) - 1].append(text)
    return orders


def _learn(lines: Sequence[str]) -> LanguageProfile | None:
    """Learn a language, and measure how well its n-grams predict held-out lines.

    Returns None if no line has a letter.
    """
    texts = [letters_of_words(line[:LINE]) for line in spread(lines)]
    texts = [text for text in texts if text.strip()]
    if not texts:
        return None
    held_out = kept = texts
    if len(texts) >= 2 * _HELD_OUT:
        held_out = texts[::_HELD_OUT]
        kept = [text for index, text in enumerate(texts) if index % _HELD_OUT]

    text = f" {' '.join(map(str.strip, kept))} "
    profile = LanguageProfile(float(len(text)), 1.0, _count(text))
    model = LanguageId({"": profile})
    log_probs = [model._log_probabilities(line)[0] for line in held_out[:500]]
    measured = -float(np.concatenate(log_probs).mean())
    nats = max(measured, _letter_entropy(profile.counts) / UNKNOWN_RATIO, 0.1)
    return LanguageProfile(profile.characters, nats, profile.counts)


def _letter_entropy(counts: Mapping[str, float]) -> float:
    """Return the entropy of single characters, in nats.

    It bounds the nats of a profile from below: text on a narrow subject is predicted so well that
    other text of the same language would look foreign.
    """
    letters = np.array([count for text, count in counts.items() if len(text) == 1])
    shares = letters / letters.sum()
    return float(-(shares * np.log(np.maximum(shares, 1e-12))).sum())


def _count(text: str) -> dict[str, float]:
    """Count the most frequent n-grams of a text; counts are rounded as in the file."""
    ngrams = list[str]()
    counts_by_order = [np.zeros(0, np.int64)]
    for order, hashes in enumerate(_hashes(_code_points(text)), 1):
        _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
        frequent = counts > (1 if order > 1 else 0)
        ngrams += [text[start : start + order] for start in first[frequent].tolist()]
        counts_by_order.append(counts[frequent])
    all_counts = np.concatenate(counts_by_order)
    order_by_count = np.argsort(-all_counts, kind="stable")[:NGRAMS]
    rounded = _unpack(_pack(all_counts[order_by_count]))
    most_frequent = [ngrams[index] for index in order_by_count.tolist()]
    return dict(zip(most_frequent, rounded, strict=True))


def _pack(counts: Numbers) -> bytes:
    """Round counts to bytes on a logarithmic scale."""
    steps = np.rint(np.log1p(counts) * _STEP)
    packed: npt.NDArray[np.uint8] = np.minimum(steps, 255).astype(np.uint8)
    return packed.tobytes()


def _unpack(content: bytes) -> list[float]:
    """Return the counts that `_pack` has rounded to bytes."""
    counts: list[float] = np.expm1(np.frombuffer(content, np.uint8) / _STEP).tolist()
    return counts


def _merged(first: LanguageProfile, second: LanguageProfile) -> LanguageProfile:
    """Return the profile of the texts of two profiles together."""
    counts = dict(first.counts)
    for ngram, count in second.counts.items():
        counts[ngram] = counts.get(ngram, 0.0) + count
    characters = first.characters + second.characters
    nats = (
        first.nats * first.characters + second.nats * second.characters
    ) / characters
    return LanguageProfile(characters, nats, counts)


def _profile_values(profile: LanguageProfile) -> dict[str, Any]:
    """Return a profile as JSON values: the n-grams of each order joined in one string, and their
    packed counts.
    """
    orders = _by_order(profile.counts)
    counts = np.array([profile.counts[text] for texts in orders for text in texts])
    return {
        "characters": profile.characters,
        "nats": profile.nats,
        "ngrams": ["".join(texts) for texts in orders],
        "counts": base64.b64encode(_pack(counts)).decode(),
    }


def _read_profile(values: Mapping[str, Any]) -> LanguageProfile:
    """Read a profile. Raises ValueError, or what values of wrong types raise."""
    characters = float(values["characters"])
    nats = float(values["nats"])
    orders = list(values["ngrams"])
    if not (0 < characters < math.inf and 0 < nats < math.inf):
        raise ValueError(
            f"characters and nats have to be positive, got {characters:g} and {nats:g}"
        )
    counts = _unpack(base64.b64decode(values["counts"], validate=True))
    ngrams = []
    is_whole = len(orders) == ORDER
    for order, joined in enumerate(orders, 1):
        is_whole = is_whole and len(joined) % order == 0
        ngrams += [
            joined[start : start + order] for start in range(0, len(joined), order)
        ]
    are_different = len({*ngrams}) == len(ngrams)
    if not is_whole or not ngrams or not are_different or len(ngrams) != len(counts):
        raise ValueError("n-grams and their counts do not belong together")
    "".join(ngrams).encode("utf-32-le")  # raises ValueError for surrogates
    return LanguageProfile(characters, nats, dict(zip(ngrams, counts, strict=True)))
