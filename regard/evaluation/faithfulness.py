"""Faithfulness of attention: its agreement with attributions by saliency (gradient × input) and by
erasure.

Attention shows where a model looked, not what its output depends on (Jain and Wallace 2019;
Wiegreffe and Pinter 2019). Both attributions are computed from the model itself, for the output
that it gave. T is the number of target words, S the number of source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.attention.alignment import Readings, merge_words
from regard.common.errors import UsageError
from regard.common.shapes import Tensor
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model
from regard.pipeline import AlignmentChoice, FolderTranslator
from regard.search.forced_decoding import force_decode

Array = npt.NDArray[np.float32]
ROWS = 32  # target positions differentiated in one pass


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Attributions (T, S) by two measures, and the rank correlation of attention with each, −1 to
    1.
    """

    gradient: Array
    erasure: Array
    gradient_agreement: float
    erasure_agreement: float

    def __str__(self) -> str:
        return (
            "rank correlation of attention with gradient × input "
            f"{format_correlation(self.gradient_agreement)}, with word erasure "
            f"{format_correlation(self.erasure_agreement)}"
        )


def measure_faithfulness(
    translator: FolderTranslator,
    source: str,
    target: Sequence[int],
    readings: Readings,
    choice: AlignmentChoice,
) -> Faithfulness:
    """Compare an attention head with attributions of a translation.

    `target`: its token ids without the end of sentence.
    """
    if not isinstance(translator.model, Model):
        raise UsageError(
            "faithfulness is measured of one model; show the models of an ensemble one by one"
        )
    source_ids = translator.encode(source)
    by_token = gradient_times_input(translator.model, source_ids, target)
    gradient = merge_words(
        by_token, readings.source_words, readings.target_words
    ).weights
    erased = erasure(translator.model, source_ids, target, readings)
    attention = readings.words(choice.layer, choice.head, choice.shifted).weights
    return Faithfulness(
        gradient, erased, agreement(attention, gradient), agreement(attention, erased)
    )


def gradient_times_input(
    model: Model, source: Sequence[int], target: Sequence[int]
) -> Array:
    """Return the saliency |∂ log p(token t) / ∂ e_s · e_s|, with e_s the embedding of source token
    s.

    The result is (T, S) in tokens, the end of sentence last.
    """
    model.eval()
    T = len(target) + 1
    positions = (
        torch.arange(start, min(T, start + ROWS), device=model.device)
        for start in range(0, T, ROWS)
    )
    rows = [_saliency(model, source, target, position) for position in positions]
    return torch.cat(rows).float().cpu().numpy()


def _saliency(
    model: Model, source: Sequence[int], target: Sequence[int], positions: Tensor
) -> Tensor:
    """Return the saliency at these target positions, by a batch of copies of the sentence."""
    B = len(positions)
    device = model.device
    inputs: list[Tensor] = []

    def capture(_: object, __: object, output: Tensor) -> Tensor:
        """Make the source embeddings a leaf of the graph.

        A shared embedding embeds the source first, so that only its first output counts.
        """
        if inputs:
            return output
        inputs.append(output.detach().requires_grad_())
        return inputs[0]

    handle = model.encoder.embedding.register_forward_hook(capture)
    try:
        # cuDNN's recurrent networks refuse to differentiate a model in eval mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            batch = Batch(torch.tensor([list(source)] * B, device=device))
            features = model(batch, torch.tensor([[BOS, *target]] * B, device=device))
            log_probs = model.project(features).float().log_softmax(-1)
            labels = torch.tensor([*target, EOS], device=device)[positions]
            total = log_probs[torch.arange(B, device=device), positions, labels].sum()
            (gradient,) = torch.autograd.grad(total, inputs[0])
    finally:
        handle.remove()
    return (gradient * inputs[0]).sum(-1).abs().detach()


def erasure(
    model: Model, source: Sequence[int], target: Sequence[int], readings: Readings
) -> Array:
    """Return the log-probability that each target word loses if a source word is erased, (T, S)."""
    count = max(readings.source_words, default=-1) + 1
    shortened = [
        [
            token
            for token, word in zip(source, readings.source_words, strict=True)
            if word != erased
        ]
        for erased in range(count)
    ]
    full, *others = force_decode(
        model,
        [list(source), *shortened],
        [list(target)] * (count + 1),
        with_attention=False,
    )
    # (T tokens, S words)
    losses = np.stack([full.log_probs - other.log_probs for other in others], 1)
    return merge_words(losses, range(count), readings.target_words).weights


def agreement(attention: Array, attributions: Array) -> float:
    """Return the rank correlation of attention with attributions, both (T, S), averaged over target
    words.

    Rows without a rank correlation (one source word, or equal values) are left out. The result is
    NaN if there is no other row.
    """
    rows = [rank_correlation(*row) for row in zip(attention, attributions, strict=True)]
    defined = [value for value in rows if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Spearman's ρ, the correlation of the ranks; equal values share their mean rank."""
    ranks = [_ranks(np.asarray(values, dtype=np.float64)) for values in (first, second)]
    deviations = [rank - rank.mean() for rank in ranks]
    norms = [float(np.sqrt((deviation**2).sum())) for deviation in deviations]
    if not all(norms):
        return float("nan")
    return float((deviations[0] * deviations[1]).sum() / (norms[0] * norms[1]))


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    mean_ranks: npt.NDArray[np.float64] = (2 * ends - counts - 1) / 2
    return mean_ranks[inverse]


def format_correlation(value: float) -> str:
    """Format a correlation with its sign; "unknown" if it is NaN."""
    return "unknown" if np.isnan(value) else f"{value:+.2f}".replace("-", "−")
