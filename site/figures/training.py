"""Data and still of the figure `training`: a small language of word for word translations, and the
training of a recurrent model with attention on it, as PyTorch did it.

The page trains the same model in JavaScript; what is recorded here is shown if it cannot.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.common.bilingual import Language, Text
from regard.runtime.module_script import bundle
from regard.visualisation.colours import level
from regard.visualisation.figure import Box, Figure, Group, Mark, make_figure
from regard.visualisation.figure import Text as Label

SLOTS = (
    {"나는": "I", "너는": "you", "그는": "he", "우리는": "we", "민지는": "Minji"},
    {"어제": "yesterday", "다시": "again", "혼자": "alone"},
    {"새": "new", "빨간": "red", "작은": "small"},
    {"모자를": "hats", "책을": "books", "가방을": "bags", "그림을": "pictures"},
    {"샀다": "bought", "팔았다": "sold", "보았다": "saw", "찾았다": "found"},
)
"""Words of a sentence in the order of Korean: subject, time, adjective, object, verb."""
OPTIONAL = (1, 2)
ENGLISH_ORDER = (0, 4, 2, 3, 1)
EXAMPLES = (
    "나는 어제 빨간 모자를 샀다",
    "우리는 작은 그림을 찾았다",
    "민지는 책을 팔았다",
)
END = "</s>"
EMBEDDING, STATE = 16, 32
UPDATES, BATCH, RATE = 400, 16, 0.005
RECORDED = (0, 50, 75, 100, 150, 200, 300, 400)
SEED = 1
HELD_OUT = 10
"""One sentence in so many is not trained on."""
TITLE = Text(
    "Attention after 0, 75 and 400 updates", "업데이트 0번, 75번, 400번 뒤의 어텐션"
)
UPDATED = Text(
    "{count} updates, loss of this sentence {loss}",
    "업데이트 {count}번, 이 문장의 손실 {loss}",
)
CELL, ROW, LEFT = 62.0, 30.0, 84.0

Pair = dict[str, list[int]]


class Recurrent(torch.nn.Module):
    """Translate whole words: plain recurrent cells, attention as of Bahdanau et al. (2015)."""

    def __init__(self, source_words: int, target_words: int) -> None:
        super().__init__()
        shapes = {
            "source": (source_words, EMBEDDING),
            "target": (target_words, EMBEDDING),
            "encoder": (EMBEDDING + STATE, STATE),
            "encoderBias": (1, STATE),
            "query": (STATE, STATE),
            "key": (STATE, STATE),
            "score": (STATE, 1),
            "decoder": (EMBEDDING + 2 * STATE, STATE),
            "decoderBias": (1, STATE),
            "output": (2 * STATE, target_words),
            "outputBias": (1, target_words),
        }
        self.weights = torch.nn.ParameterDict()
        for name, (rows, columns) in shapes.items():
            bound = 1.0 if name in {"source", "target"} else rows**-0.5
            self.weights[name] = torch.empty(rows, columns).uniform_(-bound, bound)

    def encode(self, source: list[int]) -> Tensor:
        """Return the states of a sentence (S, D)."""
        w = self.weights
        states = [w["source"].new_zeros(1, STATE)]
        for word in source:
            inputs = torch.cat([w["source"][word : word + 1], states[-1]], 1)
            states.append(torch.tanh(inputs @ w["encoder"] + w["encoderBias"]))
        return torch.cat(states[1:])

    def step(
        self, memory: Tensor, state: Tensor, word: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return attention (1, S), the next state (1, D) and the logits of the next word (1, V)."""
        w = self.weights
        hidden = torch.tanh(memory @ w["key"] + state @ w["query"])
        attention = (hidden @ w["score"]).T.softmax(1)
        context = attention @ memory
        inputs = torch.cat([w["target"][word : word + 1], context, state], 1)
        state = torch.tanh(inputs @ w["decoder"] + w["decoderBias"])
        logits = torch.cat([state, context], 1) @ w["output"] + w["outputBias"]
        return attention, state, logits

    def forward(self, pair: Pair) -> tuple[Tensor, Tensor]:
        """Return attention (T, S) and log-probabilities (T,) of the words of the reference."""
        memory = self.encode(pair["source"])
        state = memory.new_zeros(1, STATE)
        rows, log_probs = [], []
        words = [*pair["target"], 0]
        for before, word in zip([0, *pair["target"]], words, strict=True):
            attention, state, logits = self.step(memory, state, before)
            rows.append(attention)
            log_probs.append(functional.log_softmax(logits, 1)[0, word])
        return torch.cat(rows), torch.stack(log_probs)

    def translate(self, source: list[int], longest: int) -> list[int]:
        """Return the likeliest word at each step, until the end."""
        memory = self.encode(source)
        state, word, words = memory.new_zeros(1, STATE), 0, list[int]()
        while len(words) < longest:
            _, state, logits = self.step(memory, state, word)
            word = int(logits.argmax())
            if word == 0:
                break
            words.append(word)
        return words


def make() -> dict[str, Any]:
    """Return the language, its pairs, and what was recorded of a training."""
    source = [word for slot in SLOTS for word in slot]
    target = [END, *(word for slot in SLOTS for word in slot.values())]
    pairs = _pairs(source, target)
    sentences = [" ".join(source[word] for word in pair["source"]) for pair in pairs]
    examples = [pairs[sentences.index(example)] for example in EXAMPLES]
    held_out = [*examples, *(p for p in pairs[::HELD_OUT] if p not in examples)]
    data: dict[str, Any] = {
        "source": source,
        "target": target,
        "longest": len(SLOTS),
        "updates": UPDATES,
        "examples": examples,
        "heldOut": held_out,
        "pairs": [pair for pair in pairs if pair not in held_out],
    }
    return {**data, "recorded": _record(data)}


def _pairs(source: list[str], target: list[str]) -> list[Pair]:
    choices = [
        [*slot, None] if place in OPTIONAL else [*slot]
        for place, slot in enumerate(SLOTS)
    ]
    pairs = []
    for words in itertools.product(*choices):
        translated = [SLOTS[i][word] for i in ENGLISH_ORDER if (word := words[i])]
        pairs.append(
            {
                "source": [source.index(word) for word in words if word],
                "target": [target.index(word) for word in translated],
            }
        )
    return pairs


def _record(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Train, and return what the model does after the updates of RECORDED."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = Recurrent(len(data["source"]), len(data["target"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    snapshots, losses = [], list[float]()
    for updates in range(UPDATES + 1):
        if updates in RECORDED:
            snapshots.append(_snapshot(model, data, updates, losses))
            losses = []
        drawn = torch.randint(len(data["pairs"]), (BATCH,), generator=generator)
        batch = [model(data["pairs"][int(i)])[1] for i in drawn]
        loss = -torch.cat(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return snapshots


@torch.no_grad()
def _snapshot(
    model: Recurrent, data: dict[str, Any], updates: int, losses: list[float]
) -> dict[str, Any]:
    longest = data["longest"] + 1
    examples = []
    for pair in data["examples"]:
        attention, log_probs = model(pair)
        examples.append(
            {
                "attention": [[round(w, 4) for w in row] for row in attention.tolist()],
                "probabilities": [round(p, 4) for p in log_probs.exp().tolist()],
                "loss": round(-log_probs.mean().item(), 4),
                "output": model.translate(pair["source"], longest),
            }
        )
    right = sum(
        model.translate(pair["source"], longest) == pair["target"]
        for pair in data["heldOut"]
    )
    return {"updates": updates, "losses": losses, "examples": examples, "right": right}


def fill(data: dict[str, Any], _: Language) -> dict[str, Any]:
    """Add the script of the worker that trains."""
    return {
        **data,
        "worker": bundle(Path(__file__).parent / "recurrent" / "worker.js"),
    }


def still(data: dict[str, Any], language: Language, _: dict[str, str]) -> Figure:
    """Draw the attention of the first example at three times."""
    marks: list[Mark] = []
    recorded = data["recorded"]
    height = 0.0
    pair = data["examples"][0]
    names = [data["target"][word] for word in (*pair["target"], 0)]
    for snapshot in (recorded[0], recorded[2], recorded[-1]):
        example = snapshot["examples"][0]
        values = {"count": snapshot["updates"], "loss": f"{example['loss']:.3f}"}
        title = UPDATED.fill(**values).by(language)
        marks.append(Label(10, height + 24, title, 14))
        for column, word in enumerate(pair["source"]):
            x = LEFT + CELL * (column + 0.5)
            name = data["source"][word]
            marks.append(Label(x, height + 48, name, 13, "ink", "middle"))
        for row, weights in enumerate(example["attention"]):
            y = height + 56 + ROW * row
            marks.append(Label(10, y + 19, names[row], 13))
            for column, weight in enumerate(weights):
                x = LEFT + CELL * column
                shade = level(weight)
                marks += [
                    Box(x, y, CELL - 2, ROW - 2, f"w{shade}"),
                    Label(
                        x + CELL / 2,
                        y + 19,
                        f"{weight:.2f}",
                        12,
                        f"v{shade}",
                        "middle",
                    ),
                ]
        height += 56 + ROW * len(names) + 14
    width = LEFT + CELL * len(pair["source"]) + 10
    title = TITLE.by(language)
    return make_figure(width, height, [Group("attention", tuple(marks))], title, title)
