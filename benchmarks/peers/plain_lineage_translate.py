"""The lineage in plain torch.nn, with the weights of a Regard folder: greedy search, batches of 64
sentences.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from peers.translating import (
    Tokens,
    Translate,
    TranslationOptions,
    by_length,
    measure,
    start,
)
from prepare import EOS, PAD, UNK


def main() -> None:
    """Measure one precision."""
    options = start("plain_lineage_translate")
    import torch

    torch.set_num_threads(options.threads)
    measure(options, _translator(options))


def _translator(options: TranslationOptions) -> Translate:
    import torch
    from safetensors.torch import load_file
    from torch.nn.utils.rnn import pad_sequence

    from peers.plain_models import fill, for_decoding, plain, write

    steps = options.forced
    assert steps is not None, (
        "the plain model decodes a fixed number of tokens: give --forced"
    )
    tokens = json.loads((options.folder / "tokens.json").read_text("utf-8"))
    ids = {token: i for i, token in enumerate(tokens)}
    model = plain(options.model, len(tokens))
    fill(
        model, options.model, load_file(options.folder / "regard" / "model.safetensors")
    )
    for_decoding(model, options.precision)

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        rows = [
            torch.tensor([*(ids.get(token, UNK) for token in sentence), EOS])
            for sentence in sentences
        ]
        source = pad_sequence(rows, batch_first=True, padding_value=PAD)
        return [
            [tokens[i] for i in row]
            for row in write(model, source, source.ne(PAD), steps).tolist()
        ]

    return lambda sentences: by_length(sentences, translate)


if __name__ == "__main__":
    main()
