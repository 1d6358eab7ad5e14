"""Recipe: the whole configuration of a run, and the presets to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import tomli_w
import torch
from pydantic import Field

from regard.common.atomic import write_text
from regard.common.checksums import json_digest
from regard.common.errors import ConfigurationError, ModelFolderError, UsageError
from regard.common.reading import check_links, package_toml, parse_toml
from regard.common.settings import (
    COUNT,
    FACTOR,
    LAYERS,
    MINUTES,
    SIZE,
    Settings,
    read_toml,
)
from regard.data.batch_stream import BatchingSettings
from regard.data.corpus_settings import CorpusSettings
from regard.data.text_augmentation import VariationSettings
from regard.data.tokenizer import TokenizerSettings
from regard.models import ModelSettings
from regard.search import SearchSettings
from regard.training.schedule import ScheduleSettings

DIGEST_LINE = "# sha256 of these values: "
"""Beginning of the first line of a run's recipe file."""
GUIDED = 0.05
"""Default weight of the guided attention loss if alignments are given."""


class TrainingSettings(Settings):
    """Settings of the training loop: losses, optimizer, validation, checkpoints."""

    seed: int = Field(
        1,
        ge=0,
        lt=2**63,
        description="random seed of the weights, the order of the data and dropout",
    )
    parent: str | None = Field(
        None,
        min_length=1,
        description="the run whose weights and vocabulary this one starts from (fine-tuning, "
        "--from)",
    )
    updates: int | None = Field(
        None, ge=1, le=COUNT, description="stop after this many updates"
    )
    minutes: float | None = Field(
        None,
        gt=0,
        le=MINUTES,
        description="or after this many minutes, with validations; the updates that they came to "
        "are then written down",
    )
    label_smoothing: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of the probability mass spread over the whole vocabulary",
    )
    rdrop: float = Field(
        0.0,
        ge=0,
        le=FACTOR,
        description="weight of R-Drop: two passes with different dropout should agree; 5 suits "
        "small corpora",
    )
    rdrop_after: int = Field(
        0,
        ge=0,
        le=COUNT,
        description="updates before R-Drop starts; until then an update costs half",
    )
    scheduled_sampling: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the decoder's input tokens that it has drawn itself; 1: all of them",
    )
    scheduled_sampling_ramp: int = Field(
        4000, ge=0, le=COUNT, description="updates in which that share grows from 0"
    )
    doubly_stochastic: float = Field(
        0.0,
        ge=0,
        le=FACTOR,
        description="weight λ of doubly stochastic attention, λ Σ (1 − Σ α)²; for captions",
    )
    encoder_rate: float = Field(
        1.0,
        gt=0,
        le=FACTOR,
        description="learning rate of the encoder over that of the rest",
    )
    guided: Annotated[float, Field(ge=0, le=FACTOR)] | Literal["auto"] = Field(
        "auto",
        description="weight of the guided attention loss, by which one head learns "
        f"data.alignments; auto: {GUIDED} if alignments are given, then written into "
        "train.toml; 0: off",
    )
    guided_layer: Annotated[int, Field(ge=1, le=LAYERS)] | Literal["auto"] = Field(
        "auto",
        description="layer of the guided head among those with cross-attention, counted from 1; "
        "auto: the last but one, or the only one",
    )
    guided_head: int = Field(
        1, ge=1, le=SIZE, description="guided head of that layer, counted from 1"
    )
    guided_row: Literal["before", "after"] = Field(
        "before",
        description="decoder step whose attention is guided by a token's links: the one before, "
        "which predicts the token, or the one after, which reads it",
    )
    optimizer: Literal["adam", "adamw"] = Field(
        "adamw", description="adamw: weight decay decoupled from the gradient"
    )
    beta1: float = Field(
        0.9, ge=0, lt=1, description="decay of Adam's mean of the gradients"
    )
    beta2: float = Field(
        0.98, ge=0, lt=1, description="decay of Adam's mean of their squares"
    )
    weight_decay: float = Field(0.01, ge=0, le=FACTOR, description="weight decay")
    max_grad_norm: float = Field(
        1.0,
        ge=0,
        le=COUNT,
        description="gradients with a larger norm are clipped to it; 0: no clipping",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="of the matrix products in training; auto: bfloat16 if the hardware has it, "
        "then written down",
    )
    ema_decay: float = Field(
        0.999,
        ge=0,
        lt=1,
        description="decay of the exponential moving average of the weights; 0: no average",
    )
    validate_every: int = Field(
        500, ge=1, le=COUNT, description="updates between validations"
    )
    validate_with: int = Field(
        1000,
        ge=1,
        le=COUNT,
        description="validation pairs that are translated, at most; the loss is that of all pairs",
    )
    best_by: Literal["chrf", "bleu", "cider", "loss"] = Field(
        "chrf",
        description="validation score that selects the best weights; cider: of captions",
    )
    patience: int = Field(
        10,
        ge=1,
        le=COUNT,
        description="early stopping after this many validations without a better score",
    )
    log_every: int = Field(
        50, ge=1, le=COUNT, description="updates between 'train' events in the journal"
    )
    checkpoint_minutes: float = Field(
        10.0,
        ge=0,
        le=MINUTES,
        description="minutes between checkpoints; there is one after each validation too",
    )
    keep_checkpoints: int = Field(
        2, ge=1, le=COUNT, description="number of checkpoints kept"
    )
    sharded: bool | Literal["layers"] = Field(
        False,
        description="with torchrun: shard weights, gradients and optimizer over the processes "
        "(PyTorch's FSDP2); layers: also gather one Transformer layer at a time, for "
        "models that no process could hold whole",
    )
    tensorboard: bool = Field(
        False,
        description="write curves for TensorBoard to RUN/board too; needs regard[board]",
    )
    halve_batches: bool = Field(
        False,
        description="compute a micro-batch in two halves if it does not fit in memory",
    )
    objective: str | None = Field(
        None,
        description="name and version of the function that replaced the loss (`objective=` of "
        "regard.train, which writes it)",
    )
    callbacks: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        description="names and versions of the callbacks (`callbacks=` of regard.train, which "
        "writes them)",
    )

    @pydantic.model_validator(mode="after")
    def _check_end(self) -> TrainingSettings:
        if self.updates is not None and self.minutes is not None:
            raise ValueError(
                f"updates ({self.updates}) and minutes ({self.minutes:g}) both set the end of the "
                "run; give one"
            )
        return self


class Recipe(Settings):
    """The whole configuration of a run.

    The data files and the recipe, with its seed, determine the batches and their order.
    """

    data: CorpusSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings
    batching: BatchingSettings = BatchingSettings()
    variation: VariationSettings = VariationSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()

    @pydantic.model_validator(mode="after")
    def _check_encoder_reads_data(self) -> Recipe:
        images = self.data.images is not None
        encoder = self.model.encoder
        problems = list[str]()
        if images and encoder.reads != "images":
            problems.append(
                f"model.encoder.kind = {encoder.kind!r} reads text, and the data are images; take "
                "resnet or vit, or a preset such as caption-transformer"
            )
        elif not images and encoder.reads == "images":
            problems.append(
                f"model.encoder.kind = {encoder.kind!r} reads images, and the data are sentences; "
                "give `images=` and `captions=`"
            )
        if self.training.best_by == "cider" and not images:
            problems.append(
                "training.best_by = 'cider' compares captions of images; take chrf, bleu or loss"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @pydantic.model_validator(mode="after")
    def _check_guided(self) -> Recipe:
        guided = self.training.guided
        if guided not in ("auto", 0) and not self.data.alignment_files:
            raise ValueError(
                f"training.guided = {guided:g} needs word alignments; give data.alignments, or "
                "leave it out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_sharded(self) -> Recipe:
        sides = [getattr(self.model, side) for side in ("encoder", "decoder")]
        if self.training.sharded == "layers" and any(
            getattr(side, "layer_dropout", 0) for side in sides
        ):
            raise ValueError(
                "training.sharded = 'layers' gathers each layer's weights from all processes at "
                "the same time, so none may leave one out; set layer_dropout to 0, or "
                "training.sharded to true"
            )
        return self

    def resolved(self, device: str, processes: int = 1) -> Recipe:
        """Return the recipe with each `auto` replaced by its value on this device."""
        precision = self.training.precision
        if precision == "auto":
            precision = "bfloat16" if has_bfloat16(device) else "float32"
        # On a CPU there is one micro-batch for each thread, up to four, and on any device there are
        # equally many for each process.
        threads = min(4, torch.get_num_threads()) if device == "cpu" else 1
        micro_batches = max(processes, threads)
        micro_batches += -micro_batches % processes
        norms = [
            getattr(side, "norm", "")
            for side in (self.model.encoder, self.model.decoder)
        ]
        if any("batch" in norm for norm in norms):
            if processes > 1 or self.batching.micro_batches not in ("auto", 1):
                raise ConfigurationError(
                    "norm = 'batch' or 'pre_batch' normalises over a whole batch: train it in one "
                    "process, with batching.micro_batches = 1 or auto"
                )
            micro_batches = 1
        guided = self.training.guided
        if guided == "auto":
            guided = GUIDED if self.data.alignment_files else 0.0
        return self.with_values(
            training={
                **self.training.model_dump(),
                "precision": precision,
                "guided": guided,
            },
            batching=self.batching.resolved(micro_batches).model_dump(),
        )

    def write(self, path: Path) -> None:
        """Write the whole recipe as TOML, with a digest of its values in the first line."""
        _write_sealed(path, tomli_w.dumps(self.model_dump(exclude_none=True)))


def read_run_recipe(path: Path) -> dict[str, Any]:
    """Read the recipe of a run.

    Raises ModelFolderError if its values do not match the digest in its first line.
    """
    check_links(path.parent, path.name)
    values = read_toml(path)
    first_line = path.read_text(encoding="utf-8-sig").partition("\n")[0]
    if first_line.strip() != DIGEST_LINE + json_digest(values):
        reason = (
            "its values do not match the SHA-256 in its first line"
            if DIGEST_LINE in first_line
            else "it has no SHA-256"
        )
        raise ModelFolderError(
            f"{path}: damaged or changed ({reason}); put a copy back, or, if the change was on "
            f"purpose, seal it with `regard doctor {path.parent} --seal`"
        )
    return values


def seal_run_recipe(path: Path) -> None:
    """Accept the changed recipe of a run: renew the digest in its first line.

    Raises ConfigurationError if the recipe is invalid.
    """
    Recipe.parse(read_toml(path), str(path))
    lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    unsealed_lines = [
        line for line in lines if not line.startswith(DIGEST_LINE.strip())
    ]
    _write_sealed(path, "".join(unsealed_lines))


def _write_sealed(path: Path, text: str) -> None:
    write_text(path, f"{DIGEST_LINE}{json_digest(parse_toml(text))}\n{text}")


def has_bfloat16(device: str) -> bool:
    """Return whether this hardware has bfloat16 matrix products."""
    if device == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported())
    return device.startswith("cuda") and torch.cuda.is_bf16_supported()


def presets() -> list[str]:
    """Return the names of the presets, which are recipes to start from (`presets.toml`)."""
    return list(_presets())


def preset(name: str) -> dict[str, Any]:
    """Return the values of a preset. Raises UsageError, with all names, for an unknown one."""
    by_name = _presets()
    if name not in by_name:
        raise UsageError(
            f"no preset is called {name!r}; there are {', '.join(by_name)}"
        )
    return by_name[name]


def _presets() -> dict[str, dict[str, object]]:
    return package_toml("regard.training", "presets.toml")
