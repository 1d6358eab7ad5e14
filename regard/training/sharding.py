"""Sharded training: weights, gradients, optimizer and moving average split over processes (FSDP2,
`fully_shard`).
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

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
RETURNED = 2**20  # bytes: larger blocks go back to the system when they are freed

METHODS = ("encode", "begin", "step", "project")


def shard(model: Model, layers: bool = False) -> None:
    """Shard a model over all processes, in place. Every process must call its methods in the same
    order from then on.

    Gradients, optimizer and average always stay sharded. The weights are gathered before an
    update's first pass and freed after its last. With `layers` those of each layer are gathered
    when it computes, forward and backward, and freed at once; its gradients are reduced after each
    micro-batch.
    """
    device = device_of(model).type
    if device == "cpu":
        return_freed_memory()
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    # It is never written to.
    warnings.filterwarnings(
        "ignore", "FSDP2-wrapped module .* returned a view", UserWarning
    )
    for layer in [
        module for module in model.modules() if layers and isinstance(module, ShardUnit)
    ]:
        for module in layer.modules():
            # Prepares keys long before the layer computes.
            if isinstance(module, Attention) and module.role == "cross":
                fully_shard(module, mesh=mesh)
                register_fsdp_forward_method(module, "keys_and_values")
        fully_shard(layer, mesh=mesh)
    root = fully_shard(model, mesh=mesh, reshard_after_forward=False)
    reduce_unused = getattr(root, "set_reduce_scatter_unused_params", None)
    if reduce_unused is not None:
        reduce_unused(True)  # LayerDrop may leave a layer out in one process
    elif any(getattr(module, "layer_dropout", 0) for module in model.modules()):
        raise ConfigurationError(
            "training.sharded with layer_dropout needs PyTorch 2.13; set layer_dropout to 0"
        )
    for method in METHODS:  # decoding calls these, not `forward`
        register_fsdp_forward_method(model, method)


def set_last_of_update(model: Model, last: bool) -> None:
    """Reduce the gradients and free the gathered weights after the next backward pass if it is an
    update's last.
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

    By itself it keeps blocks smaller than the largest one ever freed, up to 32 MiB: a third of the
    memory of a sharded model would be unused.
    """
    with suppress(OSError, AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, RETURNED)
        libc.mallopt(M_TRIM_THRESHOLD, RETURNED)
