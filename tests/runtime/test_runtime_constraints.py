"""Constraints, samples and the recorded search of a runtime file are those of the model that it was
exported from.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from helpers.small_models import SENTENCES

from regard.common.errors import LineError, UsageError
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.pipeline import load_translator
from regard.runtime import native
from regard.search import Constraints
from tests.runtime.pairs import Maker, assert_same

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:the translation")
SEVERAL = f"{SENTENCES[0]}. {SENTENCES[1]}! {SENTENCES[2]}."
LONG = " ".join([SEVERAL] * 8)
LINES = [*SENTENCES[:3], SEVERAL, "", "  2026 …", "\u1112\u1161\u11ab 자모"]
ASKED = [
    Constraints(terms=("I go", "빵을", "書")),
    Constraints(forbid=("I", "a", "book", "집에")),
    Constraints(prefix="I go home I go home"),
    Constraints("나는 빵을", ("eating",), ("I", "빵")),
    Constraints(),
]
WITHOUT_ROOM = Constraints("I", ("go",), ("I go",))
"""Of two tokens no target can hold all that."""
SEARCHES: list[dict[str, Any]] = [
    {"beam": 4, "nbest": 3, "no_repeat_ngram": 2, "min_length": 7},
    {"beam": 1, "max_ratio": 0.5, "max_extra": 1, "length_penalty": 0.0},
]
SAMPLES: list[dict[str, Any]] = [
    {"nbest": 3, "top_k": 5, "seed": 2**62 + 1},
    {"beam": 4, "top_p": 0.8, "temperature": 0.7},
]


@pytest.mark.system
@pytest.mark.parametrize(
    ("encoder", "decoder", "precision"),
    [
        ("transformer", "transformer", "float32"),
        ("recurrent", "recurrent", "int8"),
    ],
)
def test_translations_and_scores_are_those_of_the_run_folder(
    make: Maker,
    encoder: str,
    decoder: str,
    precision: str,
) -> None:
    pair = make(encoder, decoder, precision)
    lines = [line for line in LINES for _ in ASKED]
    constraints = ASKED * len(LINES)
    for search in SEARCHES:
        translations = assert_same(pair, lines, constraints=constraints, **search)
        for asked, translation in zip(constraints, translations, strict=True):
            if translation.text and translation.is_complete:
                assert all(term in translation.text for term in asked.terms)


def test_a_split_line_holds_its_prefix_and_a_short_one_says_what_it_lacks(
    make: Maker,
) -> None:
    pair = make("recurrent", "recurrent")
    prefixed = Constraints(prefix="나는 빵을")
    (translation,) = assert_same(pair, [LONG], constraints=prefixed, beam=2)

    assert translation.text.startswith("나는 빵을"), "of the first part"

    options = {"constraints": WITHOUT_ROOM, "beam": 2, "max_length": 2}
    (translation,) = assert_same(pair, LINES[:1], **options)

    assert "lacks a required term ('go')" in translation.notes[0]


@pytest.mark.system
def test_samples_are_those_of_the_run_folder(make: Maker) -> None:
    pair = make("recurrent", "recurrent")
    forbidden = Constraints(prefix="I", forbid=("book", "집에"))
    for options in SAMPLES:
        search = {"sample": True, **options}
        texts = [one.text for one in assert_same(pair, LINES, **search)]
        others = assert_same(pair, LINES, **{**search, "seed": 99})

        assert texts != [one.text for one in others]

        assert_same(pair, LINES, constraints=forbidden, **search)


def _streamed(
    model: Any,
    asked: Constraints,
    search: dict[str, Any],
) -> tuple[str, list[str]]:
    """Return the joined words of a stream, and the notes on its terms."""
    words = list[str]()
    stream = model.begin_stream(SEVERAL, asked, **search)
    while True:
        try:
            words.append(next(stream))
        except StopIteration as stop:
            return "".join(words), [note for note in stop.value.notes if "term" in note]


def test_streams_hold_constraints_and_are_sampled(make: Maker) -> None:
    translator, runtime = make("transformer", "transformer")
    calls: list[tuple[Constraints, dict[str, Any]]] = [
        *((asked, {"max_extra": 3}) for asked in ASKED),
        (ASKED[1], {"sample": True, "top_k": 4, "seed": 3}),
        (WITHOUT_ROOM, {"max_length": 2}),
    ]
    for asked, search in calls:
        text, notes = _streamed(runtime, asked, search)
        assert (text, notes) == _streamed(translator, asked, search)
    (note,) = notes

    assert note.startswith(
        "the translation lacks a required term ('go'); a larger `beam` or"
    )


@pytest.mark.parametrize(
    ("asked", "search", "message"),
    [
        (Constraints("I go", ("home",)), {"max_length": 2}, "may have at most 2"),
        (Constraints(prefix=" "), {}, "prefix ' ': is empty"),
        (Constraints(terms=("home",)), {"sample": True}, "sample"),
        (Constraints(terms=("home",)), {"max_whole": 3}, "3"),
        ([Constraints(), Constraints()], {}, "constraints: got 2 for 1 line;"),
    ],
)
def test_what_cannot_be_is_refused_in_the_same_words(
    make: Maker,
    asked: Any,
    search: dict[str, Any],
    message: str,
) -> None:
    refusals = set[str]()
    for model in make("transformer", "transformer"):
        with pytest.raises((UsageError, LineError)) as refusal:
            model.translate([LONG], constraints=asked, **search)
        refusals.add(str(refusal.value))

    (refusal_of_both,) = refusals

    assert message in refusal_of_both


# --- the recorded search


def assert_same_steps(actual: Any, expected: Any) -> None:
    """Compare hypotheses, candidates, log-probabilities and fates, step by step."""
    for one, other in zip(actual, expected, strict=True):
        assert one.prefixes == other.prefixes

        ours = {(c.beam, c.token): c for c in one.candidates}
        theirs = {(c.beam, c.token): c for c in other.candidates}

        assert ours.keys() == theirs.keys()

        for key, candidate in ours.items():
            reference = theirs[key]

            assert candidate.fate == reference.fate

            total = pytest.approx(reference.total_log_prob, abs=5e-3)

            assert candidate.log_prob == pytest.approx(reference.log_prob, abs=2e-3)
            assert candidate.total_log_prob == total


COPY, OTHER, *_ = COPY_CHARACTERS
COPIED = [f"{SENTENCES[0]}{COPY}", f"{OTHER} {SENTENCES[2]}{COPY}"]
"""Lines whose copy tokens are none of the likeliest where a line would end without them."""


@pytest.mark.parametrize(
    ("kind", "copy_tokens", "lines"),
    [
        ("transformer", 0, SENTENCES[::2]),
        ("recurrent", 0, SENTENCES[::2]),
        ("convolutional", 0, SENTENCES[::2]),
        ("transformer", 4, COPIED),
    ],
)
def test_the_search_is_recorded_as_by_the_translator(
    make: Maker,
    kind: str,
    copy_tokens: int,
    lines: list[str],
) -> None:
    _, runtime = make(kind, kind, copy_tokens=copy_tokens)
    translator = load_translator(runtime.model.path.with_suffix(""), engine="pytorch")
    prefix = "" if copy_tokens else "book 나는"
    for line, beam in product(lines, (1, 4)):
        constraints = Constraints(prefix=prefix if beam > 1 else "")
        _, expected = translator.trace(line, constraints, beam=beam)
        translation, steps = runtime.trace(line, constraints, beam=beam)
        assert_same_steps(steps, expected)
        if not copy_tokens:  # such lines may be translated several times
            (alone,) = runtime.translate(line, constraints=constraints, beam=beam)
            assert translation.tokens == alone.tokens
            assert translation.score == alone.score


def test_a_trace_is_of_one_whole_line(make: Maker) -> None:
    _, runtime = make("recurrent", "recurrent")

    with pytest.raises(UsageError, match="the line is empty"):
        runtime.trace(" ")
    with pytest.raises(UsageError, match="the line is split"):
        runtime.trace(LONG)

    options = runtime.model.options()

    assert runtime.model.translate(SENTENCES, options)[0].steps == ()

    options.trace = 1

    with pytest.raises(UsageError, match="one line is recorded at a time, got 6"):
        runtime.model.translate(SENTENCES, options)
