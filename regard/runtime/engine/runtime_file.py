"""Write the runtime file: a packed model and its tokenizer in one file, which the C library maps
into memory (model.c).

The file has a header, a table of sections, and the sections, each at a multiple of 64 bytes. All
numbers are little-endian. Operations and weights refer to their numbers by offset, and equal arrays
are written once. Embeddings that are tied to the output projection are read from its columns.
"""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from regard.attention import Attention
from regard.attention.alignment_choice import DEFAULT_SYMMETRY, AlignmentChoice
from regard.common.reading import MAGIC
from regard.common.shapes import Array
from regard.model_folder import ModelFolder
from regard.runtime.engine.packed_model import PackedModel
from regard.runtime.engine.program import (
    GROUP,
    KINDS,
    LANES,
    PRECISIONS,
    Operation,
    Program,
    Weight,
    address,
)
from regard.runtime.engine.token_tables import token_tables
from regard.runtime.native import checksum
from regard.search import SearchSettings

FORMAT = 1
ORDER = 0x01020304
ALIGNED = 64
HEADER = 64
CARD, SETTINGS, PROGRAMS, WEIGHTS, NUMBERS, SOURCE, TARGET, LAYERS, LANGUAGES = range(
    1, 10
)
MAX_STATES = 32
EMBED = KINDS.index("embed")
ENCODER, STEP = 0, 3
"""Indices of the encoder and step programs. The others are memory (1), initial state (2) and top
tokens (4).
"""
NO_ENCODER = SimpleNamespace(
    program=None, outputs=-1, embedded=-1, states=(), direction_size=0
)
ROLES = {"encoder": 0, "cross": 1, "decoder": 2}
_ATTENTION = {
    "encoder": ("encoder_attention",),
    "cross": ("cross_attention", "additive_attention"),
    "decoder": ("cached_attention",),
}
SYMMETRIES = (None, "intersection", "grow-diag", "grow-diag-final", "union")
MIN_POSITIONS = 256
"""Smallest number of positions for which position embeddings are written."""


def runtime_file(
    folder: ModelFolder,
    packed: PackedModel,
    choice: AlignmentChoice | None,
    card: Mapping[str, object],
    languages: str = "",
    reads_text: bool = True,
) -> bytes:
    """Return the content of a runtime file.

    `languages` is its language identification as JSON, empty if there is none. Without
    `reads_text`, the model accepts only token ids or, if PyTorch encodes, encoder outputs. Raises
    ValueError with the reason if a model that reads text has a part that only PyTorch can compute.
    """
    if packed.programs.encoder is None and reads_text:
        raise ValueError("its encoder has no program for the native kernels")
    positions = position_counts(folder.settings.search, packed.max_target)
    writer = _Writer(max(positions), _output_columns(packed), *_output_weight(packed))
    programs = _programs(packed)
    records = b"".join(map(writer.program, programs))
    layers = _layers(packed, programs)
    tokenizer = folder.tokenizer
    sections = {
        CARD: json.dumps(card, ensure_ascii=False, indent=2).encode(),
        SETTINGS: _settings(folder, packed, positions, layers, choice),
        PROGRAMS: records,
        WEIGHTS: b"".join(writer.weights),
        NUMBERS: b"".join(writer.parts),
        SOURCE: token_tables(tokenizer.source, reads_text),
        LAYERS: _layer_section(layers),
    }
    if tokenizer.target is not tokenizer.source:
        sections[TARGET] = token_tables(tokenizer.target, reads_text)
    if languages:
        sections[LANGUAGES] = languages.encode()
    return _join_sections(sections)


def share_embeddings(packed: PackedModel) -> bool:
    """Replace embeddings tied to the output projection by its columns, rounded as in the packed
    weight.

    The file then holds these numbers once, and `packed` computes the same as the file. Returns
    False, and changes nothing, if no embeddings are tied.
    """
    columns = _output_columns(packed)
    programs = [packed.programs.step]
    if packed.programs.encoder is not None:
        programs.append(packed.programs.encoder.program)

    is_shared = False
    for program in programs:
        for operation in program.operations:
            if operation.kind != EMBED:
                continue
            embeddings = _embeddings(program, operation)
            if _is_rounded(embeddings, columns, packed.precision):
                table = np.ascontiguousarray(columns[: len(embeddings)])
                program.buffers.append(table)
                operation.table = address(table)
                is_shared = True
    return is_shared


def _output_columns(packed: PackedModel) -> Array:
    """Return the columns of the packed output projection as float32 (V, D).

    This inverts the packing in the same way as `column_of` of kernels.c.
    """
    weight, arrays = _output_weight(packed)
    precision = packed.precision
    group = GROUP[precision]
    dtypes = {"float32": np.float32, "bfloat16": np.uint16, "int8": np.int8}
    panels = arrays[weight.panels].view(dtypes[precision])
    blocks = panels.reshape(-1, weight.padded // group, LANES, group)
    columns = blocks.transpose(0, 2, 1, 3).reshape(-1, weight.padded)
    columns = columns[: weight.outputs, : weight.inputs]
    if precision == "int8":
        scales = arrays[weight.scales][: weight.outputs, None]
        return columns.astype(np.float32) * scales
    if precision == "bfloat16":
        return (columns.astype(np.uint32) << 16).view(np.float32)
    return columns


def _output_weight(packed: PackedModel) -> tuple[Weight, dict[int, Array]]:
    """Return the packed output projection, and the arrays of its program by address."""
    program = packed.programs.top_tokens
    (weight,) = (item for item in program.buffers if isinstance(item, Weight))
    return weight, _arrays(program)


def _arrays(program: Program) -> dict[int, Array]:
    return {
        address(item): item for item in program.buffers if isinstance(item, np.ndarray)
    }


def _embeddings(program: Program, operation: Operation) -> Array:
    return _arrays(program)[operation.table]


def _is_rounded(table: Array, rows: Array, precision: str) -> bool:
    """Return whether `rows` begin with the table, rounded to a precision."""
    if table.shape[1] != rows.shape[1] or len(table) > len(rows):
        return False
    rows = rows[: len(table)]
    steps = {
        "float32": 0.0,
        "bfloat16": np.abs(rows) / 128,
        "int8": np.abs(rows).max(1, keepdims=True) / 200,
    }
    return bool((np.abs(table - rows) <= steps[precision]).all())


def position_counts(search: SearchSettings, max_target: int | None) -> tuple[int, int]:
    """Return the largest number of positions of sources and targets, by the search settings."""
    source = search.max_whole
    if search.longest_source is not None:
        source = 2 * search.longest_source
    target = search.max_steps(source, max_target)
    return max(source, MIN_POSITIONS), max(target, MIN_POSITIONS)


@dataclass
class _Writer:
    """Collector of the numbers and weights of a file; equal ones are written once."""

    positions: int
    output_columns: Array
    output_weight: Weight
    output_arrays: Mapping[int, Array]
    parts: list[bytes] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)
    _size: int = 0
    _offsets: dict[bytes, int] = field(default_factory=dict)
    _indices: dict[bytes, int] = field(default_factory=dict)

    def numbers(self, array: Array) -> int:
        """Write an array, unless it is there already; return its offset."""
        content = np.ascontiguousarray(array).tobytes()
        if content not in self._offsets:
            padding = -len(content) % ALIGNED
            self._offsets[content] = self._size
            self.parts += [content, bytes(padding)]
            self._size += len(content) + padding
        return self._offsets[content]

    def weight(self, weight: Weight, buffers: Mapping[int, Array]) -> int:
        """Write a packed weight, unless it is there already; return its index."""
        offsets = list[int]()
        for location in (weight.panels, weight.scales, weight.sums, weight.bias):
            if location is None or not buffers[location].size:
                offsets.append(-1)
            else:
                offsets.append(self.numbers(buffers[location]))
        record = struct.pack(
            "<4i4q",
            weight.precision,
            weight.inputs,
            weight.outputs,
            weight.padded,
            *offsets,
        )
        if record not in self._indices:
            self._indices[record] = len(self.weights)
            self.weights.append(record)
        return self._indices[record]

    def table(self, operation: Operation, arrays: Mapping[int, Array]) -> int:
        """Return the offset of an operation's table.

        It is −1 for embeddings that are equal to columns of the output projection.
        """
        table = arrays[operation.table]
        if operation.kind == EMBED:
            columns = self.output_columns[: len(table)]
            if np.array_equal(table, columns):
                return -1
        return self.numbers(table)

    def program(self, program: Program | None) -> bytes:
        """Return the record of a program, which is empty if the model lacks the program."""
        if program is None:
            return struct.pack("<2q", 0, 0)
        arrays = _arrays(program)
        weights = {
            ctypes.addressof(item): item
            for item in program.buffers
            if isinstance(item, Weight)
        }
        operations = []
        for index, operation in enumerate(program.operations):
            second = weight = table = -1
            if operation.second is not None:
                second = self.numbers(arrays[operation.second])
            if program.positions is not None and program.positions[0] == index:
                embeddings = program.positions[1](self.positions)
                second = self.numbers(np.ascontiguousarray(embeddings, np.float32))
            if operation.weight is not None:
                weight = self.weight(weights[operation.weight], arrays)
            if operation.table is not None:
                table = self.table(operation, arrays)
            if operation.kind == EMBED and table < 0:
                weight = self.weight(self.output_weight, self.output_arrays)
            operations.append(_operation(operation, table, second, weight))
        counts = struct.pack("<2q", len(program.widths), len(operations))
        return counts + program.widths.astype("<i8").tobytes() + b"".join(operations)


def _operation(operation: Operation, table: int, second: int, weight: int) -> bytes:
    names = (
        "kind",
        "source",
        "target",
        "extra",
        "column",
        "size",
        "heads",
        "activation",
        "offset",
        "scale",
        "extent",
    )
    return struct.pack(
        "<8iqfi3q", *(getattr(operation, name) for name in names), table, second, weight
    )


def _programs(packed: PackedModel) -> tuple[Program | None, ...]:
    programs = packed.programs
    encoder = None if programs.encoder is None else programs.encoder.program
    memory = None if programs.memory is None else programs.memory[0]
    return encoder, memory, programs.initial, programs.step, programs.top_tokens


@dataclass(frozen=True)
class _AttentionLayer:
    """A layer of attention, and the operation that computes it."""

    name: str
    role: str
    program: int
    operation: int
    heads: int


def _layers(
    packed: PackedModel, programs: Sequence[Program | None]
) -> list[_AttentionLayer]:
    """Return the attention layers in the order of the model's modules.

    The operations of each role are in the same order.
    """
    numbers = {"encoder": ENCODER, "cross": STEP, "decoder": STEP}
    operations = {
        role: iter(_attention_operations(programs[number], role))
        for role, number in numbers.items()
    }
    layers = list[_AttentionLayer]()
    for name, module in packed.model.named_modules():
        if not isinstance(module, Attention):
            continue
        role = module.role
        number = numbers[role]
        if programs[number] is not None:
            operation = next(operations[role])
            layers.append(_AttentionLayer(name, role, number, operation, module.heads))
    assert all(next(unused, None) is None for unused in operations.values()), (
        "each operation belongs to one layer"
    )
    return layers


def _attention_operations(program: Program | None, role: str) -> Iterator[int]:
    """Yield the indices of the attention operations of a role."""
    kinds = {KINDS.index(kind) for kind in _ATTENTION[role]}
    if program is not None:
        for index, operation in enumerate(program.operations):
            if operation.kind in kinds:
                yield index


def _layer_section(layers: Sequence[_AttentionLayer]) -> bytes:
    names = [layer.name.encode() + b"\0" for layer in layers]
    start = 8 + 32 * len(layers)
    records = []
    for layer, name in zip(layers, names, strict=True):
        fields = (
            layer.program,
            layer.operation,
            ROLES[layer.role],
            layer.heads,
            start,
            len(name) - 1,
        )
        records.append(struct.pack("<4i2q", *fields))
        start += len(name)
    return struct.pack("<q", len(layers)) + b"".join(records) + b"".join(names)


def _settings(
    folder: ModelFolder,
    packed: PackedModel,
    positions: tuple[int, int],
    layers: Sequence[_AttentionLayer],
    choice: AlignmentChoice | None,
) -> bytes:
    """Return the section of settings: the structure `Settings` of model.h."""
    programs = packed.programs
    layout = packed.layout
    search = folder.settings.search
    encoder = programs.encoder or NO_ENCODER
    has_positions = [
        program is not None and program.positions is not None
        for program in (encoder.program, programs.step)
    ]
    states = [*encoder.states, *[0] * (MAX_STATES - len(encoder.states))]
    names = [layer.name for layer in layers]
    integers = (
        PRECISIONS[packed.precision], len(folder.tokenizer.source), layout.vocabulary,
        positions[0] * has_positions[0], positions[1] * has_positions[1], packed.max_target or -1,
        max(1, layout.block), 0 if programs.memory is None else programs.memory[1],
        layout.features, encoder.outputs, encoder.embedded,
        layout.is_recurrent, layout.needs_embeddings, len(encoder.states), encoder.direction_size,
        *states, 1 if programs.initial is None else int(programs.initial.widths[0]),
        search.beam, search.max_extra, search.min_length, search.max_length or -1,
        search.no_repeat_ngram, search.longest_source or -1, search.max_line, search.max_whole,
    )  # fmt: skip
    parameters = sum(parameter.numel() for parameter in packed.model.parameters())
    alignment = (-1, -1, 0, SYMMETRIES.index(DEFAULT_SYMMETRY))
    if choice is not None:
        head = -1 if choice.head is None else choice.head
        alignment = (
            names.index(choice.layer),
            head,
            int(choice.shifted),
            SYMMETRIES.index(choice.symmetry),
        )
    penalties = (search.length_penalty, search.max_ratio)
    lines = 2 * (search.line_clauses or 0) + (not search.splits_sentences)
    return struct.pack(
        f"<{len(integers)}i2d6i",
        *integers,
        *penalties,
        *alignment,
        parameters // 1000,
        lines,
    )


def _join_sections(sections: Mapping[int, bytes]) -> bytes:
    """Join the sections, after a header and a table of their offsets."""
    start = HEADER + 24 * len(sections)
    table = []
    body = bytearray()
    for kind, content in sections.items():
        body += bytes(-(start + len(body)) % ALIGNED)
        table.append(struct.pack("<2I2Q", kind, 0, start + len(body), len(content)))
        body += content
    payload = b"".join(table) + bytes(body)
    fields = (
        MAGIC,
        FORMAT,
        ORDER,
        HEADER + len(payload),
        checksum(payload),
        len(sections),
    )
    return struct.pack("<8s2I2QI28x", *fields) + payload
