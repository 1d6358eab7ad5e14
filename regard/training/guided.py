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
    # If true, the links of a token supervise the decoder step whose input is the token, rather
    # than the step that predicts it.
    shifted: bool = False

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> Guide | None:
        """Return the guide that the settings ask for, or None.

        Raises ConfigurationError for a head that the model lacks.
        """
        if settings.guided in (0, "auto"):
            return None
        layers = [
            (name, module.heads)
            for name, module in model.named_modules()
            if isinstance(module, Attention) and module.role == "cross"
        ]
        if not layers:
            raise ConfigurationError(
                "training.guided: this decoder has no attention to guide (model.decoder.kind = "
                "no_attention); set it to 0, or train a decoder with cross-attention"
            )

        if settings.guided_layer == "auto":
            # The penultimate one, as in Garg et al. 2019.
            layer = max(1, len(layers) - 1)
        else:
            layer = settings.guided_layer
        if layer > len(layers):
            raise ConfigurationError(
                f"training.guided_layer: layer {layer} was asked for, and this decoder has "
                f"{len(layers)} with cross-attention; give 1 to {len(layers)}, or auto"
            )
        name, heads = layers[layer - 1]
        head = settings.guided_head
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
        """Return the divergence KL(links ‖ weights) of the head, summed over linked tokens."""
        head_weights = weights[:, self.head]
        if self.shifted:
            return guided_divergence(head_weights[:, 1:], links[:, :-1])
        return guided_divergence(head_weights, links)

    def save_choice(self, folder: Path) -> None:
        """Choose this head for the folder's alignments, unless the user has chosen another."""
        if _may_choose_head(folder / ALIGNMENT):
            choice = {
                "layer": self.layer,
                "head": self.head,
                "shifted": self.shifted,
                "symmetry": None,
                "guided": True,
            }
            save_alignment(folder, choice)


def guided_divergence(
    weights: Float[Tensor, "B T S"], links: Float[Tensor, "B T S"]
) -> Tensor:
    """Return the divergence KL(links ‖ weights), summed over target tokens.

    It is Σ links · (log links − log weights); each row of links is a distribution over source
    tokens, or zero for a token without links. It differs by a constant from the cross-entropy of
    Garg et al. 2019, equation 4 (after Chen et al. 2016), and so has the same gradient.
    """
    clamped = weights.clamp_min(torch.finfo(weights.dtype).tiny)
    return (torch.xlogy(links, links) - links * clamped.log()).sum()


def _may_choose_head(path: Path) -> bool:
    """Return whether no head has been chosen yet, or guided training chose it and not the user."""
    try:
        return bool(parse_json(file_bytes(path)).get("guided"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, AttributeError):
        return False
