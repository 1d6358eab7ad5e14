"""Language identification: which of a model's languages a text is in, by the character n-grams of
its training text.

A language is a character model of order `ORDER`: the probability of a character after those before
it, where that of one character less fills in what was seen rarely (Jelinek and Mercer 1980; Witten
and Bell 1991). It is kept as the counts of its most frequent n-grams, which add up: models of
several servers can be merged.
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
NGRAMS = 12_000
"""N-grams that are kept of a language."""
LINES, LINE = 20_000, 200
"""Lines that a language is learnt from at most, and characters of each that are read."""
READ = 2_000
"""Letters of a text that are looked at."""
MAX_SIZE = 8_000_000
"""Bytes of a file at most; one of a model with two languages has 150 to 250 thousand."""
# Measured on ten files of five languages (docs/log/quality.md), also of other domains than the
# training text.
TEMPERATURE = 2.5
UNKNOWN_RATIO, UNKNOWN_WIDTH = 2.3, 1.25
"""Nats of a character, relative to those of held-out text, at which a text is as likely in no known
language as in one; and how wide the range of doubt is for a single character.
"""
_DOUBT = 100
"""Characters from which on more of them make nothing surer, since they are of one domain."""
_SMOOTHING = 20.0
_ALPHABET = 1_000
_STEP = 12
"""Steps of the rounded logarithm of a count: 12 for each factor e."""
_HELD_OUT = 20
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class LanguageProfile:
    """A language: counts of n-grams by their text, characters they are of, and nats a character of
    other such text.
    """

    characters: float
    nats: float
    counts: Mapping[str, float]


@dataclass(frozen=True)
class LanguageId:
    """Languages by code, told apart and from all others by `detect`."""

    profiles: Mapping[str, LanguageProfile]

    @classmethod
    def learn(cls, texts: Mapping[str, Sequence[str]]) -> LanguageId:
        """Learn each language from lines of text by its code; languages without a letter are left
        out.
        """
        profiles = {code: _learn(lines) for code, lines in texts.items()}
        return cls(
            {code: profile for code, profile in profiles.items() if profile is not None}
        )

    @classmethod
    def merge(cls, parts: Iterable[LanguageId]) -> LanguageId:
        """Return the languages of all parts; what several know of a language is added up."""
        profiles: dict[str, LanguageProfile] = {}
        for part in parts:
            for code, profile in part.profiles.items():
                profiles[code] = (
                    _joined(profiles[code], profile) if code in profiles else profile
                )
        return cls(profiles)

    @classmethod
    def parse(cls, content: bytes, identity: str | None = None) -> LanguageId:
        """Read what `to_json` wrote. Raises ValueError if it is damaged or, given an identity, of
        another model.
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
            return cls(
                {
                    canonical_code(code): _read_profile(entry)
                    for code, entry in values["languages"].items()
                }
            )
        except (
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            binascii.Error,
        ) as problem:
            raise ValueError(reason_of(problem)) from None

    def to_json(self, identity: str = "") -> str:
        """Write the languages as JSON with a digest, for the model of this identity; counts are
        rounded to 4 %.
        """
        languages = {
            code: _profile_values(profile) for code, profile in self.profiles.items()
        }
        return (
            json.dumps(
                sealed({"format": FORMAT, "languages": languages}, id=identity),
                ensure_ascii=False,
            )
            + "\n"
        )

    def renamed(self, codes: Mapping[str, str]) -> LanguageId:
        """Return the languages with other codes; one without a new code keeps its own, one with an
        empty one is left out.
        """
        parts = (
            LanguageId({codes.get(code, code): profile})
            for code, profile in self.profiles.items()
        )
        return LanguageId.merge(part for part in parts if "" not in part.profiles)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return each language with the probability that the text is in it, likeliest first.

        What is left to 1 is the probability of none of them: of another language, or of no language
        at all. It is 1 for a text without letters. At most `READ` letters are looked at.
        """
        letters = _letters(text[: 4 * READ])[:READ]
        if not letters.strip() or not self.profiles:
            return [(code, 0.0) for code in sorted(self.profiles)]
        likelihoods = self._log_probabilities(letters)  # (L, N)
        total = likelihoods.sum(1)
        count = likelihoods.shape[1]
        shares = np.exp((total - total.max()) / TEMPERATURE)
        nats = np.array([profile.nats for profile in self.profiles.values()])
        ratios = -total / count / nats
        certainty = (
            (UNKNOWN_RATIO - ratios) * math.sqrt(min(count, _DOUBT)) / UNKNOWN_WIDTH
        )
        is_known = 0.5 + 0.5 * np.tanh(0.5 * certainty)
        results = zip(
            self.profiles, (shares / shares.sum() * is_known).tolist(), strict=True
        )
        return sorted(results, key=lambda item: (-item[1], item[0]))

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
        probabilities = ((counts[0] + _SMOOTHING / _ALPHABET) / (totals + _SMOOTHING))[
            :, 1:
        ]
        for shorter, longer in pairwise(counts):
            size = longer.shape[1]
            context = shorter[:, :size]
            rest = probabilities.shape[1] - size
            sure = (
                np.minimum(longer, context) + _SMOOTHING * probabilities[:, rest:]
            ) / (context + _SMOOTHING)
            probabilities = np.concatenate([probabilities[:, :rest], sure], axis=1)
        return np.log(probabilities)

    def _counts_of(self, hashes: npt.NDArray[np.uint64]) -> Numbers:
        """Return the counts of n-grams in each language (L, N)."""
        keys, table = self._table
        indices = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        return np.where(keys[indices] == hashes, table[:, indices], 0.0)


def spread(texts: Sequence[str], count: int = LINES) -> list[str]:
    """Return at most so many texts, spread evenly."""
    return list(texts[:: max(1, -(-len(texts) // count))])


class _LetterTable(dict[int, int]):
    """Code points of letters and the marks on them; of all else, a space. For `str.translate`."""

    def __missing__(self, code: int) -> int:
        self[code] = result = code if unicodedata.category(chr(code))[0] in "LM" else 32
        return result


_LETTERS = _LetterTable()


def _letters(text: str) -> str:
    """Return a text's words of letters in lower case, a space between them and on both sides."""
    return f" {' '.join(nfc(text).lower().translate(_LETTERS).split())} "


def _code_points(text: str) -> npt.NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)


def _hashes(codes: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the hashes of all n-grams of a text, of one character, of two, and so on to `ORDER`."""
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
    """Return the n-grams of each order, sorted."""
    orders: list[list[str]] = [[] for _ in range(ORDER)]
    for text in sorted(counts):
        orders[len(text) - 1].append(text)
    return orders


def _learn(lines: Sequence[str]) -> LanguageProfile | None:
    """Learn a language; every twentieth line is held out to measure how well the others predict
    it.
    """
    texts = [
        letters for line in spread(lines) if (letters := _letters(line[:LINE])).strip()
    ]
    if not texts:
        return None
    held_out = texts[::_HELD_OUT] if len(texts) >= 2 * _HELD_OUT else texts
    kept = (
        [text for index, text in enumerate(texts) if index % _HELD_OUT]
        if held_out is not texts
        else texts
    )
    text = f" {' '.join(map(str.strip, kept))} "
    profile = LanguageProfile(float(len(text)), 1.0, _count(text))
    model = LanguageId({"": profile})
    measured = -np.concatenate(
        [model._log_probabilities(line)[0] for line in held_out[:500]]
    ).mean()
    nats = max(float(measured), _letter_entropy(profile.counts) / UNKNOWN_RATIO, 0.1)
    return LanguageProfile(profile.characters, nats, profile.counts)


def _letter_entropy(counts: Mapping[str, float]) -> float:
    """Return the nats of a character by the frequencies of single ones: a text of narrow contents,
    which is predicted much better, must not make other texts of its language look foreign.
    """
    letters = np.array([count for text, count in counts.items() if len(text) == 1])
    shares = letters / letters.sum()
    return float(-(shares * np.log(np.maximum(shares, 1e-12))).sum())


def _count(text: str) -> dict[str, float]:
    """Count the most frequent n-grams of a text, as rounded as they are written."""
    texts = list[str]()
    counts = [np.zeros(0, np.int64)]
    for order, hashes in enumerate(_hashes(_code_points(text)), 1):
        _, first, count = np.unique(hashes, return_index=True, return_counts=True)
        usable = count > (1 if order > 1 else 0)
        texts += [text[start : start + order] for start in first[usable].tolist()]
        counts.append(count[usable])
    numbers = np.concatenate(counts)
    most = np.argsort(-numbers, kind="stable")[:NGRAMS]
    rounded = _unpack(_pack(numbers[most]))
    return {
        texts[index]: count for index, count in zip(most.tolist(), rounded, strict=True)
    }


def _pack(counts: Numbers) -> bytes:
    packed: npt.NDArray[np.uint8] = np.minimum(
        np.rint(np.log1p(counts) * _STEP), 255
    ).astype(np.uint8)
    return packed.tobytes()


def _unpack(content: bytes) -> list[float]:
    counts: list[float] = np.expm1(np.frombuffer(content, np.uint8) / _STEP).tolist()
    return counts


def _joined(first: LanguageProfile, second: LanguageProfile) -> LanguageProfile:
    counts = dict(first.counts)
    for text, count in second.counts.items():
        counts[text] = counts.get(text, 0.0) + count
    characters = first.characters + second.characters
    nats = (
        first.nats * first.characters + second.nats * second.characters
    ) / characters
    return LanguageProfile(characters, nats, counts)


def _profile_values(profile: LanguageProfile) -> dict[str, Any]:
    """Return a language as JSON values: the n-grams of each order one after another, and their
    counts.
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
    """Read a language. Raises ValueError, or what wrong types raise."""
    characters = float(values["characters"])
    nats = float(values["nats"])
    orders = list(values["ngrams"])
    if not (0 < characters < math.inf and 0 < nats < math.inf):
        raise ValueError(
            f"characters and nats have to be positive, got {characters:g} and {nats:g}"
        )
    counts = _unpack(base64.b64decode(values["counts"], validate=True))
    texts = [
        text[at : at + order]
        for order, text in enumerate(orders, 1)
        for at in range(0, len(text), order)
    ]
    whole = len(orders) == ORDER and not any(
        len(text) % order for order, text in enumerate(orders, 1)
    )
    if (
        not whole
        or not texts
        or len(texts) != len(counts)
        or len({*texts}) != len(texts)
    ):
        raise ValueError("n-grams and their counts do not belong together")
    "".join(texts).encode("utf-32-le")  # ValueError: surrogates
    return LanguageProfile(characters, nats, dict(zip(texts, counts, strict=True)))
