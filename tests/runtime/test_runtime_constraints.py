"""Terms, forbidden words, prefixes and samples of a runtime file are those of the run folder that
it is made from.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from small import SENTENCES

from regard.common.errors import LineError, UsageError
from regard.pipeline import RuntimeTranslator, Translation, Translator
from regard.runtime import native
from regard.runtime.encoded_constraints import RuntimeVocabulary
from regard.search import Constraints
from tests.runtime.pairs import Maker, maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

KINDS = [
    ("transformer", "transformer"),
    ("recurrent", "recurrent"),
    ("convolutional", "convolutional"),
    ("transformer", "no_attention"),
]
SEVERAL = f"{SENTENCES[0]}. {SENTENCES[1]}! {SENTENCES[2]}."
LONG = " ".join([SEVERAL] * 4)
LINES = [*SENTENCES[:3], SEVERAL, "", "2026 …"]
ASKED = [
    Constraints(terms=("home",)),
    Constraints(terms=("I go", "빵을", "書")),
    Constraints(forbid=("I", "a", "book", "집에")),
    Constraints(prefix="I was"),
    Constraints("book", ("eating",), ("I", "빵")),
    Constraints(),
]
WITHOUT_ROOM = Constraints("I", ("go",), ("I go",))
"""Of two tokens no target can hold all that."""
SEARCHES: list[dict[str, Any]] = [
    {"beam": 4, "nbest": 3},
    {"beam": 1, "max_extra": 4},
    {"beam": 3, "max_ratio": 0.5, "max_extra": 1},
]
SAMPLES: list[dict[str, Any]] = [
    {"sample": True, "seed": 7},
    {"sample": True, "nbest": 3, "top_k": 5, "seed": 2**40},
    {"sample": True, "beam": 4, "top_p": 0.8, "temperature": 0.7},
    {"sample": True, "nbest": 2, "top_k": 9, "top_p": 0.5, "temperature": 2},
]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return maker(lambda: tmp_path_factory.mktemp("model") / "run")


def ranked(translation: Translation) -> list[tuple[Any, ...]]:
    """Return what has to be equal of each hypothesis."""
    return [(one.text, one.tokens, one.is_complete) for one in (translation, *translation.nbest)]


def parts(translation: Translation) -> list[tuple[Any, ...]]:
    """Return what has to be equal of the best one alone."""
    return [
        *((part.source, part.text) for part in translation.parts),
        translation.notes,
        translation.doubtful,
    ]


def check_equal(
    pair: tuple[Translator, RuntimeTranslator], lines: list[str], **options: Any
) -> list[Translation]:
    """Translate with both, compare, and return the translations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, actual = (translator.translate(lines, **options) for translator in pair)
    for one, other in zip(actual, expected, strict=True):
        assert (ranked(one), parts(one)) == (ranked(other), parts(other))
        scores = [each.score for each in (other, *other.nbest)]
        assert [each.score for each in (one, *one.nbest)] == pytest.approx(
            scores, abs=1e-4, rel=1e-5
        )
    return actual


@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
def test_constraints_hold_as_in_the_run_folder(make: Maker, encoder: str, decoder: str) -> None:
    pair = make(encoder, decoder)
    lines = [line for line in LINES for _ in ASKED]
    for search in SEARCHES:
        found = check_equal(pair, lines, constraints=ASKED * len(LINES), **search)
        for line, asked, translation in zip(lines, ASKED * len(LINES), found, strict=True):
            assert all(
                term in translation.text for term in asked.terms if line and translation.is_complete
            )
    (translation,) = check_equal(pair, LINES[:1], constraints=WITHOUT_ROOM, beam=2, max_length=2)
    assert "lacks a required term ('go')" in translation.notes[0]


@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
def test_samples_are_those_of_the_run_folder(make: Maker, encoder: str, decoder: str) -> None:
    pair = make(encoder, decoder)
    for search in SAMPLES:
        texts = [one.text for one in check_equal(pair, LINES, **search)]
        forbidden = Constraints(prefix="I", forbid=("book", "집에"))
        check_equal(pair, LINES, constraints=forbidden, **search)
        assert texts != [one.text for one in check_equal(pair, LINES, **{**search, "seed": 99})]


def test_streams_hold_constraints_and_are_sampled(make: Maker) -> None:
    translator, runtime = make("transformer", "transformer")
    calls = [(asked, {"max_extra": 3}) for asked in ASKED]
    calls += [
        (WITHOUT_ROOM, {"max_length": 2}),
        (ASKED[2], {"sample": True, "top_k": 4, "seed": 3}),
    ]
    for asked, search in calls:
        expected, actual = (streamed(model, asked, search) for model in (translator, runtime))
        assert actual == expected
    assert streamed(runtime, *calls[-2])[1] == [
        "the translation lacks a required term ('go'); a larger `beam` or `max_extra` may find room"
    ]


def streamed(model: Any, asked: Constraints, search: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the joined words of a stream, and the notes on its terms."""
    words = list[str]()
    stream = model.begin_stream(SEVERAL, asked, **search)
    while True:
        try:
            words.append(next(stream))
        except StopIteration as stop:
            return "".join(words), [note for note in stop.value.notes if "term" in note]


def test_surfaces_are_those_of_the_vocabulary(make: Maker) -> None:
    translator, runtime = make("transformer", "transformer")
    expected = translator.tokenizer.target
    vocabulary = RuntimeVocabulary(runtime.model)
    assert vocabulary.surface_bytes == expected.surface_bytes
    for token in (*expected.tokens(range(4, len(expected))), "no such token"):
        assert vocabulary.id_of(token) == expected.id_of(token)


@pytest.mark.parametrize(
    ("asked", "search"),
    [
        (Constraints(terms=("I go home",)), {"max_length": 2}),
        (Constraints("I go", ("home",)), {"max_length": 2}),
        (Constraints(terms=("home",), forbid=("home",)), {}),
        (Constraints(terms=(" ",)), {}),
        (Constraints(terms=("I go",)), {"max_required": 1}),
        (Constraints(forbid=("home", "bread")), {"max_forbidden": 1}),
        (Constraints(terms=("home",)), {"sample": True}),
        (Constraints(terms=("home",)), {"max_whole": 3}),
    ],
)
def test_what_cannot_be_is_refused_in_the_same_words(
    make: Maker, asked: Constraints, search: dict[str, Any]
) -> None:
    refusals = list[str]()
    for model in make("transformer", "transformer"):
        with pytest.raises((UsageError, LineError)) as refusal:
            model.translate(LONG, constraints=asked, **search)
        refusals.append(str(refusal.value))
    assert refusals[0] == refusals[1]
