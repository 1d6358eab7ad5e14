"""A plain PyTorch training loop, for models that come without one.

Fused Adam, as in transformers' own Trainer, batches of sentences of similar length, gradient
clipping, and a learning rate with warm-up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from peers.observe import Options, Recorder, counts_of, trainable
from prepare import PAD, read_ids
from shapes import TOKENS

__all__ = ["loop"]


def loop(
    options: Options,
    recorder: Recorder,
    model: Any,
    first: int,
    logits: Callable[[Any, Any, Any], Any],
) -> None:
    """Train until the recorder ends the process.

    `logits` takes the source (B, S), its keep mask (B, S), and the target (B, T), shifted by one
    behind token `first`.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    recorder.params = trainable(model)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / 300, (300 / (n + 1)) ** 0.5)
    )
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    bfloat16 = options.precision == "bfloat16"

    def padded(sentences: list[list[int]]) -> torch.Tensor:
        return pad_sequence(
            [torch.tensor(ids) for ids in sentences],
            batch_first=True,
            padding_value=PAD,
        )

    sources, targets = read_ids(options.data)
    for batch in _batches(sources, targets):
        recorder.boundary()
        source, target = (
            padded([side[i] for i in batch]) for side in (sources, targets)
        )
        keep = source.ne(PAD)
        recorder.add(counts_of(keep, target.ne(PAD)))
        target_in = torch.cat([torch.full((len(batch), 1), first), target[:, :-1]], 1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            outputs = logits(source, keep, target_in)
        loss = criterion(outputs.float().flatten(0, 1), target.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _batches(sources: list[list[int]], targets: list[list[int]]) -> Iterator[list[int]]:
    """Yield batches of indices of similar length, endlessly; TOKENS limits the longer padded side
    of a batch.
    """
    generator = random.Random(1)
    sizes = [
        max(len(source), len(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    while True:
        order = generator.sample(range(len(sources)), len(sources))
        order.sort(key=lambda i: (len(targets[i]), len(sources[i])))
        batches: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, sizes[i])
            if longest * (len(batches[-1]) + 1) > TOKENS:
                batches.append([])
                longest = sizes[i]
            batches[-1].append(i)
        generator.shuffle(batches)
        yield from batches
