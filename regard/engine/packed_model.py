"""Packed model: weights packed once for the native kernels, behind the same `DecodingModel` interface as PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.vocabulary import EOS
from regard.engine import convolutional, recurrent, transformer
from regard.engine.packed_state import PackedSource, PackedState, addresses
from regard.engine.program import (
    Builder,
    EncoderProgram,
    Precision,
    Program,
    Team,
    address,
    check_layout,
    padded_entries,
)
from regard.models import Batch, Ensemble, Model
from regard.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from regard.models.recurrent import NoAttentionDecoder, RecurrentDecoder, RecurrentEncoder
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.runtime.native import why_unavailable
from regard.shapes import Array

ENCODER_ROWS = 512
"""About as many source tokens are encoded at once: their registers stay in cache."""


def why_not_packed(model: Model | Ensemble) -> str | None:
    """Return why this model cannot be packed on this machine, in a sentence; None if it can."""
    if isinstance(model, Ensemble):
        return "an ensemble is averaged by PyTorch"
    if (reason := why_unavailable()) is not None:
        return f"the native kernels are not available: {reason}"
    if (device := model.device).type != "cpu":
        return f"the model is on {device}, and the native kernels run on the CPU"
    if type(model) is not Model:
        return "the weights are sharded over processes, and the native kernels need them whole"
    family = _family(model)
    if family is None:
        return f"a {type(model.decoder).__name__} has no program for the native kernels"
    return family.why_not(model.decoder)  # type: ignore[no-any-return]


def pack_model(model: Model, precision: Precision = "float32", threads: int = 1) -> PackedModel:
    """Pack a model for the native kernels. Its weights are copied: later training does not change the copy.

    `threads` compute each step together. Raises ValueError with the reason if `why_not_packed` has one.
    """
    if (reason := why_not_packed(model)) is not None:
        raise ValueError(f"this model cannot be packed: {reason}")
    check_layout()
    with torch.inference_mode():
        decoder: Any = model.decoder
        family, sizes, initial = _family(model), model.encoder.sizes, None
        memory = family.memory_program(decoder, sizes.size, sizes.embedding, precision)
        step, features, block = family.step_program(decoder, precision)
        encoder = _encoder_program(model, precision)
        output = decoder.output
        top, logits = Builder(precision), Builder(precision)
        V, D = output.weight.shape
        top.top_tokens(top.register(D), output.weight, output.bias)
        logits_register = logits.linear(logits.register(D), output.weight, output.bias)
        if family is recurrent:
            initial = recurrent.initial_program(decoder, sizes.summary_rows, sizes.size, precision)
        layout = Layout(block, features, logits_register, V, family is recurrent, family is convolutional)
    programs = Programs(encoder, memory, initial, step, top.build(), logits.build())
    return PackedModel(model, precision, threads, programs, layout)


def _family(model: Model) -> Any:
    """Return the module with the programs of the decoder's family; None if there is none."""
    families = {
        TransformerDecoder: transformer,
        RecurrentDecoder: recurrent,
        NoAttentionDecoder: recurrent,
        ConvolutionalDecoder: convolutional,
    }
    return families.get(type(model.decoder))


def _encoder_program(model: Model, precision: Precision) -> EncoderProgram | None:
    """Build the encoder's program; None if PyTorch has to encode."""
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder) and transformer.why_not(encoder) is None:
        return transformer.encoder_program(encoder, precision)
    if isinstance(encoder, RecurrentEncoder) and recurrent.encoder_why_not(encoder) is None:
        return recurrent.encoder_program(encoder, precision)
    if isinstance(encoder, ConvolutionalEncoder):
        return convolutional.encoder_program(encoder, precision)
    return None


@dataclass(frozen=True)
class Programs:
    """The programs of a model."""

    encoder: EncoderProgram | None  # None: PyTorch encodes
    memory: tuple[Program, int] | None  # and the numbers of one entry; None: no attention
    initial: Program | None  # of decoders that begin in a state
    step: Program
    top_tokens: Program
    logits: Program


@dataclass(frozen=True)
class Layout:
    """Sizes and registers through which the programs hand their results on."""

    block: int  # numbers that a step leaves behind
    features: int  # register
    logits: int  # register
    vocabulary: int
    is_recurrent: bool  # a step's block replaces the one before
    needs_embeddings: bool  # memories add the source embeddings


class PackedModel:
    """`DecodingModel` over the native kernels. Sources and states are values here too; features are arrays.

    One object serves one thread at a time; `clone` makes another that shares the weights.
    """

    def __init__(self, model: Model, precision: Precision, threads: int, programs: Programs, layout: Layout) -> None:
        self.model, self.precision, self.max_target = model, precision, model.max_target
        self.programs, self.layout, self._team = programs, layout, Team(threads)
        self._masks: dict[tuple[int, ...], Array] = {}

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def threads(self) -> int:
        """Number of threads that compute each step together."""
        return self._team.threads

    def clone(self, threads: int = 1) -> PackedModel:
        """Share the weights with a model for another thread, or for several that compute each step together."""
        return PackedModel(self.model, self.precision, threads, self.programs, self.layout)

    @torch.inference_mode()
    def encode(self, batch: Batch) -> PackedSource:
        """Encode a batch, and project its outputs to the memories that the decoder attends to."""
        keep = batch.keep
        if self.programs.encoder is None:
            return self._encode_by_pytorch(batch)
        counts = np.full(len(batch.data), batch.data.shape[1]) if keep is None else keep.sum(1).numpy()
        tokens = (batch.data.flatten() if keep is None else batch.data[keep]).numpy()
        return self._encode_tokens(tokens, counts)

    def _encode_by_pytorch(self, batch: Batch) -> PackedSource:
        """Encode images, and what has no program; of the lower precisions PyTorch supports bfloat16."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            encoded = self.model.encoder(batch)
        (B, S, _), keep = encoded.outputs.shape, encoded.keep
        entries = np.full(B, S) if keep is None else keep.sum(1).numpy()
        padded = (encoded.outputs.float(), encoded.embedded.float())
        outputs, embedded = (x.flatten(0, 1) if keep is None else x[keep] for x in padded)
        source = self._memories(outputs.numpy(), embedded.numpy(), entries)
        return self._with_initial_states(source, encoded.summary.float().numpy())

    def _encode_tokens(self, tokens: Array, counts: Array) -> PackedSource:
        """Encode sentences that stand one after another, of these numbers of tokens, some at a time."""
        ends, parts, first = np.cumsum(counts), [], 0
        while first < len(counts):
            start = int(ends[first] - counts[first])
            last = max(first + 1, int(np.searchsorted(ends, start + ENCODER_ROWS, side="right")))
            stop = int(ends[last - 1])
            parts.append(self._encode_some(tokens[start:stop], counts[first:last]))
            first = last
        source = parts[0]
        for part in parts[1:]:
            source = source.join(part)
        return source

    def begin(self, source: PackedSource) -> PackedState:
        """Return the state before the first token, one row a sentence."""
        B, zeros = len(source), np.zeros(len(source), np.int64)
        if self.layout.is_recurrent:
            return PackedState(zeros, zeros + 1, source.initial_states[:, None], source.buffers)
        return PackedState(zeros, zeros, np.zeros((B, 0), np.int64), ())

    def step(self, tokens: Any, state: PackedState, source: PackedSource) -> tuple[Array, PackedState]:
        """Take T ≥ 1 more tokens (N, T) in; return features (N, T, D) and the state after them."""
        steps = []
        for column in np.asarray(tokens, np.int64).T:
            features, state = self._step(np.ascontiguousarray(column), state, source)
            steps.append(features)
        return np.stack(steps, 1), state

    def project(self, features: Any) -> torch.Tensor:
        """Project features (N, T, D) to logits (N, T, V)."""
        array = np.ascontiguousarray(np.asarray(features), np.float32)
        rows, program = array.size // array.shape[-1], self.programs.logits
        program.register(program.registers(rows), 0, rows)[:] = array.reshape(rows, -1)
        registers = program.run(self._team, rows)
        logits = program.register(registers, self.layout.logits, rows)[:, : self.layout.vocabulary]
        return torch.from_numpy(logits.copy()).view(*array.shape[:-1], -1)

    def top_tokens(self, features: Any, k: int, suppressed: Sequence[int] = ()) -> tuple[Any, Any, Any]:
        """Return the k likeliest next tokens after features (N, T, D), as `Model.top_tokens` does."""
        last = np.ascontiguousarray(np.asarray(features)[:, -1], np.float32)
        N, k = len(last), min(k, self.layout.vocabulary)
        log_probs, tokens, eos_log_probs = (
            np.empty((N, k), np.float32),
            np.empty((N, k), np.int64),
            np.empty(N, np.float32),
        )
        partial = np.empty(N * self.threads * (3 + 2 * k), np.float32)
        self.programs.top_tokens.run(
            self._team, N, last, k=k, top_log_probs=address(log_probs), top_tokens=address(tokens),
            eos_log_probs=address(eos_log_probs), eos=EOS, suppressed=self._mask(tuple(suppressed)),
            partial=address(partial),
        )  # fmt: skip
        return torch.from_numpy(log_probs), torch.from_numpy(tokens), torch.from_numpy(eos_log_probs)

    def _mask(self, suppressed: tuple[int, ...]) -> int:
        """Return the address of a mask (V,) of suppressed tokens; zero if there are none."""
        if not suppressed:
            return 0
        if suppressed not in self._masks:
            mask = self._masks[suppressed] = np.zeros(self.layout.vocabulary, np.uint8)
            mask[list(suppressed)] = 1
        return address(self._masks[suppressed])

    def _step(self, tokens: Array, state: PackedState, source: PackedSource) -> tuple[Array, PackedState]:
        """Take one more token (N,) in; return features (N, D) and the state after it."""
        N, program, layout = len(tokens), self.programs.step, self.layout
        memories, entries = source.memories, source.entries
        if len(memories) != N:
            memories, entries = (np.repeat(x, N // len(memories)) for x in (memories, entries))
        blocks, past = np.empty((N, layout.block), np.float32), np.ascontiguousarray(state.past)
        places = addresses(blocks)
        program.ensure_positions(past.shape[1] + 1)
        registers = program.run(
            self._team, N, tokens=address(tokens), positions=address(state.position), memories=address(memories),
            entries=address(entries), past=address(past), stride=past.shape[1], lengths=address(state.lengths),
            blocks=address(places),
        )  # fmt: skip
        features = program.register(registers, layout.features, N).copy()
        return features, state.replace(blocks) if layout.is_recurrent else state.append(blocks)

    def _encode_some(self, tokens: Array, counts: Array) -> PackedSource:
        """Encode sentences that stand one after another, all at once."""
        encoder = self.programs.encoder
        assert encoder is not None, "encoders without a program go through PyTorch"
        program = encoder.program
        tokens, rows = np.ascontiguousarray(tokens, np.int64), len(tokens)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        positions = np.arange(rows, dtype=np.int64) - np.repeat(starts[:-1], counts)
        program.ensure_positions(int(counts.max()))
        registers = program.run(
            self._team, rows, tokens=address(tokens), positions=address(positions), starts=address(starts),
            sentences=len(counts),
        )  # fmt: skip
        numbers = (encoder.outputs, encoder.embedded)
        outputs, embedded = (program.register(registers, number, rows) for number in numbers)
        source = self._memories(outputs, embedded, counts)
        if self.programs.initial is None:
            return source
        return self._with_initial_states(source, encoder.summary(registers, starts))

    def _memories(self, outputs: Array, embedded: Array, counts: Array) -> PackedSource:
        """Build the memories of sentences whose outputs and embeddings (M, D) stand one after another."""
        counts, none = np.ascontiguousarray(counts, np.int64), np.zeros(len(counts), np.int64)
        if self.programs.memory is None:
            return PackedSource(none, counts, none, ())
        (program, entry), rows = self.programs.memory, len(outputs)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ends = np.cumsum(padded_entries(counts)) * entry
        buffer = np.empty(int(ends[-1]), np.float32)
        memories = address(buffer) + 4 * np.concatenate([[0], ends[:-1]]).astype(np.int64)
        registers = program.registers(rows)
        program.register(registers, 0, rows)[:] = outputs
        if self.layout.needs_embeddings:
            program.register(registers, 1, rows)[:] = embedded
        program.run(
            self._team, rows, starts=address(starts), sentences=len(counts), memories=address(memories)
        )  # fmt: skip
        return PackedSource(memories, counts, none, (buffer,))

    def _with_initial_states(self, source: PackedSource, summary: Array) -> PackedSource:
        """Add the decoder's initial states, if it has any, from the summary (B, L, D)."""
        program = self.programs.initial
        if program is None:
            return source
        rows, blocks = len(summary), np.zeros((len(summary), self.layout.block), np.float32)
        program.register(program.registers(rows), 0, rows)[:] = summary.reshape(rows, -1)
        places = addresses(blocks)
        program.run(self._team, rows, blocks=address(places))
        return PackedSource(source.memories, source.entries, places, (*source.buffers, blocks))
