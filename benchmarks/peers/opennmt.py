"""OpenNMT-py, through its own `onmt_train` command; Trainer._gradient_accumulation is one
update.
"""

from __future__ import annotations

import sys
from typing import Any

from peers.observe import Options, start
from peers.onmt_family import data_settings, record, training_settings
from shapes import Shape


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("opennmt")
    import yaml
    from onmt.bin.train import main as command
    from onmt.trainer import Trainer

    record(Trainer, "_gradient_accumulation", recorder)
    config = options.work / "config.yaml"
    config.write_text(yaml.safe_dump(settings(options)))
    sys.argv = ["onmt_train", "-config", str(config)]
    command()


def settings(options: Options) -> dict[str, Any]:
    """Return the configuration of a run."""
    return {
        **data_settings(options),
        **training_settings(options),
        **(
            _gru(options.shape)
            if options.shape.kind == "gru"
            else _transformer(options.shape)
        ),
        "save_model": str(options.work / "model"),
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "model_dtype": "fp32",
    }


def _transformer(shape: Shape) -> dict[str, Any]:
    return {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": shape.layers,
        "dec_layers": shape.layers,
        "hidden_size": shape.size,
        "word_vec_size": shape.size,
        "transformer_ff": shape.feedforward,
        "heads": shape.heads,
        "position_encoding": True,
        "param_init": 0.0,
        "param_init_glorot": True,
    }


def _gru(shape: Shape) -> dict[str, Any]:
    return {
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "enc_layers": 1,
        "dec_layers": 1,
        "hidden_size": shape.size,  # of both directions of the encoder together
        "word_vec_size": shape.size,
        "global_attention": "mlp",
        "input_feed": 1,
        "bridge": True,
        "param_init": 0.1,
    }


if __name__ == "__main__":
    main()
