"""eole, by its own `eole train` command: Trainer._process_accumulated_batches is one update."""

from __future__ import annotations

import sys
from typing import Any

from peers.observe import Options, start
from peers.onmt_family import data_settings, training_settings, watch
from shapes import Shape


def main() -> None:
    """Train until the recorder has seen enough."""
    options, recorder = start("eole")
    import yaml
    from eole.bin.main import main as command
    from eole.encoders.rnn_encoder import RNNEncoder
    from eole.trainer import Trainer

    _bridge_of_both_directions(RNNEncoder)
    watch(Trainer, "_process_accumulated_batches", recorder)
    config = options.work / "config.yaml"
    config.write_text(yaml.safe_dump(settings(options)))
    sys.argv = ["eole", "train", "-config", str(config)]
    command()


def _bridge_of_both_directions(encoder: Any) -> None:
    """eole's bridge is made for the last state of one direction, and fails as it is given those of both."""
    made = encoder._build_bridge
    encoder._build_bridge = lambda own, kind, size, layers: made(own, kind, size * (1 + own.bidirectional), layers)


def settings(options: Options) -> dict[str, Any]:
    """The configuration of a run."""
    recurrent = options.shape.kind == "gru"
    tied = {"share_embeddings": True, "share_decoder_embeddings": True}
    start_values = {"param_init_method": "uniform", "param_init": 0.1} if recurrent else _xavier()
    return {
        **data_settings(options),
        "model": {**tied, **(_gru(options.shape) if recurrent else _transformer(options.shape))},
        "training": {
            **training_settings(options),
            **start_values,
            "model_path": str(options.work / "model"),
            "compute_dtype": "fp32",
        },
    }


def _xavier() -> dict[str, Any]:
    return {"param_init_method": "xavier_uniform", "param_init": 0.0}


def _transformer(shape: Shape) -> dict[str, Any]:
    return {
        "architecture": "transformer",
        "layers": shape.layers,
        "hidden_size": shape.size,
        "heads": shape.heads,
        "transformer_ff": shape.feedforward,
        "embeddings": {"word_vec_size": shape.size, "position_encoding_type": "SinusoidalInterleaved"},
    }


def _gru(shape: Shape) -> dict[str, Any]:
    """Not `architecture: rnn`, whose encoder reads in one direction whatever is asked for."""
    return {
        "architecture": "custom",
        "layers": 1,
        "hidden_size": shape.size,
        "embeddings": {"word_vec_size": shape.size},
        "encoder": {"encoder_type": "brnn", "rnn_type": "GRU", "bridge": True},
        "decoder": {"decoder_type": "rnn", "rnn_type": "GRU", "global_attention": "mlp"},
        "input_feed": 1,
    }


if __name__ == "__main__":
    main()
