"""Attention worked through by hand, for one sentence: every matrix on the way, with its shape and its numbers."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import torch

from regard.attention import heads as side_by_side
from regard.attention.attention import Attention, attention_mask, masked_softmax
from regard.errors import UsageError
from regard.shapes import Float, Tensor

__all__ = ["Walkthrough", "walkthrough"]


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """Every step of one read, as tensors; `print` it to see them."""

    words: tuple[str, ...]
    entries: tuple[str, ...]
    read: Attention
    vectors: Float[Tensor, "T D"]
    memory_vectors: Float[Tensor, "S Dk"]
    queries: Float[Tensor, "H T E"]
    keys: Float[Tensor, "H S E"]
    values: Float[Tensor, "H S Ev"]
    products: Float[Tensor, "H T S"]
    scores: Float[Tensor, "H T S"]
    weights: Float[Tensor, "H T S"]
    answers: Float[Tensor, "H T Ev"]
    joined: Float[Tensor, "T Dv"]
    output: Float[Tensor, "T Do"]

    def __str__(self) -> str:
        return "\n".join([*self._entrance(), *self._projections(), *self._reading(), *self._exit()])

    def __repr__(self) -> str:
        return f"Explanation of {' '.join(self.words)!r}: heads {len(self.queries)}, queries {len(self.words)}"

    def _entrance(self) -> list[str]:
        own = self.memory_vectors is self.vectors
        H, T, E = self.queries.shape
        S, each = self.keys.shape[1], "each word reads" + (" them all" if own else f" {' '.join(self.entries)!r}")
        heads = f"{H} heads" if H > 1 else "one head"
        lines = [f"{' '.join(self.words)}: {T} queries, {S} keys and values, {heads} of {E} numbers; {each}"]
        lines += _matrix("words as vectors, x", self.words, self.vectors)
        return lines if own else lines + _matrix("what is read, m", self.entries, self.memory_vectors)

    def _projections(self) -> list[str]:
        lines, read = list[str](), "x" if self.memory_vectors is self.vectors else "m"
        for letter, layer, given in (
            ("Q", self.read.query, "x"),
            ("K", self.read.key, read),
            ("V", self.read.value, read),
        ):
            names, parts = (self.words, self.queries) if letter == "Q" else (self.entries, self._entries(letter))
            made = f"{letter} = {given}·W{letter}"
            if isinstance(layer, torch.nn.Linear):
                lines += _matrix(f"W{letter}", None, layer.weight.T)
                made += " + b" if _has_bias(layer) else ""
            lines += _by_head(made + ", cut into heads" * (len(parts) > 1), names, parts)
        return lines

    def _entries(self, letter: str) -> Tensor:
        return self.keys if letter == "K" else self.values

    def _reading(self) -> list[str]:
        E = self.queries.shape[-1]
        lines = list[str]()
        if not torch.equal(self.products, self.scores):
            lines += _by_head("Q·Kᵀ, every query with every key", self.words, self.products, self.entries)
            lines += _by_head(f"scores, {self._scaled(E)}", self.words, self.scores, self.entries)
        else:
            lines += _by_head("scores, every query with every key", self.words, self.scores, self.entries)
        hidden = " over the entries that may be read" if bool((self.weights == 0).any()) else ""
        lines += _by_head(f"weights, softmax of each row{hidden}", self.words, self.weights, self.entries)
        return lines + _by_head("weights·V, the weighted values", self.words, self.answers)

    def _scaled(self, E: int) -> str:
        """What makes scores of products."""
        most = self.products.abs().argmax()
        scale = float(self.scores.flatten()[most] / self.products.flatten()[most])
        divided = math.isclose(scale, E**-0.5, rel_tol=1e-3)
        return f"divided by √{E} = {math.sqrt(E):.3f}" if divided else f"times {scale:.3f}"

    def _exit(self) -> list[str]:
        lines = _matrix("heads side by side, z", self.words, self.joined)
        if isinstance(self.read.output, torch.nn.Linear):
            lines += _matrix("WO", None, self.read.output.weight.T)
            bias = " + b" if _has_bias(self.read.output) else ""
            lines += _matrix(f"output, z·WO{bias}: what each word has become", self.words, self.output)
        return lines


def walkthrough(
    sentence: str | Sequence[str],
    reads: str | Sequence[str] | None = None,
    *,
    read: Attention | None = None,
    vectors: Float[Tensor, "T D"] | None = None,
    memory_vectors: Float[Tensor, "S Dk"] | None = None,
    size: int = 4,
    heads: int = 2,
    causal: bool = False,
    seed: int = 0,
    show: bool = True,
) -> Walkthrough:
    """Print how attention reads a sentence: Q, K, V → scores → scaled → softmax → weighted values → heads → output.

    Each word reads all words of its own sentence (with `causal`, those up to itself), or those of the sentence that
    it `reads`. Words become vectors of `size` random numbers and a `Read` of random matrices, the same for each
    `seed`, rounded to tenths so that the path can be followed with a pencil; or give a trained `read`, and `vectors`
    (and `memory_vectors`) as it met them. `show=False` prints nothing.
    """
    words = _words(sentence)
    entries = words if reads is None else _words(reads)
    _check(words, entries, read, vectors, memory_vectors, size, heads, reads is not None, causal)
    if read is None:
        read = _tenths(Attention("explained", size, size, size, heads), seed)
    x = _drawn(words, size, seed) if vectors is None else vectors
    m = x if reads is None else _drawn(entries, size, seed) if memory_vectors is None else memory_vectors
    with torch.no_grad():
        found = _worked(words, entries, read, x, m, causal)
    if show:
        print(found)
    return found


def _worked(
    words: tuple[str, ...], entries: tuple[str, ...], read: Attention, x: Tensor, m: Tensor, causal: bool
) -> Walkthrough:
    memory = read.prepare(m[None], m[None])
    queries = side_by_side.split_heads(read.query(x[None]), read.heads)  # (1, H, T, E)
    scores = read.score(queries, memory.keys)
    dot = read.score.as_dot(queries)
    products = scores if dot is None else torch.matmul(dot[0], memory.keys.transpose(-1, -2))
    weights = masked_softmax(scores, attention_mask(memory, len(words), causal))
    answers = torch.matmul(weights, memory.values)
    joined = side_by_side.merge_heads(answers)
    steps = (queries, memory.keys, memory.values, products, scores, weights, answers, joined, read.output(joined))
    return Walkthrough(words, entries, read, x, m, *(step[0] for step in steps))


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(given.split()) if isinstance(given, str) else tuple(given)


def _check(
    words: tuple[str, ...],
    entries: tuple[str, ...],
    read: Attention | None,
    vectors: Tensor | None,
    memory_vectors: Tensor | None,
    size: int,
    heads: int,
    elsewhere: bool,
    causal: bool,
) -> None:
    causes = []
    if not words or not entries:
        causes.append("there is nothing to explain: give a sentence of one word or more")
    if read is None and (heads < 1 or size < heads or size % heads):
        causes.append(f"a size of {size} cannot be cut into {heads} equal heads")
    if causal and elsewhere:
        causes.append("causal is for a sentence that reads itself: leave out `reads`, or `causal`")
    if read is not None and vectors is None:
        causes.append("a read of your own needs the vectors it met: give vectors=, one row a word")
    if read is not None and elsewhere and memory_vectors is None:
        causes.append(
            "a read of your own needs the vectors that it read: give memory_vectors=, one row a word of `reads`"
        )
    if memory_vectors is not None and not elsewhere:
        causes.append("memory_vectors are of the words that are read: give `reads` too, or leave them out")
    for what, table, rows in (("vectors", vectors, words), ("memory_vectors", memory_vectors, entries)):
        if table is not None and (table.ndim != 2 or len(table) != len(rows)):
            causes.append(f"{what}: wanted a row for each of {len(rows)} words, got the shape {tuple(table.shape)}")
    if causes:
        raise UsageError(*causes)


def _drawn(words: tuple[str, ...], size: int, seed: int) -> Float[Tensor, "T D"]:
    """A vector for each word, the same wherever it stands."""
    rows = [torch.randn(size, generator=_generator(seed, word)) for word in words]
    return torch.stack(rows).mul(10).round().div(10)


def _tenths(read: Attention, seed: int) -> Attention:
    with torch.no_grad():
        for name, parameter in read.named_parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=_generator(seed, name)).mul(10).round().div(10))
    return read


def _generator(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))


def _has_bias(layer: torch.nn.Linear) -> bool:
    return layer.bias is not None and bool(layer.bias.any())


def _by_head(title: str, rows: tuple[str, ...], parts: Tensor, columns: tuple[str, ...] | None = None) -> list[str]:
    lines = list[str]()
    for head, part in enumerate(parts):
        lines += _matrix(f"{title}; head {head + 1}" if len(parts) > 1 else title, rows, part, columns)
    return lines


def _matrix(
    title: str, rows: tuple[str, ...] | None, numbers: Tensor, columns: tuple[str, ...] | None = None
) -> list[str]:
    """A title with the shape, then a line for each row; wide characters take two places."""
    table = [[f"{round(number, 3) + 0.0:.3f}" for number in row] for row in numbers.tolist()]  # no −0.000
    widths = [max(7, *(_width(row[c]) for row in table)) for c in range(numbers.shape[1])]
    if columns is not None:
        widths = [max(width, _width(word)) for width, word in zip(widths, columns, strict=True)]
    names = rows or ("",) * len(table)
    left = max(map(_width, names))
    lines = ["", f"{title} ({' × '.join(map(str, numbers.shape))})"]
    if columns is not None:
        lines.append("  " + " " * left + _line(columns, widths))
    return lines + [
        "  " + name + " " * (left - _width(name)) + _line(row, widths) for name, row in zip(names, table, strict=True)
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(" " * (width + 1 - _width(cell)) + cell for cell, width in zip(cells, widths, strict=True))


def _width(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
