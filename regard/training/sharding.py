"""Weights, gradients, optimizer and average split over the processes, with PyTorch's `fully_shard`."""

from __future__ import annotations

import ctypes
import warnings
from contextlib import suppress

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from regard.attention import Attention
from regard.models import Model, device_of
from regard.models.interface import ShardUnit

__all__ = ["last_of_update", "reshard", "shard"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
GIVEN_BACK = 2**20  # bytes: what is at least so large goes back to the system when it is let go

VERBS = ("encode", "begin", "step", "project")


def shard(model: Model, layers: bool = False) -> None:
    """Split a model over all processes, in place. Every process must call its verbs in the same order from then on.

    Gradients, optimizer and average are always held in shares. The weights are gathered before an update's first pass
    and let go after its last. With `layers` those of each layer are gathered when it computes, forward and backward,
    and let go at once; its gradients are added up after each batch.
    """
    device = device_of(model).type
    if device == "cpu":
        _give_back()
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)  # nobody writes into it
    for layer in _layers(model) if layers else ():
        for read in layer.modules():
            if isinstance(read, Attention) and read.role == "cross":  # it is prepared long before the layer computes
                fully_shard(read, mesh=mesh)
                register_fsdp_forward_method(read, "entries")
        fully_shard(layer, mesh=mesh)
    whole = fully_shard(model, mesh=mesh, reshard_after_forward=False)
    whole.set_reduce_scatter_unused_params(True)  # a layer that one process left out has no gradient there
    for verb in VERBS:  # decoding calls these, not `forward`
        register_fsdp_forward_method(model, verb)


def last_of_update(model: Model, last: bool) -> None:
    """Whether the next backward pass is the last of an update: then gradients are added up, and weights let go."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last, recurse=False)
        model.set_reshard_after_backward(last, recurse=False)


def reshard(model: Model) -> None:
    """Let gathered weights go: the next pass gathers them as they are then."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def _give_back() -> None:
    """Let weights that were gathered and let go leave this process, where glibc allocates.

    By itself it keeps what is smaller than the largest block ever freed, up to 32 MiB: a third of the memory of a
    model in shares then is what nobody uses.
    """
    with suppress(OSError, AttributeError):  # another system, or another allocator
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, GIVEN_BACK)
        libc.mallopt(M_TRIM_THRESHOLD, GIVEN_BACK)


def _layers(model: nn.Module) -> list[ShardUnit]:
    return [module for module in model.modules() if isinstance(module, ShardUnit)]
