"""eole, through its own `eole train` command; Trainer._process_accumulated_batches is one
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
    options, recorder = start("eole")
    import yaml
    from eole.bin.main import main as command
    from eole.encoders.rnn_encoder import RNNEncoder
    from eole.trainer import Trainer

    _bridge_of_both_directions(RNNEncoder)
    record(Trainer, "_process_accumulated_batches", recorder)
    config = options.work / "config.yaml"
    config.write_text(yaml.safe_dump(settings(options)))
    sys.argv = ["eole", "train", "-config", str(config)]
    command()


def _bridge_of_both_directions(encoder: Any) -> None:
    """Double the size of eole's bridge, which is built for one direction and fails with the states
    of both.
    """
    original = encoder._build_bridge
    encoder._build_bridge = lambda self, kind, size, layers: original(
        self, kind, size * (1 + self.bidirectional), layers
    )


def settings(options: Options) -> dict[str, Any]:
    """Return the configuration of a run."""
    recurrent = options.shape.kind == "gru"
    tied = {"share_embeddings": True, "share_decoder_embeddings": True}
    initialisation = (
        {"param_init_method": "uniform", "param_init": 0.1} if recurrent else _xavier()
    )
    return {
        **data_settings(options),
        "model": {
            **tied,
            **(_gru(options.shape) if recurrent else _transformer(options.shape)),
        },
        "training": {
            **training_settings(options),
            **initialisation,
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
        "embeddings": {
            "word_vec_size": shape.size,
            "position_encoding_type": "SinusoidalInterleaved",
        },
    }


def _gru(shape: Shape) -> dict[str, Any]:
    """Not `architecture: rnn`, whose encoder is always unidirectional."""
    return {
        "architecture": "custom",
        "layers": 1,
        "hidden_size": shape.size,
        "embeddings": {"word_vec_size": shape.size},
        "encoder": {"encoder_type": "brnn", "rnn_type": "GRU", "bridge": True},
        "decoder": {
            "decoder_type": "rnn",
            "rnn_type": "GRU",
            "global_attention": "mlp",
        },
        "input_feed": 1,
    }


if __name__ == "__main__":
    main()
