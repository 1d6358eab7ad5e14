"""Subword regularisation: the seed determines the segmentation, and any segmentation decodes to the
same text.
"""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from helpers.text_table import lines
from helpers.time_limits import time_limit

from regard.data.subword_sampling import unigram_sampling
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, PAD

GERMAN = lines("""
    Ein Hund läuft über die grüne Wiese.
    Zwei Männer reden auf der Straße.
    Die Frau trägt einen großen Hut.
    Drei Kinder spielen am Strand.
    Viele Menschen warten auf den Zug.
    Das Mädchen liest ein Buch.
""")
KOREAN = lines("""
    개가 푸른 풀밭을 달린다.
    두 남자가 길에서 이야기한다.
    여자가 큰 모자를 쓰고 있다.
    세 아이가 바닷가에서 논다.
    많은 사람이 기차를 기다린다.
    소녀가 책을 읽는다.
""")
STRANGE = [
    "😀 👩‍👩‍👧 ok",
    "漢字かな 交じり文",
    "under_score __x",
    "<s> </s> <unk> <pad> <0x41>",
    "x" * 500,
]
TOKENIZERS = {
    (kind, joint): Tokenizer.train(
        GERMAN,
        KOREAN,
        TokenizerSettings.parse({"kind": kind, "joint": joint}, "a test"),
    )
    for kind in ("bpe", "unigram")
    for joint in (True, False)
}
EVERY = pytest.mark.parametrize(
    "tokenizer",
    TOKENIZERS.values(),
    ids=lambda t: f"{t.settings.kind}-{t.settings.joint}",
)
BPE = pytest.mark.parametrize(
    "tokenizer",
    [TOKENIZERS["bpe", joint] for joint in (True, False)],
    ids=["joint", "apart"],
)


@EVERY
def test_the_seed_determines_the_segmentation(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.source.encode_all(GERMAN)
    seeds = [*range(8), 2**31, 2**63, -1]
    samples = [tokenizer.sample(GERMAN, KOREAN, 0.9, seed) for seed in seeds]

    for seed, sample in zip(seeds, samples, strict=True):
        assert tokenizer.sample(GERMAN, KOREAN, 0.9, seed) == sample
    for side in zip(*samples, strict=True):
        assert len({str(ids) for ids in side}) > 1
    assert tokenizer.source.encode_all(GERMAN) == encoded

    text = ["", *GERMAN[:1] * 20]
    left, right = tokenizer.sample(text, text, 0.9, 1)

    assert left[0] == right[0] == []
    assert len({str(ids) for ids in left}) > 2, (
        "each line has a segmentation of its own"
    )
    assert not tokenizer.settings.joint or left != right
    assert tokenizer.sample([], [], 0.1, 1) == ([], [])


@EVERY
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.9])
def test_decoding_restores_the_text(tokenizer: Tokenizer, dropout: float) -> None:
    sources = [*GERMAN, *STRANGE]
    targets = [*KOREAN, *STRANGE]

    for seed in range(3):
        left, right = tokenizer.sample(sources, targets, dropout, seed)
        assert [tokenizer.source.decode(ids) for ids in left] == sources
        assert [tokenizer.target.decode(ids) for ids in right] == targets
        assert not {PAD, BOS, EOS} & {index for ids in (*left, *right) for index in ids}

    if dropout == 0 and tokenizer.settings.kind == "bpe":
        assert left == tokenizer.source.encode_all(sources)
        assert right == tokenizer.target.encode_all(targets)


@BPE
def test_more_bpe_dropout_gives_more_tokens(tokenizer: Tokenizer) -> None:
    counts = []
    for dropout in (0.0, 0.1, 0.4, 0.99):
        sampled, _ = tokenizer.sample(GERMAN * 5, [], dropout, 1)
        counts.append(sum(map(len, sampled)))

    assert counts == sorted(set(counts))

    letters = sum(len(line) + 1 for line in GERMAN * 5)
    assert counts[-1] == pytest.approx(letters, rel=0.05), "hardly a merge is left"


@EVERY
def test_a_word_of_any_length_takes_time_with_its_length(tokenizer: Tokenizer) -> None:
    word = "Hundehut" * 20_000
    with time_limit():
        ids = tokenizer.sample([word], [], 0.1, 1)[0][0]
        assert tokenizer.source.decode(ids) == word


def test_unigram_sampling_follows_the_probabilities() -> None:
    scores = {"a": -1.0, "b": -2.0, "ab": -2.5, "aba": -4.0, "ba": -3.0}
    weights = {"a b a": -4.0, "ab a": -3.5, "a ba": -4.0, "aba": -4.0}

    for sharpness in (1.0, 0.3):
        total = sum(math.exp(sharpness * weight) for weight in weights.values())
        rng = random.Random(3)
        segment = unigram_sampling(scores, sharpness)
        counts = Counter(" ".join(segment("aba", rng)) for _ in range(5_000))

        assert counts.keys() == weights.keys()
        for segmentation, weight in weights.items():
            assert counts[segmentation] / 5_000 == pytest.approx(
                math.exp(sharpness * weight) / total, abs=0.02
            )
