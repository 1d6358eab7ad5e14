"""Report of a dry run: the model and its parts, memory, speed, time, and runtimes that it can be
exported to.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.common.counting import counted
from regard.common.processes import peak_memory
from regard.data.batch_stream import BatchSource
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

COPIES = 5  # weights, gradients, two moments of the optimizer, the moving average
MEBI = 2**20


def report_run(
    model: Model,
    recipe: Recipe,
    batches: BatchSource,
    device: str,
    result: Trial | None = None,
    processes: int = 1,
) -> Iterator[str]:
    """Lines of the report, with the speed of `result`; without one, times a few updates of a model
    of these settings.

    Two trials never take the same time: the updates of a budget follow from its own trial, and so
    must their time.
    """
    yield from _parts(model, recipe.model)
    memory = 4 * COPIES * count_parameters(model) / MEBI
    source_tokens = (
        0
        if recipe.model.encoder.reads == "images"
        else model.encoder.embedding.weight.shape[0]
    )
    vocabularies = source_tokens, model.decoder.output.weight.shape[0]
    result = result or trial(recipe, batches, vocabularies, device)
    most = (
        ""
        if (mib := _peak(device)) is None
        else f"; at most {mib:,.0f} MiB in all during {counted(result.updates, 'update')}"
    )
    yield f"memory: {memory:,.0f} MiB for weights, gradients, optimizer and moving average{most}"
    yield (
        f"speed: {result.seconds:.2f} s an update, {result.tokens / result.seconds:,.0f} target "
        f"tokens/s on {device}"
    )
    yield _time(recipe, result.seconds, result.tokens, batches.epoch_stats.tokens[1])
    if processes > 1:
        yield _processes(
            forecast(recipe, batches, vocabularies, device, processes, mib), result
        )
    yield f"elsewhere: {_runtimes(recipe.model, recipe.tokenizer.joint)}"


def _parts(model: Model, settings: ModelSettings) -> Iterator[str]:
    sides = f"{settings.encoder.kind} encoder, {settings.decoder.kind} decoder"
    weights = f"{count_parameters(model):,} weights"
    yield f"model: {weights}; {sides}; embeddings shared: {settings.share}"
    counted: set[int] = set()
    for name, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        for inner, module in part.named_children():
            new = {
                id(p): p.numel() for p in module.parameters() if id(p) not in counted
            }
            counted |= new.keys()
            if new:
                yield f"  {name}.{inner}: {sum(new.values()):,}"


def _time(recipe: Recipe, seconds: float, tokens: float, epoch_tokens: float) -> str:
    s = recipe.training
    updates = (
        s.updates
        if s.updates is not None
        else int(s.minutes * 60 / seconds)
        if s.minutes is not None
        else None
    )
    if updates is None:
        end = f"ends after {counted(s.patience, 'validation')} without a better score"
        return (
            f"time: {epoch_tokens / tokens * seconds / 60:.1f} minutes an epoch; {end}"
        )
    minutes = updates * seconds / 60
    epochs = updates * tokens / epoch_tokens
    about = f"{minutes:.{0 if minutes >= 10 else 1}f}"
    return f"time: {counted(updates, 'update')}, about {about} minutes, {epochs:.1f} epochs"


def _processes(needs: Forecast, alone: Trial) -> str:
    memory = "" if needs.mebibytes is None else f"{needs.mebibytes:,.0f} MiB each, "
    threads = f"{needs.threads} thread{'s' if needs.threads > 1 else ''} each"
    speed = f"{needs.seconds:.2f} s an update ({needs.communication:.2f} of it to add up gradients)"
    gain = f"{alone.seconds / needs.seconds:.2f} times as fast as one"
    return f"{needs.processes} processes on this machine: {memory}{threads}; {speed}, {gain}"


def _peak(device: str) -> float | None:
    """Peak memory in MiB: of the GPU, or of this process; None where the system does not keep
    it.
    """
    return (
        torch.cuda.max_memory_allocated() / MEBI
        if device.startswith("cuda")
        else peak_memory()
    )


def _runtimes(settings: ModelSettings, joint: bool) -> str:
    """The runtimes that the model can be exported to, and what prevents the others."""
    reasons = {
        "ctranslate2": ctranslate2_obstacles(settings),
        "huggingface": huggingface_obstacles(settings, joint),
    }
    supported = [kind for kind, causes in reasons.items() if not causes]
    parts = (
        [f"can be exported to {' and '.join(supported)} (regard export)"]
        if supported
        else ["runs in Regard only"]
    )
    parts += [
        f"not to {kind}: {', '.join(causes)}"
        for kind, causes in reasons.items()
        if causes
    ]
    return "; ".join(parts)
