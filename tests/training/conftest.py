"""Several processes of a run as threads of one process, each with a rank of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed import multi_threaded_pg as threaded

from regard.training.distributed import World

AsThreads = Callable[..., list[Any]]


@pytest.fixture
def as_threads() -> Iterator[AsThreads]:
    """Return a function that calls another once for each of so many ranks, in threads that are
    PyTorch's processes.

    PyTorch tests its own sharding by them. An error of one ends all.
    """
    threaded._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)

    def run(
        size: int, work: Callable[[World], Any], sharded: bool = False
    ) -> list[Any]:
        store = dist.HashStore()
        problems = list[BaseException]()

        def process(rank: int) -> Any:
            torch.set_num_threads(1)
            try:
                dist.init_process_group(
                    "threaded", rank=rank, world_size=size, store=store
                )
                return work(World(rank, size).split(sharded))
            except BaseException as problem:
                problems.append(problem)
                # So that the others do not wait for this one.
                threaded.ProcessLocalGroup.exception_handle(problem)
                raise problems[0] from None
            finally:
                if dist.is_initialized():
                    dist.destroy_process_group()

        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(process, range(size)))

    yield run
    torch._C._distributed_c10d._set_thread_isolation_mode(False)
    threaded.ProcessLocalGroup.reset()
    threaded._uninstall_threaded_pg()
