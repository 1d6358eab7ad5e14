"""Guided attention: one head learns to look where given word links say, beside learning to translate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.attention import Attention
from regard.errors import ConfigurationError
from regard.model_folder import ALIGNMENT, save_alignment
from regard.models import Model
from regard.shapes import Float, Tensor
from regard.training.recipe import TrainingSettings

__all__ = ["Guide", "guided_divergence"]


@dataclass(frozen=True)
class Guide:
    """Which head is to look where the links say, and how much that counts beside the translation."""

    layer: str
    head: int
    weight: float
    after: bool = False  # the row of a piece is the read after it was written, not the one that predicts it

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> Guide | None:
        """What these settings ask for; None for nothing. Raises ConfigurationError for a head that is not there."""
        if settings.guided in (0, "auto"):
            return None
        reads = [(n, m.heads) for n, m in model.named_modules() if isinstance(m, Attention) and m.role == "cross"]
        if not reads:
            raise ConfigurationError(
                "training.guided: this decoder has no attention to guide (model.decoder.kind = plain); set it to 0, "
                "or train one that reads its source"
            )
        asked, head = settings.guided_layer, settings.guided_head
        layer = max(1, len(reads) - 1) if asked == "auto" else asked
        if layer > len(reads):
            raise ConfigurationError(
                f"training.guided_layer: layer {layer} was asked for, and {len(reads)} of this decoder read the "
                f"source; give 1 to {len(reads)}, or auto"
            )
        name, heads = reads[layer - 1]
        if head > heads:
            raise ConfigurationError(
                f"training.guided_head: head {head} was asked for, and layer {layer} has {heads}; give 1 to {heads}"
            )
        return cls(name, head - 1, float(settings.guided), settings.guided_row == "after")

    def loss(self, weights: Float[Tensor, "B H T S"], links: Float[Tensor, "B T S"]) -> Tensor:
        """How far the head looks elsewhere, summed over all linked pieces."""
        looked = weights[:, self.head]
        return guided_divergence(looked[:, 1:], links[:, :-1]) if self.after else guided_divergence(looked, links)

    def note(self, folder: Path) -> None:
        """Let alignments come from this head, unless somebody has chosen another (`regard align --choose`)."""
        if _is_ours(folder / ALIGNMENT):
            choice = {"layer": self.layer, "head": self.head, "shifted": self.after, "symmetry": None}
            save_alignment(folder, {**choice, "guided": True})


def guided_divergence(weights: Float[Tensor, "B T S"], links: Float[Tensor, "B T S"]) -> Tensor:
    """How far weights are from where links say, summed over target pieces: 0 where they are the same.

    Σ links · (log links − log weights), each row of links a distribution over source pieces. Its gradient is that of
    the cross-entropy of Garg et al. 2019, equation 4 (after Chen et al. 2016), which is a constant more. Rows of
    nought, of pieces that nothing is linked to, count for nothing.
    """
    looked = weights.clamp_min(torch.finfo(weights.dtype).tiny)
    return (torch.xlogy(links, links) - links * looked.log()).sum()


def _is_ours(path: Path) -> bool:
    """Whether nobody has chosen a read yet, or it was guided training that did."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")).get("guided"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, AttributeError):
        return False
