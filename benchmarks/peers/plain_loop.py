"""A training loop as one would write it with PyTorch alone, for models that come without one.

Adam as transformers' own Trainer takes it (fused), batches of sentences of nearly the same length, clipping, and a
warmed-up rate.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from peers.observe import Options, Recorder, counts_of, trainable
from prepare import PAD, read_ids
from shapes import TOKENS

__all__ = ["loop"]


def loop(options: Options, recorder: Recorder, model: Any, first: int, logits: Callable[[Any, Any, Any], Any]) -> None:
    """Train until the recorder has seen enough.

    `logits` is given source, which of it may be read, and the target behind its piece `first`: (B, S), (B, S), (B, T).
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    recorder.params = trainable(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 300, (300 / (n + 1)) ** 0.5))
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    bfloat16 = options.precision == "bfloat16"

    def padded(sentences: list[list[int]]) -> torch.Tensor:
        return pad_sequence([torch.tensor(ids) for ids in sentences], batch_first=True, padding_value=PAD)

    sources, targets = read_ids(options.data)
    for batch in _batches(sources, targets):
        recorder.boundary()
        source, target = (padded([side[i] for i in batch]) for side in (sources, targets))
        keep = source.ne(PAD)
        recorder.add(counts_of(keep, target.ne(PAD)))
        before = torch.cat([torch.full((len(batch), 1), first), target[:, :-1]], 1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            said = logits(source, keep, before)
        loss = criterion(said.float().flatten(0, 1), target.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _batches(sources: list[list[int]], targets: list[list[int]]) -> Iterator[list[int]]:
    """Indices of sentences of nearly the same length, without end; the longer padded side of a batch fills it."""
    chance = random.Random(1)
    sizes = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    while True:
        order = chance.sample(range(len(sources)), len(sources))
        order.sort(key=lambda i: (len(targets[i]), len(sources[i])))
        batches: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, sizes[i])
            if longest * (len(batches[-1]) + 1) > TOKENS:
                batches.append([])
                longest = sizes[i]
            batches[-1].append(i)
        chance.shuffle(batches)
        yield from batches
