"""A model made ready for decoding: its weights packed once, its verbs carried out by the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.vocabulary import EOS
from regard.engine import convolutional, recurrent, transformer
from regard.engine.native import why_unavailable
from regard.engine.packed_state import PackedSource, PackedState, addresses
from regard.engine.program import Builder, EncoderProgram, Precision, Program, Team, address, check_layout, padded
from regard.models import Batch, Ensemble, Model
from regard.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from regard.models.recurrent import NoAttentionDecoder, RecurrentDecoder, RecurrentEncoder
from regard.models.transformer import TransformerDecoder, TransformerEncoder

__all__ = ["PackedModel", "pack_model", "why_not_packed"]

Array = NDArray[Any]
ROWS = 512
"""About so many source pieces are encoded together: what they need stays in cache."""


def why_not_packed(model: Model | Ensemble) -> str | None:
    """Why this model cannot be prepared on this machine, in a sentence; None where it can."""
    if isinstance(model, Ensemble):
        return "PyTorch averages several models"
    if (reason := why_unavailable()) is not None:
        return f"the native kernels are not to be had: {reason}"
    if (device := model.device).type != "cpu":
        return f"the model is on {device}, and the native kernels run on the processor"
    if type(model) is not Model:
        return "the weights are split over processes, and the native kernels need them whole"
    family = _family(model)
    if family is None:
        return f"a {type(model.decoder).__name__} has no program for the native kernels"
    return family.why_not(model.decoder)  # type: ignore[no-any-return]


def pack_model(model: Model, precision: Precision = "float32", threads: int = 1) -> PackedModel:
    """The model's verbs, by the native kernels. Its weights are copied: what is learnt later is not in them.

    `threads` compute each step together. Raises ValueError where `unprepared` says why not.
    """
    if (reason := why_not_packed(model)) is not None:
        raise ValueError(f"this model cannot be prepared: {reason}")
    check_layout()
    with torch.inference_mode():
        decoder: Any = model.decoder
        kind, shaped, first = _family(model), model.encoder.shape, None
        memory = kind.memory_program(decoder, shaped.size, shaped.embedded, precision)
        step, features, block = kind.step_program(decoder, precision)
        encoder = _encoder_program(model, precision)
        output = decoder.output
        best, logits = Builder(precision), Builder(precision)
        size = output.weight.shape[1]
        best.best(best.register(size), output.weight, output.bias)
        told = logits.linear(logits.register(size), output.weight, output.bias)
        if kind is recurrent:
            first = recurrent.first_program(decoder, shaped.rows, shaped.size, precision)
        shape = _Shape(block, features, told, output.weight.shape[0], kind is recurrent, kind is convolutional)
    programs = _Programs(encoder, memory, first, step, best.program(), logits.program())
    return PackedModel(model, precision, threads, programs, shape)


def _family(model: Model) -> Any:
    """The programs of a decoder's family."""
    families = {
        TransformerDecoder: transformer,
        RecurrentDecoder: recurrent,
        NoAttentionDecoder: recurrent,
        ConvolutionalDecoder: convolutional,
    }
    return families.get(type(model.decoder))


def _encoder_program(model: Model, precision: Precision) -> EncoderProgram | None:
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder) and transformer.why_not(encoder) is None:
        return transformer.encoder_program(encoder, precision)
    if isinstance(encoder, RecurrentEncoder) and recurrent.encoder_why_not(encoder) is None:
        return recurrent.encoder_program(encoder, precision)
    if isinstance(encoder, ConvolutionalEncoder):
        return convolutional.encoder_program(encoder, precision)
    return None


@dataclass(frozen=True)
class _Programs:
    encoder: EncoderProgram | None  # None: PyTorch encodes
    memory: tuple[Program, int] | None  # and the numbers of one entry; None: nothing is read
    first: Program | None  # of decoders that begin in a state
    step: Program
    best: Program
    logits: Program


@dataclass(frozen=True)
class _Shape:
    block: int  # numbers that a step leaves behind
    features: int  # register
    logits: int  # register
    vocabulary: int
    replaces: bool  # a step's block stands for all before it
    embedded: bool  # the decoder reads what the encoder began with


class PackedModel:
    """The verbs of a model. Sources and states are values here too; features and logits are arrays.

    One object serves one thread at a time; `another` gives a second that shares the weights.
    """

    def __init__(self, model: Model, precision: Precision, threads: int, programs: _Programs, shape: _Shape) -> None:
        self.model, self.precision, self.max_target = model, precision, model.max_target
        self._programs, self._shape, self._team = programs, shape, Team(threads)
        self._masks: dict[tuple[int, ...], Array] = {}

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def threads(self) -> int:
        """How many threads compute each step."""
        return self._team.threads

    def clone(self, threads: int = 1) -> PackedModel:
        """The same weights for another thread, or for so many that compute each step together."""
        return PackedModel(self.model, self.precision, threads, self._programs, self._shape)

    @torch.inference_mode()
    def encode(self, batch: Batch) -> PackedSource:
        """Read a batch of sentences, and prepare what the decoder reads of each."""
        keep = batch.keep
        if self._programs.encoder is None:
            return self._read_elsewhere(batch)
        counts = np.full(len(batch.data), batch.data.shape[1]) if keep is None else keep.sum(1).numpy()
        pieces = (batch.data.flatten() if keep is None else batch.data[keep]).numpy()
        return self.read(pieces, counts)

    def _read_elsewhere(self, batch: Batch) -> PackedSource:
        """By PyTorch: pictures, and what has no program. Of the lower precisions it knows bfloat16."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            encoded = self.model.encoder(batch)
        (B, S, _), kept = encoded.outputs.shape, encoded.keep
        entries = np.full(B, S) if kept is None else kept.sum(1).numpy()
        both = (encoded.outputs.float(), encoded.embedded.float())
        told, began = (x.flatten(0, 1) if kept is None else x[kept] for x in both)
        source = self._remember(told.numpy(), began.numpy(), entries)
        return self._with_first(source, encoded.summary.float().numpy())

    def read(self, pieces: Array, counts: Array) -> PackedSource:
        """Read sentences that stand one after another, each of so many pieces."""
        assert self._programs.encoder is not None
        ends, parts, first = np.cumsum(counts), [], 0
        while first < len(counts):
            start = int(ends[first] - counts[first])
            last = max(first + 1, int(np.searchsorted(ends, start + ROWS, side="right")))
            stop = int(ends[last - 1])
            parts.append(self._read_some(pieces[start:stop], counts[first:last]))
            first = last
        source = parts[0]
        for part in parts[1:]:
            source = source.join(part)
        return source

    def begin(self, source: PackedSource) -> PackedState:
        """The state before the first piece, one row a sentence."""
        B, zeros = len(source), np.zeros(len(source), np.int64)
        if self._shape.replaces:
            return PackedState(zeros, zeros + 1, source.first[:, None], source.kept)
        return PackedState(zeros, zeros, np.zeros((B, 0), np.int64), ())

    def step(self, tokens: Any, state: PackedState, source: PackedSource) -> tuple[Array, PackedState]:
        """Take T ≥ 1 more pieces in, (N, T): features (N, T, D) and the state after."""
        given = np.asarray(tokens, np.int64)
        told = []
        for column in given.T:
            features, state = self._step(np.ascontiguousarray(column), state, source)
            told.append(features)
        return np.stack(told, 1), state

    def project(self, features: Any) -> torch.Tensor:
        """Features (N, T, D) into logits (N, T, V)."""
        given = np.ascontiguousarray(np.asarray(features), np.float32)
        rows, program = given.size // given.shape[-1], self._programs.logits
        room = program.room(rows)
        program.register(room, 0, rows)[:] = given.reshape(rows, -1)
        program.run(self._team, rows)
        logits = program.register(room, self._shape.logits, rows)[:, : self._shape.vocabulary]
        return torch.from_numpy(logits.copy()).view(*given.shape[:-1], -1)

    def top_tokens(self, features: Any, k: int, suppressed: Sequence[int] = ()) -> tuple[Any, Any, Any]:
        """What may be written next, of the features (N, T, D): as `Model.best` tells it."""
        last = np.ascontiguousarray(np.asarray(features)[:, -1], np.float32)
        return tuple(map(torch.from_numpy, self.likeliest(last, k, suppressed)))  # type: ignore[return-value]

    def likeliest(self, features: Array, k: int, never: Sequence[int] = ()) -> tuple[Array, Array, Array]:
        """The same of features (N, D), as arrays."""
        N, K = len(features), min(k, self._shape.vocabulary)
        likely, pieces, end = np.empty((N, K), np.float32), np.empty((N, K), np.int64), np.empty(N, np.float32)
        sharing = np.empty(N * self.threads * (3 + 2 * K), np.float32)
        self._programs.best.run(
            self._team, N, features, best=K, likely=address(likely), pieces=address(pieces), end=address(end),
            end_piece=EOS, never=self._mask(tuple(never)), sharing=address(sharing),
        )  # fmt: skip
        return likely, pieces, end

    def _mask(self, never: tuple[int, ...]) -> int:
        if not never:
            return 0
        if never not in self._masks:
            mask = self._masks[never] = np.zeros(self._shape.vocabulary, np.uint8)
            mask[list(never)] = 1
        return address(self._masks[never])

    def _step(self, tokens: Array, state: PackedState, source: PackedSource) -> tuple[Array, PackedState]:
        N, program, shape = len(tokens), self._programs.step, self._shape
        memories, entries = source.memories, source.entries
        if len(memories) != N:
            memories, entries = (np.repeat(x, N // len(memories)) for x in (memories, entries))
        blocks, past = np.empty((N, shape.block), np.float32), np.ascontiguousarray(state.past)
        program.reach(past.shape[1] + 1)
        registers = program.run(
            self._team, N, tokens=address(tokens), positions=address(state.position), memories=address(memories),
            entries=address(entries), past=address(past), stride=past.shape[1], lengths=address(state.lengths),
            blocks=address(blocks), block=shape.block,
        )  # fmt: skip
        features = program.register(registers, shape.features, N).copy()
        return features, state.replaced(blocks) if shape.replaces else state.grown(blocks)

    def _read_some(self, pieces: Array, counts: Array) -> PackedSource:
        assert self._programs.encoder is not None
        encoder = self._programs.encoder
        program = encoder.program
        pieces, rows = np.ascontiguousarray(pieces, np.int64), len(pieces)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        positions = np.arange(rows, dtype=np.int64) - np.repeat(starts[:-1], counts)
        program.reach(int(counts.max()))
        registers = program.run(
            self._team, rows, tokens=address(pieces), positions=address(positions), starts=address(starts),
            sentences=len(counts),
        )  # fmt: skip
        told, embedded = (program.register(registers, number, rows) for number in (encoder.told, encoder.embedded))
        source = self._remember(told, embedded, counts)
        if self._programs.first is None:
            return source
        return self._with_first(source, encoder.summary(registers, starts))

    def _remember(self, outputs: Array, embedded: Array, counts: Array) -> PackedSource:
        """The memories of sentences whose entries (M, D), and what they began as, stand one after another."""
        counts, none = np.ascontiguousarray(counts, np.int64), np.zeros(len(counts), np.int64)
        if self._programs.memory is None:
            return PackedSource(none, counts, none, ())
        (program, entry), rows = self._programs.memory, len(outputs)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ends = np.cumsum(padded(counts)) * entry
        room = np.empty(int(ends[-1]), np.float32)
        memories = address(room) + 4 * np.concatenate([[0], ends[:-1]]).astype(np.int64)
        registers = program.room(rows)
        program.register(registers, 0, rows)[:] = outputs
        if self._shape.embedded:
            program.register(registers, 1, rows)[:] = embedded
        program.run(
            self._team, rows, starts=address(starts), sentences=len(counts), memories=address(memories)
        )  # fmt: skip
        return PackedSource(memories, counts, none, (room,))

    def _with_first(self, source: PackedSource, summary: Array) -> PackedSource:
        """With the state that the decoder begins in, where it has one; the summary is (B, L, D)."""
        program = self._programs.first
        if program is None:
            return source
        rows, blocks = len(summary), np.zeros((len(summary), self._shape.block), np.float32)
        program.register(program.room(rows), 0, rows)[:] = summary.reshape(rows, -1)
        program.run(self._team, rows, blocks=address(blocks), block=self._shape.block)
        return PackedSource(source.memories, source.entries, addresses(blocks), (*source.kept, blocks))
