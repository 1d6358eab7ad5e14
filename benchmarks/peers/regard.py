"""Regard, through its own Trainer, whose reports of updates the recorder counts."""

from __future__ import annotations

from typing import Any

from peers.observe import Counts, Options, start, trainable
from prepare import read_ids
from shapes import LINEAGE, TOKENS, VOCABULARY

ENDLESS = 10**9

RUN = {
    # The data are names only: the token ids are read from prepared files.
    "data": {"source": "train.en", "target": "train.de"},
    "batching": {"tokens": TOKENS},
    "training": {
        "optimizer": "adam",
        "label_smoothing": 0.1,
        "updates": ENDLESS,
        "validate_every": ENDLESS,
        "log_every": 1,  # report every update
    },
}
"""Settings beside the preset; everything else is Regard's default."""

GRU = {
    "encoder": {"embedding": 512, "dropout": 0.2},
    "decoder": {"embedding": 512, "attention_size": 512, "dropout": 0.2},
}


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("regard")
    import torch
    from regard.data.batch import Example
    from regard.data.batch_stream import BatchStream
    from regard.models import build
    from regard.training import Trainer

    torch.manual_seed(1)
    recipe = _recipe(options)
    sources, targets = read_ids(options.data)
    model = build(recipe.model, VOCABULARY, VOCABULARY, True)
    recorder.params = trainable(model)
    examples = [
        Example(source, target) for source, target in zip(sources, targets, strict=True)
    ]
    batches = BatchStream(examples, recipe.batching, recipe.training.seed)

    # The journal counts target tokens only: source tokens and padding are in the proportion of the
    # whole epoch.
    source_ratio = sum(map(len, sources)) / sum(map(len, targets))
    source_pads, target_pads = batches.padding()
    total = 0

    def report(event: str, values: dict[str, Any]) -> None:
        nonlocal total
        if event != "train":
            return
        target, total = values["tokens"] - total, values["tokens"]
        source = target * source_ratio
        recorder.add(
            Counts(
                source, source / (1 - source_pads), target, target / (1 - target_pads)
            )
        )
        recorder.boundary()

    recorder.boundary()
    Trainer(model, batches, recipe, options.work, lambda _: {"chrf": 0.0}, report).run()


def _recipe(options: Options) -> Any:
    from regard.common.settings import merge
    from regard.training import Recipe, preset

    if options.name == "gru":
        values = merge(preset("rnn-bahdanau"), {"model": GRU})
    else:
        values = preset(
            options.name if options.name in LINEAGE else f"transformer-{options.name}"
        )
    values = merge(merge(values, RUN), {"training": {"precision": options.precision}})
    return Recipe.parse(values, "the benchmark").resolved("cpu")


if __name__ == "__main__":
    main()
