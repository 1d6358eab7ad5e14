"""fairseq, by its own preprocessing and training commands: Trainer.train_step is one update.

The last release is from before Python 3.11 and before torch 2.6; what has changed under it since is put back first.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from peers.observe import Options, kept, start
from prepare import pieces
from shapes import TOKENS

PAD = 1


def main() -> None:
    """Train until the recorder has seen enough."""
    options, recorder = start("fairseq")
    _allow_instances_as_defaults()
    data = _preprocess(options)
    from fairseq.trainer import Trainer

    own = Trainer.train_step

    def watched(self: Any, samples: list[dict[str, Any]], *others: Any, **named: Any) -> Any:
        recorder.params = recorder.params or _learnt(self.model)
        recorder.boundary()
        for sample in samples:
            recorder.add(kept(sample["net_input"]["src_tokens"].ne(PAD), sample["target"].ne(PAD)))
        return own(self, samples, *others, **named)

    Trainer.train_step = watched
    from fairseq_cli.train import cli_main as command

    sys.argv = ["fairseq-train", data, *_arguments(options)]
    command()


def _learnt(model: Any) -> int:
    """How many numbers are learnt, without each encoder layer's second set: translation alone reads it."""
    second = ("_weight", "_bias")
    return sum(parameter.numel() for name, parameter in model.named_parameters() if not name.endswith(second))


def _allow_instances_as_defaults() -> None:
    """Dataclasses took any instance as a default before Python 3.11; fairseq and its hydra are written so."""
    own = dataclasses._get_field

    def get_field(cls: type, name: str, *others: Any) -> Any:
        default = getattr(cls, name, None)
        default = default.default if isinstance(default, dataclasses.Field) else default
        if dataclasses.is_dataclass(default) and type(default).__hash__ is None:
            type(default).__hash__ = object.__hash__  # what has no hash is taken to change, and refused
        return own(cls, name, *others)

    dataclasses._get_field = get_field


def _preprocess(options: Options) -> str:
    """Write the sentences as fairseq reads them; its own special pieces stand before ours."""
    from fairseq_cli.preprocess import cli_main as command

    vocabulary = options.work / "vocabulary.txt"
    vocabulary.write_text("".join(f"{piece} 1\n" for piece in pieces(options.data)), "utf-8")
    given = {
        "--source-lang": "en",
        "--target-lang": "de",
        "--trainpref": options.data / "train",
        "--validpref": options.data / "valid",
        "--srcdict": vocabulary,
        "--destdir": options.work / "data",
        "--workers": 1,
    }
    sys.argv = ["fairseq-preprocess", "--joined-dictionary", *_flat(given)]
    command()
    return str(options.work / "data")


def _arguments(options: Options) -> list[str]:
    shape = options.shape
    given: dict[str, Any] = {"--arch": "transformer", "--dropout": shape.dropout}
    for side in ("encoder", "decoder"):
        given |= {
            f"--{side}-layers": shape.layers,
            f"--{side}-embed-dim": shape.size,
            f"--{side}-ffn-embed-dim": shape.feedforward,
            f"--{side}-attention-heads": shape.heads,
        }
    given |= {
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
    return ["--cpu", "--share-all-embeddings", "--no-save", "--disable-validation", *_flat(given)]


def _flat(given: dict[str, Any]) -> list[str]:
    return [str(word) for pair in given.items() for word in pair]


if __name__ == "__main__":
    main()
