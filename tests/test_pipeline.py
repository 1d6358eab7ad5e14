"""FolderTranslator: options, n-best, constraints, streaming, ensembles; readings equal teacher
forcing the output.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from helpers.small_models import SENTENCES, folder, pairs
from sacrebleu import sentence_chrf

from regard.attention import record_attention
from regard.common.errors import (
    LineError,
    LineWarning,
    ModelFolderError,
    RegardError,
    UsageError,
)
from regard.data.corpus import read_corpus
from regard.data.file_formats import PairFiles
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
from regard.pipeline import FolderTranslator, load
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
@pytest.mark.parametrize("options", [{"sample": True, "seed": 3}, {"nbest": 2}])
def test_each_sentence_of_a_line_has_the_translation_that_it_has_alone(
    translator: FolderTranslator, options: SearchOptions
) -> None:
    has_alignments = "nbest" in options and bool(translator.cross_attention())
    sentences = [
        f"{SENTENCES[0]}.",
        "Dr. Kim came.",
        "I went![1]",
        "123!",
        f"{SENTENCES[1]}.",
    ]
    options = {"alignments": has_alignments, "keep": False, **options}
    alone = translator.translate(sentences, **options)
    (line,) = translator.translate(" ".join(sentences), **options)
    words = 0
    targets = 0
    links = []

    for part, sentence, result in zip(line.parts, sentences, alone, strict=True):
        assert (part.source, part.text) == (sentence, result.text)
        assert part.score == pytest.approx(result.score)
        links += [(s + words, t + targets) for s, t in result.alignments or ()]
        words += len(sentence.split())
        targets += len(result.text.split())

    assert line.text == " ".join(result.text for result in alone)
    assert line.score == pytest.approx(sum(result.score for result in alone))
    assert line.parts[3].text == "123!"
    assert list(line.alignments or ()) == links

    for rank, hypothesis in enumerate(line.nbest):
        # A sentence with fewer hypotheses gives its last one.
        chosen = [result.nbest[min(rank, len(result.nbest) - 1)] for result in alone]
        assert len(hypothesis.tokens) == sum(len(one.tokens) for one in chosen)


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_sentences_stay_together_where_that_was_learnt_or_asked_for(
    translator: FolderTranslator,
) -> None:
    line = f"{SENTENCES[0]}. {SENTENCES[1]}."
    assert len(translator.translate(line)[0].parts) == 2
    assert len(translator.translate(line, split="off")[0].parts) == 1

    several = translator.settings.search.with_values(line_sentences=1.5)
    learnt = FolderTranslator(
        translator.model,
        translator.tokenizer,
        translator.settings.with_values(search=several),
    )

    assert len(learnt.translate(line)[0].parts) == 1
    assert len(learnt.translate(line, split="on")[0].parts) == 2

    for constraints in (Constraints(prefix="I"), Constraints(terms=("I",))):
        assert len(translator.translate(line, constraints=constraints)[0].parts) == 1


def test_what_has_no_letters_is_copied(translator: FolderTranslator) -> None:
    for text in ("123", "---", "🙂", "12:30 ✓", "½ = 0.5!"):
        (result,) = translator.translate(text)
        assert (result.text, result.score, result.tokens) == (text, 0.0, ())
        assert "".join(translator.stream(text)) == text
    with pytest.raises(UsageError, match="has no letters"):
        translator.trace("123")


def test_readings_equal_teacher_forcing_the_output_alone(
    translator: FolderTranslator,
) -> None:
    translations = translator.translate(SENTENCES, beam=3, readings=True)
    for line, translation in zip(SENTENCES, translations, strict=True):
        source = translator.encode(line)
        ids = translator.tokenizer.target.ids(translation.tokens)
        with torch.inference_mode(), record_attention(translator.model) as recorded:
            translator.model(Batch(torch.tensor([source])), torch.tensor([[BOS, *ids]]))
        readings = translation.readings
        assert readings is not None
        assert set(readings.weights) == set(recorded)
        for name, weights in readings.weights.items():
            expected = recorded[name][0].numpy()
            np.testing.assert_allclose(weights, expected, rtol=0, atol=READINGS_BOUND)
        for layer in readings.layers("cross"):
            assert readings.weights[layer].shape[1:] == (len(ids) + 1, len(source))
            words = readings.words(layer)
            np.testing.assert_allclose(
                words.weights.sum(1) + words.special_weights, 1, atol=1e-5
            )
            assert words.weights.shape == (
                len(translation.text.split()),
                len(line.split()),
            )


def test_translations_below_the_threshold_are_doubtful(
    writer: FolderTranslator,
) -> None:
    lines = [*SENTENCES, "you read a book. I go home.", "---", "", "12:30 🙂"]
    parts = [part for line in writer.translate(lines) for part in line.parts]
    scores = sorted(part.score for part in parts if part.score)

    for threshold in (-8.0, scores[0], scores[3]):
        translations = writer.translate(lines, score_threshold=threshold)
        for translation in translations:
            for part in translation.parts:
                assert part.doubtful == (part.score < threshold)
            assert translation.doubtful == any(
                part.doubtful for part in translation.parts
            )
        copies = translations[-3:]
        assert not any(copy.doubtful for copy in copies)

    for search in ({"length_penalty": 0.0}, {"sample": True}):  # scores of another kind
        assert not any(
            translation.doubtful for translation in writer.translate(lines, **search)
        )
    traced, _ = writer.trace(lines[0], score_threshold=scores[-1])

    assert traced.doubtful == (traced.score < scores[-1])


@pytest.mark.parametrize(
    ("texts", "causes"),
    [
        (
            ["a", None, 5],
            ["text 2 is None (NoneType); give texts", "text 3 is 5 (int); give texts"],
        ),
        ([["a"]], ["text 1 is ['a'] (list); give texts"]),
        (b"a", ["text 1 is b'a' (bytes); give texts"]),
    ],
)
def test_what_is_no_text_is_named(
    writer: FolderTranslator, texts: Any, causes: list[str]
) -> None:
    for call in (writer.translate, as_texts):  # a runtime file asks the latter
        with pytest.raises(UsageError) as caught:
            call(texts)
        assert list(caught.value.causes) == causes
    for method in (writer.trace, lambda text: list(writer.stream(text))):
        with pytest.raises(
            UsageError, match=re.escape("text 1 is nan (float); give texts")
        ):
            method(math.nan)


def test_pairs_that_are_too_long_are_named_without_a_limit_to_raise(
    writer: FolderTranslator,
) -> None:
    with pytest.raises(
        LineError,
        match=r"line 2 has \d+ tokens, and a pair is read whole, up to 500 .*of their own$",
    ):
        writer.read_all(["a", "a" * 900], [[5], [5]])


@pytest.mark.parametrize("search", [{"beam": 3}, {"sample": True, "seed": 2}])
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
            assert tuple(ids[: length - 1]) in step.prefixes
            if "sample" not in search:
                candidates = [
                    (*step.prefixes[c.beam], c.token) for c in step.candidates
                ]
                assert tuple(ids[:length]) in candidates
    with pytest.raises(UsageError, match="the line is empty"):
        translator.trace("  ")


def test_search_options_are_the_fields_of_the_search_settings() -> None:
    fields = SearchSettings.model_fields
    types = {name: field.annotation | None for name, field in fields.items()}  # type: ignore[operator]
    assert get_type_hints(SearchOptions) == types


def test_scores_equal_teacher_forcing(translator: FolderTranslator) -> None:
    for line, translation in zip(
        SENTENCES, translator.translate(SENTENCES, nbest=3), strict=True
    ):
        scores = [hypothesis.score for hypothesis in translation.nbest]
        assert scores == sorted(scores, reverse=True)
        assert translation.score == scores[0]
        for hypothesis in translation.nbest:
            # Of a random model the text need not be tokenised as it was decoded.
            ids = translator.tokenizer.target.ids(hypothesis.tokens)
            forced = translator.score(line, ids) / _penalty(translator, hypothesis)
            assert hypothesis.score == pytest.approx(forced, abs=1e-4)
    tokens = translator.tokenizer.target.encode(SENTENCES[2])
    assert translator.score(SENTENCES[0], SENTENCES[2]) == translator.score(
        SENTENCES[0], tokens
    )
    with pytest.raises(UsageError, match=r"wanted 1 to 3 \(the beam\), got 4"):
        translator.translate(SENTENCES, nbest=4)


def given_forms(line: str) -> dict[str, list[int]]:
    """Return forms of a clean line that a model reads alike, and in which of their words each of
    its words stands.
    """
    words = line.split()
    count = len(words)
    return {
        "\u00a0".join(words): [0] * count,
        "\u200b " + line: [*range(1, count + 1)],
        " \u200b ".join(words): [*range(0, 2 * count, 2)],
        "  " + "\t".join(words) + " \r": [*range(count)],
        "\u3000".join(words) + " \u2060": [0] * count,
    }


def test_alignments_link_the_words_of_the_line_as_it_was_given(
    translator: FolderTranslator,
) -> None:
    if not translator.cross_attention():
        with pytest.raises(UsageError, match="this model has no attention"):
            translator.translate(SENTENCES, alignments=True)
        return
    for line in SENTENCES:
        forms = given_forms(line)
        plain, *results = translator.translate(
            [line, *forms], alignments=True, nbest=2, beam=2
        )
        assert plain.alignments is not None
        words = range(len(plain.text.split()))
        assert len({*plain.alignments}) == len(plain.alignments)
        assert all(target in words for _, target in plain.alignments)
        assert all(0 <= source < len(line.split()) for source, _ in plain.alignments)
        for result, (form, positions) in zip(results, forms.items(), strict=True):
            assert result.text == plain.text
            for hypothesis, other in zip(
                (result, *result.nbest), (plain, *plain.nbest), strict=True
            ):
                expected = {(positions[s], t) for s, t in other.alignments}
                assert {*hypothesis.alignments} == expected, ascii(form)


@pytest.mark.parametrize("version", [None, 2])
def test_a_folder_of_another_format_version_is_refused(
    tmp_path: Path, version: int | None
) -> None:
    path = folder(tmp_path) / CONFIG
    values = json.loads(path.read_text(encoding="utf-8"))

    assert values.pop("format") == 1

    if version is not None:
        values["format"] = version
    path.write_text(json.dumps(values), encoding="utf-8")

    with pytest.raises(
        ModelFolderError,
        match=rf"of Regard \(format {version or 'unknown'}; this one reads 1\)",
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
@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_a_joined_stream_is_the_translation(
    translator: FolderTranslator, search: str
) -> None:
    long = " ".join(SENTENCES[:2] * 8)  # longer than in training: it is truncated
    for line in (*SENTENCES[:2], long, "", "   "):
        (translation,) = translator.translate(line, **{"beam": 1, **SEARCHES[search]})
        increments = list(translator.stream(line, **SEARCHES[search]))
        assert "".join(increments) == translation.text
        assert all(increments)


def test_a_stream_comes_word_by_word_while_other_lines_are_translated(
    writer: FolderTranslator,
) -> None:
    options: SearchOptions = {"sample": True, "temperature": 2.0, "min_length": 8}
    expected = {line: list(writer.stream(line, **options)) for line in SENTENCES}

    assert max(map(len, expected.values())) > 2

    streams = {line: writer.stream(line, **options) for line in SENTENCES}
    increments = {line: [next(stream)] for line, stream in streams.items()}
    writer.translate(SENTENCES)
    for line, stream in streams.items():
        increments[line] += stream

    assert increments == expected


def test_a_translation_obeys_prefix_terms_and_forbidden_words(
    writer: FolderTranslator,
) -> None:
    plain = writer.translate(SENTENCES)
    target = writer.tokenizer.target

    for line in SENTENCES:
        constraints = Constraints("I was", ("book", "집에 간다"), ("bread", "read"))
        (translation,) = writer.translate(line, beam=6, constraints=constraints)
        text = translation.text
        assert text.startswith("I was")
        assert " book" in text
        assert "집에 간다" in text
        assert not re.search(r"\b(bread|read)\b", text)
        if list(translation.tokens) == target.tokens(target.encode(text)):
            forced = writer.score(line, text) / _penalty(writer, translation)
            assert translation.score == pytest.approx(forced, abs=1e-3)

    one = [
        Constraints(),
        Constraints(),
        Constraints(prefix="you"),
        *[Constraints()] * 3,
    ]
    constrained = [
        translation.text for translation in writer.translate(SENTENCES, constraints=one)
    ]

    assert constrained.pop(2).startswith("you")

    del plain[2]
    assert constrained == [translation.text for translation in plain]


def _penalty(translator: FolderTranslator, scored: Any) -> float:
    return LengthPenalty(translator.settings.search.length_penalty)(
        len(scored.tokens) + 1
    )


def test_contradictions_are_refused_with_all_causes(writer: FolderTranslator) -> None:
    def causes(**options: Any) -> tuple[str, ...]:
        with pytest.raises(UsageError) as refused:
            writer.translate(SENTENCES[0], **options)
        return refused.value.causes

    messages = " ".join(
        causes(beam=4, groups=3, temperature=0.5, min_length=9, max_length=3)
    )

    assert "temperature: used by sampling" in messages
    assert "4 cannot be divided into 3 groups" in messages
    assert "min_length 9 is more than" in messages

    contradictory = Constraints("a book", ("", "my bread"), ("bread", " "))
    starts = [cause.split(":")[0] for cause in causes(constraints=contradictory)]

    assert starts == ["term ''", "forbid ' '", "forbid 'bread'"]

    for constraints in (
        Constraints("A book", forbid=("a",)),
        Constraints(terms=("Bread",), forbid=("bread",)),
        Constraints("a, b", forbid=("a",)),
    ):
        assert "is also required, by" in causes(constraints=constraints)[0]

    writer.translate(
        SENTENCES[0], beam=1, constraints=Constraints("a book", forbid=("boo", "ook"))
    )
    (cause,) = causes(max_length=2, constraints=Constraints("a book", ("go",)))

    assert re.search(
        r"'a book', 'go': \d+ tokens are required, .* may have at most 2", cause
    )
    assert "did you mean 'sample'" in causes(sampel=True)[0]
    assert "got 2 for 1 line" in causes(constraints=[Constraints(), Constraints()])[0]


def test_sampling_draws_nbest_samples(writer: FolderTranslator) -> None:
    options: SearchOptions = {"sample": True, "temperature": 1.5}
    together = writer.translate(SENTENCES, nbest=4, **options)

    assert [len(translation.nbest) for translation in together] == [4] * len(SENTENCES)

    alone = [writer.translate(line, nbest=4, **options)[0] for line in SENTENCES]
    assert alone == together
    assert writer.translate(SENTENCES[0], sample=True)[0].nbest == ()

    first, second = (
        writer.translate(SENTENCES, sample=True, seed=seed) for seed in (1, 2)
    )
    assert first != second


# The model has learnt nothing.
@pytest.mark.filterwarnings("ignore:the translation has")
@pytest.mark.parametrize(
    "search", [{"beam": 5}, {"beam": 6, "sample": True, "temperature": 1.5}]
)
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
            totals = [
                hypothesis.score * _penalty(writer, hypothesis)
                for hypothesis in plain.nbest
            ]
            shares = [math.exp(total - max(totals)) for total in totals]
        utilities = dict.fromkeys(texts, 0.0)
        for i, text in enumerate(texts):
            scores = [sentence_chrf(text, [reference]).score for reference in texts]
            products = [
                share * score for share, score in zip(shares, scores, strict=True)
            ]
            utilities[text] = sum(products) - products[i]
        assert sorted(hypothesis.text for hypothesis in best.nbest) == sorted(texts)
        assert utilities[best.text] == pytest.approx(max(utilities.values()))
        different += best.text != plain.text
    assert different


def test_the_coverage_penalty_is_that_of_gnmt_and_only_reorders(
    translator: FolderTranslator,
) -> None:
    beta = 5.0
    if not translator.cross_attention():
        with pytest.raises(UsageError, match="has no attention over its source"):
            translator.translate(SENTENCES, coverage_penalty=beta)
        return
    for line in SENTENCES:
        (plain,) = translator.translate(line, beam=5, nbest=5)
        (reordered,) = translator.translate(
            line, beam=5, nbest=5, coverage_penalty=beta
        )
        before = {(hypothesis.text, hypothesis.tokens) for hypothesis in plain.nbest}
        after = {(hypothesis.text, hypothesis.tokens) for hypothesis in reordered.nbest}
        assert after == before
        utilities = []
        for hypothesis in reordered.nbest:
            ids = translator.tokenizer.target.ids(hypothesis.tokens)
            (readings,) = translator.read_all([line], [ids])
            weights = [
                readings.weights[name].mean(0) for name in readings.layers("cross")
            ]
            # (S,) without the end of sentence.
            coverage = np.mean(weights, 0)[:, :-1].sum(0)
            penalty = np.log(np.minimum(coverage, 1)).sum()
            utilities.append(hypothesis.score + beta * float(penalty))
        assert utilities == sorted(utilities, reverse=True)


@pytest.mark.system
def test_an_ensemble_averages_probabilities(tmp_path: Path) -> None:
    first = folder(tmp_path / "one")
    second = folder(tmp_path / "other", "recurrent", "recurrent", end=0.3)
    both = load([first, second])
    members = [load(first), load(second)]
    together = both.translate(SENTENCES, alignments=True, readings=True)

    for line, translation in zip(SENTENCES, together, strict=True):
        (alone,) = both.translate(line)
        assert alone.tokens == translation.tokens
        assert alone.score == pytest.approx(translation.score, abs=1e-4)
        ids = both.tokenizer.target.ids(translation.tokens)
        source = Batch(torch.tensor([both.encode(line)]))
        target = torch.tensor([[BOS, *ids]])
        with torch.no_grad():
            shares = [
                m.model.project(m.model(source, target))[0].softmax(-1) for m in members
            ]
        mean = (
            (sum(shares) / 2).log().gather(1, torch.tensor([*ids, EOS])[:, None]).sum()
        )
        expected = float(mean) / _penalty(both, translation)
        assert translation.score == pytest.approx(expected, abs=1e-4)
        assert translation.alignments is not None
        assert translation.readings is not None
        assert {
            name.split(".")[1] for name in translation.readings.layers("cross")
        } == {"0", "1"}

    assert (
        "".join(both.stream(SENTENCES[0]))
        == both.translate(SENTENCES[0], beam=1)[0].text
    )


def test_an_ensemble_of_different_vocabularies_is_refused(tmp_path: Path) -> None:
    first = folder(tmp_path / "one")
    second = folder(tmp_path / "other")
    words = ["other words", "altogether"]
    Tokenizer.train(words, words, TokenizerSettings()).save(second)

    with pytest.raises(RegardError, match="other"):
        load([first, second])


def test_a_repetitive_translation_is_reported(
    writer: FolderTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = writer.tokenizer.target.encode("I go home")
    longer = Hypothesis(tuple(ids[:1] + ids[1:] * 20), -3.0, -1.0)
    monkeypatch.setattr(
        writer.engine, "decode", lambda tasks, _: [[longer] for _ in tasks]
    )

    with pytest.warns(LineWarning, match="repeats 'go home' 20 times") as warned:
        translations = writer.translate(SENTENCES[:1])
    assert translations[0].repetition == ("go home", 20)
    assert warned[0].message.index == 0  # type: ignore[union-attr]


def test_validation_during_training_does_not_warn_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = load(folder(tmp_path))
    monkeypatch.setattr(
        "regard.pipeline.base.find_repetition",
        lambda ids, _: Repetition(0, tuple(ids[:1]), 20),
    )

    with pytest.warns(LineWarning, match="repeats"):
        writer.translate(SENTENCES, beam=1)

    paths = (tmp_path / "valid.ko", tmp_path / "valid.en")
    for path in paths:
        path.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    corpus = read_corpus(PairFiles(*paths))
    validate = make_validator(corpus, writer.tokenizer, writer.settings, len(SENTENCES))

    assert validate(writer.model)["loss"] > 0  # a warning would be an error here


def test_the_cache_of_the_constraint_encoder_is_bounded(
    writer: FolderTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.search.constraint_text.CACHE_SIZE", 5)
    encoder = ConstraintEncoder(writer.tokenizer.target)
    words = [f"{first}{second}" for first in "abcd" for second in "efgh"]
    terms = [encoder.encode_terms((word,))[0].forms for word in words]
    encoder.encode_forbidden(tuple(words))

    assert len(encoder._terms) <= 5
    assert len(encoder._phrases) <= 5
    assert [encoder.encode_terms((word,))[0].forms for word in words] == terms
