"""Weights, gradients, optimizer and average split over the processes, with PyTorch's `fully_shard`."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from regard.models import Model, device_of

__all__ = ["gathered_anew", "last_of_update", "shard"]

VERBS = ("encode", "begin", "step", "project")


def shard(model: Model) -> None:
    """Split a model over all processes, in place. Every process must call its verbs in the same order from then on.

    The weights are gathered before an update's first pass and let go after its last: between updates, and always for
    gradients, optimizer and average, each process holds its share only.
    """
    fully_shard(
        model, mesh=init_device_mesh(device_of(model).type, (dist.get_world_size(),)), reshard_after_forward=False
    )
    for verb in VERBS:  # decoding calls these, not `forward`
        register_fsdp_forward_method(model, verb)


def last_of_update(model: Model, last: bool) -> None:
    """Whether the next backward pass is the last of an update: then gradients are added up, and weights let go."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
        model.set_reshard_after_backward(last)


def gathered_anew(model: Model) -> None:
    """Let gathered weights go: the next pass gathers them as they are then."""
    if isinstance(model, FSDPModule):
        model.reshard()
