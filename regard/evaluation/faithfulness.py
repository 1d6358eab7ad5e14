"""How far attention agrees with what actually mattered: gradient × input, and leaving out source words one by one.

Attention says where a model looked, not what its answer hangs on (Jain and Wallace 2019; Wiegreffe and Pinter 2019).
Both measures ask the model itself, for the very output that it gave: T target words, S source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.attention.alignment import Readings, merge_words
from regard.data.vocabulary import BOS, EOS
from regard.errors import UsageError
from regard.models import Batch, Model
from regard.pipeline import AlignmentChoice, Translator
from regard.search.forced_decoding import force_decode
from regard.shapes import Tensor

__all__ = [
    "Faithfulness",
    "agreement",
    "erasure",
    "gradient_times_input",
    "measure_faithfulness",
    "rank_correlation",
    "signed",
]

Array = npt.NDArray[np.float32]
ROWS = 32  # passes made side by side


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """What mattered for each target word by two measures (T, S), and how far one read agrees with each, −1 to 1."""

    gradient: Array
    erasure: Array
    by_gradient: float
    by_erasure: float

    def __str__(self) -> str:
        return (
            f"rank correlation of attention with gradient × input {signed(self.by_gradient)}, "
            f"with leaving words out {signed(self.by_erasure)}"
        )


def measure_faithfulness(
    translator: Translator, source: str, target: Sequence[int], readings: Readings, choice: AlignmentChoice
) -> Faithfulness:
    """How far this read of a translation (`target`: its pieces, without end) agrees with what mattered for it."""
    if not isinstance(translator.model, Model):
        raise UsageError("what mattered is measured of one model; show the models of an ensemble one by one")
    ids = translator.encode(source)
    gradient = merge_words(
        gradient_times_input(translator.model, ids, target), readings.source_words, readings.target_words
    ).weights
    omission = erasure(translator.model, ids, target, readings)
    seen = readings.words(choice.layer, choice.head, choice.shifted).weights
    return Faithfulness(gradient, omission, agreement(seen, gradient), agreement(seen, omission))


def gradient_times_input(model: Model, source: Sequence[int], target: Sequence[int]) -> Array:
    """|∂ log p(piece t) / ∂ e_s · e_s|, e_s the embedding of source piece s: (T, S) in pieces, end of sentence last."""
    model.eval()
    T, rows = len(target) + 1, []
    for start in range(0, T, ROWS):
        some = torch.arange(start, min(T, start + ROWS), device=model.device)
        rows.append(_gradients(model, source, target, some))
    return torch.cat(rows).float().cpu().numpy()


def _gradients(model: Model, source: Sequence[int], target: Sequence[int], places: Tensor) -> Tensor:
    """Of the log-probabilities at these places: a copy of the sentence for each."""
    B, device = len(places), model.device
    inputs: list[Tensor] = []

    def keep(_: object, __: object, output: Tensor) -> Tensor:
        """The embeddings of the source become what is derived by; a joint embedding is asked for the source first."""
        if inputs:
            return output
        inputs.append(output.detach().requires_grad_())
        return inputs[0]

    handle = model.encoder.embedding.register_forward_hook(keep)
    try:
        # A model that is not in training is derived here, which cuDNN's recurrent networks refuse.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            batch = Batch(torch.tensor([list(source)] * B, device=device))
            features = model(batch, torch.tensor([[BOS, *target]] * B, device=device))
            likely = model.project(features).float().log_softmax(-1)
            wanted = torch.tensor([*target, EOS], device=device)[places]
            total = likely[torch.arange(B, device=device), places, wanted].sum()
            (gradient,) = torch.autograd.grad(total, inputs[0])
    finally:
        handle.remove()
    return (gradient * inputs[0]).sum(-1).abs().detach()


def erasure(model: Model, source: Sequence[int], target: Sequence[int], readings: Readings) -> Array:
    """How much log-probability each target word loses when a source word is not there: (T, S) in words."""
    count = max(readings.source_words, default=-1) + 1
    shorter = [
        [piece for piece, word in zip(source, readings.source_words, strict=True) if word != gone]
        for gone in range(count)
    ]
    whole, *others = force_decode(model, [list(source), *shorter], [list(target)] * (count + 1), with_attention=False)
    lost = np.stack([whole.log_probs - each.log_probs for each in others], 1)  # (T pieces, S words)
    return merge_words(lost, range(count), readings.target_words).weights


def agreement(seen: Array, mattered: Array) -> float:
    """The mean over target words of the rank correlation between where was looked and what mattered.

    Words of which nothing can be said (one source word, all equal) are left out; with none left it is not a number.
    """
    rows = [rank_correlation(one, other) for one, other in zip(seen, mattered, strict=True)]
    known = [value for value in rows if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def rank_correlation(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Spearman's ρ: the correlation of the ranks, equal values sharing the mean of theirs."""
    ranks = [_ranks(np.asarray(values, dtype=np.float64)) for values in (one, other)]
    deviations = [rank - rank.mean() for rank in ranks]
    lengths = [float(np.sqrt((deviation**2).sum())) for deviation in deviations]
    return float((deviations[0] * deviations[1]).sum() / (lengths[0] * lengths[1])) if all(lengths) else float("nan")


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    means: npt.NDArray[np.float64] = (2 * ends - counts - 1) / 2
    return means[place]


def signed(value: float) -> str:
    """A correlation as it is printed; where one side is the same everywhere there is none."""
    return "unknown" if np.isnan(value) else f"{value:+.2f}".replace("-", "−")
