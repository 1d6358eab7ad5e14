"""What the adapters of OpenNMT-py and eole share: eole grew out of OpenNMT-py, and its batches look the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.observe import Counts, Options, Recorder, trainable
from peers.translating import FEW_TOKENS
from prepare import pieces
from shapes import TOKENS, VOCABULARY

__all__ = ["ONE_UPDATE", "counts", "data_settings", "training_settings", "watch"]

ENDLESS = 10**6
SPECIALS = ["<unk>", "<blank>", "<s>", "</s>"]
ONE_UPDATE = {"train_steps": 1, "save_checkpoint_steps": 1, "batch_size": FEW_TOKENS}
"""Settings that make a model to translate with."""


def watch(trainer: type, update: str, recorder: Recorder) -> None:
    """Have the recorder told whenever this trainer begins an update, which is its method of this name."""
    own = getattr(trainer, update)

    def watched(self: Any, batches: list[dict[str, Any]], *others: Any, **named: Any) -> Any:
        recorder.params = recorder.params or trainable(self.model)
        recorder.boundary()
        for batch in batches:
            recorder.add(counts(batch, self.train_loss.padding_idx))
        return own(self, batches, *others, **named)

    setattr(trainer, update, watched)


def counts(batch: dict[str, Any], pad: int) -> Counts:
    """The counts of one batch; a target's first piece is only read, so it is not among those predicted."""
    source, target = batch["src"], batch["tgt"][:, 1:]
    tokens = int(batch["srclen"].sum()), int(target.ne(pad).sum())
    return Counts(tokens[0], source.numel(), tokens[1], target.numel())


def data_settings(options: Options) -> dict[str, Any]:
    """Where the sentences are, and a vocabulary written as both want it: a piece and its count on each line."""
    vocabulary = options.work / "vocabulary.txt"
    ranked = enumerate(SPECIALS + pieces(options.data))
    vocabulary.write_text("".join(f"{piece}\t{ENDLESS - rank}\n" for rank, piece in ranked), "utf-8")
    corpus = {"path_src": _path(options, "en"), "path_tgt": _path(options, "de"), "transforms": [], "weight": 1}
    return {
        "src_vocab": str(vocabulary),
        "tgt_vocab": str(vocabulary),
        "share_vocab": True,
        "src_vocab_size": VOCABULARY,
        "tgt_vocab_size": VOCABULARY,
        "data": {"corpus": corpus},
        "overwrite": True,
        "save_data": str(options.work / "data"),
        "seed": 1,
        "report_every": 50,
    }


def training_settings(options: Options) -> dict[str, Any]:
    """One process, batches by tokens, Adam with a warmed-up rate, no validation and no checkpoint."""
    return {
        "world_size": 1,
        "gpu_ranks": [],
        "batch_size": TOKENS,
        "batch_type": "tokens",
        "batch_size_multiple": 1,
        "bucket_size": 32768,
        "prefetch_factor": 32,
        "num_workers": 1,
        "normalization": "tokens",
        "accum_count": [1],
        "accum_steps": [0],
        "valid_steps": ENDLESS,
        "train_steps": ENDLESS,
        "save_checkpoint_steps": ENDLESS,
        "dropout": [options.shape.dropout],
        "dropout_steps": [0],
        "attention_dropout": [0.0],
        "label_smoothing": 0.1,
        "optim": "adam",
        "adam_beta2": 0.998,
        "learning_rate": 2.0,
        "decay_method": "noam",
        "warmup_steps": 2000,
        "max_grad_norm": 1.0,
    }


def _path(options: Options, side: str) -> str:
    return str(Path(options.data / f"train.{side}"))
