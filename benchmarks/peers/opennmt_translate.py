"""OpenNMT-py, through its own inference engine, with its own model after one training update."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from peers.onmt_family import ONE_UPDATE
from peers.opennmt import settings
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

# Without this, it cannot load its own checkpoints with this torch.
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"


def main() -> None:
    """Make a model, or measure with it."""
    options = start("opennmt_translate")
    import torch

    torch.set_num_threads(options.threads)
    if options.task == "make":
        _make(options)
    measure(options, _translator(options))


def _make(options: TranslationOptions) -> None:
    import yaml
    from onmt.bin.train import main as command

    config = options.folder / "config.yaml"
    config.write_text(yaml.safe_dump({**settings(as_training(options)), **ONE_UPDATE}))
    sys.argv = ["onmt_train", "-config", str(config)]
    command()
    report(
        {"made": str(next(options.folder.glob("model_step_*.pt"))), "other_cores": 0.0}
    )


def _translator(options: TranslationOptions) -> Translate:
    import onmt.opts
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    parser = ArgumentParser()
    onmt.opts.translate_opts(parser)
    arguments = {
        "model": next(options.folder.glob("model_step_*.pt")),
        "src": "-",
        "beam_size": options.beam,
        "gpu": -1,
    }
    arguments |= {
        "batch_size": BATCH,
        "batch_type": "sents",
        "max_length": options.longest,
        "max_length_ratio": 0,
    }
    arguments |= {"min_length": options.forced or 0, "log_file": os.devnull}
    parsed = parser.parse_args(
        [word for name, value in arguments.items() for word in (f"-{name}", str(value))]
    )
    ArgumentParser.validate_translate_opts(parsed)
    ArgumentParser._get_all_transform_translate(parsed)
    engine = InferenceEnginePY(parsed)

    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        return [
            best[0].split()
            for best in engine.infer_list([" ".join(tokens) for tokens in sentences])[1]
        ]

    return translate


if __name__ == "__main__":
    main()
