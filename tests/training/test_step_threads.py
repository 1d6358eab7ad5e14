"""The optimizer's step of a small model takes one thread, which waits for no other; the bits are
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch

from regard.common.settings import merge
from regard.models import build
from regard.training import Recipe, updater
from regard.training.recipe import preset
from regard.training.updater import Updater


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _step(
    monkeypatch: pytest.MonkeyPatch, weights_a_thread: int
) -> tuple[set[int], list[torch.Tensor]]:
    """Return the threads that steps saw, and the weights after three steps and one that fails."""
    monkeypatch.setattr(updater, "WEIGHTS_A_THREAD", weights_a_thread)
    data = {"data": {"source": "a", "target": "b"}}
    recipe = Recipe.parse(merge(preset("transformer-tiny"), data), "the test")
    torch.manual_seed(1)
    model = build(recipe.model, 300, 300, True)
    trained = Updater(model, recipe.resolved("cpu"), 1)
    threads = set[int]()
    step = trained.optimizer.step

    def observed() -> None:
        threads.add(torch.get_num_threads())
        step()

    monkeypatch.setattr(trained.optimizer, "step", observed)
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        trained.step(1e-3)

        assert torch.get_num_threads() == 2

    failing = Mock(side_effect=MemoryError)
    monkeypatch.setattr(trained.optimizer, "step", failing)

    with pytest.raises(MemoryError):
        trained.step(1e-3)
    assert torch.get_num_threads() == 2, "the threads of everything else are as before"

    trained.workers.close()
    return threads, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.system
def test_a_small_model_takes_one_thread_and_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, weights = _step(monkeypatch, updater.WEIGHTS_A_THREAD)
    two, others = _step(monkeypatch, 1)

    assert (one, two) == ({1}, {2})
    assert all(map(torch.equal, weights, others))
