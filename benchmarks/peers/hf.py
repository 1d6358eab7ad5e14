"""Hugging Face transformers: MarianMTModel in a plain PyTorch loop, in float32 or under bfloat16 autocast.

The loop is ours, as the library has none for the command line: Adam as its own Trainer takes it (fused), batches of
sentences of nearly the same length, clipping, and a warmed-up rate.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from peers.observe import Options, kept, start, trainable
from prepare import EOS, PAD, read_ids
from shapes import TOKENS, VOCABULARY


def main() -> None:
    """Train until the recorder has seen enough."""
    options, recorder = start("hf")
    import torch
    from torch.nn.utils.rnn import pad_sequence

    torch.manual_seed(1)
    model = _model(options)
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
        recorder.add(kept(keep, target.ne(PAD)))
        before = torch.cat([torch.full((len(batch), 1), PAD), target[:, :-1]], 1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            logits = model(input_ids=source, attention_mask=keep.long(), decoder_input_ids=before).logits
        loss = criterion(logits.float().flatten(0, 1), target.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _model(options: Options):
    from transformers import MarianConfig, MarianMTModel

    shape = options.shape
    layers = {f"{side}_layers": shape.layers for side in ("encoder", "decoder")}
    heads = {f"{side}_attention_heads": shape.heads for side in ("encoder", "decoder")}
    feedforward = {f"{side}_ffn_dim": shape.feedforward for side in ("encoder", "decoder")}
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=shape.size,
        **layers,
        **heads,
        **feedforward,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=256,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        scale_embedding=True,
        init_std=0.05,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
    )
    return MarianMTModel(config).train()


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


if __name__ == "__main__":
    main()
