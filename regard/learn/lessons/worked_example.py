"""Worked example of multi-head attention on one sentence: every matrix, with its shape and its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.attention.attention import Attention, attention_mask, masked_softmax
from regard.attention.heads import merge_heads, split_heads
from regard.common.errors import UsageError
from regard.common.shapes import Float, Tensor
from regard.learn.lessons.matrix_text import format_matrix
from regard.learn.lessons.random_weights import random_tenths, randomise


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """Every step of one attention, as tensors; `print` it to see them."""

    words: tuple[str, ...]
    entries: tuple[str, ...]
    attention: Attention
    vectors: Float[Tensor, "T D"]
    source_vectors: Float[Tensor, "S Dk"]
    queries: Float[Tensor, "H T E"]
    keys: Float[Tensor, "H S E"]
    values: Float[Tensor, "H S Ev"]
    products: Float[Tensor, "H T S"]
    scores: Float[Tensor, "H T S"]
    weights: Float[Tensor, "H T S"]
    contexts: Float[Tensor, "H T Ev"]
    concatenated: Float[Tensor, "T Dv"]
    output: Float[Tensor, "T Do"]

    def __str__(self) -> str:
        return "\n".join([*self._inputs(), *self._projections(), *self._weighting(), *self._outputs()])

    def __repr__(self) -> str:
        return f"Walkthrough of {' '.join(self.words)!r}: heads {len(self.queries)}, queries {len(self.words)}"

    def _inputs(self) -> list[str]:
        is_self = self.source_vectors is self.vectors
        H, T, E = self.queries.shape
        S = self.keys.shape[1]
        target = "all of them" if is_self else repr(" ".join(self.entries))
        heads = f"{H} heads" if H > 1 else "one head"
        sizes = f"{T} queries, {S} keys and values, {heads} of {E} numbers"
        lines = [f"{' '.join(self.words)}: {sizes}; each word attends to {target}"]
        lines += _matrix("words as vectors, x", self.words, self.vectors)
        return lines if is_self else lines + _matrix("source words as vectors, m", self.entries, self.source_vectors)

    def _projections(self) -> list[str]:
        lines, source = list[str](), "x" if self.source_vectors is self.vectors else "m"
        for letter, layer, inputs, parts in (
            ("Q", self.attention.query, "x", self.queries),
            ("K", self.attention.key, source, self.keys),
            ("V", self.attention.value, source, self.values),
        ):
            names = self.words if letter == "Q" else self.entries
            title = f"{letter} = {inputs}·W{letter}"
            if isinstance(layer, torch.nn.Linear):
                lines += _matrix(f"W{letter}", None, layer.weight.T)
                title += " + b" if _has_bias(layer) else ""
            lines += _by_head(title + ", split into heads" * (len(parts) > 1), names, parts)
        return lines

    def _weighting(self) -> list[str]:
        E = self.queries.shape[-1]
        lines = list[str]()
        if not torch.equal(self.products, self.scores):
            lines += _by_head("Q·Kᵀ, every query with every key", self.words, self.products, self.entries)
            lines += _by_head(f"scores, {self._scaled(E)}", self.words, self.scores, self.entries)
        else:
            lines += _by_head("scores, every query with every key", self.words, self.scores, self.entries)
        hidden = " over the visible entries" if bool((self.weights == 0).any()) else ""
        lines += _by_head(f"weights, softmax of each row{hidden}", self.words, self.weights, self.entries)
        return lines + _by_head("weights·V, the weighted values", self.words, self.contexts)

    def _scaled(self, E: int) -> str:
        """Name the factor between products and scores."""
        largest = self.products.abs().argmax()
        scale = float(self.scores.flatten()[largest] / self.products.flatten()[largest])
        divided = math.isclose(scale, E**-0.5, rel_tol=1e-3)
        return f"divided by √{E} = {math.sqrt(E):.3f}" if divided else f"times {scale:.3f}"

    def _outputs(self) -> list[str]:
        lines = _matrix("concatenated heads, z", self.words, self.concatenated)
        if isinstance(self.attention.output, torch.nn.Linear):
            lines += _matrix("WO", None, self.attention.output.weight.T)
            bias = " + b" if _has_bias(self.attention.output) else ""
            lines += _matrix(f"output, z·WO{bias}: the new vector of each word", self.words, self.output)
        return lines


def walkthrough(
    sentence: str | Sequence[str],
    source: str | Sequence[str] | None = None,
    *,
    attention: Attention | None = None,
    vectors: Float[Tensor, "T D"] | None = None,
    source_vectors: Float[Tensor, "S Dk"] | None = None,
    size: int = 4,
    heads: int = 2,
    causal: bool = False,
    seed: int = 0,
    show: bool = True,
) -> Walkthrough:
    """Print every step of attention over a sentence: Q, K, V → scores → scaled → softmax → values → heads → output.

    Each word attends to all words of its own sentence (with `causal`, up to itself), or to those of `source`. Words
    are vectors of `size` random numbers, and the projections are random matrices, the same for each `seed`, rounded to
    tenths so that they can be followed with a pencil. Or give a trained `attention`, with its input `vectors` (and
    `source_vectors`). `show=False` prints nothing. Raises UsageError with everything that is wrong.
    """
    words = _words(sentence)
    entries = words if source is None else _words(source)
    causes = _size_problems(words, entries, attention, size, heads)
    causes += _argument_problems(attention, vectors, source_vectors, is_cross=source is not None, causal=causal)
    causes += _shape_problems("vectors", vectors, words) + _shape_problems("source_vectors", source_vectors, entries)
    UsageError.raise_all(causes)
    if attention is None:
        attention = Attention("walkthrough", size, size, size, heads)
        randomise(attention, seed)
    x = _random_vectors(words, size, seed) if vectors is None else vectors
    m = x if source is None else _random_vectors(entries, size, seed) if source_vectors is None else source_vectors
    with torch.no_grad():
        steps = _compute(words, entries, attention, x, m, causal)
    if show:
        print(steps)
    return steps


def _compute(
    words: tuple[str, ...], entries: tuple[str, ...], attention: Attention, x: Tensor, m: Tensor, causal: bool
) -> Walkthrough:
    memory = attention.prepare(m[None], m[None])
    queries = split_heads(attention.query(x[None]), attention.heads)  # (1, H, T, E)
    scores = attention.score(queries, memory.keys)
    dot = attention.score.as_dot(queries)
    products = scores if dot is None else torch.matmul(dot[0], memory.keys.transpose(-1, -2))
    weights = masked_softmax(scores, attention_mask(memory, len(words), causal))
    contexts = torch.matmul(weights, memory.values)
    merged = merge_heads(contexts)
    steps = (queries, memory.keys, memory.values, products, scores, weights, contexts, merged, attention.output(merged))
    return Walkthrough(words, entries, attention, x, m, *(step[0] for step in steps))


def _words(sentence: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(sentence.split()) if isinstance(sentence, str) else tuple(sentence)


def _size_problems(
    words: tuple[str, ...], entries: tuple[str, ...], attention: Attention | None, size: int, heads: int
) -> list[str]:
    causes = []
    if not words or not entries:
        causes.append("there is nothing to explain: give a sentence of one word or more")
    if attention is None and (heads < 1 or size < heads or size % heads):
        causes.append(f"a size of {size} cannot be split into {heads} equal heads")
    return causes


def _argument_problems(
    attention: Attention | None, vectors: Tensor | None, source_vectors: Tensor | None, is_cross: bool, causal: bool
) -> list[str]:
    causes = []
    if causal and is_cross:
        causes.append("causal is for self-attention: leave out `source`, or `causal`")
    if attention is not None and vectors is None:
        causes.append("an attention of your own needs its input: give vectors=, one row per word")
    if attention is not None and is_cross and source_vectors is None:
        causes.append("an attention of your own needs its source: give source_vectors=, one row per word of `source`")
    if source_vectors is not None and not is_cross:
        causes.append("source_vectors belong to the words of `source`: give it too, or leave them out")
    return causes


def _shape_problems(name: str, vectors: Tensor | None, words: tuple[str, ...]) -> list[str]:
    if vectors is None or (vectors.ndim == 2 and len(vectors) == len(words)):
        return []
    return [f"{name}: expected a row for each of {len(words)} words, got the shape {tuple(vectors.shape)}"]


def _random_vectors(words: tuple[str, ...], size: int, seed: int) -> Float[Tensor, "T D"]:
    """Draw a vector for each word, the same wherever the word occurs."""
    return torch.stack([random_tenths((size,), seed, word) for word in words])


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
    """Format a matrix as a title with its shape and a line per row."""
    cells = [[f"{round(number, 3) + 0.0:.3f}" for number in row] for row in numbers.tolist()]  # no −0.000
    return format_matrix(f"{title} ({' × '.join(map(str, numbers.shape))})", rows or (), cells, columns or ())
