"""Sharded training with FSDP2 (`fully_shard`).

Weights, gradients, optimizer state and moving average are sharded over the processes.
"""

from __future__ import annotations

import ctypes
import warnings
from contextlib import suppress

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from regard.attention import Attention
from regard.common.errors import ConfigurationError
from regard.models import Model, device_of
from regard.models.interface import ShardUnit

# Parameters of mallopt, from malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
RETURNED = 2**20
"""Bytes above which a freed block is returned to the system at once."""

METHODS = ("encode", "begin", "step", "project")
"""Methods by which decoding calls a model, instead of `forward`."""


def shard(model: Model, layers: bool = False) -> None:
    """Shard a model over all processes, in place.

    Every process must then call its methods in the same order. Gradients, optimizer state and
    moving average stay sharded. The weights are gathered before an update's first pass and freed
    after its last one. With `layers`, the weights of each layer are gathered only while it
    computes, forward and backward, and its gradients are reduced after each micro-batch.
    """
    device = device_of(model).type
    if device == "cpu":
        return_freed_memory()
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    # The warning is about writing to such a view, which is never done here.
    warnings.filterwarnings(
        "ignore", "FSDP2-wrapped module .* returned a view", UserWarning
    )
    units = [module for module in model.modules() if isinstance(module, ShardUnit)]
    for layer in units if layers else []:
        for module in layer.modules():
            # Cross-attention is a unit of its own, as it prepares keys long before its layer runs.
            if isinstance(module, Attention) and module.role == "cross":
                fully_shard(module, mesh=mesh)
                register_fsdp_forward_method(module, "keys_and_values")
        fully_shard(layer, mesh=mesh)
    root = fully_shard(model, mesh=mesh, reshard_after_forward=False)
    reduce_unused = getattr(root, "set_reduce_scatter_unused_params", None)
    if reduce_unused is not None:
        reduce_unused(True)  # LayerDrop may skip a layer in one process only
    elif any(getattr(module, "layer_dropout", 0) for module in model.modules()):
        raise ConfigurationError(
            "training.sharded with layer_dropout needs PyTorch 2.13; set layer_dropout to 0"
        )
    for method in METHODS:
        register_fsdp_forward_method(model, method)


def set_last_of_update(model: Model, last: bool) -> None:
    """Set whether the next backward pass is the last one of an update.

    After the last one, gradients are reduced and gathered weights are freed.
    """
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last, recurse=False)
        model.set_reshard_after_backward(last, recurse=False)


def reshard(model: Model) -> None:
    """Free gathered weights, so that the next pass gathers their new values."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def return_freed_memory() -> None:
    """Make glibc return the memory of freed weights to the system.

    By default glibc keeps blocks that are smaller than the largest one ever freed, up to 32 MiB; a
    third of the memory of a sharded model would be unused.
    """
    with suppress(OSError, AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, RETURNED)
        libc.mallopt(M_TRIM_THRESHOLD, RETURNED)
