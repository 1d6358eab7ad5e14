"""Guided attention: one cross-attention head is trained to follow given word alignments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from regard.attention import Attention
from regard.common.errors import ConfigurationError
from regard.common.reading import file_bytes, parse_json
from regard.common.shapes import Float, Tensor
from regard.model_folder import ALIGNMENT, save_alignment
from regard.models import Model
from regard.training.recipe import TrainingSettings


@dataclass(frozen=True)
class Guide:
    """The guided head, and the weight of its loss beside that of the translation."""

    layer: str
    head: int
    weight: float
    shifted: bool = (
        # The row of a token is the step that reads it, not the one that predicts it.
        False
    )

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> Guide | None:
        """The guide of these settings, None for none. Raises ConfigurationError for a head that the
        model lacks.
        """
        if settings.guided in (0, "auto"):
            return None
        layers = [
            (n, m.heads)
            for n, m in model.named_modules()
            if isinstance(m, Attention) and m.role == "cross"
        ]
        if not layers:
            raise ConfigurationError(
                "training.guided: this decoder has no attention to guide (model.decoder.kind = "
                "no_attention); set it to 0, or train a decoder with cross-attention"
            )
        head = settings.guided_head
        layer = (
            max(1, len(layers) - 1)
            if settings.guided_layer == "auto"
            else settings.guided_layer
        )
        if layer > len(layers):
            raise ConfigurationError(
                f"training.guided_layer: layer {layer} was asked for, and this decoder has "
                f"{len(layers)} with cross-attention; give 1 to {len(layers)}, or auto"
            )
        name, heads = layers[layer - 1]
        if head > heads:
            raise ConfigurationError(
                f"training.guided_head: head {head} was asked for, and layer {layer} has {heads}; "
                f"give 1 to {heads}"
            )
        return cls(
            name, head - 1, float(settings.guided), settings.guided_row == "after"
        )

    def loss(
        self, weights: Float[Tensor, "B H T S"], links: Float[Tensor, "B T S"]
    ) -> Tensor:
        """Divergence of the head's weights from the links, summed over all linked tokens."""
        head = weights[:, self.head]
        return (
            guided_divergence(head[:, 1:], links[:, :-1])
            if self.shifted
            else guided_divergence(head, links)
        )

    def save_choice(self, folder: Path) -> None:
        """Choose this head for the alignments of the model folder, unless the user has chosen
        another.
        """
        if _chosen_by_training(folder / ALIGNMENT):
            choice = {
                "layer": self.layer,
                "head": self.head,
                "shifted": self.shifted,
                "symmetry": None,
            }
            save_alignment(folder, {**choice, "guided": True})


def guided_divergence(
    weights: Float[Tensor, "B T S"], links: Float[Tensor, "B T S"]
) -> Tensor:
    """Kullback-Leibler divergence of attention weights from word links, summed over target tokens.

    Σ links · (log links − log weights), each row of links a distribution over source tokens. Its
    gradient is that of the cross-entropy of Garg et al. 2019, equation 4 (after Chen et al. 2016),
    which is a constant more. Rows of zeros, of tokens without links, count nothing.
    """
    clamped = weights.clamp_min(torch.finfo(weights.dtype).tiny)
    return (torch.xlogy(links, links) - links * clamped.log()).sum()


def _chosen_by_training(path: Path) -> bool:
    """Return whether no head has been chosen yet, or guided training chose it."""
    try:
        return bool(parse_json(file_bytes(path)).get("guided"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, AttributeError):
        return False
