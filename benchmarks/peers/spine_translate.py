"""Regard's first search, before there was an engine: the recurrent model with the weights of
today's.

It imports regard from a checkout of that commit, which `translate.py` makes; the names are those of
that commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from peers.translating import END, Tokens, Translate, TranslationOptions, measure, start


def main() -> None:
    """Measure in float32."""
    options = start("spine_translate")
    import torch

    torch.set_num_threads(options.threads)
    measure(options, _translator(options))


def _translator(options: TranslationOptions) -> Translate:
    import torch
    from regard.data.batch_stream import pad
    from regard.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerSettings
    from regard.models import Batch
    from regard.pipeline import BATCH_PIECES, _groups
    from regard.search import Forbid, LengthPenalty, beam, greedy

    kind = TokenizerSettings(byte_fallback=False)
    vocabulary = Tokenizer.load(options.folder / "regard", kind).source
    tokens = vocabulary.pieces(range(len(vocabulary)))
    ids = {token: i for i, token in enumerate(tokens)}
    model = _model(options, len(tokens))
    penalty = LengthPenalty(0.0)
    rules = (Forbid((PAD, UNK, BOS, EOS)),)

    @torch.inference_mode()
    def decode(rows: list[list[int]]) -> list[Any]:
        source = model.encode(Batch(*pad(rows)))
        longest = torch.full((len(rows),), options.longest)
        if options.beam == 1:
            return greedy(model, source, longest, penalty, rules)
        return [
            nbest[0]
            for nbest in beam(model, source, longest, options.beam, penalty, rules)
        ]

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        rows = [
            [*(ids.get(token, UNK) for token in sentence), EOS]
            for sentence in sentences
        ]
        outputs = {}
        for group in _groups([len(row) for row in rows], BATCH_PIECES // options.beam):
            outputs.update(zip(group, decode([rows[i] for i in group]), strict=True))
        return [
            [*(tokens[i] for i in outputs[index].ids), END]
            for index in range(len(rows))
        ]

    return translate


def _model(options: TranslationOptions, vocabulary: int) -> Any:
    """Return the model of that commit, where encoder layers were one module and attention was
    called `read`.
    """
    import torch
    from regard.models import ModelSettings, build
    from regard.training import preset
    from safetensors.torch import load_file

    model = build(
        ModelSettings.parse(preset("rnn-bahdanau")["model"], "preset"),
        vocabulary,
        vocabulary,
        True,
    )
    tensors = load_file(options.folder / "regard" / "model.safetensors")
    named = {
        re.sub(r"\.layers\.(\d+)\.(\w+?)_l0", r".network.\2_l\1", name)
        .replace("cross_attention", "read")
        .replace("context_proj", "context"): tensor
        for name, tensor in tensors.items()
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(named[name])
    return model.eval()


if __name__ == "__main__":
    main()
