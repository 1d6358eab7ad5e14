"""Small tasks that are learnt in a minute, and the alignment that the attention of a trained model
should show.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Tensor

from laws.searching import beam
from regard.attention import record_attention
from regard.data.batch import Example, TrainingBatch, collate, pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings, build
from regard.search import LengthPenalty
from regard.training.loss import Objective

SYMBOLS = range(EOS + 1, EOS + 13)
TASKS = ("copy", "reverse")


@dataclass(frozen=True)
class Task:
    """Random strings of 3 to 8 symbols, to be copied or reversed; 100 of them are held out for the
    test.
    """

    name: str

    def target(self, string: list[int]) -> list[int]:
        return string if self.name == "copy" else string[::-1]

    def aligned_source(self, position: int, length: int) -> int:
        """Return the source position that target position `position` is made from."""
        return position if self.name == "copy" else length - 1 - position

    def source_batch(self, strings: list[list[int]]) -> Batch:
        return Batch(*pad([[*string, EOS] for string in strings]))

    def batch(self, rng: random.Random, size: int) -> TrainingBatch:
        drawn = [string(rng) for _ in range(size)]
        strings = [string for string in drawn if string not in unseen()]
        batch = collate([Example([EOS], [*self.target(s), EOS]) for s in strings])
        source = self.source_batch(strings)
        return replace(batch, source=source.data, source_keep=source.keep)


@cache
def unseen() -> list[list[int]]:
    """Return the strings that are held out for the test."""
    return [string(random.Random(f"unseen {i}")) for i in range(100)]


def string(rng: random.Random) -> list[int]:
    return [rng.choice(SYMBOLS) for _ in range(rng.randint(3, 8))]


def trained(
    settings: ModelSettings,
    task: Task,
    updates: int,
    learning_rate: float,
    size: int,
) -> Model:
    """Train a model by Adam; the learning rate rises for a tenth of the updates, then decays to
    zero.
    """
    torch.manual_seed(0)
    rng = random.Random(0)
    model = build(settings, SYMBOLS.stop, SYMBOLS.stop, True)
    objective = partial(Objective(0.0), model)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate, betas=(0.9, 0.98))
    warmup = updates // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda n: min((n + 1) / warmup, (updates - n) / (updates - warmup)),
    )

    for _ in range(updates):
        loss = objective(task.batch(rng, size))
        optimizer.zero_grad()
        (loss.smoothed / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    return model.eval()


def accuracy(model: Model, task: Task) -> float:
    """Return the share of unseen strings whose whole target is right."""
    strings = unseen()
    longest = torch.tensor([len(string) + 4 for string in strings])
    source = model.encode(task.source_batch(strings))
    beams = beam(model, source, longest, 1, LengthPenalty(1.0))
    right = 0

    for (hypothesis,), string in zip(beams, strings, strict=True):
        right += list(hypothesis.ids) == task.target(string)

    return right / len(strings)


@torch.no_grad()
def best_head(model: Model, task: Task) -> float:
    """Return the share of target tokens whose attention peaks at the source token they are made
    from, of the best head.

    The row of a token is the one that predicts it or the next, of which it is the input.
    """
    shares: dict[tuple[str, int, int], list[bool]] = {}

    for string in unseen()[:40]:
        target = task.target(string)
        with record_attention(model, role="cross") as readings:
            model(task.source_batch([string]), torch.tensor([[BOS, *target]]))
        count = len(target)
        expected = torch.tensor([task.aligned_source(t, count) for t in range(count)])

        for name, weights in readings.items():
            peaks: Tensor = weights[0].argmax(-1)  # (H, T)
            for head, row in enumerate(peaks):
                for shift in (0, 1):
                    hits = row[shift : shift + count] == expected
                    shares.setdefault((name, head, shift), []).extend(hits.tolist())

    return max(sum(hits) / len(hits) for hits in shares.values())
