"""A runtime file continues a prefix and records its search as the model it was exported from."""

from __future__ import annotations

from itertools import pairwise

import pytest
from small import SENTENCES, pairs

from regard.common.errors import LineError, LineWarning, UsageError
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.vocabulary import EOS
from regard.pipeline import load_translator
from regard.runtime import native
from regard.runtime.model import Constraints as LibraryConstraints
from regard.search import Constraints
from regard.search.forced_decoding import force_decode
from tests.runtime.pairs import Maker, maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:the translation")
PREFIXES = ["", "I", "나는 빵을", "book read", "I go home I go home"]
LONG = " ".join(f"{sentence}." for sentence in SENTENCES * 4)
ROUNDING = 1e-5
"""Of float32 in the score of an unlikely target (−82 for 14 tokens), by AVX-512 as by AVX2."""
OPTIONS = [
    {"beam": 1},
    {"beam": 5, "nbest": 5},
    {"beam": 3, "nbest": 2, "length_penalty": 0.0, "min_length": 7},
    {"beam": 4, "nbest": 4, "no_repeat_ngram": 2},  # which the prefix may break
    {"beam": 2, "max_ratio": 0.5, "max_extra": 2},
]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return maker(lambda: tmp_path_factory.mktemp("model") / "run")


def test_samples_depend_on_the_tokens_of_the_source(make: Maker) -> None:
    """The library makes the same key of a text as the translator."""
    translator, runtime = make("transformer", "transformer")
    options = runtime.model.options()
    options.sample = 1
    options.beam = 6
    options.nbest = 3
    options.seed = 2**62 + 1
    options.top_p = 0.9
    lines = runtime.model.translate(SENTENCES, options)
    expected = translator.translate(
        SENTENCES, sample=True, beam=6, nbest=3, seed=2**62 + 1, top_p=0.9
    )
    assert [[h.text for h in line.hypotheses] for line in lines] == [
        [h.text for h in one.nbest] for one in expected
    ]
    assert len({one.nbest[0].tokens for one in expected}) > 1


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_prefixes_are_continued_as_the_translator_does(
    make: Maker, encoder: str, decoder: str, precision: str
) -> None:
    translator, runtime = make(encoder, decoder, precision)
    lines = [sentence for sentence in SENTENCES for _ in PREFIXES]
    constraints = [Constraints(prefix=prefix) for _ in SENTENCES for prefix in PREFIXES]
    for options in OPTIONS:
        actual = runtime.translate(lines, constraints=constraints, **options)
        expected = translator.translate(lines, constraints=constraints, **options)
        for one, other in zip(actual, expected, strict=True):
            assert (one.text, one.tokens) == (other.text, other.tokens)
            assert one.score == pytest.approx(other.score, abs=2e-4, rel=ROUNDING)
            assert [h.tokens for h in one.nbest] == [h.tokens for h in other.nbest]
            scores = [h.score for h in other.nbest]
            assert [h.score for h in one.nbest] == pytest.approx(scores, abs=2e-4, rel=ROUNDING)


@pytest.mark.parametrize(
    ("encoder", "decoder"), [("transformer", "transformer"), ("recurrent", "recurrent")]
)
def test_a_translation_that_is_its_own_prefix_stays(
    make: Maker, encoder: str, decoder: str
) -> None:
    _, runtime = make(encoder, decoder)
    options = runtime.model.options()
    # A prefix adds to what the ratio allows.
    options.beam, options.max_extra, options.max_length = (
        1,
        50,
        9,
    )
    free = runtime.model.translate(SENTENCES, options)
    for part in (1, 2, 3):
        prefixes = [LibraryConstraints.of_prefix(line.hypotheses[0].ids[:part]) for line in free]
        forced = runtime.model.translate(SENTENCES, options, prefixes)
        for one, other in zip(forced, free, strict=True):
            assert one.hypotheses[0].ids == other.hypotheses[0].ids
            assert one.hypotheses[0].score == pytest.approx(other.hypotheses[0].score, abs=1e-5)


def test_the_prefix_of_a_split_line_is_that_of_its_first_part(make: Maker) -> None:
    translator, runtime = make("recurrent", "recurrent")
    prefix = Constraints(prefix="나는 빵을")
    with pytest.warns(LineWarning):  # random weights repeat themselves
        (one,), (other,) = (
            model.translate(LONG, constraints=prefix, beam=2) for model in (runtime, translator)
        )
    assert one.text.startswith("나는 빵을")
    assert (one.text, one.tokens) == (other.text, other.tokens)
    assert runtime.translate("", constraints=prefix)[0].text == ""


def test_prefixes_that_cannot_be_are_refused(make: Maker) -> None:
    translator, runtime = make("transformer", "transformer")
    for model in (translator, runtime):
        with pytest.raises(
            UsageError, match="tokens are required, and a target may have at most 2"
        ):
            model.translate("I", constraints=Constraints(prefix="I go home"), max_length=2)
        with pytest.raises(UsageError, match="prefix: wanted at most 1 tokens"):
            model.translate("I", constraints=Constraints(prefix="I go home"), max_required=1)
        with pytest.raises(UsageError, match="prefix ' ': is empty"):
            model.translate("I", constraints=Constraints(prefix=" "))
        with pytest.raises(UsageError, match="constraints: got 1 for 2 lines"):
            model.translate(["I", "you"], constraints=[Constraints(prefix="I")])
    vocabulary = len(translator.tokenizer.target)
    for token in (EOS, 0, 1, 2, -1, vocabulary, 2**31 - 1):
        with pytest.raises(LineError, match=f"line 1 prefix: token {token} is none"):
            runtime.model.translate(
                ["I"], runtime.model.options(), [LibraryConstraints.of_prefix([5, token])]
            )


# --- the trace


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_the_search_is_recorded_as_by_the_translator(
    make: Maker, encoder: str, decoder: str, beam: int
) -> None:
    """The float32 file against PyTorch: hypotheses, candidates, their order, log-probabilities and
    fates.
    """
    _, runtime = make(encoder, decoder)
    translator = load_translator(runtime.model.path.with_suffix(""), engine="pytorch")
    for line in SENTENCES[::2]:
        for constraints in (Constraints(), Constraints(prefix="book 나는")):
            _, expected = translator.trace(line, constraints, beam=beam)
            translation, steps = runtime.trace(line, constraints, beam=beam)
            (alone,) = runtime.translate(line, constraints=constraints, beam=beam)
            assert (translation.tokens, translation.score) == (alone.tokens, alone.score)
            assert [step.prefixes for step in steps] == [step.prefixes for step in expected]
            for one, other in zip(steps, expected, strict=True):
                ours, theirs = (
                    {(c.beam, c.token): c for c in step.candidates} for step in (one, other)
                )
                assert ours.keys() == theirs.keys()
                assert {key: c.fate for key, c in ours.items()} == {
                    key: c.fate for key, c in theirs.items()
                }
                for key, candidate in ours.items():
                    assert candidate.log_prob == pytest.approx(theirs[key].log_prob, abs=2e-3)
                    assert candidate.total_log_prob == pytest.approx(
                        theirs[key].total_log_prob, abs=5e-3
                    )
                totals = [c.total_log_prob for c in one.candidates]
                assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_what_is_written_is_recorded_though_others_are_likelier(make: Maker, kind: str) -> None:
    """Copy tokens are none of the likeliest where a line would end without them."""
    _, runtime = make(kind, kind, copy_tokens=4)
    translator = load_translator(runtime.model.path.with_suffix(""), engine="pytorch")
    for line in (
        f"{SENTENCES[0]}{COPY_CHARACTERS[0]}",
        f"{COPY_CHARACTERS[1]} {SENTENCES[2]}{COPY_CHARACTERS[0]}",
    ):
        _, expected = translator.trace(line, Constraints(), beam=3)
        translation, steps = runtime.trace(line, Constraints(), beam=3)
        assert set(translation.text) & set(COPY_CHARACTERS) == set(line) & set(COPY_CHARACTERS)
        for recorded in (steps, expected):
            for step, after in pairwise(recorded):
                kept = [
                    (*step.prefixes[c.beam], c.token) for c in step.candidates if c.fate == "kept"
                ]
                assert sorted(kept) == sorted(after.prefixes)
        for one, other in zip(steps, expected, strict=True):
            ours, theirs = (
                {(c.beam, c.token): c for c in step.candidates} for step in (one, other)
            )
            assert {key: c.fate for key, c in ours.items()} == {
                key: c.fate for key, c in theirs.items()
            }
            for key, candidate in ours.items():
                assert candidate.log_prob == pytest.approx(theirs[key].log_prob, abs=2e-3)


@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_log_probs_of_tokens_are_those_of_forced_decoding(
    make: Maker, encoder: str, decoder: str
) -> None:
    translator, runtime = make(encoder, decoder)
    options = runtime.model.options()
    options.beam = options.nbest = 4
    for sentence, line in zip(SENTENCES, runtime.model.translate(SENTENCES, options), strict=True):
        for hypothesis in line.hypotheses:
            source = translator.encode(sentence)
            (forced,) = force_decode(
                translator.model, [source], [hypothesis.ids], with_attention=False
            )
            assert hypothesis.log_probs == pytest.approx(forced.log_probs[:-1], abs=2e-4)


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
