"""eole, through its own inference engine, with its own model after one training update."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from peers.eole import settings
from peers.onmt_family import ONE_UPDATE
from peers.translating import (
    BATCH,
    Tokens,
    Translate,
    TranslationOptions,
    as_training,
    measure,
    report,
    start,
)


def main() -> None:
    """Make a model, or measure with it."""
    options = start("eole_translate")
    import torch

    torch.set_num_threads(options.threads)
    if options.task == "make":
        _make(options)
    measure(options, _translator(options))


def _make(options: TranslationOptions) -> None:
    import yaml
    from eole.bin.main import main as command

    config = options.folder / "config.yaml"
    values = settings(as_training(options))
    config.write_text(
        yaml.safe_dump({**values, "training": {**values["training"], **ONE_UPDATE}})
    )
    sys.argv = ["eole", "train", "-config", str(config)]
    command()
    report({"made": str(options.folder / "model"), "other_cores": 0.0})


def _translator(options: TranslationOptions) -> Translate:
    from eole.config.run import PredictConfig
    from eole.inference_engine import InferenceEnginePY

    config = PredictConfig(
        model_path=[str(options.folder / "model")],
        src="-",
        beam_size=options.beam,
        batch_size=BATCH,
        batch_type="sents",
        gpu_ranks=[],
        world_size=1,
        min_length=options.forced or 0,
        max_length=options.longest,
        max_length_ratio=0,
    )
    engine = InferenceEnginePY(config)

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        return [
            best[0].split()
            for best in engine.infer_list([" ".join(tokens) for tokens in sentences])[2]
        ]

    return translate


if __name__ == "__main__":
    main()
