"""Report of a dry run: the model's parts, memory, speed, time, and exports to other runtimes."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.common.counting import counted
from regard.common.processes import peak_memory
from regard.data.batch_stream import BatchSource
from regard.data.tokenizer import TokenizerSettings
from regard.models import (
    Model,
    ModelSettings,
    count_parameters,
    ctranslate2_obstacles,
    huggingface_obstacles,
)
from regard.training.budget import Trial, trial
from regard.training.forecast import Forecast, forecast
from regard.training.recipe import Recipe

WEIGHT_COPIES = 5
"""Tensors as large as the weights: they, gradients, two moments of Adam, the moving average."""
MEBI = 2**20


def report_run(
    model: Model,
    recipe: Recipe,
    batches: BatchSource,
    device: str,
    result: Trial | None = None,
    processes: int = 1,
) -> Iterator[str]:
    """Yield the lines of the report, with the speed of the trial `result`.

    Without a result a few updates are timed. A time budget passes its own result, because two
    trials never take the same time, and the updates that it chose follow from that trial.
    """
    yield from _parts(model, recipe.model)
    memory = 4 * WEIGHT_COPIES * count_parameters(model) / MEBI
    source_tokens = 0
    if recipe.model.encoder.reads != "images":
        source_tokens = model.encoder.embedding.weight.shape[0]
    vocabularies = source_tokens, model.decoder.output.weight.shape[0]
    result = result or trial(recipe, batches, vocabularies, device)
    peak = _peak_memory(device)
    peak_text = ""
    if peak is not None:
        updates = counted(result.updates, "update")
        peak_text = f"; at most {peak:,.0f} MiB in all during {updates}"
    yield (
        f"memory: {memory:,.0f} MiB for weights, gradients, optimizer and moving "
        f"average{peak_text}"
    )
    yield (
        f"speed: {result.seconds:.2f} s an update, {result.tokens / result.seconds:,.0f} target "
        f"tokens/s on {device}"
    )
    yield _time(recipe, result.seconds, result.tokens, batches.epoch_stats.tokens[1])
    if processes > 1:
        together = forecast(recipe, batches, vocabularies, device, processes, peak)
        yield _processes(together, result)
    yield f"elsewhere: {_runtimes(recipe.model, recipe.tokenizer)}"


def _parts(model: Model, settings: ModelSettings) -> Iterator[str]:
    sides = f"{settings.encoder.kind} encoder, {settings.decoder.kind} decoder"
    weights = f"{count_parameters(model):,} weights"
    yield f"model: {weights}; {sides}; embeddings shared: {settings.share}"
    listed: set[int] = set()  # tied weights are listed once
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        for name, module in part.named_children():
            sizes = {
                id(p): p.numel() for p in module.parameters() if id(p) not in listed
            }
            listed |= sizes.keys()
            if sizes:
                yield f"  {side}.{name}: {sum(sizes.values()):,}"


def _time(recipe: Recipe, seconds: float, tokens: float, epoch_tokens: float) -> str:
    training = recipe.training
    updates = training.updates
    if updates is None and training.minutes is not None:
        updates = int(training.minutes * 60 / seconds)
    if updates is None:
        end = f"ends after {counted(training.patience, 'validation')} without a better score"
        return (
            f"time: {epoch_tokens / tokens * seconds / 60:.1f} minutes an epoch; {end}"
        )
    minutes = updates * seconds / 60
    epochs = updates * tokens / epoch_tokens
    about = f"{minutes:.{0 if minutes >= 10 else 1}f}"
    return f"time: {counted(updates, 'update')}, about {about} minutes, {epochs:.1f} epochs"


def _processes(together: Forecast, alone: Trial) -> str:
    memory = (
        "" if together.mebibytes is None else f"{together.mebibytes:,.0f} MiB each, "
    )
    threads = f"{together.threads} thread{'s' if together.threads > 1 else ''} each"
    speed = (
        f"{together.seconds:.2f} s an update ({together.communication:.2f} of it to add up "
        "gradients)"
    )
    gain = f"{alone.seconds / together.seconds:.2f} times as fast as one"
    return f"{together.processes} processes on this machine: {memory}{threads}; {speed}, {gain}"


def _peak_memory(device: str) -> float | None:
    """Return the peak memory of the GPU or this process in MiB; None if the system lacks it."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / MEBI
    return peak_memory()


def _runtimes(settings: ModelSettings, tokenizer: TokenizerSettings) -> str:
    """Return the runtimes that the model can be exported to, and the obstacles to the others."""
    reasons = {
        "ctranslate2": ctranslate2_obstacles(settings),
        "huggingface": huggingface_obstacles(settings, tokenizer.joint),
    }
    for causes in reasons.values():
        causes += tokenizer.export_obstacles
    supported = [kind for kind, causes in reasons.items() if not causes]
    parts = ["runs in Regard only"]
    if supported:
        parts = [f"can be exported to {' and '.join(supported)} (regard export)"]
    for kind, causes in reasons.items():
        if causes:
            parts.append(f"not to {kind}: {', '.join(causes)}")
    return "; ".join(parts)
