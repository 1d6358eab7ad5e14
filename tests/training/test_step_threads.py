"""The optimizer's step of a small model takes one thread, which waits for no other; the bits are
the same.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    monkeypatch: pytest.MonkeyPatch, weights_a_thread: int, fail: bool = False
) -> tuple[int, list[torch.Tensor]]:
    """Return the threads that a step saw, and the weights after three steps."""
    monkeypatch.setattr(updater, "WEIGHTS_A_THREAD", weights_a_thread)
    data = {"data": {"source": "a", "target": "b"}}
    recipe = Recipe.parse(merge(preset("transformer-tiny"), data), "the test").resolved(
        "cpu"
    )
    torch.manual_seed(1)
    model = build(recipe.model, 300, 300, True)
    trained = Updater(model, recipe, 1)
    threads = list[int]()
    step = trained.optimizer.step

    def observed() -> None:
        threads.append(torch.get_num_threads())
        if fail:
            raise MemoryError
        step()

    monkeypatch.setattr(trained.optimizer, "step", observed)
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        trained.step(1e-3)
    trained.workers.close()
    return max(threads), [parameter.detach() for parameter in model.parameters()]


@pytest.mark.system
def test_a_small_model_takes_one_thread_and_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = (
        _step(monkeypatch, weights) for weights in (updater.WEIGHTS_A_THREAD, 1)
    )
    assert (one[0], two[0]) == (1, 2)
    assert all(
        torch.equal(first, second) for first, second in zip(one[1], two[1], strict=True)
    )
    assert torch.get_num_threads() == 2, "the threads of everything else are as before"


def test_a_failed_step_gives_the_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError):
        _step(monkeypatch, updater.WEIGHTS_A_THREAD, fail=True)
    assert torch.get_num_threads() == 2
