"""Small tasks that are learnt in a minute, and where the attention of what was learnt looks."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from laws.searching import greedy
from regard.attention import Attention, watch
from regard.data.batch import Example, TrainingBatch, collate, pad, pad_images
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings, build
from regard.search import LengthPenalty
from regard.training.loss import Objective

SYMBOLS = range(EOS + 1, EOS + 13)
TASKS = ("copy", "reverse")


@dataclass(frozen=True)
class Task:
    """Random strings of 3 to 8 symbols, to be copied or reversed; 100 of them are kept for the test."""

    name: str

    def target(self, string: list[int]) -> list[int]:
        return string if self.name == "copy" else string[::-1]

    def looks_at(self, place: int, length: int) -> int:
        """The source position that target position `place` is made from."""
        return place if self.name == "copy" else length - 1 - place

    def draw(self, chance: random.Random) -> list[int]:
        return string(chance)

    def read(self, strings: list[list[int]]) -> Batch:
        return Batch(*pad([[*one, EOS] for one in strings]))

    def unseen(self) -> list[list[int]]:
        return [self.draw(random.Random(f"unseen {i}")) for i in range(100)]

    def batch(self, chance: random.Random, size: int = 64) -> TrainingBatch:
        unseen = {tuple(one) for one in self.unseen()}
        strings = [one for one in (self.draw(chance) for _ in range(size)) if tuple(one) not in unseen]
        written, read = collate([Example([EOS], [*self.target(one), EOS]) for one in strings]), self.read(strings)
        return replace(written, source=read.data, source_keep=read.keep)


@dataclass(frozen=True)
class Colours(Task):
    """Pictures of coloured squares in one or two rows of two or three: the colours are to be named as one reads.

    Their first number says how many columns there are. A square has a little noise, and a side of four pixels.
    """

    name: str = "colours"

    def target(self, string: list[int]) -> list[int]:
        return string[1:]

    def looks_at(self, place: int, length: int) -> int:  # noqa: ARG002
        return place

    def draw(self, chance: random.Random) -> list[int]:
        columns, rows = chance.choice((2, 3)), chance.choice((1, 2))
        return [columns, *(chance.choice(SYMBOLS[:6]) for _ in range(columns * rows))]

    def read(self, strings: list[list[int]]) -> Batch:
        return Batch(*pad_images([self._painted(*one) for one in strings]))

    def _painted(self, columns: int, *colours: int) -> Tensor:
        noise = torch.Generator().manual_seed(hash((columns, *colours)) % 2**31)
        paint = torch.tensor([[c >> 2 & 1, c >> 1 & 1, c & 1] for c in (colour - SYMBOLS[0] + 1 for colour in colours)])
        squares = 0.1 + 0.8 * paint.float().view(-1, columns, 3)
        pixels = squares.movedim(2, 0).repeat_interleave(4, 1).repeat_interleave(4, 2)
        return pixels + 0.1 * torch.rand(pixels.shape, generator=noise)


def string(chance: random.Random) -> list[int]:
    return [chance.choice(SYMBOLS) for _ in range(chance.randint(3, 8))]


def learnt(settings: ModelSettings, task: Task, updates: int, rate: float, seed: int = 0) -> Model:
    """A model after so many updates by Adam; the rate rises for a tenth of them, then falls to nothing."""
    torch.manual_seed(seed)
    chance, model = random.Random(seed), build(settings, SYMBOLS.stop, SYMBOLS.stop, True)
    objective, optimizer = Objective(model, 0.0), torch.optim.Adam(model.parameters(), rate, betas=(0.9, 0.98))
    warmup = updates // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / warmup, (updates - n) / (updates - warmup))
    )
    for _ in range(updates):
        loss = objective(task.batch(chance))
        optimizer.zero_grad()
        (loss.smoothed / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def accuracy(model: Model, task: Task) -> float:
    """The share of unseen strings whose whole target is right."""
    strings = task.unseen()
    found = greedy(
        model, model.encode(task.read(strings)), torch.tensor([len(one) + 4 for one in strings]), LengthPenalty(1.0)
    )
    right = [list(h.ids) == task.target(one) for h, one in zip(found, strings, strict=True)]
    return sum(right) / len(right)


@torch.no_grad()
def best_head(model: Model, task: Task) -> float:
    """Of all heads, the largest share of target pieces that looked most at the source piece they are made from.

    A piece may look when it is predicted, or, a row later, when it was written and goes in. 0 where nothing looks.
    """
    shares: dict[tuple[str, int, int], list[bool]] = {}
    roles = {name: module.role for name, module in model.named_modules() if isinstance(module, Attention)}
    for one in task.unseen():
        target = torch.tensor([[BOS, *task.target(one)]])
        with watch(model) as readings:
            model(task.read([one]), target)
        wanted = torch.tensor([task.looks_at(place, len(one)) for place in range(len(task.target(one)))])
        for name in (name for name in readings if roles[name] == "cross"):
            looked: Tensor = readings[name][0].argmax(-1)  # (H, T)
            for head, row in enumerate(looked):
                for later in (0, 1):
                    hits = row[later : later + len(wanted)] == wanted
                    shares.setdefault((name, head, later), []).extend(hits.tolist())
    return max((sum(hits) / len(hits) for hits in shares.values()), default=0.0)
