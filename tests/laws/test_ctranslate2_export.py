"""A model that is exported to CTranslate2 gives the outputs of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.time_limits import seeds

from laws.covering import parse
from laws.models import (
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    entries,
    label,
    make,
    sentences,
    targets,
)
from regard.common.processes import torch_threads
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from regard.model_folder import FolderSettings, ModelFolder
from regard.models import Batch, ModelSettings, ctranslate2_obstacles
from regard.models.transformer import (
    TransformerDecoderSettings,
    TransformerEncoderSettings,
)
from regard.search import Hypothesis, SearchSettings, search

pytest.importorskip("ctranslate2", reason="regard[fast] is not installed")

from regard.interchange.ctranslate2_export import POSITIONS, write
from regard.interchange.ctranslate2_model import CTranslate2

pytestmark = pytest.mark.system

SUPPORTED: list[dict[str, Any]] = [  # Transformer settings that CTranslate2 supports
    {},
    {"layers": 1, "norm": "post", "activation": "relu"},
    {"positions": "none", "scale_embedding": False},
    {"layers": 1, "norm": "post", "activation": "silu", "positions": "none"},
    {
        "norm": "post",
        "final_norm": "on",
        "activation": "swiglu",
        "positions": "learned",
        "max_positions": 9,
    },
    {"final_norm": "off", "activation": "swiglu"},
]
SIDES = [
    tuple(
        parse(kind, {}).with_values(**values)
        for kind in (TransformerEncoderSettings, TransformerDecoderSettings)
    )
    for values in SUPPORTED
]
QUICK = {("none", 6), ("target", 1), ("all", 2)}
"""Ways of sharing weights, and sides, of the default run."""
MODELS = [
    pytest.param(
        ModelSettings(encoder=encoder, decoder=decoder, share=share),
        id=f"{label(encoder)}+{label(decoder)}+{share}",
        marks=() if (share, j) in QUICK else pytest.mark.slow,
    )
    for share in ("none", "target", "all")
    for j, (encoder, decoder) in enumerate([*SIDES, (SIDES[0][0], SIDES[-1][1])])
]


class Numbered(Vocabulary):
    """Vocabulary of any size, with numbers as tokens."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def tokens(self, ids: object) -> list[str]:
        assert ids == range(self.count)

        numbers = [f"▁{i}" for i in range(4, self.count)]
        return ["<pad>", "<unk>", "<s>", "</s>", *numbers]


class Unsaved(Tokenizer):
    def save(self, folder: str | Path) -> None:
        pass


def exported(
    settings: ModelSettings,
    path: Path,
    ends: float = 0.1,
    penalty: float = 1e4,
    seed: int = 3,
) -> tuple[ModelFolder, CTranslate2]:
    """Return a random model and its export; suppressed tokens are so unlikely that suppressing them
    changes nothing.
    """
    model = make(settings, seed=seed)
    bias = model.decoder.output.bias

    with torch.no_grad():
        bias[[PAD, UNK, BOS]] -= penalty
        batch = sentences(*range(1, 9), vocabulary=TARGET_VOCABULARY)
        logits = model.project(model(batch, targets(8, 8)))
        best = logits[..., EOS + 1 :].amax(-1)
        bias[EOS] += (best - logits[..., EOS]).quantile(ends)

    joint = settings.share == "all"
    target = Numbered(TARGET_VOCABULARY)
    source = target if joint else Numbered(SOURCE_VOCABULARY)
    tokenizer = Unsaved(source, target, TokenizerSettings(joint=joint))
    folder = ModelFolder(
        FolderSettings(
            model=settings,
            tokenizer=tokenizer.settings,
            search=SearchSettings(),
        ),
        tokenizer,
        model,
    )
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    write(folder, path, "float32")

    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])

    return folder, CTranslate2(path, POSITIONS, model.max_target)


def both(
    folder: ModelFolder,
    engine: CTranslate2,
    batch: Batch,
    settings: SearchSettings,
) -> list[tuple[list[Hypothesis], list[Hypothesis]]]:
    """Return the hypotheses of our search and of CTranslate2 for each sentence."""
    lengths = entries(batch)
    with torch.inference_mode():
        source = folder.model.encode(batch)
    ours = search(folder.model, source, lengths, settings)
    rows = [row[:n] for row, n in zip(batch.data.tolist(), lengths, strict=True)]
    return list(zip(ours, engine.search(rows, settings), strict=True))


SCORE_BOUND = 1e-4 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 2e-4
"""Without AVX-512 the activations of CTranslate2 are a little less exact."""


def assert_same(ours: Hypothesis, theirs: Hypothesis) -> None:
    assert ours.ids == theirs.ids
    assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4, rel=SCORE_BOUND)
    assert ours.score == pytest.approx(theirs.score, abs=1e-4, rel=SCORE_BOUND)


@pytest.mark.parametrize("settings", MODELS)
def test_ctranslate2_equals_our_search(settings: ModelSettings, tmp_path: Path) -> None:
    assert ctranslate2_obstacles(settings) == []

    winners = set[tuple[int, ...]]()

    def is_varied() -> bool:
        return len(winners) > 6 and len({len(ids) for ids in winners}) > 2

    for seed in seeds(is_varied, "the winners and their lengths differ", least=2):
        folder, engine = exported(
            settings, tmp_path, ends=(0.0, 0.2)[seed % 2], seed=3 + seed // 2
        )
        vocabulary = len(folder.tokenizer.source)
        batch = sentences(*range(2, 14, 2), seed=4, vocabulary=vocabulary)

        for beam, length_penalty in ((1, 1.0), (4, 0.0), (3, 0.6)):
            search_settings = SearchSettings(
                beam=beam,
                length_penalty=length_penalty,
                min_length=int(beam == 1),
                max_ratio=1.0,
                max_extra=6,
            )
            results = both(folder, engine, batch, search_settings)
            others = 0

            for ours, theirs in results:
                winners.add(ours[0].ids)
                assert 1 <= len(theirs) <= beam
                assert theirs == sorted(theirs, key=lambda h: -h.score)
                if ours[0].ids == theirs[0].ids:
                    assert_same(ours[0], theirs[0])
                else:
                    others += 1

            # The probabilities of CTranslate2 do not count what may not come, which a beam prunes
            # by: one sentence may differ.
            assert others <= (beam > 1)


def test_suppressed_tokens_are_not_generated_and_threads_of_pytorch_are_kept(
    tmp_path: Path,
) -> None:
    """Probabilities are over the whole vocabulary."""
    settings = SearchSettings(beam=1, max_ratio=1.0, max_extra=6)

    with torch_threads(2):
        folder, engine = exported(MODELS[0].values[0], tmp_path, penalty=-2.0)
        batch = sentences(*range(2, 14), seed=4)

        for ours, theirs in both(folder, engine, batch, settings):
            assert not {PAD, UNK, BOS} & {*theirs[0].ids}
            assert_same(ours[0], theirs[0])

        assert torch.get_num_threads() == 2
