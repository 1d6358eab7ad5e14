"""fairseq, through its own preprocessing and training commands; Trainer.train_step is one update.

The last release is older than Python 3.11 and torch 2.6; the adapter first restores what it needs
of the old behaviour.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from peers.observe import Options, counts_of, start
from prepare import ordinary_tokens
from shapes import TOKENS

PAD = 1


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("fairseq")
    _allow_instances_as_defaults()
    data = _preprocess(options)
    from fairseq.trainer import Trainer

    original = Trainer.train_step

    def recorded(
        self: Any, samples: list[dict[str, Any]], *args: Any, **kwargs: Any
    ) -> Any:
        recorder.params = recorder.params or _parameters(self.model)
        recorder.boundary()
        for sample in samples:
            recorder.add(
                counts_of(
                    sample["net_input"]["src_tokens"].ne(PAD), sample["target"].ne(PAD)
                )
            )
        return original(self, samples, *args, **kwargs)

    Trainer.train_step = recorded
    from fairseq_cli.train import cli_main as command

    sys.argv = ["fairseq-train", data, *_arguments(options)]
    command()


def _parameters(model: Any) -> int:
    """Count the trainable parameters, without each encoder layer's second copy, which only its fast
    inference uses.
    """
    copies = ("_weight", "_bias")
    return sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if not name.endswith(copies)
    )


def _allow_instances_as_defaults() -> None:
    """Allow any instance as the default of a dataclass field, as before Python 3.11; fairseq and
    its hydra need it.
    """
    original = dataclasses._get_field

    def get_field(cls: type, name: str, *args: Any) -> Any:
        default = getattr(cls, name, None)
        default = default.default if isinstance(default, dataclasses.Field) else default
        if dataclasses.is_dataclass(default) and type(default).__hash__ is None:
            # A default without a hash counts as mutable, and is refused.
            type(default).__hash__ = object.__hash__
        return original(cls, name, *args)

    dataclasses._get_field = get_field


def _preprocess(options: Options) -> str:
    """Write the sentences in fairseq's format; its own special tokens precede ours."""
    from fairseq_cli.preprocess import cli_main as command

    vocabulary = options.work / "vocabulary.txt"
    vocabulary.write_text(
        "".join(f"{token} 1\n" for token in ordinary_tokens(options.data)), "utf-8"
    )
    arguments = {
        "--source-lang": "en",
        "--target-lang": "de",
        "--trainpref": options.data / "train",
        "--validpref": options.data / "valid",
        "--srcdict": vocabulary,
        "--destdir": options.work / "data",
        "--workers": 1,
    }
    sys.argv = ["fairseq-preprocess", "--joined-dictionary", *_flat(arguments)]
    command()
    return str(options.work / "data")


def _arguments(options: Options) -> list[str]:
    shape = options.shape
    arguments: dict[str, Any] = {"--arch": "transformer", "--dropout": shape.dropout}
    for side in ("encoder", "decoder"):
        arguments |= {
            f"--{side}-layers": shape.layers,
            f"--{side}-embed-dim": shape.size,
            f"--{side}-ffn-embed-dim": shape.feedforward,
            f"--{side}-attention-heads": shape.heads,
        }
    arguments |= {
        "--optimizer": "adam",
        "--adam-betas": "(0.9,0.98)",
        "--lr": 5e-4,
        "--lr-scheduler": "inverse_sqrt",
        "--warmup-updates": 2000,
        "--clip-norm": 1.0,
        "--criterion": "label_smoothed_cross_entropy",
        "--label-smoothing": 0.1,
        "--max-tokens": TOKENS,
        "--save-dir": options.work / "model",
        "--log-format": "simple",
        "--log-interval": 50,
        "--num-workers": 1,
        "--max-update": 10**6,
    }
    return [
        "--cpu",
        "--share-all-embeddings",
        "--no-save",
        "--disable-validation",
        *_flat(arguments),
    ]


def _flat(arguments: dict[str, Any]) -> list[str]:
    return [str(word) for pair in arguments.items() for word in pair]


if __name__ == "__main__":
    main()
