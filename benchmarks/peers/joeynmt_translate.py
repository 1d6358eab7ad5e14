"""JoeyNMT, through its Python interface, with its own model after one training update."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from peers.joeynmt import settings
from peers.translating import (
    FEW_TOKENS,
    Tokens,
    Translate,
    TranslationOptions,
    as_training,
    by_length,
    measure,
    report,
    start,
)


def main() -> None:
    """Make a model, or measure with it."""
    options = start("joeynmt_translate")
    import torch

    torch.set_num_threads(options.threads)
    if options.task == "make":
        _make(options)
    measure(options, _translator(options))


def _make(options: TranslationOptions) -> None:
    import yaml
    from joeynmt.__main__ import main as command

    values = _one_update(settings(as_training(options)))
    config = options.folder / "train.yaml"
    config.write_text(yaml.safe_dump(values))
    sys.argv = ["joeynmt", "train", str(config), "--skip-test"]
    command()
    report({"made": values["model_dir"], "other_cores": 0.0})


def _translator(options: TranslationOptions) -> Translate:
    from joeynmt.hub_interface import TranslatorHubInterface, _from_pretrained

    logging.disable(logging.CRITICAL)
    model, dataset, arguments = _from_pretrained(str(options.folder / "model"))
    interface = TranslatorHubInterface(model, dataset, arguments)
    lengths = {
        "max_output_length": options.longest,
        "min_output_length": options.forced or 1,
    }

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        texts = interface.translate(
            [" ".join(tokens) for tokens in sentences],
            beam_size=options.beam,
            beam_alpha=1.0,
            **lengths,
        )
        return [text.split() for text in texts]

    return lambda sentences: by_length(sentences, translate)


def _one_update(values: dict) -> dict:
    """Return the settings with a single update."""
    training = {"updates": 1, "batch_size": FEW_TOKENS, "epochs": 1}
    return {**values, "training": {**values["training"], **training}}


if __name__ == "__main__":
    main()
