"""From words to pieces, with a vocabulary that was learnt from text."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from tables import random_table, source

from regard.data.marian_vocab import PieceTable
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, TableVocabulary, Vocabulary
from regard.search import ConstraintEncoder, Constraints, SearchSettings, Task, decode
from regard.search.constraints import is_complete
from regard.search.rules import is_word_boundary

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
    """Learnt from text; or with its pieces in another order, and more than it has, as imported models number them."""
    spelt = request.param != "no bytes"
    settings = TokenizerSettings(size=340 if spelt else None, byte_fallback=spelt)
    learnt = Tokenizer.train(SENTENCES, SENTENCES, settings).target
    if request.param != "listed":
        return learnt
    names = ["</s>", "<unk>", *learnt.tokens(range(len(learnt) - 1, EOS, -1)), "never", "▁cut", "<pad>"]
    return TableVocabulary(
        learnt.model, PieceTable.parse(json.dumps({name: i for i, name in enumerate(names)}).encode())
    )


def test_what_pieces_stand_for_put_together_is_the_text(vocabulary: Vocabulary) -> None:
    for line in SENTENCES:
        ids = vocabulary.encode(line)
        assert b"".join(vocabulary.surface_bytes[i] for i in ids).decode().strip() == line
    assert vocabulary.surface_bytes[: EOS + 1] == [b""] * 4
    everything = list(range(len(vocabulary)))
    assert vocabulary.ids(vocabulary.tokens(everything)) == everything
    assert [vocabulary.id_of(piece) for piece in vocabulary.tokens(everything[EOS + 1 :])] == everything[EOS + 1 :]


@pytest.mark.parametrize("word", ["bread", "at home", "집", "東京"])
def test_no_way_to_spell_a_forbidden_word_is_left(vocabulary: Vocabulary, word: str) -> None:
    """Every piece that would complete it is banned, and no other."""
    (found,) = ConstraintEncoder(vocabulary).encode_forbidden((word,))
    starts = [
        "",
        " ",
        "eat ",
        "(",
        "x",
        "at ",
        " a",
        "at hom",
        "bre",
        "brea",
        " brea",
        "xbrea",
        "나는 ",
        "彼は東",
        "彼は",
        "東",
    ]
    for start in starts:
        text = start.encode()
        banned = {
            piece
            for before, piece, begins in found.completions
            if text.endswith(before) and (not begins or is_word_boundary(text[: len(text) - len(before)]))
        }
        for piece, surface in enumerate(vocabulary.surface_bytes):
            whole = text + surface
            forms = {word, word[0].upper() + word[1:]}
            ends = [
                match.end()
                for form in forms
                for match in re.finditer(rf"(?<![^\W_]){re.escape(form)}(?![^\W_])", whole.decode("utf-8", "replace"))
            ]
            new = [end for end in ends if len(whole.decode("utf-8", "replace")[:end].encode()) > len(text)]
            assert (piece in banned) == bool(new), (start, surface)


def test_a_term_is_a_whole_word_as_it_is_spelt(vocabulary: Vocabulary) -> None:
    (term,) = ConstraintEncoder(vocabulary).encode_terms(("bread",))
    assert term.may_follow is not None
    for text, wanted in {
        "the bread was eaten": True,
        "bread": True,
        "Bread was": True,
        "the bread, he": True,
        "the breadth": False,
        "the Bread": False,
        "bre": False,
    }.items():
        assert is_complete(vocabulary.encode(text), (term,)) == wanted, text


def test_a_particle_may_follow_a_korean_term_and_anything_a_term_without_spaces(vocabulary: Vocabulary) -> None:
    home, tokyo = ConstraintEncoder(vocabulary).encode_terms(("집", "東京"))
    assert home.may_follow is None
    assert tokyo.may_follow is None
    inside = [form for form in tokyo.forms if vocabulary.decode(form) == "東京"]
    assert len(inside) == len(tokyo.forms) == 2
    joined = [*vocabulary.encode("彼は"), *tokyo.forms[1]]
    assert vocabulary.decode(joined) == "彼は東京"
    assert is_complete(joined, (tokyo,))


def test_searches_keep_their_promises_whatever_the_model_would_say(vocabulary: Vocabulary) -> None:
    wording, V = ConstraintEncoder(vocabulary), len(vocabulary)
    table, n = random_table(6, V, 10, end=5.0), itertools.count()
    wish = Constraints("he was", ("bread", "at home"), ("eating", "집"))
    assert wording.check(wish) == []
    terms, words = wording.encode_terms(wish.terms), wording.encode_forbidden(wish.forbid)
    for settings in (SearchSettings(beam=1), SearchSettings(beam=6), SearchSettings(beam=3, sample=True)):
        tasks = [Task(next(n), 40, wording.encode_prefix(wish.prefix), terms, words) for _ in range(6)]
        for some in decode(table, source(6), tasks, settings):
            if settings.sample and not some[0].complete:
                continue  # drawing does not steer towards a term
            text = vocabulary.decode(some[0].ids)
            assert text.startswith("he was")
            assert re.search(r"\bbread\b", text)
            assert re.search(r"\bat home\b", text)
            assert not re.search(r"\b(eating|집)\b", text)


def test_what_is_wrong_with_a_wish_is_told_with_all_causes(vocabulary: Vocabulary) -> None:
    wording = ConstraintEncoder(vocabulary)
    causes = wording.check(Constraints(" ", ("", "a bread"), ("bread", "", "a")))
    assert [cause.split(": ")[0] for cause in causes] == [
        "prefix ' '",
        "term ''",
        "forbid ''",
        "forbid 'bread'",
        "forbid 'a'",
    ]
    unknown = wording.check(Constraints("≈", ("ж",), ("ж",)))
    assert [cause.split(": ")[0] for cause in unknown] == (
        ["forbid 'ж'"] if vocabulary.id_of("<0x41>") != 1 else ["prefix '≈'", "term 'ж'", "forbid 'ж'"]
    )
    assert np.array_equal(wording.encode_terms(("bread",))[0].forms, wording.encode_terms(("bread",))[0].forms)
