"""What a run would be, before it begins: the model and its parts, memory, time, and where else the model could run."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import torch

from regard.data.batching import BatchSource
from regard.models import Model, ModelSettings, count_parameters, ctranslate2_obstacles, huggingface_obstacles
from regard.training.budget import trial
from regard.training.recipe import Recipe

__all__ = ["report_run"]

COPIES = 5  # weights, gradients, two moments of the optimizer, the running average
MEBI = 2**20


def report_run(model: Model, recipe: Recipe, batches: BatchSource, device: str) -> Iterator[str]:
    """Lines to print. A few updates are tried on a copy of the model, and forgotten."""
    yield from _parts(model, recipe.model)
    weights = 4 * COPIES * count_parameters(model) / MEBI
    pieces = 0 if recipe.model.encoder.reads == "pictures" else model.encoder.embedding.weight.shape[0]
    tried = trial(recipe, batches, (pieces, model.decoder.output.weight.shape[0]), device)
    yield (
        f"memory: {weights:,.0f} MiB for weights, gradients, optimizer and average; "
        f"at most {_peak(device):,.0f} MiB in all while {tried.updates} updates were tried"
    )
    yield f"speed: {tried.seconds:.2f} s an update, {tried.tokens / tried.seconds:,.0f} target pieces/s on {device}"
    yield _time(recipe, tried.seconds, tried.tokens, batches.epoch_stats.tokens[1])
    yield f"elsewhere: {_elsewhere(recipe.model, recipe.tokenizer.joint)}"


def _parts(model: Model, settings: ModelSettings) -> Iterator[str]:
    sides = f"{settings.encoder.kind} encoder, {settings.decoder.kind} decoder"
    yield f"model: {count_parameters(model):,} weights; {sides}; embeddings shared: {settings.share}"
    seen: set[int] = set()
    for name, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        for inner, module in part.named_children():
            new = {id(p): p.numel() for p in module.parameters() if id(p) not in seen}
            seen |= new.keys()
            if new:
                yield f"  {name}.{inner}: {sum(new.values()):,}"


def _time(recipe: Recipe, each: float, tokens: float, epoch: float) -> str:
    s = recipe.training
    updates = s.updates if s.updates is not None else int(s.minutes * 60 / each) if s.minutes is not None else None
    if updates is None:
        end = f"ends after {s.patience} looks without a better score"
        return f"time: {epoch / tokens * each / 60:.1f} minutes an epoch; {end}"
    return f"time: {updates:,} updates, about {updates * each / 60:.0f} minutes, {updates * tokens / epoch:.1f} epochs"


def _peak(device: str) -> float:
    """The most memory that was in use, in MiB: of the device, or of this process."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / MEBI
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / MEBI if sys.platform == "darwin" else most / 1024


def _elsewhere(settings: ModelSettings, joint: bool) -> str:
    """Which other runtimes the model can be exported to, and what keeps it from the others."""
    reasons = {"ctranslate2": ctranslate2_obstacles(settings), "huggingface": huggingface_obstacles(settings, joint)}
    can = [kind for kind, causes in reasons.items() if not causes]
    told = [f"can be exported to {' and '.join(can)} (regard export)"] if can else ["runs in Regard only"]
    told += [f"not to {kind}: {', '.join(causes)}" for kind, causes in reasons.items() if causes]
    return "; ".join(told)
