"""FolderTranslator: options, n-best, constraints, streaming, ensembles; readings equal teacher
forcing the output.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from sacrebleu import sentence_chrf
from small import SENTENCES, folder, pairs

from regard.attention import record_attention
from regard.common.errors import LineError, LineWarning, ModelFolderError, RegardError, UsageError
from regard.data.corpus import PairFiles, read_corpus
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS
from regard.evaluation.validation import make_validator
from regard.model_folder import (
    CONFIG,
    WEIGHTS,
    load_tensors,
    save_weights,
)
from regard.models import Batch
from regard.pipeline import FolderTranslator, Translation, load
from regard.search import (
    ConstraintEncoder,
    Constraints,
    Hypothesis,
    LengthPenalty,
    SearchOptions,
    SearchSettings,
)
from regard.search.rerank import Repetition
from regard.text.translation import as_texts

READINGS_BOUND = 1e-6 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 1e-5
"""PyTorch's products over a batch and over one sentence differ more where its vectors are
shorter.
"""


@pytest.fixture(scope="module", params=pairs(unpack=False))
def translator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> FolderTranslator:
    return load(folder(tmp_path_factory.mktemp("model"), *request.param))


def test_translations_keep_the_order_and_empty_lines_stay_empty(
    translator: FolderTranslator,
) -> None:
    lines = [SENTENCES[1], "", SENTENCES[0], "   ", SENTENCES[4]]
    together = [translation.text for translation in translator.translate(lines)]
    assert together == [
        translator.translate(line)[0].text if line.strip() else "" for line in lines
    ]
    assert len(set(together)) > 2


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
@pytest.mark.parametrize(
    "options", [{}, {"beam": 1}, {"sample": True, "seed": 3}, {"nbest": 2, "alignments": True}]
)
def test_each_sentence_of_a_line_has_the_translation_that_it_has_alone(
    translator: FolderTranslator, options: SearchOptions
) -> None:
    if "alignments" in options and not translator.cross_attention():
        options = {"nbest": 2}  # type: ignore[typeddict-unknown-key]
    sentences = [f"{SENTENCES[0]}.", "Dr. Kim came.", "I went![1]", "123!", f"{SENTENCES[1]}."]
    alone = translator.translate(sentences, **options)
    (line,) = translator.translate(" ".join(sentences), **options)
    assert [(part.source, part.text, part.score) for part in line.parts] == [
        (sentence, result.text, pytest.approx(result.score))
        for sentence, result in zip(sentences, alone, strict=True)
    ]
    assert line.text == " ".join(result.text for result in alone)
    assert all(result.text for result in alone)
    assert line.score == pytest.approx(sum(result.score for result in alone))
    assert line.parts[3].text == "123!"
    if line.alignments is not None:
        words = 0
        targets = 0
        expected = []
        for sentence, result in zip(sentences, alone, strict=True):
            expected += [(s + words, t + targets) for s, t in result.alignments or ()]
            words = words + len(sentence.split())
            targets = targets + len(result.text.split())
        assert list(line.alignments) == expected
    assert [len(hypothesis.tokens) for hypothesis in line.nbest] == [
        sum(len(result.nbest[min(rank, len(result.nbest) - 1)].tokens) for result in alone)
        for rank in range(len(line.nbest))
    ]


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_sentences_stay_together_where_that_was_learnt_or_asked_for(
    translator: FolderTranslator,
) -> None:
    line = f"{SENTENCES[0]}. {SENTENCES[1]}."
    assert len(translator.translate(line)[0].parts) == 2
    assert len(translator.translate(line, split="off")[0].parts) == 1
    several = translator.settings.search.with_values(line_sentences=2.5)
    learnt = FolderTranslator(
        translator.model, translator.tokenizer, translator.settings.with_values(search=several)
    )
    assert len(learnt.translate(line)[0].parts) == 1
    assert len(learnt.translate(line, split="on")[0].parts) == 2
    for constraints in (Constraints(prefix="I"), Constraints(terms=("I",))):
        assert len(translator.translate(line, constraints=constraints)[0].parts) == 1


@pytest.mark.parametrize("text", ["123", "---", "🙂", "12:30 ✓", "½ = 0.5!"])
def test_what_has_no_letters_is_copied(translator: FolderTranslator, text: str) -> None:
    (result,) = translator.translate(text)
    assert (result.text, result.score, result.tokens) == (text, 0.0, ())
    assert "".join(translator.stream(text)) == text
    with pytest.raises(UsageError, match="has no letters"):
        translator.trace(text)


@pytest.mark.parametrize("beam", [1, 3])
def test_readings_equal_teacher_forcing_the_output_alone(
    translator: FolderTranslator, beam: int
) -> None:
    for line, translation in zip(
        SENTENCES, translator.translate(SENTENCES, beam=beam, readings=True), strict=True
    ):
        source = translator.encode(line)
        ids = [
            translator.tokenizer.target._processor.piece_to_id(token)
            for token in translation.tokens
        ]
        with torch.inference_mode(), record_attention(translator.model) as watched:
            translator.model(Batch(torch.tensor([source])), torch.tensor([[BOS, *ids]]))
        assert translation.readings is not None
        assert set(translation.readings.weights) == set(watched)
        for name, weights in translation.readings.weights.items():
            np.testing.assert_allclose(
                weights, watched[name][0].numpy(), rtol=0, atol=READINGS_BOUND
            )
        for layer in translation.readings.layers("cross"):
            assert translation.readings.weights[layer].shape[1:] == (len(ids) + 1, len(source))
            words = translation.readings.words(layer)
            np.testing.assert_allclose(words.weights.sum(1) + words.special_weights, 1, atol=1e-5)
            assert words.weights.shape == (len(translation.text.split()), len(line.split()))


def test_translations_below_the_threshold_are_doubtful(writer: FolderTranslator) -> None:
    lines = [*SENTENCES, "you read a book. I go home.", "---", "", "12:30 🙂"]
    scores = sorted(
        part.score for line in writer.translate(lines) for part in line.parts if part.score
    )
    for threshold in (None, scores[0], scores[3], 0.0):
        translations = writer.translate(
            lines, score_threshold=threshold or writer.settings.search.score_threshold
        )
        limit = threshold or -8.0
        for translation in translations:
            assert [part.doubtful for part in translation.parts] == [
                part.score < limit for part in translation.parts
            ]
            assert translation.doubtful == any(part.doubtful for part in translation.parts)
        assert [translation.doubtful for translation in translations[-3:]] == [False] * 3, (
            "copies are never doubtful"
        )
    for search in ({"length_penalty": 0.0}, {"sample": True}):  # scores of another kind
        assert not any(translation.doubtful for translation in writer.translate(lines, **search))
    traced, _ = writer.trace(lines[0], score_threshold=scores[-1])
    assert traced.doubtful == (traced.score < scores[-1])


@pytest.mark.parametrize(
    ("texts", "causes"),
    [
        (["A dog.", math.nan], ["text 2 is nan (float); give texts"]),
        (
            ["a", None, 5],
            ["text 2 is None (NoneType); give texts", "text 3 is 5 (int); give texts"],
        ),
        ([["a"]], ["text 1 is ['a'] (list); give texts"]),
        (None, ["text 1 is None (NoneType); give texts"]),
        (b"a", ["text 1 is b'a' (bytes); give texts"]),
    ],
)
def test_what_is_no_text_is_named(writer: FolderTranslator, texts: Any, causes: list[str]) -> None:
    for call in (writer.translate, as_texts):  # a runtime file asks the latter
        with pytest.raises(UsageError) as caught:
            call(texts)
        assert list(caught.value.causes) == causes
    assert [t.text for t in writer.translate(np.array(SENTENCES))] == [
        t.text for t in writer.translate(SENTENCES)
    ]
    for method in (writer.trace, lambda text: list(writer.stream(text))):
        with pytest.raises(UsageError, match=re.escape("text 1 is nan (float); give texts")):
            method(math.nan)


def test_pairs_that_are_too_long_are_named_without_a_limit_to_raise(
    writer: FolderTranslator,
) -> None:
    with pytest.raises(
        LineError,
        match=r"line 2 has \d+ tokens, and a pair is read whole, up to 500 .*of their own$",
    ):
        writer.read_all(["a", "a" * 900], [[5], [5]])


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 2}])
def test_a_trace_is_that_of_the_translations_own_search(
    translator: FolderTranslator, search: SearchOptions
) -> None:
    for line in SENTENCES[::2]:
        translation, steps = translator.trace(line, **search)
        # By the C library, which may round the last bits otherwise.
        (plain,) = translator.translate(line, **search)
        assert (translation.text, translation.tokens) == (plain.text, plain.tokens)
        assert translation.score == pytest.approx(plain.score, abs=1e-5)
        ids = [*translator.tokenizer.target.ids(translation.tokens), EOS]
        for length, step in enumerate(steps[: len(ids)], 1):
            prefixes = [
                (*step.prefixes[candidate.beam], candidate.token) for candidate in step.candidates
            ]
            assert tuple(ids[: length - 1]) in step.prefixes
            assert tuple(ids[:length]) in prefixes or "sample" in search
    with pytest.raises(UsageError, match="the line is empty"):
        translator.trace("  ")


def test_search_options_are_the_fields_of_the_search_settings() -> None:
    fields = SearchSettings.model_fields
    types = {name: field.annotation | None for name, field in fields.items()}  # type: ignore[operator]
    assert get_type_hints(SearchOptions) == types


def test_scores_equal_teacher_forcing(translator: FolderTranslator) -> None:
    for line, translation in zip(SENTENCES, translator.translate(SENTENCES, nbest=3), strict=True):
        assert translation.nbest[0].score == translation.score
        assert [hypothesis.score for hypothesis in translation.nbest] == sorted(
            (hypothesis.score for hypothesis in translation.nbest), reverse=True
        )
        for hypothesis in translation.nbest:
            ids = [
                translator.tokenizer.target._processor.piece_to_id(token)
                for token in hypothesis.tokens
            ]
            penalty = LengthPenalty(translator.settings.search.length_penalty)(len(ids) + 1)
            # The text of a random model need not be tokenised as it was decoded: these are the
            # decoded tokens.
            forced = translator.score(line, ids)
            assert hypothesis.score == pytest.approx(forced / penalty, abs=1e-4)
    tokens = translator.tokenizer.target.encode(SENTENCES[2])
    assert translator.score(SENTENCES[0], SENTENCES[2]) == translator.score(SENTENCES[0], tokens)


def test_nbest_larger_than_the_beam_is_refused(translator: FolderTranslator) -> None:
    with pytest.raises(UsageError, match=r"wanted 1 to 3 \(the beam\), got 4"):
        translator.translate(SENTENCES, nbest=4)


def given_forms(line: str) -> list[tuple[str, list[int]]]:
    """Return forms of a clean line that a model reads alike, and in which of their words each of
    its words stands.
    """
    words = line.split()
    count = len(line.split())
    return [
        ("\u00a0".join(words), [0] * count),
        ("\u00a0".join([" ".join(words[:2]), *words[2:]]), [0, *[1] * (count - 1)]),
        ("\u200b " + line, [*range(1, count + 1)]),
        (" \u200b ".join(words), [*range(0, 2 * count, 2)]),
        ("  " + "\t".join(words) + " \r", [*range(count)]),
        ("\u3000".join(words) + " \u2060", [0] * count),
    ]


def test_alignments_count_the_words_of_the_line_as_it_was_given(
    translator: FolderTranslator,
) -> None:
    if translator.settings.model.decoder.kind == "no_attention":
        return
    for line in SENTENCES:
        forms = [form for form, _ in given_forms(line)]
        expected, *results = translator.translate([line, *forms], alignments=True, nbest=2, beam=2)
        for result, (form, positions) in zip(results, given_forms(line), strict=True):
            for hypothesis, plain in zip(
                (result, *result.nbest), (expected, *expected.nbest), strict=True
            ):
                assert hypothesis.text == plain.text
                assert {*hypothesis.alignments} == {
                    (positions[s], t) for s, t in plain.alignments
                }, ascii(form)


def test_alignments_link_existing_words_and_need_attention(translator: FolderTranslator) -> None:
    if translator.settings.model.decoder.kind == "no_attention":
        with pytest.raises(UsageError, match="this model has no attention"):
            translator.translate(SENTENCES, alignments=True)
        return
    for line, translation in zip(
        SENTENCES, translator.translate(SENTENCES, alignments=True), strict=True
    ):
        assert translation.alignments is not None
        assert [target for _, target in translation.alignments] == list(
            range(len(translation.text.split()))
        )
        assert all(0 <= source < len(line.split()) for source, _ in translation.alignments)


@pytest.mark.parametrize("version", [None, 0, 2])
def test_a_folder_of_another_format_version_is_refused(tmp_path: Path, version: int | None) -> None:
    path = folder(tmp_path) / CONFIG
    values = json.loads(path.read_text(encoding="utf-8"))
    assert values.pop("format") == 1
    path.write_text(
        json.dumps(values if version is None else {"format": version, **values}), encoding="utf-8"
    )
    shown = "unknown" if version is None else version
    with pytest.raises(
        ModelFolderError, match=rf"another version of Regard \(format {shown}; this one reads 1\)"
    ):
        load(tmp_path)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path) / WEIGHTS
    tensors = load_tensors(path)
    tensors["decoder.output.bias"][3] = float("nan")
    save_weights(tmp_path, tensors)
    with pytest.raises(ModelFolderError, match=r"decoder\.output\.bias are not finite"):
        load(tmp_path)


# --- search options and constraints


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> FolderTranslator:
    """A model with an end-of-sentence bias so low that its translations are long."""
    return load(folder(tmp_path_factory.mktemp("writer"), end=-0.5))


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "sampled": {"sample": True, "temperature": 1.5, "seed": 3},
    "few likeliest": {"sample": True, "top_k": 5, "top_p": 0.9},
    "no repeats": {"beam": 1, "no_repeat_ngram": 1, "min_length": 4},
}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_joined_stream_is_the_translation(translator: FolderTranslator, search: str) -> None:
    long = " ".join(SENTENCES[:2] * 8)  # longer than in training: it is truncated
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)
        for line in (*SENTENCES[:2], long, "", "   "):
            (translation,) = translator.translate(line, **{"beam": 1, **SEARCHES[search]})
            increments = list(translator.stream(line, **SEARCHES[search]))
            assert "".join(increments) == translation.text
            assert all(increments)


def test_a_stream_comes_word_by_word_while_other_lines_are_translated(
    writer: FolderTranslator,
) -> None:
    expected = {
        line: list(writer.stream(line, sample=True, temperature=2.0, min_length=8))
        for line in SENTENCES
    }
    assert max(map(len, expected.values())) > 2
    streams = {
        line: writer.stream(line, sample=True, temperature=2.0, min_length=8) for line in SENTENCES
    }
    increments = {line: [next(stream)] for line, stream in streams.items()}
    writer.translate(SENTENCES)
    for line, stream in streams.items():
        increments[line] += stream
    assert increments == expected


def test_a_translation_obeys_prefix_terms_and_forbidden_words(writer: FolderTranslator) -> None:
    plain = writer.translate(SENTENCES)
    for line in SENTENCES:
        constraints = Constraints("I was", ("book", "집에 간다"), ("bread", "read"))
        (translation,) = writer.translate(line, beam=6, constraints=constraints)
        assert translation.text.startswith("I was")
        assert " book" in translation.text
        assert "집에 간다" in translation.text
        assert translation.score == pytest.approx(
            writer.score(line, translation.text) / _penalty(writer, translation), abs=1e-3
        ) or (
            list(translation.tokens)
            != writer.tokenizer.target.tokens(writer.tokenizer.target.encode(translation.text))
        )
    per_line = [
        Constraints(prefix="you") if n == 2 else Constraints() for n in range(len(SENTENCES))
    ]
    constrained = writer.translate(SENTENCES, constraints=per_line)
    assert [c.text for n, c in enumerate(constrained) if n != 2] == [
        p.text for n, p in enumerate(plain) if n != 2
    ]
    assert constrained[2].text.startswith("you")


def _penalty(translator: FolderTranslator, translation: Translation) -> float:
    return LengthPenalty(translator.settings.search.length_penalty)(len(translation.tokens) + 1)


def test_contradictions_are_refused_with_all_causes(writer: FolderTranslator) -> None:
    with pytest.raises(UsageError) as refused:
        writer.translate(SENTENCES, beam=4, groups=3, temperature=0.5, min_length=9, max_length=3)
    for message in (
        "temperature: used by sampling",
        "4 cannot be divided into 3 groups",
        "min_length 9 is more than",
    ):
        assert message in str(refused.value)
    with pytest.raises(UsageError) as refused:
        writer.translate(
            SENTENCES, constraints=Constraints("a book", ("", "my bread"), ("bread", " "))
        )
    assert [cause.split(":")[0] for cause in refused.value.causes] == [
        "term ''",
        "forbid ' '",
        "forbid 'bread'",
    ]
    for constraints in (
        Constraints("A book", forbid=("a",)),
        Constraints(terms=("Bread",), forbid=("bread",)),
        Constraints("a, b", forbid=("a",)),
    ):
        with pytest.raises(UsageError, match="is also required, by"):
            writer.translate(SENTENCES[0], constraints=constraints)
    writer.translate(SENTENCES[0], beam=1, constraints=Constraints("a book", forbid=("boo", "ook")))
    with pytest.raises(
        UsageError,
        match=r"'a book', 'go': \d+ tokens are required, and a target may have at most 2",
    ):
        writer.translate(SENTENCES[0], max_length=2, constraints=Constraints("a book", ("go",)))
    with pytest.raises(UsageError, match="did you mean 'sample'"):
        writer.translate(SENTENCES, sampel=True)
    with pytest.raises(UsageError, match="got 2 for 6 lines"):
        writer.translate(SENTENCES, constraints=[Constraints(), Constraints()])


def test_the_cache_of_the_constraint_encoder_is_bounded(
    writer: FolderTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.search.constraint_text.CACHE_SIZE", 5)
    encoder = ConstraintEncoder(writer.tokenizer.target)
    words = [f"{first}{second}" for first in "abcd" for second in "efgh"]
    terms = [encoder.encode_terms((word,))[0] for word in words]
    assert len(encoder._terms) <= 5
    assert all(term.may_follow is terms[0].may_follow for term in terms), (
        "V booleans are stored once"
    )
    encoder.encode_forbidden(tuple(words))
    assert len(encoder._phrases) <= 5
    assert [encoder.encode_terms((word,))[0].forms for word in words] == [
        term.forms for term in terms
    ]


def test_sampling_draws_nbest_samples(writer: FolderTranslator) -> None:
    for line, translation in zip(
        SENTENCES, writer.translate(SENTENCES, nbest=4, sample=True, temperature=1.5), strict=True
    ):
        assert len(translation.nbest) == 4
        assert writer.translate(line, nbest=4, sample=True, temperature=1.5)[0] == translation, (
            "alone as in a batch"
        )
    assert writer.translate(SENTENCES[0], sample=True)[0].nbest == ()
    assert writer.translate(SENTENCES, sample=True, seed=1) != writer.translate(
        SENTENCES, sample=True, seed=2
    )


@pytest.mark.filterwarnings("ignore:the translation has")  # the model has learnt nothing
@pytest.mark.parametrize("search", [{"beam": 5}, {"beam": 6, "sample": True, "temperature": 1.5}])
def test_mbr_ranks_by_expected_chrf_against_the_other_hypotheses(
    writer: FolderTranslator, search: dict[str, Any]
) -> None:
    different = 0
    for line in SENTENCES:
        (plain,) = writer.translate(line, nbest=search["beam"], **search)
        (best,) = writer.translate(line, nbest=search["beam"], mbr=True, **search)
        texts = [hypothesis.text for hypothesis in plain.nbest]
        shares = [1.0] * len(texts)
        if "sample" not in search:
            totals = [hypothesis.score * _penalty(writer, hypothesis) for hypothesis in plain.nbest]
            shares = [math.exp(total - max(totals)) for total in totals]
        utilities = {
            text: sum(
                share * sentence_chrf(text, [reference]).score
                for j, (reference, share) in enumerate(zip(texts, shares, strict=True))
                if i != j
            )
            for i, text in enumerate(texts)
        }
        assert sorted(hypothesis.text for hypothesis in best.nbest) == sorted(texts)
        assert utilities[best.text] == pytest.approx(max(utilities.values()))
        different += best.text != plain.text
    assert different


@pytest.mark.parametrize("beta", [0.3, 5.0])
def test_the_coverage_penalty_is_that_of_gnmt_and_only_reorders(
    translator: FolderTranslator, beta: float
) -> None:
    if not translator.cross_attention():
        with pytest.raises(UsageError, match="has no attention over its source"):
            translator.translate(SENTENCES, coverage_penalty=beta)
        return
    for line in SENTENCES:
        (plain,) = translator.translate(line, beam=5, nbest=5)
        (reordered,) = translator.translate(line, beam=5, nbest=5, coverage_penalty=beta)
        assert {(hypothesis.text, hypothesis.tokens) for hypothesis in reordered.nbest} == {
            (hypothesis.text, hypothesis.tokens) for hypothesis in plain.nbest
        }
        utilities = []
        for hypothesis in reordered.nbest:
            ids = [translator.tokenizer.target.id_of(token) for token in hypothesis.tokens]
            readings = translator.read_all([line], [ids])[0]
            layer_weights = [readings.weights[name].mean(0) for name in readings.layers("cross")]
            coverage = np.mean(layer_weights, 0)[:, :-1].sum(0)  # (S,) without the end of sentence
            utilities.append(hypothesis.score + beta * float(np.log(np.minimum(coverage, 1)).sum()))
        assert utilities == sorted(utilities, reverse=True)


def test_an_ensemble_averages_probabilities(tmp_path: Path) -> None:
    first = folder(tmp_path / "one")
    same = load([first, first])
    alone = load(first)
    assert [t.text for t in same.translate(SENTENCES)] == [
        t.text for t in alone.translate(SENTENCES)
    ]
    second = folder(tmp_path / "other", "recurrent", "recurrent", end=0.3)
    both = load([first, second])
    members = [load(first), load(second)]
    together = both.translate(SENTENCES)
    for line, translation in zip(SENTENCES, together, strict=True):
        (alone_translation,) = both.translate(line)
        assert alone_translation.tokens == translation.tokens
        assert alone_translation.score == pytest.approx(translation.score, abs=1e-4)
        assert all(
            abs(translation.score - member.translate(line)[0].score) > 1e-3 for member in members
        )
    for line, translation in zip(
        SENTENCES, both.translate(SENTENCES, alignments=True, readings=True), strict=True
    ):
        ids = [both.tokenizer.target.id_of(token) for token in translation.tokens]
        with torch.no_grad():
            source = torch.tensor([both.encode(line)])
            target = torch.tensor([[BOS, *ids]])
            shares = [
                m.model.project(m.model(Batch(source), target))[0].softmax(-1) for m in members
            ]
        mean = (sum(shares) / 2).log().gather(1, torch.tensor([*ids, EOS])[:, None]).sum()
        assert translation.score == pytest.approx(
            float(mean) / _penalty(both, translation), abs=1e-4
        )
        assert translation.alignments is not None
        assert translation.readings is not None
        assert {name.split(".")[1] for name in translation.readings.layers("cross")} == {"0", "1"}
    assert "".join(both.stream(SENTENCES[0])) == both.translate(SENTENCES[0], beam=1)[0].text


def test_an_ensemble_of_different_vocabularies_is_refused(tmp_path: Path) -> None:
    first = folder(tmp_path / "one")
    second = folder(tmp_path / "other")
    tokenizer = Tokenizer.train(
        ["other words", "altogether"], ["other words", "altogether"], TokenizerSettings()
    )
    tokenizer.save(second)
    with pytest.raises(RegardError, match="other"):
        load([first, second])


def test_a_repetitive_translation_is_reported(
    writer: FolderTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = writer.tokenizer.target.encode("I go home")
    longer = Hypothesis(tuple(ids[:1] + ids[1:] * 20), -3.0, -1.0)
    monkeypatch.setattr(writer.engine, "decode", lambda tasks, _: [[longer] for _ in tasks])
    with pytest.warns(LineWarning, match="repeats 'go home' 20 times") as warned:
        translations = writer.translate(SENTENCES[:1])
    assert translations[0].repetition == ("go home", 20)
    assert warned[0].message.index == 0  # type: ignore[union-attr]


def test_validation_during_training_does_not_warn_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = load(folder(tmp_path))
    monkeypatch.setattr(
        "regard.pipeline.base.find_repetition", lambda ids, _: Repetition(0, tuple(ids[:1]), 20)
    )
    with pytest.warns(LineWarning, match="repeats"):
        writer.translate(SENTENCES, beam=1)
    paths = [tmp_path / "valid.ko", tmp_path / "valid.en"]
    for path in paths:
        path.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    validate = make_validator(
        read_corpus(PairFiles(*paths)), writer.tokenizer, writer.settings, len(SENTENCES)
    )
    assert validate(writer.model)["loss"] > 0  # a warning would be an error here
