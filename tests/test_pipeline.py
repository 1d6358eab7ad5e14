"""From raw text to raw text, with readings that are those of the very output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small import PAIRS, SENTENCES, folder

from regard.attention import watch
from regard.data.tokenizer import BOS
from regard.errors import UsageError
from regard.models import Batch
from regard.pipeline import Translator, load
from regard.search import LengthPenalty


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(folder(tmp_path_factory.mktemp("model"), *request.param))


def test_order_is_kept_and_empty_lines_stay_empty(translator: Translator) -> None:
    lines = [SENTENCES[1], "", SENTENCES[0], "   ", SENTENCES[4]]
    together = [found.text for found in translator.translate(lines)]
    assert together == [translator.translate(line)[0].text if line.strip() else "" for line in lines]
    assert len(set(together)) > 2


@pytest.mark.parametrize("beam", [1, 3])
def test_readings_are_those_of_teacher_forcing_the_output_alone(translator: Translator, beam: int) -> None:
    for line, found in zip(SENTENCES, translator.translate(SENTENCES, beam=beam, readings=True), strict=True):
        source = translator._encode(line)
        ids = [translator.tokenizer.target._processor.piece_to_id(token) for token in found.tokens]
        with torch.inference_mode(), watch(translator.model) as watched:
            translator.model(Batch(torch.tensor([source])), torch.tensor([[BOS, *ids]]))
        assert found.readings is not None
        assert set(found.readings.weights) == set(watched)
        for name, weights in found.readings.weights.items():
            np.testing.assert_allclose(weights, watched[name][0].numpy(), atol=1e-6)
        for layer in found.readings.layers("cross"):
            assert found.readings.weights[layer].shape[1:] == (len(ids) + 1, len(source))
            words = found.readings.words(layer)
            np.testing.assert_allclose(words.weights.sum(1) + words.elsewhere, 1, atol=1e-5)
            assert words.weights.shape == (len(found.text.split()), len(line.split()))


def test_asking_for_readings_changes_nothing_else(translator: Translator) -> None:
    plain, watched = (translator.translate(SENTENCES, readings=asked) for asked in (False, True))
    assert [(p.text, p.score, p.tokens) for p in plain] == [(w.text, w.score, w.tokens) for w in watched]
    assert all(found.readings is None and found.alignments is None for found in plain)


def test_scores_can_be_computed_again(translator: Translator) -> None:
    for line, found in zip(SENTENCES, translator.translate(SENTENCES, nbest=3), strict=True):
        assert found.nbest[0].score == found.score
        assert [each.score for each in found.nbest] == sorted((each.score for each in found.nbest), reverse=True)
        for each in found.nbest:
            ids = [translator.tokenizer.target._processor.piece_to_id(token) for token in each.tokens]
            penalty = LengthPenalty(translator.settings.search.length_penalty)(len(ids) + 1)
            # The text of a random model need not be cut into the same pieces again: these are the ones it wrote.
            forced = translator._forced(line, ids)
            assert each.score == pytest.approx(forced / penalty, abs=1e-4)
    written = translator.tokenizer.target.encode(SENTENCES[2])
    assert translator.score(SENTENCES[0], SENTENCES[2]) == translator._forced(SENTENCES[0], written)


def test_more_hypotheses_than_the_beam_holds_are_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match="4 best of a beam of 3"):
        translator.translate(SENTENCES, nbest=4)


def test_alignments_name_words_that_are_there_if_there_is_attention(translator: Translator) -> None:
    if translator.settings.model.decoder.kind == "plain":
        with pytest.raises(UsageError, match="this model has no attention"):
            translator.translate(SENTENCES, alignments=True)
        return
    for line, found in zip(SENTENCES, translator.translate(SENTENCES, alignments=True), strict=True):
        assert found.alignments is not None
        assert [target for _, target in found.alignments] == list(range(len(found.text.split())))
        assert all(0 <= source < len(line.split()) for source, _ in found.alignments)


def test_saved_equals_loaded(translator: Translator, tmp_path: Path) -> None:
    from regard.checkpoint import WEIGHTS, save_folder, save_tensors, weights

    save_folder(tmp_path, translator.settings, translator.tokenizer)
    save_tensors(tmp_path / WEIGHTS, weights(translator.model))
    again = load(tmp_path)
    assert [t.score for t in again.translate(SENTENCES)] == [t.score for t in translator.translate(SENTENCES)]


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    from regard.checkpoint import WEIGHTS, load_tensors, save_tensors
    from regard.errors import ModelFolderError

    path = folder(tmp_path) / WEIGHTS
    tensors = load_tensors(path)
    tensors["decoder.output.bias"][3] = float("nan")
    save_tensors(path, tensors)
    with pytest.raises(ModelFolderError, match=r"decoder\.output\.bias hold values that are no numbers"):
        load(tmp_path)
