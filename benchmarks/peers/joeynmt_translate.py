"""JoeyNMT, by the interface that it offers to Python, with a model of its own that was trained for one update."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from peers.joeynmt import settings
from peers.translating import (
    FEW_TOKENS,
    Pieces,
    Translate,
    TranslationOptions,
    as_training,
    by_length,
    measure,
    start,
    tell,
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

    given, config = _short(settings(as_training(options))), options.folder / "train.yaml"
    config.write_text(yaml.safe_dump(given))
    sys.argv = ["joeynmt", "train", str(config), "--skip-test"]
    command()
    tell({"made": given["model_dir"], "other_cores": 0.0})


def _translator(options: TranslationOptions) -> Translate:
    from joeynmt.hub_interface import TranslatorHubInterface, _from_pretrained

    logging.disable(logging.CRITICAL)
    model, dataset, arguments = _from_pretrained(str(options.folder / "model"))
    interface = TranslatorHubInterface(model, dataset, arguments)
    lengths = {"max_output_length": options.longest, "min_output_length": options.forced or 1}

    def translate(sentences: Sequence[Pieces]) -> list[Pieces]:
        found = interface.translate(
            [" ".join(pieces) for pieces in sentences], beam_size=options.beam, beam_alpha=1.0, **lengths
        )
        return [text.split() for text in found]

    return lambda sentences: by_length(sentences, translate)


def _short(given: dict) -> dict:
    """The same with one update."""
    training = {"updates": 1, "batch_size": FEW_TOKENS, "epochs": 1}
    return {**given, "training": {**given["training"], **training}}


if __name__ == "__main__":
    main()
