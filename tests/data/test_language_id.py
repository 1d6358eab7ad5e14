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

from regard.common.checksums import SEAL, sealed
from regard.data import language_id
from regard.data.language_id import MAX_SIZE, NGRAMS, READ, LanguageId, spread

CORPORA = Path(__file__).parents[3] / "shared" / "data"
ALPHABETS = {"aa": "aeioubdgklmnrst", "bb": "aeiouyzxwvqpjhf", "cc": "абвгдежзиклмно"}


def _lines(code: str, count: int, seed: int = 0) -> list[str]:
    """Return lines in an invented language: words of its syllables."""
    drawn = random.Random(f"{code} {seed}")
    letters = ALPHABETS[code]
    syllables = [a + b for a in letters[:6] for b in letters[6:]]
    return [
        " ".join("".join(drawn.choices(syllables, k=drawn.randint(1, 3))) for _ in range(8))
        for _ in range(count)
    ]


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
    "text", ["", " ", "12 345,67 € — !?", "\0\n\t", "😀😀", "\u0301" * 3 + "7", "\ud800"]
)
def test_a_text_without_a_word_is_in_no_language(learnt: LanguageId, text: str) -> None:
    assert sum(probability for _, probability in learnt.detect(text)) < 0.05


@pytest.mark.parametrize(
    "text", ["これは日本語の文章です", "Ωραία μέρα σήμερα", "cckk ddnn ttss llrr mmkk ddtt"]
)
def test_a_text_in_another_language_is_unknown(learnt: LanguageId, text: str) -> None:
    assert sum(probability for _, probability in learnt.detect(text)) < 0.1


def test_short_texts_are_less_certain(learnt: LanguageId) -> None:
    line = _lines("aa", 1, seed=2)[0]
    one, three, eight = (learnt.detect(" ".join(line.split()[:words]))[0][1] for words in (1, 3, 8))
    assert one < three < eight


def test_case_digits_and_spaces_do_not_matter(learnt: LanguageId) -> None:
    line = _lines("aa", 1, seed=2)[0]
    assert learnt.detect(line) == learnt.detect(f"  {line.upper().replace(' ', '  12, ')}! ")
    assert learnt.detect("é" + line) == learnt.detect("e\u0301" + line), "by NFC"


def test_only_the_beginning_of_a_long_text_is_read(
    learnt: LanguageId, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{line} " for line in _lines("aa", READ // 20))
    normalised = _lengths_given(monkeypatch, "_letters")
    scored = _lengths_given(monkeypatch, "_hashes")
    assert learnt.detect(text + "я" * 1_000_000) == learnt.detect(text)
    for hostile in (
        "\u0301" * 1_000_000,
        "a\u0300\u0316" * 300_000,
        "ﷺ" * 300_000,
        "İ" * 500_000,
        "a" * 1_000_000,
    ):
        learnt.detect(hostile)
    assert len(normalised) == 7
    assert max(normalised) <= 4 * READ
    assert READ / 2 < max(scored) <= READ


def _lengths_given(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Return a list of the lengths of what a function of the module is given from now on."""
    lengths = list[int]()
    function = getattr(language_id, name)

    def counted(argument: Any) -> Any:
        lengths.append(len(argument))
        return function(argument)

    monkeypatch.setattr(language_id, name, counted)
    return lengths


def test_what_is_read_is_what_was_written(learnt: LanguageId) -> None:
    text = learnt.to_json("a model")
    assert LanguageId.parse(text.encode(), "a model") == learnt
    assert LanguageId.parse(text.encode()).to_json("a model") == text
    assert (
        LanguageId.learn({code: _lines(code, 400) for code in ALPHABETS}).to_json("a model") == text
    )


def test_merging_adds_up_what_is_known(learnt: LanguageId) -> None:
    first, second, third = (LanguageId.learn({c: _lines(c, 300, s) for c in codes}) for s, codes in enumerate(("ab", "bc", "c"), 3) for codes in [[2 * c for c in codes]])  # fmt: skip
    merged = LanguageId.merge([first, second, third])
    assert sorted(merged.profiles) == ["aa", "bb", "cc"]
    assert LanguageId.merge([first]) == first
    assert LanguageId.merge([]).detect("abc") == []
    profile = merged.profiles["bb"]
    parts = [part.profiles["bb"] for part in (first, second)]
    assert profile.characters == sum(part.characters for part in parts)
    assert min(part.nats for part in parts) <= profile.nats <= max(part.nats for part in parts)
    for ngram in ("a", "ay", "ayz"):
        assert profile.counts.get(ngram, 0) == sum(part.counts.get(ngram, 0) for part in parts)
    for code in ALPHABETS:
        assert {merged.detect(line)[0][0] for line in _lines(code, 30, seed=9)} == {code}
    for text in ("", *_lines("bb", 5, seed=9)):
        other = LanguageId.merge([third, second, first])
        assert dict(other.detect(text)) == pytest.approx(dict(merged.detect(text)))


def test_codes_are_changed_or_left_out(learnt: LanguageId) -> None:
    changed = learnt.renamed({"aa": "fr", "bb": ""})
    assert sorted(changed.profiles) == ["cc", "fr"]
    assert changed.profiles["fr"] == learnt.profiles["aa"]


def test_languages_without_a_letter_are_left_out() -> None:
    assert LanguageId.learn({"en": [], "de": ["", "1 2"], "fr": ["7", "a"]}).profiles.keys() == {
        "fr"
    }
    few = LanguageId.learn({"en": ["hello there"] * 3})
    assert few.detect("hello there")[0][1] > few.detect("xyzzy")[0][1]


def test_lines_are_spread_evenly() -> None:
    lines = [str(number) for number in range(1000)]
    assert spread(lines, 1000) == lines
    assert spread(lines, 250) == lines[::4]
    assert len(spread(lines, 300)) <= 300


def _changed(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """Return damage that keeps the seal."""

    def damage(content: bytes) -> bytes:
        values = json.loads(content)
        change(values)
        return json.dumps(sealed(values), ensure_ascii=False).encode()

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"", "Expecting value"),
        (lambda content: content[:-9], "delimiter|Unterminated|Expecting"),
        (lambda _: b"[]", "not language identification of format 1"),
        (
            lambda content: content.replace(b'"format": 1', b'"format": 2'),
            "not language identification of format 1",
        ),
        (lambda content: content.replace(b'"nats": ', b'"nats": 1'), "does not match its SHA-256"),
        (lambda content: content.replace(b'"seal"', b'"sael"'), "it has no seal"),
        (lambda content: content + b" " * MAX_SIZE, "at most 8,000,000 are read"),
        (_changed(lambda values: values.update(languages=[1])), "no attribute"),
        (_changed(lambda values: values["languages"].update(aa={})), "characters"),  # type: ignore[attr-defined]
        (
            _changed(lambda values: values["languages"].update({"A A": {}})),
            "wanted a language code",
        ),  # type: ignore[attr-defined]
        *(
            (_changed(lambda values, entry=entry: values["languages"]["aa"].update(entry)), message)  # type: ignore[misc,index]
            for entry, message in (
                ({"counts": "?"}, "base64|padding|alphabet"),
                ({"counts": "AAAA"}, "do not belong together"),
                ({"ngrams": ["a"], "counts": "AA=="}, "do not belong together"),
                ({"ngrams": ["aa", "", "", ""], "counts": "AAA="}, "do not belong together"),
                ({"ngrams": ["a", "abc", "", ""], "counts": "AAAA"}, "do not belong together"),
                ({"ngrams": ["", "", "", ""], "counts": ""}, "do not belong together"),
                ({"ngrams": [{}, 1, 2, 3]}, "int"),
                ({"characters": -1}, "have to be positive"),
                ({"nats": 1e999}, "have to be positive"),
                ({"nats": None}, "NoneType"),
            )
        ),
    ],
)
def test_damage_is_refused_in_a_sentence(
    learnt: LanguageId, damage: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageId.parse(damage(learnt.to_json().encode()))


def test_of_another_model(learnt: LanguageId) -> None:
    assert json.loads(learnt.to_json("one"))[SEAL]["id"] == "one"
    with pytest.raises(ValueError, match="learnt for another model"):
        LanguageId.parse(learnt.to_json("one").encode(), "two")


# --- real text


def _read(name: str, count: int | None = None) -> list[str]:
    path = CORPORA / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: it may not be shipped")
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line][:count]


@pytest.fixture(scope="module")
def european() -> LanguageId:
    return LanguageId.learn({code: _read(f"multi30k/train.{code}") for code in ("en", "de")})


@pytest.fixture(scope="module")
def korean() -> LanguageId:
    return LanguageId.learn({code: _read(f"koen/train.{code}") for code in ("ko", "en")})


def _cut(lines: list[str], words: int) -> list[str]:
    parts = [" ".join(line.split()[:words]) for line in lines if len(line.split()) >= words]
    return [part for part in parts if any(map(str.isalpha, part))]


def test_real_languages_are_told_apart(european: LanguageId, korean: LanguageId) -> None:
    merged = LanguageId.merge([european, korean])
    files = {"en": "koen/val.en", "de": "multi30k/val.de", "ko": "koen/val.ko"}
    for words, least in ((1, 0.85), (3, 0.96), (10, 0.99)):
        lines = [
            (code, line) for code, name in files.items() for line in _cut(_read(name, 200), words)
        ]
        right = [merged.detect(line)[0][0] == code for code, line in lines]
        assert sum(right) >= least * len(right)


def test_confidence_is_honest(european: LanguageId, korean: LanguageId) -> None:
    """Check that what is called likely is right at least as often as it says, in text of other
    domains too.
    """
    merged = LanguageId.merge([european, korean])
    names = {"en": ("multi30k/val.en", "ted_enfr/val.en", "koen/val_news.en"), "de": ("multi30k/val.de",), "ko": ("koen/val.ko", "koen/val_news.ko")}  # fmt: skip
    results = [
        (merged.detect(line)[0], code)
        for code, files in names.items()
        for name in files
        for words in (1, 2, 3, 10)
        for line in _cut(_read(name, 150), words)
    ]
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        inside = [(share, best == code) for (best, share), code in results if low <= share < high]
        assert len(inside) > 50
        assert sum(right for _, right in inside) >= sum(share for share, _ in inside)


def test_other_languages_are_unknown(european: LanguageId, korean: LanguageId) -> None:
    for known, name in ((european, "multi30k/val.cs"), (european, "koen/val.ko"), (korean, "multi30k/val.de"), (korean, "multi30k/val.fr")):  # fmt: skip
        shares = [
            sum(share for _, share in known.detect(line)) for line in _cut(_read(name, 200), 10)
        ]
        assert sum(share < 0.5 for share in shares) >= 0.8 * len(shares)


def test_it_is_small_and_quick(
    european: LanguageId, korean: LanguageId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-grams of the languages are hashed once, those of a text once each."""
    for known in (european, korean):
        content = known.to_json().encode()
        assert len(content) < 300_000
        assert all(len(profile.counts) <= NGRAMS for profile in known.profiles.values())
    merged = LanguageId.merge([european, korean])
    line = "Two young, White males are outside near many bushes."
    merged.detect(line)
    of_languages = _lengths_given(monkeypatch, "_hashed")
    of_texts = _lengths_given(monkeypatch, "_hashes")
    for _ in range(100):
        merged.detect(line)
    assert of_languages == []
    assert len(of_texts) == 100
    assert max(of_texts) <= len(line) + 2
