"""The same captioner in plain torch.nn: a loop over the steps, and greedy decoding."""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

from scenes import (
    BATCH,
    END,
    STEPS,
    VOCABULARY,
    Options,
    Recorder,
    random_captioned_images,
    report,
    start,
)

PAD = 0
BOS = 2
SIZE = 256
STATE = 512
ATTENTION = 256
EMBEDDING = 256
WIDTH = 32
DROPOUT = 0.3
DECODING_BATCH = 64
"""Images per batch in decoding."""


def main() -> None:
    """Measure one task at one precision."""
    options = start("plain_captions")
    train(options) if options.task == "train" else caption(options)


def network() -> Any:
    """Return a ResNet of four stages, and an LSTM with gated additive attention."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm1 = nn.GroupNorm(outputs // 16, outputs)
            self.norm2 = nn.GroupNorm(outputs // 16, outputs)
            self.down = nn.Identity()
            if stride > 1:
                convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.down = nn.Sequential(
                    convolution, nn.GroupNorm(outputs // 16, outputs)
                )

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norm1(self.conv1(x)))
            return torch.relu(self.down(x) + self.norm2(self.conv2(y)))

    class Captioner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stages = [
                Block(WIDTH * 2 ** max(0, i - 1), WIDTH * 2**i, 2 if i else 1)
                for i in range(4)
            ]
            stem = [
                nn.Conv2d(3, WIDTH, 3, 2, 1, bias=False),
                nn.GroupNorm(2, WIDTH),
                nn.ReLU(),
            ]
            self.network = nn.Sequential(*stem, *stages)
            self.project = nn.Linear(8 * WIDTH, SIZE)
            self.norm = nn.LayerNorm(SIZE)
            self.rows, self.columns = (
                nn.Parameter(torch.randn(64, SIZE // 2) * 0.1) for _ in range(2)
            )
            self.embedding = nn.Embedding(VOCABULARY, EMBEDDING)
            self.dropout = nn.Dropout(DROPOUT)
            self.query = nn.Linear(STATE, ATTENTION)
            self.key = nn.Linear(SIZE, ATTENTION)
            self.score = nn.Linear(ATTENTION, 1, bias=False)
            self.gate = nn.Linear(STATE, 1)
            self.first = nn.ModuleList(nn.Linear(SIZE, STATE) for _ in range(2))
            self.cell = nn.LSTMCell(EMBEDDING + SIZE, STATE)
            self.readout = nn.Linear(STATE + SIZE + EMBEDDING, EMBEDDING)
            self.output = nn.Linear(EMBEDDING, VOCABULARY)
            self.output.weight = self.embedding.weight

        def encode(self, pixels: Any, times: int = 1) -> tuple[Any, Any, Any]:
            """Return cells, keys and initial states, with each image repeated `times` times."""
            x = self.network((pixels - 0.45) / 0.225)
            Y, X = x.shape[2:]
            positions = [
                self.rows[:Y, None].expand(-1, X, -1),
                self.columns[None, :X].expand(Y, -1, -1),
            ]
            cells = self.norm(self.project(x.flatten(2).transpose(1, 2))) + torch.cat(
                positions, -1
            ).flatten(0, 1)
            cells = self.dropout(cells).repeat_interleave(times, 0)
            mean = cells.mean(1)
            return (
                cells,
                self.key(cells),
                tuple(torch.tanh(layer(mean)) for layer in self.first),
            )

        def step(
            self, tokens: Any, cells: Any, keys: Any, states: Any
        ) -> tuple[Any, Any]:
            """Decode one token."""
            embedded = self.dropout(self.embedding(tokens))
            scores = self.score(torch.tanh(self.query(states[0])[:, None] + keys))
            context = (scores.softmax(1) * cells).sum(1) * torch.sigmoid(
                self.gate(states[0])
            )
            states = self.cell(torch.cat([embedded, context], -1), states)
            return self.dropout(
                torch.tanh(self.readout(torch.cat([states[0], context, embedded], -1)))
            ), states

        def forward(self, pixels: Any, captions: Any) -> Any:
            cells, keys, states = self.encode(pixels, len(captions) // len(pixels))
            features = []
            for tokens in captions.unbind(1):
                feature, states = self.step(tokens, cells, keys, states)
                features.append(feature)
            return self.output(torch.stack(features, 1))

    return Captioner()


def train(options: Options) -> None:
    """Train until the recorder ends the process."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    pixels, captions = random_captioned_images(options.images)
    model = network()
    images = torch.from_numpy(pixels)
    recorder = Recorder(
        options, sum(parameter.numel() for parameter in model.parameters())
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    recorder.boundary()
    while True:
        for rows in torch.randperm(len(images)).split(BATCH):
            target = pad_sequence(
                [torch.tensor(c) for row in rows for c in captions[row]], True, PAD
            )
            target_in = torch.cat(
                [torch.full((len(target), 1), BOS), target[:, :-1]], 1
            )
            with torch.autocast(
                "cpu", torch.bfloat16, enabled=options.precision == "bfloat16"
            ):
                logits = model(images[rows].movedim(3, 1).float() / 255, target_in)
            loss = criterion(logits.float().flatten(0, 1), target.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            recorder.add(len(rows), int((target != PAD).sum()))
            recorder.boundary()


def caption(options: Options) -> None:
    """Decode STEPS tokens of each image greedily."""
    import torch

    from machine import clock

    model = network().eval()
    images = torch.from_numpy(random_captioned_images(options.images)[0])

    @torch.inference_mode()
    def decode(batch: Any) -> Any:
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=options.precision == "bfloat16"
        ):
            cells, keys, states = model.encode(batch.movedim(3, 1).float() / 255)
            tokens = torch.full((len(batch),), BOS)
            outputs = []
            for _ in range(STEPS):
                feature, states = model.step(tokens, cells, keys, states)
                logits = model.output(feature)
                logits[:, : END + 1] = -torch.inf
                tokens = logits.argmax(-1)
                outputs.append(tokens)
        return torch.stack(outputs, 1)

    def decode_all() -> None:
        for batch in images.split(DECODING_BATCH):
            decode(batch)

    decode_all()
    before = clock()
    passes = list[float]()
    alone = list[float]()
    while sum(passes) < options.seconds / 2:
        began = time.perf_counter()
        decode_all()
        passes.append(time.perf_counter() - began)
    while sum(alone) < options.seconds / 2:
        began = time.perf_counter()
        decode(images[len(alone) % len(images)][None])
        alone.append(time.perf_counter() - began)
    speed = len(images) / median(passes)
    report(
        speed,
        speed * STEPS,
        before,
        passes=len(passes),
        p50_ms=round(1000 * median(alone), 2),
    )


if __name__ == "__main__":
    sys.exit(main())
