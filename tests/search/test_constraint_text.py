"""Constraints from text to tokens, with vocabularies trained on text."""

from __future__ import annotations

import json
import re

import pytest

from regard.data.letter_case import letter_case
from regard.data.marian_vocab import PieceTable
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, TableVocabulary, Vocabulary
from regard.search import ConstraintEncoder, Constraints
from regard.search.constraints import is_complete
from regard.search.logits_processors import is_word_boundary

SENTENCES = [
    "I was eating bread at home",
    "the breadth of the bread, and home-made bread.",
    "나는 집에 간다",
    "집에서 빵을 먹었다",
    "彼は東京へ行く。",
    "he broad-",
]


@pytest.fixture(scope="module", params=["bytes", "no bytes", "listed"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """Vocabulary trained on text; "listed": renumbered and with additional tokens, as in imported
    models.
    """
    byte_fallback = request.param != "no bytes"
    settings = TokenizerSettings(
        size=340 if byte_fallback else None, byte_fallback=byte_fallback
    )
    trained = Tokenizer.train(SENTENCES, SENTENCES, settings).target
    if request.param != "listed":
        return trained
    reversed_names = trained.tokens(range(len(trained) - 1, EOS, -1))
    names = ["</s>", "<unk>", *reversed_names, "never", "▁cut", "<pad>"]
    numbers = {name: i for i, name in enumerate(names)}
    return TableVocabulary(
        trained.model, PieceTable.parse(json.dumps(numbers).encode())
    )


def test_surface_bytes_of_tokens_join_to_the_text(
    vocabulary: Vocabulary,
) -> None:
    for line in SENTENCES:
        surfaces = [vocabulary.surface_bytes[i] for i in vocabulary.encode(line)]
        assert b"".join(surfaces).decode().strip() == line

    assert vocabulary.surface_bytes[: EOS + 1] == [b""] * 4

    ids = list(range(len(vocabulary)))

    assert vocabulary.ids(vocabulary.tokens(ids)) == ids


STARTS = ("", " ", "(", "x", "at ", "at hom", " brea", "xbrea", "나는 ", "彼は東")


@pytest.mark.parametrize("word", ["bread", "at home", "집", "東京"])
def test_every_tokenisation_of_a_forbidden_word_is_banned(
    vocabulary: Vocabulary,
    word: str,
) -> None:
    """The banned tokens are exactly those that would complete the word."""
    (phrase,) = ConstraintEncoder(vocabulary).encode_forbidden((word,))
    either = f"{re.escape(word)}|{re.escape(word[0].upper() + word[1:])}"
    pattern = re.compile(rf"(?<![^\W_])({either})(?![^\W_])")

    for start in STARTS:
        text = start.encode()
        banned = {
            token
            for before, token, at_word_start in phrase.completions
            if text.endswith(before)
            and (not at_word_start or is_word_boundary(text[: len(text) - len(before)]))
        }

        for token, surface in enumerate(vocabulary.surface_bytes):
            extended = (text + surface).decode("utf-8", "replace")
            ends = [match.end() for match in pattern.finditer(extended)]
            is_new = any(len(extended[:end].encode()) > len(text) for end in ends)

            assert (token in banned) == is_new, (start, surface)


def test_a_term_is_a_whole_word_with_the_same_spelling(
    vocabulary: Vocabulary,
) -> None:
    (term,) = ConstraintEncoder(vocabulary).encode_terms(("bread",))

    assert term.may_follow is not None

    for text, expected in {
        "the bread was eaten": True,
        "bread": True,
        "Bread was": True,
        "the bread, he": True,
        "the breadth": False,
        "the Bread": False,
        "bre": False,
    }.items():
        assert is_complete(vocabulary.encode(text), (term,)) == expected, text


def test_a_particle_may_follow_a_korean_term_and_any_text_a_term_without_spaces(
    vocabulary: Vocabulary,
) -> None:
    home, tokyo = ConstraintEncoder(vocabulary).encode_terms(("집", "東京"))

    assert home.may_follow is None
    assert tokyo.may_follow is None

    inside = [form for form in tokyo.forms if vocabulary.decode(form) == "東京"]

    assert len(inside) == len(tokyo.forms) == 2

    joined = [*vocabulary.encode("彼は"), *tokyo.forms[1]]

    assert vocabulary.decode(joined) == "彼は東京"
    assert is_complete(joined, (tokyo,))


def test_all_invalid_constraints_are_reported_at_once(
    vocabulary: Vocabulary,
) -> None:
    encoder = ConstraintEncoder(vocabulary)

    def wrong(constraints: Constraints) -> list[str]:
        return [cause.split(": ")[0] for cause in encoder.check(constraints)]

    assert wrong(Constraints("he was", ("bread", "at home"), ("eating", "집"))) == []

    of_words = [
        "prefix ' '",
        "term ''",
        "forbid ''",
        "forbid 'bread'",
        "forbid 'a'",
    ]

    assert wrong(Constraints(" ", ("", "a bread"), ("bread", "", "a"))) == of_words

    of_letters = ["forbid 'ж'"]
    if vocabulary.id_of("<0x41>") == 1:  # without bytes
        of_letters = ["prefix '≈'", "term 'ж'", *of_letters]

    assert wrong(Constraints("≈", ("ж",), ("ж",))) == of_letters


@pytest.mark.parametrize(
    ("language", "word", "capitalised", "other"),
    [
        ("tr", "iptal", "İptal", "Iptal"),
        ("nl", "ijs", "IJs", "Ijs"),
        ("", "ijs", "Ijs", "IJs"),
    ],
)
def test_words_begin_a_sentence_with_the_capital_of_their_language(
    language: str,
    word: str,
    capitalised: str,
    other: str,
) -> None:
    text = [f"{word} {capitalised} {other}"] * 3
    target = Tokenizer.train(text, text, TokenizerSettings()).target
    encoder = ConstraintEncoder(target, letter_case(language))
    (term,) = encoder.encode_terms((word,))

    assert target.decode(term.initial_forms[0]) == capitalised

    (phrase,) = encoder.encode_forbidden((word,))
    written = {
        before + target.surface_bytes[token] for before, token, _ in phrase.completions
    }

    assert any(capitalised.encode() in text for text in written)
    assert not any(other.encode() in text for text in written)

    (problem,) = encoder.check(Constraints(terms=(f"{capitalised} x",), forbid=(word,)))

    assert word in problem
    assert encoder.check(Constraints(terms=(f"{other} x",), forbid=(word,))) == []
