"""Steps of a Transformer block, read from a recorded forward pass of the model itself.

Layers, projections and norms are recorded; scores, mask, softmax and weighted values, which a fused
kernel never keeps, are computed from the recorded queries and keys by the same score, mask and
softmax as the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import SCORES, Attention, Memory
from regard.attention.attention import attention_mask, masked_softmax
from regard.attention.head_reshapes import merge_heads, split_heads
from regard.attention.scores import Additive, General
from regard.common.bilingual import Text, Words, join_texts, read_texts
from regard.common.shapes import Array, Tensor
from regard.data.batch import pad
from regard.data.vocabulary import PAD
from regard.layers.embedding import OutputProjection
from regard.layers.feedforward import FeedForward
from regard.layers.positional_encoding import LearnedPositions, interleaved
from regard.layers.residual import Residual
from regard.learn.lessons.recording import Calls
from regard.models.transformer import DecoderLayer, EncoderLayer, InputEmbedding
from regard.visualisation.number_boxes import Step, Term

TEXTS = read_texts(
    "regard.learn.lessons",
    "block.toml",
    (
        "titles",
        "descriptions",
        "sides",
        "parts",
        "labels",
        "steps",
        "masked",
        "split",
        "join",
        "diagonal",
    ),
)
SUBSCRIPTS = "₀₁₂₃₄"
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "swiglu": "SwiGLU"}
FORMULAS = {
    "dot": "scores = Q·Kᵀ",
    "scaled_dot": "scores = Q·Kᵀ / √E",
    "general": "scores = Q·W·Kᵀ",
    "additive": "scores = v·tanh(q + k)",
    "cosine": "scores = cos(q, k) / τ",
    "cosine_fixed": "scores = cos(q, k) / 0.1",
    "cosine_plain": "scores = cos(q, k)",
}
Names = Sequence[Sequence[str]]
"""Tokens of each sentence of the batch."""


class BlockSteps:
    """Steps of a block, in order.

    `x` is the vector of every position as it passes through the sublayers: x₀ before the first, x₁
    after it, and so on.
    """

    def __init__(self, calls: Calls, names: Names) -> None:
        self.calls = calls
        self.names = names
        self.steps = list[Step]()
        self._x = torch.empty(0)
        self._passed = 0
        self._last = ""
        self._part = TEXTS["parts.input"]
        self._prefix = ""

    def _add(
        self,
        key: str,
        text: tuple[Text, Text],
        formula: str,
        terms: Sequence[Term],
        product: str = "",
    ) -> None:
        """Append a step to the current part; `text`: its title and its text."""
        self.steps.append(
            Step(
                self._prefix + key,
                self._part,
                text[0],
                formula,
                text[1],
                tuple(terms),
                product,
            )
        )

    def _begin(self, part: Text, key: str) -> None:
        self._part = part
        self._prefix = f"{key}."

    # --- input

    def source(self, outputs: Tensor, names: Names) -> None:
        """Append the encoder's output, which cross-attention reads."""
        self._part = TEXTS["parts.source"]
        self._add(
            "source", _worded("source"), "", [Term("m", array(outputs), "B S D", names)]
        )
        self._part = TEXTS["parts.input"]

    def tokens(
        self, rows: Sequence[tuple[Words, Sequence[Sequence[str]]]], kind: str
    ) -> None:
        """Append the tokens of each position, with their ids or the tokens that they predict."""
        values = np.array(
            [
                [list(line[sentence]) for _, line in rows]
                for sentence in range(len(self.names))
            ]
        )
        term = Term(
            TEXTS["labels.tokens"],
            values,
            "B rows T",
            [[name for name, _ in rows]],
            kind="tokens",
        )
        self._add("tokens", _worded(kind), "", [term])

    def embeddings(self, inputs: InputEmbedding) -> None:
        """Append embeddings, positions and their sum, which is the input of the first layer."""
        embedding = inputs.embedding
        positions = inputs.position_embedding
        scale = "" if embedding.scale == 1 else f"{embedding.scale:.3f}"
        text = _worded("scaled_embeddings" if scale else "embeddings", scale=scale)
        e = Term("e", array(self.calls[embedding].output), "B T D", self.names)
        x = _like(e, "x₀", "=", self.calls[inputs].output)
        self._add("embeddings", text, "", [e])
        if positions is None:
            self._add("sum", _worded("no_positions"), "x₀ = e", [_again(e), x])
            return
        vectors = array(self.calls[positions].output)[0]
        p = Term(
            "p", vectors, "T D", [[str(position) for position in range(len(vectors))]]
        )
        self._positions(positions, p)
        self._add("sum", _worded("sum"), "x₀ = e + p", [_again(e), _again(p, "+"), x])

    def _positions(self, module: nn.Module, p: Term) -> None:
        """Append the vectors of the positions, also in the paper's order of columns if the model
        has another.
        """
        if isinstance(module, LearnedPositions):
            self._add("positions", _worded("learned_positions"), "", [p])
            return
        D = p.values.shape[1]
        waves = [[("sin", "cos")[column % 2] for column in range(D)]]
        formula = (
            "p(t, 2i) = sin(t / 10000^(2i/D)), p(t, 2i + 1) = cos(t / 10000^(2i/D))"
        )
        if isinstance(module, PaperOrder):
            self._add(
                "positions",
                _worded("positions", size=D),
                formula,
                [replace(p, columns=waves)],
            )
            return
        order = interleaved(D)
        name = TEXTS["labels.paper_order"]
        paper = Term(
            name,
            p.values[:, order],
            "T D",
            p.rows,
            waves,
            rule="columns p",
            parameter=np.array(order),
        )
        self._add("positions", _worded("own_positions", size=D), formula, [p, paper])

    def earlier_layers(self, layer: nn.Module, number: int) -> None:
        """Append the input of a layer that is not the first."""
        term = Term("x₀", array(self.calls[layer].input), "B T D", self.names)
        self._add(
            "earlier", _worded("earlier", last=number - 1, number=number), "", [term]
        )

    # --- layers

    def encoder_layer(self, layer: EncoderLayer, is_causal: bool) -> None:
        """Append self-attention and feed-forward network, each with add & norm."""
        self._x = self.calls[layer].input
        self._self_attention(
            layer, TEXTS["parts.causal"] if is_causal else TEXTS["parts.self"]
        )
        self._feedforward(layer.feedforward, layer.feedforward_residual)

    def decoder_layer(self, layer: DecoderLayer, source: Names) -> None:
        """Append masked self-attention, cross-attention and feed-forward network, each with add &
        norm.
        """
        self._x = self.calls[layer].input
        self._self_attention(
            layer, TEXTS["parts.causal"] if layer.causal else TEXTS["parts.self"]
        )
        self._begin(TEXTS["parts.cross"], "cross")
        name = self._norm_before(layer.cross_attention_residual)
        self._attention(layer.cross_attention, name, ("m", source), "c")
        self._add_and_norm(
            layer.cross_attention_residual,
            self.calls[layer.cross_attention].output,
            "c",
        )
        self._feedforward(layer.feedforward, layer.feedforward_residual)

    def final_norm(self, norm: nn.Module) -> None:
        """Append the norm after the last layer, if the model has one."""
        if isinstance(norm, nn.LayerNorm):
            self._part = TEXTS["parts.final"]
            self._prefix = ""
            self._norm(norm, "final_norm", self._name, "output")
            self._last = "output"

    def prediction(
        self, output: OutputProjection, wanted: Sequence[Sequence[int]], tokens: Any
    ) -> None:
        """Append logits, softmax and cross-entropy of the `wanted` ids, which are shown first;
        `tokens` names ids.
        """
        self._begin(TEXTS["parts.final"], "prediction")
        logits = self.calls[output].output
        ids = pad(wanted)[0].to(logits.device)[..., None]
        V = logits.shape[-1]
        likely = logits.mean((0, 1)).argsort(descending=True).tolist()
        order = [*dict.fromkeys([*(i for row in wanted for i in row), *likely])]
        columns = [tokens(order[: max(8, min(24, ids.numel()))])]
        correct = (
            torch.tensor(order, device=ids.device)
            .argsort()[ids]
            .masked_fill(ids == PAD, -1)
        )
        pairs = (
            zip_longest(*sides, fillvalue="")
            for sides in zip(self.names, map(tokens, wanted), strict=True)
        )
        rows = [
            [
                f"{token} → {following}" if following else token
                for token, following in pair
            ]
            for pair in pairs
        ]
        x = Term(
            "x", array(self.calls[output].input), "B T D", self.names, repeated=True
        )
        x = replace(x, rule=f"as {self._last or self._name}")
        weights = Term(
            "W", array(output.weight[order].T), "D V", columns=columns, operator="·"
        )
        bias = Term(
            "b", array(output.bias[None, order]), "1 V", columns=columns, operator="+"
        )
        scores = Term(
            TEXTS["labels.logits"],
            array(logits[..., order]),
            "B T V",
            self.names,
            columns,
            "=",
        )
        text = _worded("logits", size=V, shown=len(columns[0]))
        self._add("logits", text, "logits = x·W + b", [x, weights, bias, scores])
        P = replace(
            _like(scores, "P", "softmax →", logits.softmax(-1)[..., order]),
            kind="weights",
            rows=rows,
        )
        P = replace(P, marked=array(correct).astype(int))
        self._add(
            "probabilities",
            _worded("probabilities", size=V),
            "P = softmax(logits)",
            [_again(scores), P],
        )
        losses = -logits.log_softmax(-1).gather(-1, ids).masked_fill(ids == PAD, 0)
        counts = (ids != PAD).sum(1, keepdim=True)  # (B, 1, 1)
        totals = torch.cat(
            [
                (-losses.sum(1, True)).exp(),
                losses.sum(1, True),
                losses.sum(1, True) / counts,
            ],
            -1,
        )
        p, total, mean = totals[0, 0].tolist()
        text = _worded("loss", p=f"{p:.3g}", sum=f"{total:.3f}", mean=f"{mean:.3f}")
        both = Term(
            "loss",
            array(torch.cat([(-losses).exp(), losses], -1)),
            "B T 2",
            rows,
            [["p", "−ln p"]],
        )
        both = replace(both, rule="loss logits", parameter=array(correct))
        values = array(totals)
        sums = ("Π p", "Σ −ln p", TEXTS["labels.mean"])
        whole = Term(
            TEXTS["labels.sentence"],
            values,
            "B 1 3",
            columns=[sums],
            kind="loss",
            rule="total loss",
        )
        whole = replace(whole, parameter=array(counts))
        self._add("loss", text, "loss = −ln p", [both, whole])

    def _self_attention(self, layer: EncoderLayer | DecoderLayer, part: Text) -> None:
        self._begin(part, "self")
        name = self._norm_before(layer.self_attention_residual)
        self._attention(layer.self_attention, name, (name, self.names), "z")
        self._add_and_norm(
            layer.self_attention_residual, self.calls[layer.self_attention].output, "z"
        )

    def _feedforward(self, network: FeedForward, residual: Residual) -> None:
        self._begin(TEXTS["parts.feedforward"], "feedforward")
        name = self._norm_before(residual)
        activation = ACTIVATIONS[network.activation.__name__]
        y = Term(
            name, array(self.calls[network].input), "B T D", self.names, repeated=True
        )
        h = Term(
            "h",
            array(self.calls[network.widen].output),
            "B T F",
            self.names,
            operator="=",
        )
        activated = _like(h, "h′", f"{activation} →", self.calls[network.narrow].input)
        weights = _weights(network.widen, "1", "D F")
        formula = f"h = {_times(name, weights)}, h′ = {activation}(h)"
        text = _worded("hidden", activation=activation)
        self._add(
            "hidden",
            text,
            formula,
            [y, *weights, h, activated],
            _shapes(y, network.widen, h),
        )
        weights = _weights(network.narrow, "2", "F D")
        f = Term(
            "f", array(self.calls[network].output), "B T D", self.names, operator="="
        )
        product = _shapes(activated, network.narrow, f)
        terms = [_again(activated), *weights, f]
        self._add(
            "output", _worded("narrow"), f"f = {_times('h′', weights)}", terms, product
        )
        self._add_and_norm(residual, self.calls[network].output, "f")

    # --- add & norm

    @property
    def _name(self) -> str:
        """The name of the vectors that the next sublayer gets."""
        return f"x{SUBSCRIPTS[self._passed]}"

    def _norm_before(self, residual: Residual) -> str:
        """Append the norm before a sublayer, if pre-norm; return the name of the sublayer's
        input.
        """
        if not residual.pre:
            return self._name
        self._norm(residual.norm, "norm_before", self._name, "y")
        return "y"

    def _add_and_norm(self, residual: Residual, branch: Tensor, name: str) -> None:
        """Append the sum of a sublayer's input and output, and the norm after it, unless
        pre-norm.
        """
        x = Term(self._name, array(self._x), "B T D", self.names, repeated=True)
        self._passed += 1
        has_norm = not residual.pre and not isinstance(residual.norm, nn.Identity)
        result = "s" if has_norm else self._name
        self._x = self._x + branch if residual.connected else branch
        total = _like(x, result, "=", self._x)
        if residual.connected:
            terms = [x, _again(_like(x, name, "", branch), "+"), total]
            self._add("add", _worded("add"), f"{result} = {x.name} + {name}", terms)
        else:
            terms = [_again(_like(x, name, "", branch)), total]
            self._add("add", _worded("no_residual"), f"{result} = {name}", terms)
        if has_norm:
            self._norm(residual.norm, "norm_after", "s", self._name)
            self._x = self.calls[residual.norm].output

    def _norm(self, norm: nn.Module, kind: str, name: str, result: str) -> None:
        """Append a layer norm: mean and variance of each row, normalised rows, then scale and
        shift.
        """
        x = self.calls[norm].input
        before = Term(name, array(x), "B T D", self.names, repeated=True)
        after = _like(before, result, "=", self.calls[norm].output)
        if not isinstance(norm, nn.LayerNorm):
            self._add(
                "norm",
                _worded("batch_norm"),
                f"{result} = norm({name})",
                [before, replace(after, rule="fixed")],
            )
            return
        statistics = torch.stack([x.mean(-1), x.var(-1, unbiased=False)], -1)
        normalised = F.layer_norm(x, norm.normalized_shape, eps=norm.eps)
        n = replace(
            _like(before, "n", "→", normalised), rule="normalise", parameter=norm.eps
        )
        mean = Term(
            TEXTS["labels.statistics"],
            array(statistics),
            "B T 2",
            self.names,
            [["μ", "σ²"]],
            "→",
        )
        terms = [
            before,
            replace(mean, rule="moments"),
            n,
            _again(n),
            Term("γ", array(norm.weight[None]), "1 D", operator="⊙"),
            Term("β", array(norm.bias[None]), "1 D", operator="+"),
            after,
        ]
        formula = f"n = ({name} − μ) / √(σ² + ε), {result} = γ ⊙ n + β"
        self._add(
            "norm",
            _worded(kind, epsilon=np.format_float_positional(norm.eps)),
            formula,
            terms,
        )

    # --- attention

    def _attention(
        self, attention: Attention, name: str, entries: tuple[str, Names], result: str
    ) -> None:
        """Append the steps from the projections to the output; `entries`: name and tokens of the
        attended vectors.
        """
        memory: Memory = self.calls[attention].args[1]
        is_causal, window = (
            self.calls[attention].kwargs.get(option) for option in ("causal", "window")
        )
        query = split_heads(self.calls[attention.query].output, attention.heads)
        keys = split_heads(self.calls[attention.key].output, attention.heads)
        if memory.keep is not None:
            keys = keys * memory.keep[:, None, :, None]
        padding = None if memory.keep is None else array(memory.keep[..., None])
        Q = self._projection(attention.query, "Q", (name, self.names), query)
        K = self._projection(attention.key, "K", entries, keys, padding)
        V = self._projection(attention.value, "V", entries, memory.values, padding)
        scores = self._scores(attention, (Q, K), memory, query)
        keep = attention_mask(memory, query.shape[2], bool(is_causal), window)
        weights = masked_softmax(attention.score(query, memory.keys), keep)
        if keep is not None:
            reasons = {
                "causal": bool(is_causal),
                "padding": memory.keep is not None,
                "window": window is not None,
            }
            scores = self._mask(
                scores,
                keep,
                [
                    TEXTS[f"masked.{reason}"]
                    for reason, holds in reasons.items()
                    if holds
                ],
            )
        A = replace(_like(scores, "A", "softmax →", weights), kind="weights")
        self._add(
            "weights",
            _worded("softmax"),
            f"A = softmax({'masked ' if keep is not None else ''}scores)",
            [_again(scores), A],
        )
        context = Term(
            "A·V", array(weights @ memory.values), "B H T E", self.names, operator="="
        )
        terms = [_again(A), _again(V, "·"), context]
        self._add(
            "context",
            _worded("context"),
            "A·V",
            terms,
            _bmm("TSE", weights, memory.values),
        )
        self._output(attention.output, context, result)

    def _projection(
        self,
        layer: nn.Module,
        letter: str,
        entries: tuple[str, Names],
        heads: Tensor,
        keep: Array | None = None,
    ) -> Term:
        """Append the projection to queries, keys or values; return it, split into heads. Padding
        has zeros.
        """
        call, (name, names), T = (
            self.calls[layer],
            entries,
            "T" if letter == "Q" else "S",
        )
        count = heads.shape[1]
        x = Term(
            name, array(call.input), f"B {T} D", names, repeated=True, parameter=keep
        )
        result = replace(
            x,
            name=letter,
            values=array(merge_heads(heads)),
            operator="=",
            repeated=False,
        )
        split = Term(letter, array(heads), f"B H {T} E", names, rule=f"as {letter}")
        if isinstance(layer, nn.Linear):
            text = _worded(
                letter, heads=TEXTS["split"].fill(count=count) if count > 1 else ""
            )
            weights = _weights(layer, letter, "D D")
        else:
            text = _worded("unprojected", letter=letter)
            weights = []
            result = replace(result, repeated=True)
        terms = [x, *weights, result, *([split] if count > 1 else [])]
        self._add(
            letter,
            text,
            f"{letter} = {_times(name, weights)}",
            terms,
            _shapes(x, layer, result),
        )
        return split

    def _scores(
        self,
        attention: Attention,
        compared: tuple[Term, Term],
        memory: Memory,
        query: Tensor,
    ) -> Term:
        """Append the score of every query with every key."""
        (Q, K), score = compared, attention.score
        kind = next(name for name, cls in SCORES.items() if type(score) is cls)
        values = score(query, memory.keys)
        S = Term(TEXTS["labels.scores"], array(values), "B H T S", Q.rows, K.rows, "=")
        terms = list[Term]()
        dot = score.as_dot(query)
        product = ""
        if isinstance(score, General):
            terms += [
                _again(K),
                Term("Wᵀ", array(score.matrix.transpose(1, 2)), "H E E", operator="·"),
            ]
        if not np.array_equal(array(memory.keys), K.values):
            K = replace(
                _like(K, "K′", "=" if terms else "", memory.keys),
                rule="" if terms else "unit K",
            )
            terms.append(K)
        if dot is not None:
            if not torch.equal(dot[0], query):
                # Of each head, 1 / τ.
                lengths = dot[0].norm(dim=-1, keepdim=True).amax((0, 2), keepdim=True)
                Q = replace(
                    _like(Q, "Q′", "", dot[0]), rule="unit Q", parameter=array(lengths)
                )
                terms.insert(0, Q)
            terms += [_again(Q), _transposed(K)]
            product = _bmm("TES", query, memory.keys.transpose(-1, -2))
            if dot[1] != 1:
                products = torch.matmul(dot[0], memory.keys.transpose(-1, -2))
                terms.append(_like(S, f"{Q.name}·{K.name}ᵀ", "=", products))
                S = replace(S, operator=f"÷ {1 / dot[1]:.4g} =", parameter=dot[1])
        elif isinstance(score, Additive):
            terms += [
                Term("v", array(score.vector[:, None]), "H 1 E"),
                _again(Q, "· tanh("),
                _again(K, "+"),
            ]
            S = replace(S, operator=") =")
        text = _worded(f"score_{kind}", size=query.shape[-1])
        if isinstance(attention.value, nn.Identity) and attention.role != "cross":
            largest, rows = _diagonal(values, memory.keep)
            text = text[0], text[1] + TEXTS["diagonal"].fill(largest=largest, rows=rows)
        self._add("scores", text, FORMULAS[kind], [*terms, S], product)
        return S

    def _mask(self, scores: Term, keep: Tensor, reasons: Sequence[Text]) -> Term:
        """Append the mask: hidden entries get the score −∞."""
        B, _, T, S = scores.values.shape
        hidden = ~keep.expand(B, 1, T, S).cpu().numpy()
        added = np.where(hidden[:, 0], -np.inf, 0.0)
        sides = (scores.rows, scores.columns)
        mask = Term(TEXTS["labels.mask"], added, "B T S", *sides, "+", "mask")
        values = np.where(hidden, -np.inf, scores.values)
        masked = Term(TEXTS["labels.masked"], values, scores.letters, *sides, "=")
        text = _worded("mask", reasons=join_texts(reasons, Text(", and ", ". ")))
        self._add(
            "mask",
            text,
            "masked scores = scores + mask",
            [_again(scores), mask, masked],
        )
        return masked

    def _output(self, layer: nn.Module, context: Term, result: str) -> None:
        """Append the output: heads side by side, then projected."""
        call = self.calls[layer]
        heads = context.values.shape[1]
        name = TEXTS["labels.joined"] if heads > 1 else context.name
        D = call.input.shape[-1]
        columns = (
            [[f"Z{head * heads // D}" for head in range(D)]] if heads > 1 else ((),)
        )
        joined = Term(
            name,
            array(call.input),
            "B T D",
            self.names,
            columns,
            rule="as A·V",
            repeated=heads == 1,
        )
        # WO mixes the heads.
        z = _like(replace(joined, columns=((),)), result, "=", call.output)
        if isinstance(layer, nn.Linear):
            text = _worded(
                "output", heads=TEXTS["join"].fill(count=heads) if heads > 1 else ""
            )
            weights = _weights(layer, "O", "D D")
        else:
            weights = []
            text = _worded("no_output")
        formula = f"{result} = {_times('[A·V]' if heads > 1 else 'A·V', weights)}"
        self._add(
            "output", text, formula, [joined, *weights, z], _shapes(joined, layer, z)
        )


class PaperOrder(nn.Module):
    """Sinusoidal positions with the columns in the paper's order: sine, cosine, sine, cosine and so
    on.
    """

    def __init__(self, positions: nn.Module, size: int) -> None:
        super().__init__()
        self.positions = positions
        self.columns = interleaved(size)

    def forward(self, positions: Tensor) -> Tensor:
        vectors: Tensor = self.positions(positions)
        return vectors[..., self.columns]


def array(tensor: Tensor) -> Array:
    """Return a tensor as an array of 32-bit numbers on the host."""
    numbers: Array = tensor.detach().float().cpu().numpy()
    return numbers


def _worded(key: str, **values: Any) -> tuple[Text, Text]:
    """Return title and text of a kind of step."""
    return TEXTS[f"steps.{key}.title"].fill(**values), TEXTS[f"steps.{key}.text"].fill(
        **values
    )


def _again(term: Term, operator: str = "") -> Term:
    """Repeat a term as an operand."""
    return replace(term, operator=operator, repeated=True, rule="", parameter=None)


def _like(term: Term, name: Words, operator: str, values: Tensor) -> Term:
    """Return other numbers with the axes and labels of a term."""
    return replace(
        term,
        name=name,
        operator=operator,
        values=array(values),
        repeated=False,
        rule="",
        parameter=None,
    )


def _transposed(keys: Term) -> Term:
    """Repeat keys as Kᵀ, an operand whose columns are the tokens."""
    values = keys.values.swapaxes(-1, -2)
    return Term(
        f"{keys.name}ᵀ",
        values,
        "B H E S",
        columns=keys.rows,
        operator="·",
        repeated=True,
    )


def _weights(layer: nn.Linear, suffix: str, letters: str) -> list[Term]:
    """Return the matrix of a linear layer, and its bias unless that is zero."""
    terms = [Term(f"W{suffix}", array(layer.weight.T), letters, operator="·")]
    if layer.bias is not None and bool(layer.bias.any()):
        terms.append(
            Term(
                f"b{suffix}",
                array(layer.bias[None]),
                f"1 {letters.split()[-1]}",
                operator="+",
            )
        )
    return terms


def _times(name: str, weights: Sequence[Term]) -> str:
    """Write the product with weights, and the sum with a bias, in symbols."""
    return name + "".join(
        (" + " if term.operator == "+" else "·") + str(term.name) for term in weights
    )


def _diagonal(scores: Tensor, keep: Tensor | None) -> tuple[int, int]:
    """Return in how many rows, of how many, the score of a vector with itself is the largest;
    padding aside.
    """
    T = scores.shape[-1]
    largest = scores.argmax(-1) == torch.arange(T, device=scores.device)  # (B, 1, T)
    rows = torch.ones_like(largest) if keep is None else keep[:, None]
    return int((largest & rows).sum()), int(rows.sum())


def _shapes(x: Term, layer: nn.Module, result: Term) -> str:
    """Return the shapes of a product with the matrix of a linear layer."""
    if not isinstance(layer, nn.Linear):
        return ""
    shapes = (x.values.shape, layer.weight.T.shape, result.values.shape)
    return "torch.matmul: {} × {} → {}".format(*map(_tuple, shapes))


def _bmm(letters: str, left: Tensor, right: Tensor) -> str:
    """Return the shapes of a batched product by head, as torch.bmm takes it: sentences and heads
    are one axis.
    """
    (B, H, *rows), columns, (T, E, S) = left.shape, right.shape[3], tuple(letters)
    shapes = [(B * H, *rows), (B * H, rows[1], columns), (B * H, rows[0], columns)]
    symbols = f"(B·H, {T}, {E}) × (B·H, {E}, {S}) → (B·H, {T}, {S})"
    return f"torch.bmm: {symbols} = {' × '.join(map(_tuple, shapes[:2]))} → {_tuple(shapes[2])}"


def _tuple(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"
