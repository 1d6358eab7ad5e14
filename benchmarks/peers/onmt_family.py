"""Common parts of the adapters of OpenNMT-py and eole, its fork, which has the same batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.observe import Counts, Options, Recorder, trainable
from peers.translating import FEW_TOKENS
from prepare import ordinary_tokens
from shapes import TOKENS, VOCABULARY

__all__ = ["ONE_UPDATE", "counts", "data_settings", "record", "training_settings"]

ENDLESS = 10**6
SPECIALS = ["<unk>", "<blank>", "<s>", "</s>"]
ONE_UPDATE = {"train_steps": 1, "save_checkpoint_steps": 1, "batch_size": FEW_TOKENS}
"""Settings of a run that only makes a model to translate with."""


def record(trainer: type, update: str, recorder: Recorder) -> None:
    """Wrap the method `update` of a trainer, so that it reports every update to the recorder."""
    original = getattr(trainer, update)

    def recorded(
        self: Any, batches: list[dict[str, Any]], *args: Any, **kwargs: Any
    ) -> Any:
        recorder.params = recorder.params or trainable(self.model)
        recorder.boundary()
        for batch in batches:
            recorder.add(counts(batch, self.train_loss.padding_idx))
        return original(self, batches, *args, **kwargs)

    setattr(trainer, update, recorded)


def counts(batch: dict[str, Any], pad: int) -> Counts:
    """Return the counts of one batch; the first target token is only an input, so it is not counted
    as predicted.
    """
    source = batch["src"]
    target = batch["tgt"][:, 1:]
    tokens = int(batch["srclen"].sum()), int(target.ne(pad).sum())
    return Counts(tokens[0], source.numel(), tokens[1], target.numel())


def data_settings(options: Options) -> dict[str, Any]:
    """Return the data settings, and write the vocabulary in the format of both: a token and its
    count on each line.
    """
    vocabulary = options.work / "vocabulary.txt"
    ranked = enumerate(SPECIALS + ordinary_tokens(options.data))
    vocabulary.write_text(
        "".join(f"{token}\t{ENDLESS - rank}\n" for rank, token in ranked), "utf-8"
    )
    corpus = {
        "path_src": _path(options, "en"),
        "path_tgt": _path(options, "de"),
        "transforms": [],
        "weight": 1,
    }
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
    """Return the training settings: one process, batches by tokens, Adam with warm-up, no
    validation, no checkpoint.
    """
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
