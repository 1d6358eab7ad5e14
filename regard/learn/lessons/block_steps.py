"""Steps of a Transformer block, read from a recorded forward pass of the model.

The results of layers, projections and norms are recorded. Scores, mask, softmax and weighted values
are computed again from the recorded queries and keys, because a fused attention kernel does not
keep them; score, mask and softmax are those of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import SCORES, Attention, Memory
from regard.attention.attention import attention_mask
from regard.attention.head_reshapes import merge_heads, split_heads
from regard.attention.normalisers import masked_softmax
from regard.attention.scores import Additive, General
from regard.common.bilingual import Text, Words, join_texts, read_texts
from regard.common.shapes import Array, Tensor
from regard.data.batch import pad
from regard.data.vocabulary import PAD
from regard.layers.embedding import OutputProjection
from regard.layers.feedforward import FeedForward
from regard.layers.input_embedding import InputEmbedding
from regard.layers.positional_encoding import LearnedPositions, interleaved
from regard.layers.residual import Residual
from regard.learn.lessons.recording import Calls
from regard.models.transformer import DecoderLayer, EncoderLayer
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
        """Append a step to the current part; `text` holds its title and its description."""
        title, description = text
        self.steps.append(
            Step(
                self._prefix + key,
                self._part,
                title,
                formula,
                description,
                tuple(terms),
                product,
            )
        )

    def _begin(self, part: Text, key: str) -> None:
        """Begin a part, whose steps have keys that begin with `key`."""
        self._part = part
        self._prefix = f"{key}."

    # --- input

    def source(self, outputs: Tensor, names: Names) -> None:
        """Append the encoder's output, which cross-attention reads."""
        self._part = TEXTS["parts.source"]
        memory = Term("m", array(outputs), "B S D", names)
        self._add("source", _worded("source"), "", [memory])
        self._part = TEXTS["parts.input"]

    def tokens(
        self, rows: Sequence[tuple[Words, Sequence[Sequence[str]]]], kind: str
    ) -> None:
        """Append the tokens of each position, with their ids or the tokens that they predict.

        Each row has a name, and its cells by sentence and position.
        """
        row_names = [name for name, _ in rows]
        values = np.array(
            [
                [list(cells[sentence]) for _, cells in rows]
                for sentence in range(len(self.names))
            ]
        )
        label = TEXTS["labels.tokens"]
        term = Term(label, values, "B rows T", [row_names], kind="tokens")
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
        numbers = [str(position) for position in range(len(vectors))]
        p = Term("p", vectors, "T D", [numbers])
        self._positions(positions, p)
        self._add("sum", _worded("sum"), "x₀ = e + p", [_again(e), _again(p, "+"), x])

    def _positions(self, module: nn.Module, p: Term) -> None:
        """Append the positional encoding.

        If the model orders the columns of sinusoids differently from the paper, both orders are
        shown.
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
            text = _worded("positions", size=D)
            self._add("positions", text, formula, [replace(p, columns=waves)])
            return

        order = interleaved(D)
        paper = Term(
            TEXTS["labels.paper_order"],
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
        x = Term("x₀", array(self.calls[layer].input), "B T D", self.names)
        text = _worded("earlier", last=number - 1, number=number)
        self._add("earlier", text, "", [x])

    # --- layers

    def encoder_layer(self, layer: EncoderLayer, is_causal: bool) -> None:
        """Append self-attention and feed-forward network, each with add & norm."""
        self._x = self.calls[layer].input
        part = TEXTS["parts.causal"] if is_causal else TEXTS["parts.self"]
        self._self_attention(layer, part)
        self._feedforward(layer.feedforward, layer.feedforward_residual)

    def decoder_layer(self, layer: DecoderLayer, source: Names) -> None:
        """Append masked self-attention, cross-attention and feed-forward network, each with add &
        norm.
        """
        self._x = self.calls[layer].input
        part = TEXTS["parts.causal"] if layer.causal else TEXTS["parts.self"]
        self._self_attention(layer, part)

        self._begin(TEXTS["parts.cross"], "cross")
        residual = layer.cross_attention_residual
        name = self._norm_before(residual)
        self._attention(layer.cross_attention, name, ("m", source), "c")
        output = self.calls[layer.cross_attention].output
        self._add_and_norm(residual, output, "c")

        self._feedforward(layer.feedforward, layer.feedforward_residual)

    def final_norm(self, norm: nn.Module) -> None:
        """Append the norm after the last layer, if the model has one."""
        if isinstance(norm, nn.LayerNorm):
            self._part = TEXTS["parts.final"]
            self._prefix = ""
            self._norm(norm, "final_norm", self._name, "output")
            self._last = "output"

    def prediction(
        self,
        output: OutputProjection,
        targets: Sequence[Sequence[int]],
        tokens: Callable[[Sequence[int]], list[str]],
    ) -> None:
        """Append logits, softmax and cross-entropy of the target ids.

        The target ids are the first columns of the logits. `tokens` maps ids to tokens.
        """
        self._begin(TEXTS["parts.prediction"], "prediction")
        logits = self.calls[output].output
        ids = pad(targets)[0].to(logits.device)[..., None]  # (B, T, 1)
        V = logits.shape[-1]

        # Columns: first the target ids, then the ids that are most likely on average.
        by_mean_logit = logits.mean((0, 1)).argsort(descending=True).tolist()
        target_ids = [index for row in targets for index in row]
        order = list(dict.fromkeys([*target_ids, *by_mean_logit]))
        shown = max(8, min(24, ids.numel()))
        columns = [tokens(order[:shown])]
        column_of_id = torch.tensor(order, device=ids.device).argsort()
        correct = array(column_of_id[ids].masked_fill(ids == PAD, -1))
        rows = self._prediction_rows([tokens(row) for row in targets])

        scores = self._logits(output, order, columns)
        P = _like(scores, "P", "softmax →", logits.softmax(-1)[..., order])
        P = replace(P, kind="weights", rows=rows, marked=correct.astype(int))
        text = _worded("probabilities", size=V)
        self._add("probabilities", text, "P = softmax(logits)", [_again(scores), P])

        losses = -logits.log_softmax(-1).gather(-1, ids).masked_fill(ids == PAD, 0)
        counts = (ids != PAD).sum(1, keepdim=True)  # (B, 1, 1)
        self._loss(losses, counts, correct, rows)

    def _prediction_rows(self, predicted: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the row labels, such as "I → go": each token and the one it predicts."""
        rows = []
        for read, following in zip(self.names, predicted, strict=True):
            pairs = zip_longest(read, following, fillvalue="")
            rows.append(
                [f"{token} → {target}" if target else token for token, target in pairs]
            )
        return rows

    def _logits(
        self,
        output: OutputProjection,
        order: Sequence[int],
        columns: Sequence[Sequence[str]],
    ) -> Term:
        """Append the output projection, with its columns in this order of ids; return the
        logits.
        """
        call = self.calls[output]
        x = Term(
            "x",
            array(call.input),
            "B T D",
            self.names,
            repeated=True,
            rule=f"as {self._last or self._name}",
        )
        W = array(output.weight[order].T)
        weights = Term("W", W, "D V", columns=columns, operator="·")
        b = array(output.bias[None, order])
        bias = Term("b", b, "1 V", columns=columns, operator="+")
        values = array(call.output[..., order])
        label = TEXTS["labels.logits"]
        scores = Term(label, values, "B T V", self.names, columns, "=")

        text = _worded("logits", size=call.output.shape[-1], shown=len(columns[0]))
        self._add("logits", text, "logits = x·W + b", [x, weights, bias, scores])
        return scores

    def _loss(
        self,
        losses: Tensor,
        counts: Tensor,
        correct: Array,
        rows: Sequence[Sequence[str]],
    ) -> None:
        """Append the cross-entropy of each token (B, T, 1), and of each sentence.

        `counts` are the tokens of each sentence (B, 1, 1), `correct` the columns of the target ids.
        """
        sums = losses.sum(1, keepdim=True)
        totals = torch.cat([(-sums).exp(), sums, sums / counts], -1)
        p, total, mean = totals[0, 0].tolist()
        text = _worded("loss", p=f"{p:.3g}", sum=f"{total:.3f}", mean=f"{mean:.3f}")

        token_losses = Term(
            TEXTS["labels.loss"],
            array(torch.cat([(-losses).exp(), losses], -1)),
            "B T 2",
            rows,
            [["p", "−ln p"]],
            rule="loss logits",
            parameter=correct,
        )
        sentence_losses = Term(
            TEXTS["labels.sentence"],
            array(totals),
            "B 1 3",
            columns=[("Π p", "Σ −ln p", TEXTS["labels.mean"])],
            kind="loss",
            rule="total loss",
            parameter=array(counts),
        )
        self._add("loss", text, "loss = −ln p", [token_losses, sentence_losses])

    def _self_attention(self, layer: EncoderLayer | DecoderLayer, part: Text) -> None:
        self._begin(part, "self")
        residual = layer.self_attention_residual
        name = self._norm_before(residual)
        self._attention(layer.self_attention, name, (name, self.names), "z")
        self._add_and_norm(residual, self.calls[layer.self_attention].output, "z")

    def _feedforward(self, network: FeedForward, residual: Residual) -> None:
        self._begin(TEXTS["parts.feedforward"], "feedforward")
        name = self._norm_before(residual)
        activation = ACTIVATIONS[network.activation.__name__]
        inputs = array(self.calls[network].input)
        y = Term(name, inputs, "B T D", self.names, repeated=True)
        hidden = array(self.calls[network.widen].output)
        h = Term("h", hidden, "B T F", self.names, operator="=")
        activated = _like(h, "h′", f"{activation} →", self.calls[network.narrow].input)
        weights = _weights(network.widen, "1", "D F")
        formula = f"h = {_times(name, weights)}, h′ = {activation}(h)"
        text = _worded("hidden", activation=activation)
        terms = [y, *weights, h, activated]
        self._add("hidden", text, formula, terms, _shapes(y, network.widen, h))

        weights = _weights(network.narrow, "2", "F D")
        outputs = array(self.calls[network].output)
        f = Term("f", outputs, "B T D", self.names, operator="=")
        formula = f"f = {_times('h′', weights)}"
        product = _shapes(activated, network.narrow, f)
        terms = [_again(activated), *weights, f]
        self._add("output", _worded("narrow"), formula, terms, product)

        self._add_and_norm(residual, self.calls[network].output, "f")

    # --- add & norm

    @property
    def _name(self) -> str:
        """Name of the input vectors of the next sublayer."""
        return f"x{SUBSCRIPTS[self._passed]}"

    def _norm_before(self, residual: Residual) -> str:
        """Append the norm before a sublayer if the model is pre-norm.

        Return the name of the sublayer's input.
        """
        if not residual.pre:
            return self._name
        self._norm(residual.norm, "norm_before", self._name, "y")
        return "y"

    def _add_and_norm(self, residual: Residual, branch: Tensor, name: str) -> None:
        """Append the sum of a sublayer's input and output, and the norm after it, if any."""
        x = Term(self._name, array(self._x), "B T D", self.names, repeated=True)
        self._passed += 1
        has_norm = not residual.pre and not isinstance(residual.norm, nn.Identity)
        result = "s" if has_norm else self._name
        branch_term = _like(x, name, "", branch)

        if residual.connected:
            self._x = self._x + branch
            terms = [x, _again(branch_term, "+"), _like(x, result, "=", self._x)]
            self._add("add", _worded("add"), f"{result} = {x.name} + {name}", terms)
        else:
            self._x = branch
            terms = [_again(branch_term), _like(x, result, "=", self._x)]
            self._add("add", _worded("no_residual"), f"{result} = {name}", terms)

        if has_norm:
            self._norm(residual.norm, "norm_after", "s", self._name)
            self._x = self.calls[residual.norm].output

    def _norm(self, norm: nn.Module, kind: str, name: str, result: str) -> None:
        """Append a norm.

        A layer norm is shown as mean and variance of each row, the normalised rows, scale and
        shift; a batch norm as its result alone.
        """
        x = self.calls[norm].input
        before = Term(name, array(x), "B T D", self.names, repeated=True)
        after = _like(before, result, "=", self.calls[norm].output)
        if not isinstance(norm, nn.LayerNorm):
            terms = [before, replace(after, rule="fixed")]
            self._add("norm", _worded("batch_norm"), f"{result} = norm({name})", terms)
            return

        moments = torch.stack([x.mean(-1), x.var(-1, unbiased=False)], -1)
        statistics = Term(
            TEXTS["labels.statistics"],
            array(moments),
            "B T 2",
            self.names,
            [["μ", "σ²"]],
            "→",
            rule="moments",
        )
        normalised = F.layer_norm(x, norm.normalized_shape, eps=norm.eps)
        n = _like(before, "n", "→", normalised)
        n = replace(n, rule="normalise", parameter=norm.eps)
        terms = [
            before,
            statistics,
            n,
            _again(n),
            Term("γ", array(norm.weight[None]), "1 D", operator="⊙"),
            Term("β", array(norm.bias[None]), "1 D", operator="+"),
            after,
        ]
        formula = f"n = ({name} − μ) / √(σ² + ε), {result} = γ ⊙ n + β"
        text = _worded(kind, epsilon=np.format_float_positional(norm.eps))
        self._add("norm", text, formula, terms)

    # --- attention

    def _attention(
        self, attention: Attention, name: str, entries: tuple[str, Names], result: str
    ) -> None:
        """Append the steps of an attention from the projections to the output.

        `entries` are the name and the tokens of the attended vectors.
        """
        call = self.calls[attention]
        memory: Memory = call.args[1]
        is_causal = call.kwargs.get("causal")
        window = call.kwargs.get("window")

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
        formula = "A = softmax(scores)"
        if keep is not None:
            formula = "A = softmax(masked scores)"
            reasons = []
            if is_causal:
                reasons.append(TEXTS["masked.causal"])
            if memory.keep is not None:
                reasons.append(TEXTS["masked.padding"])
            if window is not None:
                reasons.append(TEXTS["masked.window"])
            scores = self._mask(scores, keep, reasons)

        A = replace(_like(scores, "A", "softmax →", weights), kind="weights")
        self._add("weights", _worded("softmax"), formula, [_again(scores), A])

        values = array(weights @ memory.values)
        context = Term("A·V", values, "B H T E", self.names, operator="=")
        terms = [_again(A), _again(V, "·"), context]
        product = _bmm("TSE", weights, memory.values)
        self._add("context", _worded("context"), "A·V", terms, product)
        self._output(attention.output, context, result)

    def _projection(
        self,
        layer: nn.Module,
        letter: str,
        entries: tuple[str, Names],
        heads: Tensor,
        keep: Array | None = None,
    ) -> Term:
        """Append the projection to queries, keys or values; return the result, split into heads.

        Padding positions, which are False in `keep`, have zeros.
        """
        call = self.calls[layer]
        name, names = entries
        T = "T" if letter == "Q" else "S"
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
            heads_text = TEXTS["split"].fill(count=count) if count > 1 else ""
            text = _worded(letter, heads=heads_text)
            weights = _weights(layer, letter, "D D")
        else:
            text = _worded("unprojected", letter=letter)
            weights = []
            result = replace(result, repeated=True)
        terms = [x, *weights, result]
        if count > 1:
            terms.append(split)
        formula = f"{letter} = {_times(name, weights)}"
        self._add(letter, text, formula, terms, _shapes(x, layer, result))
        return split

    def _scores(
        self,
        attention: Attention,
        compared: tuple[Term, Term],
        memory: Memory,
        query: Tensor,
    ) -> Term:
        """Append the score of every query with every key."""
        Q, K = compared
        score = attention.score
        kind = next(name for name, cls in SCORES.items() if type(score) is cls)
        values = score(query, memory.keys)
        S = Term(TEXTS["labels.scores"], array(values), "B H T S", Q.rows, K.rows, "=")
        terms = list[Term]()
        dot = score.as_dot(query)
        product = ""

        # Keys as the score prepares them: K·Wᵀ, or vectors of unit length.
        if isinstance(score, General):
            matrix = array(score.matrix.transpose(1, 2))
            terms += [_again(K), Term("Wᵀ", matrix, "H E E", operator="·")]
        if not np.array_equal(array(memory.keys), K.values):
            if terms:
                K = _like(K, "K′", "=", memory.keys)
            else:
                K = replace(_like(K, "K′", "", memory.keys), rule="unit K")
            terms.append(K)

        if dot is not None:
            dot_query, scale = dot
            if not torch.equal(dot_query, query):
                # Length of the queries of each head, which is 1 / τ.
                norms = dot_query.norm(dim=-1, keepdim=True)
                lengths = array(norms.amax((0, 2), keepdim=True))
                Q = _like(Q, "Q′", "", dot_query)
                Q = replace(Q, rule="unit Q", parameter=lengths)
                terms.insert(0, Q)
            terms += [_again(Q), _transposed(K)]
            product = _bmm("TES", query, memory.keys.transpose(-1, -2))
            if scale != 1:
                products = torch.matmul(dot_query, memory.keys.transpose(-1, -2))
                terms.append(_like(S, f"{Q.name}·{K.name}ᵀ", "=", products))
                S = replace(S, operator=f"÷ {1 / scale:.4g} =", parameter=scale)
        elif isinstance(score, Additive):
            terms += [
                Term("v", array(score.vector[:, None]), "H 1 E"),
                _again(Q, "· tanh("),
                _again(K, "+"),
            ]
            S = replace(S, operator=") =")

        title, description = _worded(f"score_{kind}", size=query.shape[-1])
        if isinstance(attention.value, nn.Identity) and attention.role != "cross":
            largest, rows = _count_diagonal(values, memory.keep)
            description += TEXTS["diagonal"].fill(largest=largest, rows=rows)
        terms.append(S)
        self._add("scores", (title, description), FORMULAS[kind], terms, product)
        return S

    def _mask(self, scores: Term, keep: Tensor, reasons: Sequence[Text]) -> Term:
        """Append the mask, which gives masked entries the score −∞; return the masked scores."""
        B, _, T, S = scores.values.shape
        hidden = ~keep.expand(B, 1, T, S).cpu().numpy()
        added = np.where(hidden[:, 0], -np.inf, 0.0)
        sides = (scores.rows, scores.columns)
        mask = Term(TEXTS["labels.mask"], added, "B T S", *sides, "+", "mask")
        values = np.where(hidden, -np.inf, scores.values)
        masked = Term(TEXTS["labels.masked"], values, scores.letters, *sides, "=")
        text = _worded("mask", reasons=join_texts(reasons, Text(", and ", ". ")))
        terms = [_again(scores), mask, masked]
        self._add("mask", text, "masked scores = scores + mask", terms)
        return masked

    def _output(self, layer: nn.Module, context: Term, result: str) -> None:
        """Append the output: the heads are concatenated, then projected."""
        call = self.calls[layer]
        heads = context.values.shape[1]
        D = call.input.shape[-1]
        name = context.name
        columns: Sequence[Sequence[str]] = ((),)
        if heads > 1:
            name = TEXTS["labels.joined"]
            columns = [[f"Z{column * heads // D}" for column in range(D)]]
        joined = Term(
            name,
            array(call.input),
            "B T D",
            self.names,
            columns,
            rule="as A·V",
            repeated=heads == 1,
        )
        # The columns of the output belong to no head, since the projection mixes the heads.
        z = _like(replace(joined, columns=((),)), result, "=", call.output)
        if isinstance(layer, nn.Linear):
            heads_text = TEXTS["join"].fill(count=heads) if heads > 1 else ""
            text = _worded("output", heads=heads_text)
            weights = _weights(layer, "O", "D D")
        else:
            weights = []
            text = _worded("no_output")
        formula = f"{result} = {_times('[A·V]' if heads > 1 else 'A·V', weights)}"
        terms = [joined, *weights, z]
        self._add("output", text, formula, terms, _shapes(joined, layer, z))


class PaperOrder(nn.Module):
    """Sinusoidal positions with columns in the paper's order: sine and cosine alternate."""

    def __init__(self, positions: nn.Module, size: int) -> None:
        super().__init__()
        self.positions = positions
        self.columns = interleaved(size)

    def forward(self, positions: Tensor) -> Tensor:
        vectors: Tensor = self.positions(positions)
        return vectors[..., self.columns]


def array(tensor: Tensor) -> Array:
    """Return a tensor as a float32 array in host memory."""
    numbers: Array = tensor.detach().float().cpu().numpy()
    return numbers


def _worded(key: str, **values: object) -> tuple[Text, Text]:
    """Return the title and the description of a kind of step."""
    title = TEXTS[f"steps.{key}.title"].fill(**values)
    description = TEXTS[f"steps.{key}.text"].fill(**values)
    return title, description


def _again(term: Term, operator: str = "") -> Term:
    """Repeat a term as an operand."""
    return replace(term, operator=operator, repeated=True, rule="", parameter=None)


def _like(term: Term, name: Words, operator: str, values: Tensor) -> Term:
    """Return a term with other values, and the axes and labels of `term`."""
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
    """Repeat the keys as the operand Kᵀ, whose columns are the tokens."""
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
        bias_letters = f"1 {letters.split()[-1]}"
        bias = array(layer.bias[None])
        terms.append(Term(f"b{suffix}", bias, bias_letters, operator="+"))
    return terms


def _times(name: str, weights: Sequence[Term]) -> str:
    """Write the product with the weights and the sum with the bias as a formula."""
    formula = name
    for term in weights:
        operator = " + " if term.operator == "+" else "·"
        formula += f"{operator}{term.name}"
    return formula


def _count_diagonal(scores: Tensor, keep: Tensor | None) -> tuple[int, int]:
    """Return the number of rows whose largest score is that of a vector with itself, and the number
    of all rows, without padding.
    """
    T = scores.shape[-1]
    largest = scores.argmax(-1) == torch.arange(T, device=scores.device)  # (B, 1, T)
    rows = torch.ones_like(largest) if keep is None else keep[:, None]
    return int((largest & rows).sum()), int(rows.sum())


def _shapes(x: Term, layer: nn.Module, result: Term) -> str:
    """Describe the shapes of a product with the matrix of a linear layer."""
    if not isinstance(layer, nn.Linear):
        return ""
    shapes = (x.values.shape, layer.weight.T.shape, result.values.shape)
    return "torch.matmul: {} × {} → {}".format(*map(_tuple, shapes))


def _bmm(letters: str, left: Tensor, right: Tensor) -> str:
    """Describe the shapes of a product by head, for which torch.bmm has sentences and heads on one
    axis.

    `letters` name the rows of the left matrix, the summed axis, and the columns of the right one.
    """
    T, E, S = tuple(letters)
    symbols = f"(B·H, {T}, {E}) × (B·H, {E}, {S}) → (B·H, {T}, {S})"

    B, H, rows, summed = left.shape
    columns = right.shape[3]
    left_shape = _tuple((B * H, rows, summed))
    right_shape = _tuple((B * H, summed, columns))
    result_shape = _tuple((B * H, rows, columns))
    return f"torch.bmm: {symbols} = {left_shape} × {right_shape} → {result_shape}"


def _tuple(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"
