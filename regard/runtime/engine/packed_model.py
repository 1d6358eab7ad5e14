"""Pack a model for the native kernels: its weights and programs, as the C library runs them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch

from regard.models import Decoder, Encoder, Ensemble, Model
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

_FAMILIES: dict[type[Decoder], ModuleType] = {
    TransformerDecoder: transformer,
    RecurrentDecoder: recurrent,
    NoAttentionDecoder: recurrent,
    ConvolutionalDecoder: convolutional,
}
"""The module with the programs of each decoder."""


def why_not_packed(model: Model | Ensemble) -> str | None:
    """Return the reason why this model cannot be packed on this machine; None if it can."""
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
    family = _FAMILIES.get(type(model.decoder))
    if family is None:
        return f"a {type(model.decoder).__name__} has no program for the native kernels"
    return family.why_not(model.decoder) or why_foreign(
        computed_parts(model, runs_encoder(model))
    )


def pack_model(model: Model, precision: Precision = "float32") -> PackedModel:
    """Pack a model for the native kernels. The weights are copied, so later training does not
    change them.

    Raises ValueError with the reason if `why_not_packed` returns one.
    """
    if (reason := why_not_packed(model)) is not None:
        raise ValueError(f"this model cannot be packed: {reason}")
    check_layout()
    with torch.inference_mode():
        encoder = None
        encoder_family = _encoder_family(model.encoder)
        if encoder_family is not None:
            encoder = encoder_family.encoder_program(model.encoder, precision)

        decoder = model.decoder
        family = _FAMILIES[type(decoder)]
        sizes = model.encoder.sizes
        memory = family.memory_program(decoder, sizes.size, sizes.embedding, precision)
        initial = None
        if family is recurrent:
            initial = family.initial_program(
                decoder, sizes.summary_rows, sizes.size, precision
            )
        step, features, block = family.step_program(decoder, precision)

        output = decoder.output
        V, D = output.weight.shape
        top = Builder(precision)
        top.top_tokens(top.register(D), output.weight, output.bias)
        programs = Programs(encoder, memory, initial, step, top.build())
        layout = Layout(
            block, features, V, family is recurrent, family is convolutional
        )
    return PackedModel(model, precision, programs, layout)


def _encoder_family(encoder: Encoder) -> ModuleType | None:
    """Return the module with the program of an encoder; None if PyTorch has to encode."""
    if type(encoder) is TransformerEncoder and transformer.why_not(encoder) is None:
        return transformer
    if type(encoder) is RecurrentEncoder and encoder.cell in recurrent.CELLS:
        return recurrent
    return convolutional if type(encoder) is ConvolutionalEncoder else None


def why_not_encoded(encoder: Encoder) -> str | None:
    """Return the reason why PyTorch has to run this encoder; None if the library can."""
    if _encoder_family(encoder) is not None:
        return None
    reason = (
        transformer.why_not(encoder) if type(encoder) is TransformerEncoder else None
    )
    return (
        f"encoder.{reason}" if reason else f"a {type(encoder).__name__} has no program"
    )


def runs_encoder(model: Model) -> bool:
    """Return whether the library computes the encoder; otherwise PyTorch runs the encoder of the
    model.
    """
    return _encoder_family(model.encoder) is not None


@dataclass(frozen=True)
class Programs:
    """The programs of a model."""

    # None if PyTorch encodes.
    encoder: EncoderProgram | None
    # The program and the size of a memory entry in numbers; None without attention.
    memory: tuple[Program, int] | None
    # None if the decoder has no initial state.
    initial: Program | None
    step: Program
    top_tokens: Program


@dataclass(frozen=True)
class Layout:
    """Sizes and registers by which programs find each other's results."""

    block: int  # size in numbers of the state that a step stores
    features: int  # register of the features
    vocabulary: int
    is_recurrent: bool  # the block of a step replaces that of the previous step
    needs_embeddings: bool  # memories add the source embeddings


@dataclass(frozen=True)
class PackedModel:
    """A model with its programs, and its weights packed for the native kernels in one precision."""

    model: Model
    precision: Precision
    programs: Programs
    layout: Layout

    @property
    def max_target(self) -> int | None:
        """Largest number of target tokens, including the end of sentence; None if unlimited."""
        return self.model.max_target
