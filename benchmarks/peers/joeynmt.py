"""JoeyNMT, through its own `train` command; TrainManager._train_step is one update.

Its attention dropout has the rate of all dropout; there is no setting for it. A batch of "4,096
tokens" counts padding and is not sorted by length.
"""

from __future__ import annotations

import sys
from typing import Any

from peers.observe import Options, counts_of, start, trainable
from prepare import ordinary_tokens
from shapes import TOKENS, Shape

SPECIALS = ["<unk>", "<pad>", "<s>", "</s>"]
ENDLESS = 10**9


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("joeynmt")
    import yaml
    from joeynmt.training import TrainManager

    original = TrainManager._train_step

    def recorded(self: Any, batch: Any) -> Any:
        recorder.params = recorder.params or trainable(self.model)
        recorder.boundary()
        recorder.add(counts_of(batch.src_mask, batch.trg_mask))
        return original(self, batch)

    TrainManager._train_step = recorded
    config = options.work / "config.yaml"
    config.write_text(yaml.safe_dump(settings(options)))

    from joeynmt.__main__ import main as command

    sys.argv = ["joeynmt", "train", str(config), "--skip-test"]
    command()


def settings(options: Options) -> dict[str, Any]:
    """Return the configuration of a run, and write the vocabulary that it names."""
    vocabulary = options.work / "vocabulary.txt"
    vocabulary.write_text(
        "\n".join(SPECIALS + ordinary_tokens(options.data)) + "\n", "utf-8"
    )
    side = {
        "level": "word",
        "voc_file": str(vocabulary),
        "max_length": 200,
        "min_length": 1,
        "lowercase": False,
    }
    names = ("unk", "pad", "bos", "eos")
    specials = {
        f"{name}_token": token for name, token in zip(names, SPECIALS, strict=True)
    }
    specials |= {f"{name}_id": index for index, name in enumerate(names)}
    return {
        "name": "benchmark",
        "joeynmt_version": "2.3.0",
        "model_dir": str(options.work / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": {
            "train": str(options.data / "train"),
            "dev": str(options.data / "valid"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
            "special_symbols": specials,
        },
        "testing": {
            "beam_size": 1,
            "batch_size": TOKENS,
            "batch_type": "token",
            "eval_metrics": ["bleu"],
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 5e-4,
            "learning_rate_min": 1e-9,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 2000,
            "clip_grad_norm": 1.0,
            "loss": "crossentropy",
            "label_smoothing": 0.1,
            "batch_size": TOKENS,
            "batch_type": "token",
            "normalization": "tokens",
            "epochs": ENDLESS,
            "updates": ENDLESS,
            "validation_freq": ENDLESS,
            "logging_freq": 100,
            "early_stopping_metric": "bleu",
            "shuffle": True,
        },
        "model": _gru(options.shape)
        if options.shape.kind == "gru"
        else _transformer(options.shape),
    }


def _transformer(shape: Shape) -> dict[str, Any]:
    def side() -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": shape.layers,
            "num_heads": shape.heads,
            "embeddings": {
                "embedding_dim": shape.size,
                "scale": True,
                "dropout": shape.dropout,
            },
            "hidden_size": shape.size,
            "ff_size": shape.feedforward,
            "dropout": shape.dropout,
            "layer_norm": "pre",
        }

    tied = {"tied_embeddings": True, "tied_softmax": True}
    xavier = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    return {**xavier, **tied, "encoder": side(), "decoder": side()}


def _gru(shape: Shape) -> dict[str, Any]:
    both = {
        "type": "recurrent",
        "rnn_type": "gru",
        "num_layers": 1,
        "dropout": shape.dropout,
    }
    embeddings = {"embedding_dim": shape.size}
    return {
        "initializer": "xavier_uniform",
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {
            **both,
            "bidirectional": True,
            "hidden_size": shape.size // 2,  # of each direction
            "embeddings": dict(embeddings),
        },
        "decoder": {
            **both,
            "hidden_size": shape.size,
            "hidden_dropout": shape.dropout,
            "embeddings": dict(embeddings),
            "attention": "bahdanau",
            "init_hidden": "bridge",
            "input_feeding": True,
        },
    }


if __name__ == "__main__":
    main()
