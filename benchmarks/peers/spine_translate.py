"""Regard as it searched at first, before there was an engine: the recurrent model with the weights of today's.

Run with a checkout of that commit to import regard from; `translate.py` makes one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from peers.translating import END, Pieces, Translate, TranslationOptions, measure, start


def main() -> None:
    """Measure in float32."""
    options = start("spine_translate")
    import torch

    torch.set_num_threads(options.threads)
    measure(options, _translator(options))


def _translator(options: TranslationOptions) -> Translate:
    import torch
    from regard.data.batch import pad
    from regard.data.tokenizer import Tokenizer, TokenizerSettings
    from regard.data.vocabulary import BOS, EOS, PAD, UNK
    from regard.models import Batch
    from regard.pipeline import BATCH_PIECES, _groups
    from regard.search import LengthPenalty, SuppressTokens, beam, greedy

    kind = TokenizerSettings(byte_fallback=False)
    vocabulary = Tokenizer.load(options.folder / "regard", kind).source
    pieces = vocabulary.tokens(range(len(vocabulary)))
    ids = {piece: i for i, piece in enumerate(pieces)}
    model, penalty = _model(options, len(pieces)), LengthPenalty(0.0)
    rules = (SuppressTokens((PAD, UNK, BOS, EOS)),)

    @torch.inference_mode()
    def together(rows: list[list[int]]) -> list[Any]:
        source, longest = model.encode(Batch(*pad(rows))), torch.full((len(rows),), options.longest)
        if options.beam == 1:
            return greedy(model, source, longest, penalty, rules)
        return [found[0] for found in beam(model, source, longest, options.beam, penalty, rules)]

    def translate(sentences: Sequence[Pieces]) -> list[Pieces]:
        rows = [[*(ids.get(piece, UNK) for piece in sentence), EOS] for sentence in sentences]
        found = {}
        for group in _groups([len(row) for row in rows], BATCH_PIECES // options.beam):
            found.update(zip(group, together([rows[i] for i in group]), strict=True))
        return [[*(pieces[i] for i in found[place].ids), END] for place in range(len(rows))]

    return translate


def _model(options: TranslationOptions, vocabulary: int) -> Any:
    """The model of that time; the layers of its encoder were one module, and are one each now."""
    import torch
    from regard.models import ModelSettings, build
    from regard.training import preset
    from safetensors.torch import load_file

    model = build(ModelSettings.parse(preset("rnn-bahdanau")["model"], "preset"), vocabulary, vocabulary, True)
    tensors = load_file(options.folder / "regard" / "model.safetensors")
    named = {re.sub(r"\.networks\.(\d+)\.(\w+?)_l0", r".network.\2_l\1", name): t for name, t in tensors.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(named[name])
    return model.eval()


if __name__ == "__main__":
    main()
