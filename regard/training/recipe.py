"""A whole run in one object: data, vocabulary, model, batches, training, search; and the presets to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import tomli_w
import torch
from pydantic import Field

from regard.data.batching import BatchingSettings
from regard.data.corpus import CorpusSettings
from regard.data.tokenizer import TokenizerSettings
from regard.errors import UsageError
from regard.models import ModelSettings
from regard.search import SearchSettings
from regard.settings import Settings, merge
from regard.training.schedule import ScheduleSettings

__all__ = ["GUIDED", "Recipe", "TrainingSettings", "preset", "presets"]

GUIDED = 0.05
"""What a guided head counts beside the translation, where nothing else is said."""


class TrainingSettings(Settings):
    """How the weights are found."""

    seed: int = Field(1, ge=0, lt=2**63, description="of the weights, the order of the data and dropout")
    parent: str | None = Field(
        None, min_length=1, description="the run whose weights and vocabulary this one begins with; what --from names"
    )
    updates: int | None = Field(None, ge=1, description="stop after so many updates")
    minutes: float | None = Field(
        None, gt=0, description="or after so many minutes of training, turned into updates once the speed is known"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the mass spread over the whole vocabulary")
    rdrop: float = Field(
        0.0, ge=0, description="R-Drop: how much two passes with different dropout should agree; small corpora like 5"
    )
    rdrop_after: int = Field(0, ge=0, description="updates before R-Drop begins; until then an update costs half")
    scheduled_sampling: float = Field(
        0.0, ge=0, le=1, description="share of the pieces read that are the decoder's own; 1 reads own outputs only"
    )
    scheduled_sampling_ramp: int = Field(4000, ge=0, description="updates in which that share grows from nothing")
    doubly_stochastic: float = Field(
        0.0, ge=0, description="how much every source entry should be looked at once in all: λ Σ (1 − Σ α)²; captions"
    )
    encoder_rate: float = Field(1.0, gt=0, description="learning rate of the encoder over that of the rest")
    guided: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description="guided attention: how much it counts beside the translation that one head looks where "
        f"data.alignments say; auto: {GUIDED} where they are given; 0: not at all; written down",
    )
    guided_layer: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="which of the layers that read the source, counted from 1; auto: the one before the last, or the "
        "only one",
    )
    guided_head: int = Field(1, ge=1, description="which head of that layer, counted from 1")
    guided_row: Literal["before", "after"] = Field(
        "before",
        description="which read is to look at what a piece is linked to: the one before it, which predicts it, or the "
        "one after it, which knows it",
    )
    optimizer: Literal["adam", "adamw"] = Field("adamw", description="adamw: weight decay apart from the gradient")
    beta1: float = Field(0.9, ge=0, lt=1, description="memory of the mean of the gradients")
    beta2: float = Field(0.98, ge=0, lt=1, description="memory of their squares")
    weight_decay: float = Field(0.01, ge=0, description="pull of every weight towards zero")
    max_grad_norm: float = Field(1.0, ge=0, description="longest gradient that is followed; 0 follows any")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="of the matrix products in training; auto: bfloat16 where the processor has it, then written down",
    )
    ema_decay: float = Field(
        0.999, ge=0, lt=1, description="memory of the running average of the weights; 0 keeps none"
    )
    validate_every: int = Field(500, ge=1, description="updates between two looks at the validation data")
    validate_with: int = Field(1000, ge=1, description="at most so many validation pairs are translated at each look")
    best_by: Literal["chrf", "bleu", "cider", "loss"] = Field(
        "chrf", description="which validation score picks the best weights; cider: of captions"
    )
    patience: int = Field(10, ge=1, description="stop after so many looks without a better score")
    log_every: int = Field(50, ge=1, description="updates between two lines of the journal")
    checkpoint_minutes: float = Field(
        10.0,
        ge=0,
        description="minutes between two checkpoints; there is one after each look at the validation data too",
    )
    keep_checkpoints: int = Field(2, ge=1, description="checkpoints kept")
    sharded: bool | Literal["layers"] = Field(
        False,
        description="with torchrun: split weights, gradients and optimizer over the processes (PyTorch's FSDP2); "
        "layers: and gather one Transformer layer at a time, for models that no process could hold whole",
    )
    tensorboard: bool = Field(
        False, description="write curves for TensorBoard under RUN/board too; needs regard[board]"
    )
    halve_batches: bool = Field(False, description="compute a batch in two halves when it does not fit in memory")

    @pydantic.model_validator(mode="after")
    def _one_end(self) -> TrainingSettings:
        if self.updates is not None and self.minutes is not None:
            raise ValueError(f"updates ({self.updates}) and minutes ({self.minutes:g}) both say when to end; give one")
        return self


class Recipe(Settings):
    """A whole run. (data, recipe, seed) fixes the batches and their order."""

    data: CorpusSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings
    batching: BatchingSettings = BatchingSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()

    @pydantic.model_validator(mode="after")
    def _reads_what_is_given(self) -> Recipe:
        pictures, encoder, problems = self.data.images is not None, self.model.encoder, list[str]()
        if pictures and encoder.reads != "pictures":
            problems.append(
                f"model.encoder.kind = {encoder.kind!r} reads text, and the data are pictures; take resnet or vit, or "
                "a preset such as caption-transformer"
            )
        elif not pictures and encoder.reads == "pictures":
            problems.append(
                f"model.encoder.kind = {encoder.kind!r} reads pictures, and the data are sentences; give --images and "
                "--captions"
            )
        if self.training.best_by == "cider" and not pictures:
            problems.append("training.best_by = 'cider' compares captions of pictures; take chrf, bleu or loss")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @pydantic.model_validator(mode="after")
    def _can_be_guided(self) -> Recipe:
        guided = self.training.guided
        if guided not in ("auto", 0) and not self.data.alignment_files:
            raise ValueError(
                f"training.guided = {guided:g} wants word links to be guided by; give data.alignments, or leave it out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _can_be_split(self) -> Recipe:
        sides = [getattr(self.model, side) for side in ("encoder", "decoder")]
        if self.training.sharded == "layers" and any(getattr(side, "layer_dropout", 0) for side in sides):
            raise ValueError(
                "training.sharded = 'layers' gathers each layer's weights from all processes at the same moment, so "
                "none may leave one out; set layer_dropout to 0, or training.sharded to true"
            )
        return self

    def resolved(self, device: str, processes: int = 1) -> Recipe:
        """With nothing left to the machine: what `auto` stands for on this device is put in its place."""
        precision = self.training.precision
        if precision == "auto":
            precision = "bfloat16" if has_bfloat16(device) else "float32"
        cores = min(4, torch.get_num_threads()) if device == "cpu" else 1
        together = max(processes, cores)
        together += -together % processes  # as much for each process to do
        guided = self.training.guided
        if guided == "auto":
            guided = GUIDED if self.data.alignment_files else 0.0
        return self.with_values(
            training={**self.training.model_dump(), "precision": precision, "guided": guided},
            batching=self.batching.resolved(together).model_dump(),
        )

    def write(self, path: Path) -> None:
        """The whole resolved recipe as TOML; beside first, then renamed."""
        beside = path.with_name(path.name + ".part")
        beside.write_bytes(tomli_w.dumps(self.model_dump(exclude_none=True)).encode())
        beside.replace(path)


def has_bfloat16(device: str) -> bool:
    """Whether bfloat16 matrix products are faster here than float32 ones."""
    if device == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported())
    return device.startswith("cuda") and torch.cuda.is_bf16_supported()


def _transformer(layers: int, size: int, feedforward: int, heads: int, dropout: float, **others: Any) -> dict[str, Any]:
    side = {"kind": "transformer", "layers": layers, "size": size, "heads": heads, "feedforward": feedforward}
    side["dropout"] = dropout
    return merge({"model": {"encoder": dict(side), "decoder": dict(side)}}, others)


def _rising(peak: float, warmup: int) -> dict[str, Any]:
    """A schedule that names its kind: a rate is no factor of another kind's formula."""
    return {"kind": "inverse_square_root", "peak": peak, "warmup": warmup}


def _recurrent(**decoder: Any) -> dict[str, Any]:
    """A GRU that reads from both ends, and a decoder."""
    sides = {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent", **decoder}}
    return {"model": sides, "schedule": _rising(2e-3, 1000)}


_PRESETS: dict[str, dict[str, Any]] = {
    "transformer-tiny": _transformer(4, 128, 256, 4, 0.2, schedule=_rising(5e-3, 2000)),
    "transformer-small": _transformer(4, 256, 1024, 4, 0.3, schedule=_rising(2e-3, 2000)),
    "transformer-base": _transformer(6, 512, 2048, 8, 0.1, schedule=_rising(7e-4, 4000)),
    "marian": merge(  # transformer-base of Marian's examples; goes to Hugging Face and comes from there
        _transformer(6, 512, 2048, 8, 0.1, schedule=_rising(3e-4, 16000)),
        {"model": {side: {"norm": "post", "activation": "silu"} for side in ("encoder", "decoder")}},
    ),
    "rnn": _recurrent(kind="no_attention", context="every"),
    "rnn-bahdanau": _recurrent(),
    "rnn-luong": _recurrent(order="luong", score="general"),
    "rnn-cosine": _recurrent(order="luong", score="cosine"),
    "conv": {
        "model": {"encoder": {"kind": "convolutional"}, "decoder": {"kind": "convolutional"}},
        "schedule": _rising(1e-3, 1000),
    },
    "caption-rnn": {  # Show, Attend and Tell, its network small enough to be trained from nothing
        "model": {
            "encoder": {"kind": "resnet", "positions": "learned"},
            "decoder": {"kind": "recurrent", "cell": "lstm", "gate": True},
        },
        "schedule": _rising(2e-3, 1000),
        "training": {"doubly_stochastic": 1.0},
    },
    "caption-transformer": {
        "model": {
            "encoder": {"kind": "resnet"},
            "decoder": {"kind": "transformer", "layers": 3, "size": 256, "feedforward": 1024},
        },
        "schedule": _rising(2e-3, 1000),
    },
}


def presets() -> list[str]:
    """The names of the starting points that `--preset` takes."""
    return list(_PRESETS)


def preset(name: str) -> dict[str, Any]:
    """The values of a preset. Raises UsageError naming them all."""
    if name not in _PRESETS:
        raise UsageError(f"no preset is called {name!r}; there are {', '.join(_PRESETS)}")
    return merge({}, _PRESETS[name])
