"""Packed model: weights and programs of a model for the native kernels, as the C library runs
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from regard.models import Encoder, Ensemble, Model
from regard.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from regard.models.recurrent import (
    NoAttentionDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
)
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.runtime.engine import convolutional, recurrent, transformer
from regard.runtime.engine.known_model import computed_parts, why_foreign
from regard.runtime.engine.program import (
    Builder,
    EncoderProgram,
    Precision,
    Program,
    check_layout,
)
from regard.runtime.native import why_unavailable


def why_not_packed(model: Model | Ensemble) -> str | None:
    """Return why this model cannot be packed on this machine, in a sentence; None if it can."""
    if isinstance(model, Ensemble):
        return "an ensemble is averaged by PyTorch"
    if (reason := why_unavailable()) is not None:
        return f"the native kernels are not available: {reason}"
    if type(model) is not Model:
        return (
            f"the model is a {type(model).__qualname__}, and the native kernels know those that "
            "`build` makes, whole"
        )
    if (device := model.device).type != "cpu":
        return f"the model is on {device}, and the native kernels run on the CPU"
    family = _family(model)
    if family is None:
        return f"a {type(model.decoder).__name__} has no program for the native kernels"
    return family.why_not(model.decoder) or why_foreign(
        computed_parts(model, runs_encoder(model))
    )


def pack_model(model: Model, precision: Precision = "float32") -> PackedModel:
    """Pack a model for the native kernels. Its weights are copied: later training does not change
    the copy.

    Raises ValueError with the reason if `why_not_packed` has one.
    """
    if (reason := why_not_packed(model)) is not None:
        raise ValueError(f"this model cannot be packed: {reason}")
    check_layout()
    with torch.inference_mode():
        decoder: Any = model.decoder
        family = _family(model)
        sizes = model.encoder.sizes
        initial = None
        memory = family.memory_program(decoder, sizes.size, sizes.embedding, precision)
        step, features, block = family.step_program(decoder, precision)
        encoder_family = _encoder_family(model.encoder)
        encoder = encoder_family and encoder_family.encoder_program(
            model.encoder, precision
        )
        output = decoder.output
        top = Builder(precision)
        V, D = output.weight.shape
        top.top_tokens(top.register(D), output.weight, output.bias)
        if family is recurrent:
            initial = recurrent.initial_program(
                decoder, sizes.summary_rows, sizes.size, precision
            )
        layout = Layout(
            block, features, V, family is recurrent, family is convolutional
        )
    return PackedModel(
        model, precision, Programs(encoder, memory, initial, step, top.build()), layout
    )


def _family(model: Model) -> Any:
    """Return the module with the programs of the decoder's family; None if there is none."""
    families = {
        TransformerDecoder: transformer,
        RecurrentDecoder: recurrent,
        NoAttentionDecoder: recurrent,
        ConvolutionalDecoder: convolutional,
    }
    return families.get(type(model.decoder))


def _encoder_family(encoder: Encoder) -> Any:
    """Return the module with the program of an encoder; None if PyTorch has to encode."""
    if type(encoder) is TransformerEncoder and transformer.why_not(encoder) is None:
        return transformer
    if type(encoder) is RecurrentEncoder and encoder.cell in recurrent.CELLS:
        return recurrent
    return convolutional if type(encoder) is ConvolutionalEncoder else None


def runs_encoder(model: Model) -> bool:
    """Return whether the library computes the encoder, too; else PyTorch does, in the module that
    the model has.
    """
    return _encoder_family(model.encoder) is not None


@dataclass(frozen=True)
class Programs:
    """The programs of a model."""

    encoder: EncoderProgram | None  # None: PyTorch encodes
    # And the numbers of one entry; None: no attention.
    memory: tuple[Program, int] | None
    initial: Program | None  # of decoders that begin in a state
    step: Program
    top_tokens: Program


@dataclass(frozen=True)
class Layout:
    """Sizes and registers through which the programs hand their results on."""

    block: int  # numbers that a step leaves behind
    features: int  # register
    vocabulary: int
    is_recurrent: bool  # a step's block replaces the one before
    needs_embeddings: bool  # memories add the source embeddings


@dataclass(frozen=True)
class PackedModel:
    """A model whose weights are packed for the native kernels, in one precision, and its
    programs.
    """

    model: Model
    precision: Precision
    programs: Programs
    layout: Layout

    @property
    def max_target(self) -> int | None:
        """Most tokens of a target, end of sentence included, if the decoder has a limit."""
        return self.model.max_target
