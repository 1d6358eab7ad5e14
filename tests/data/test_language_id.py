"""Language identification: what is learnt, merged, written and read back, and how sure it says that
it is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.time_limits import time_limit

from regard.common.checksums import SEAL, sealed
from regard.data.language_id import MAX_SIZE, READ, LanguageId, spread

CORPORA = Path(__file__).parents[3] / "shared" / "data"
ALPHABETS = {"aa": "aeioubdgklmnrst", "bb": "aeiouyzxwvqpjhf", "cc": "абвгдежзиклмно"}


def _lines(code: str, count: int, seed: int = 0) -> list[str]:
    """Return lines in an invented language: words of its syllables."""
    drawn = random.Random(f"{code} {seed}")
    letters = ALPHABETS[code]
    syllables = [a + b for a in letters[:6] for b in letters[6:]]

    def word() -> str:
        return "".join(drawn.choices(syllables, k=drawn.randint(1, 3)))

    return [" ".join(word() for _ in range(8)) for _ in range(count)]


@pytest.fixture(scope="module")
def learnt() -> LanguageId:
    return LanguageId.learn({code: _lines(code, 400) for code in ALPHABETS})


def test_languages_are_told_apart(learnt: LanguageId) -> None:
    for code in ALPHABETS:
        for line in _lines(code, 50, seed=1):
            (best, probability), *others = learnt.detect(line)
            assert best == code
            assert probability > 0.95
            assert probability + sum(share for _, share in others) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\n\t",
        "😀 12",
        "\u0301" * 3 + "7",
        "\ud800",
        "これは日本語",
        "cckk ddnn ttss llrr mmkk ddtt",
    ],
)
def test_a_text_in_another_language_or_none_is_unknown(
    learnt: LanguageId, text: str
) -> None:
    assert sum(probability for _, probability in learnt.detect(text)) < 0.1


def test_case_digits_and_spaces_do_not_matter(learnt: LanguageId) -> None:
    line = _lines("aa", 1, seed=2)[0]
    other = line.upper().replace(" ", "  12, ")

    assert learnt.detect(line) == learnt.detect(f"  {other}! ")
    assert learnt.detect("é" + line) == learnt.detect("e\u0301" + line), "by NFC"

    words = line.split()
    shares = [learnt.detect(" ".join(words[:count]))[0][1] for count in (1, 3, 8)]

    assert shares == sorted({*shares}), "short texts are less certain"


def test_only_the_beginning_of_a_long_text_is_read(learnt: LanguageId) -> None:
    text = " ".join(_lines("aa", READ // 20))
    with time_limit():
        assert learnt.detect(f"{text} {'я' * 1_000_000}") == learnt.detect(text)
        for hostile in ("\u0301" * 1_000_000, "a\u0300\u0316" * 300_000, "ﷺ" * 300_000):
            learnt.detect(hostile)


def test_what_is_read_is_what_was_written(learnt: LanguageId) -> None:
    text = learnt.to_json("one")
    assert LanguageId.parse(text.encode(), "one") == learnt
    assert json.loads(text)[SEAL]["id"] == "one"
    assert LanguageId.parse(text.encode()).to_json("one") == text

    again = LanguageId.learn({code: _lines(code, 400) for code in ALPHABETS})
    assert again.to_json("one") == text
    with pytest.raises(ValueError, match="learnt for another model"):
        LanguageId.parse(text.encode(), "two")

    changed = learnt.renamed({"aa": "fr", "bb": ""})
    assert sorted(changed.profiles) == ["cc", "fr"]
    assert changed.profiles["fr"] == learnt.profiles["aa"]


def test_merging_adds_up_what_is_known(learnt: LanguageId) -> None:
    parts = []
    for seed, codes in ((3, ("aa", "bb")), (4, ("bb", "cc"))):
        texts = {code: _lines(code, 300, seed) for code in codes}
        parts.append(LanguageId.learn(texts))

    first, second = parts
    merged = LanguageId.merge([first, second])

    assert sorted(merged.profiles) == ["aa", "bb", "cc"]
    assert LanguageId.merge([first]) == first
    assert LanguageId.merge([]).detect("abc") == []

    profile = merged.profiles["bb"]
    one = first.profiles["bb"]
    other = second.profiles["bb"]

    assert profile.characters == one.characters + other.characters
    assert min(one.nats, other.nats) <= profile.nats <= max(one.nats, other.nats)
    for ngram in ("a", "ay", "ayz"):
        counts = [each.counts.get(ngram, 0) for each in (profile, one, other)]
        assert counts[0] == counts[1] + counts[2]

    swapped = LanguageId.merge([second, first])

    for code in ALPHABETS:
        for line in _lines(code, 10, seed=9):
            answer = merged.detect(line)
            assert answer[0][0] == code
            assert dict(swapped.detect(line)) == pytest.approx(dict(answer))

    letterless = {"en": [], "de": ["", "1 2"], "fr": ["7", "a"]}
    assert LanguageId.learn(letterless).profiles.keys() == {"fr"}

    lines = [str(number) for number in range(1000)]
    assert spread(lines, 1000) == lines
    assert spread(lines, 250) == lines[::4]
    assert len(spread(lines, 300)) <= 300


def _changed(**values: Any) -> Callable[[bytes], bytes]:
    """Return damage of a language that keeps the seal."""

    def damage(content: bytes) -> bytes:
        whole = json.loads(content)
        whole["languages"]["aa"].update(values)
        return json.dumps(sealed(whole), ensure_ascii=False).encode()

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-9], "delimiter|Unterminated|Expecting"),
        (lambda _: b"[]", "not language identification of format 1"),
        (
            lambda content: content.replace(b'"format": 1', b'"format": 2'),
            "of format 1",
        ),
        (
            lambda content: content.replace(b'"nats": ', b'"nats": 1'),
            "does not match its SHA-256",
        ),
        (lambda content: content.replace(b'"seal"', b'"sael"'), "it has no seal"),
        (lambda content: content + b" " * MAX_SIZE, "at most 8,000,000 are read"),
        (_changed(counts="?"), "base64|padding|alphabet"),
        (_changed(counts="AAAA"), "do not belong together"),
        (_changed(ngrams=["aa", "", "", ""], counts="AAA="), "do not belong together"),
        (_changed(ngrams=["", "", "", ""], counts=""), "do not belong together"),
        (_changed(characters=-1), "have to be positive"),
        (_changed(nats=1e999), "have to be positive"),
        (_changed(nats=None), "NoneType"),
    ],
)
def test_damage_is_refused_in_a_sentence(
    learnt: LanguageId, damage: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageId.parse(damage(learnt.to_json().encode()))


# --- real text


def _read(name: str, count: int = 3000) -> list[str]:
    path = CORPORA / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: it may not be shipped")
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line][:count]


def test_real_languages_are_told_apart_and_confidence_is_honest() -> None:
    """Likely answers are right at least as often as they say, in text of other domains too."""
    models = []
    for corpus, codes in (("multi30k", ("en", "de")), ("koen", ("ko", "en"))):
        texts = {code: _read(f"{corpus}/train.{code}") for code in codes}
        models.append(LanguageId.learn(texts))

    merged = LanguageId.merge(models)
    answers = []
    for name in ("koen/val.en", "koen/val_news.en", "multi30k/val.de", "koen/val.ko"):
        for line in _read(name, 150):
            for words in (1, 3, 10):
                part = " ".join(line.split()[:words])
                if any(map(str.isalpha, part)):
                    best, share = merged.detect(part)[0]
                    answers.append((share, best == name[-2:]))

    assert sum(is_right for _, is_right in answers) > 0.9 * len(answers)
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        inside = [answer for answer in answers if low <= answer[0] < high]
        shares, are_right = zip(*inside, strict=True)

        assert len(inside) > 20
        assert sum(are_right) >= sum(shares)
