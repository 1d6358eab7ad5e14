"""Gradient workers: several threads accumulate the gradients of one, rounding apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from laws.models import batched, make, pairs
from torch import Tensor, nn

from regard.data.batch import Example, TrainingBatch, collate
from regard.data.vocabulary import EOS
from regard.models import DECODERS, Model, ModelSettings
from regard.training.gradient_workers import GradientWorkers, autocast
from regard.training.loss import Loss, Objective

CPU = torch.device("cpu")
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
PAIRS = [
    [([5, 6, 7], [8, 9]), ([4], [10, 11, 5])],
    [([9, 9, 4, 8], []), ([6, 5], [4, 4, 7])],
    [([12], [7, 8]), ([14, 15], [9, 9])],
    [([5] * 5, [6, 7, 8])],
]
EXAMPLES = [[Example([*source, EOS], [*target, EOS]) for source, target in some] for some in PAIRS]
BATCHES = [(collate(some), f"1/1/{number}") for number, some in enumerate(EXAMPLES)]
TOKENS = sum(batch.tokens for batch, _ in BATCHES)
ALL = pairs(1, "target")
DIAGONAL = [
    ALL[i % (len(ALL) // len(DECODERS)) * len(DECODERS) + i % len(DECODERS)]
    for i in range(max(len(ALL) // len(DECODERS), len(DECODERS)))
]  # every encoder and every decoder, not every pair
Gradients = list[Tensor | None]


def dropping(settings: ModelSettings) -> ModelSettings:
    """The same model with dropout."""
    sides = (settings.encoder, settings.decoder)
    encoder, decoder = (side.with_values(dropout=0.3) for side in sides)
    return ModelSettings(encoder=encoder, decoder=decoder, share=settings.share)


def batches_for(settings: ModelSettings) -> list[tuple[TrainingBatch, str]]:
    """The same batches, with pictures for who reads them."""
    return [(batched(settings, some), key) for some, (_, key) in zip(EXAMPLES, BATCHES, strict=True)]


def one_pair() -> ModelSettings:
    """Settings of one model with dropout, where it does not matter which."""
    settings: ModelSettings = pairs(1, "target")[0].values[0]
    return dropping(settings)


def taken(model: nn.Module) -> Gradients:
    """The gradients that a model has, taken away from it."""
    found = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return found


def computed(
    objective: Objective,
    threads: int,
    batches: Sequence[tuple[TrainingBatch, str]] = BATCHES,
    tokens: int = TOKENS,
    low: str = "float32",
) -> tuple[Gradients, list[Loss]]:
    """The gradients and losses that so many threads find."""
    workers = GradientWorkers(objective, low, CPU, threads)
    try:
        losses = workers.gradients(batches, tokens)
    finally:
        workers.close()
    return taken(objective), losses


def assert_same(found: Gradients, wanted: Gradients) -> None:
    for mine, other in zip(found, wanted, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            torch.testing.assert_close(mine, other, **CLOSE)


def ordered(losses: Sequence[Loss]) -> list[tuple[float, float, int]]:
    return sorted((round(float(loss.smoothed), 3), round(float(loss.cross_entropy), 3), loss.tokens) for loss in losses)


# --- the same, however many


@pytest.mark.parametrize("settings", pairs(1))
def test_the_gradients_are_those_of_one_backward_pass_over_all_sentences(settings: ModelSettings) -> None:
    objective = Objective(make(settings), 0.1)
    whole: Loss = objective(batched(settings, [example for some in EXAMPLES for example in some]))
    (whole.smoothed / TOKENS).backward()
    wanted = taken(objective)
    for threads in (1, 2, 3):
        found, losses = computed(objective, threads, batches_for(settings))
        assert_same(found, wanted)
        assert sum(loss.tokens for loss in losses) == TOKENS
        assert float(sum(loss.smoothed for loss in losses)) == pytest.approx(whole.smoothed.item(), rel=1e-4)
        assert float(sum(loss.cross_entropy for loss in losses)) == pytest.approx(whole.cross_entropy.item(), rel=1e-4)


@pytest.mark.parametrize("settings", pairs(1))
@pytest.mark.parametrize("rdrop", [0.0, 5.0])
def test_with_dropout_the_keys_decide_the_masks_whoever_computes(settings: ModelSettings, rdrop: float) -> None:
    objective, batches = (
        Objective(make(dropping(settings)).train(), 0.1, rdrop, doubly_stochastic=0.1),
        batches_for(settings),
    )
    wanted, told = computed(objective, 1, batches)
    torch.manual_seed(99)  # the global generator has no say
    found, losses = computed(objective, 3, batches)
    assert_same(found, wanted)
    assert ordered(losses) == ordered(told)


@pytest.mark.parametrize("threads", [1, 2])
def test_other_keys_give_other_masks(threads: int) -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    one, same = (computed(objective, threads)[0] for _ in range(2))
    other, _ = computed(objective, threads, [(batch, f"2/1/{n}") for n, (batch, _) in enumerate(BATCHES)])
    assert_same(one, same)
    assert all(not torch.equal(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None)


@pytest.mark.parametrize("settings", DIAGONAL)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_batch_given_alone_adds_up_to_the_update(settings: ModelSettings, threads: int) -> None:
    objective = Objective(make(dropping(settings)).train(), 0.1)
    workers, batches = GradientWorkers(objective, "float32", CPU, threads), batches_for(settings)
    workers.gradients(batches, TOKENS)
    wanted = taken(objective)
    for batch in batches:
        workers.gradients([batch], TOKENS)  # not taken away: the next one's are added
    workers.close()
    assert_same(taken(objective), wanted)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_there_may_be_fewer_batches_than_threads(count: int) -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    (wanted, told), (found, losses) = (computed(objective, threads, BATCHES[:count]) for threads in (1, 3))
    assert_same(found, wanted)
    assert ordered(losses) == ordered(told)
    assert len(losses) == count


@pytest.mark.parametrize("settings", DIAGONAL)
def test_bfloat16_is_the_same_with_any_number_of_threads_too(settings: ModelSettings) -> None:
    objective, batches = Objective(make(dropping(settings)).train(), 0.1), batches_for(settings)
    (wanted, _), (found, _) = (computed(objective, threads, batches, low="bfloat16") for threads in (1, 2))
    for mine, other in zip(found, wanted, strict=True):
        assert mine is not None
        assert other is not None
        assert mine.dtype == torch.float32
        assert float((mine - other).norm()) <= 1e-2 * float(other.norm())


@pytest.mark.parametrize("share", ["all", "target"])
def test_shared_weights_get_the_gradients_of_all_their_uses(share: str) -> None:
    objective = Objective(make(pairs(1, share)[0].values[0]), 0.1)
    (wanted, _), (found, _) = (computed(objective, threads) for threads in (1, 3))
    assert_same(found, wanted)


# --- the weights


def test_frozen_weights_get_no_gradient_and_the_others_theirs() -> None:
    model = make(one_pair()).train()
    everything, _ = computed(Objective(model, 0.1), 1)
    for part in model.encoder.parameters():
        part.requires_grad_(False)
    frozen = [not parameter.requires_grad for parameter in model.parameters()]
    for threads in (1, 3):
        found, _ = computed(Objective(model, 0.1), threads)
        assert [gradient is None for gradient in found] == frozen
        wanted = [None if still else gradient for gradient, still in zip(everything, frozen, strict=True)]
        assert_same(found, wanted)


@pytest.mark.parametrize("settings", DIAGONAL)
def test_weights_that_an_optimizer_moved_are_seen_by_all_threads(settings: ModelSettings) -> None:
    results, batches = [], batches_for(settings)
    for threads in (1, 3):
        objective = Objective(make(settings), 0.1)
        workers = GradientWorkers(objective, "float32", CPU, threads)
        optimizer = torch.optim.SGD(objective.parameters(), 1e-2)
        workers.gradients(batches, TOKENS)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        workers.gradients(batches, TOKENS)
        workers.close()
        results.append([*taken(objective), *(parameter.detach() for parameter in objective.parameters())])
    assert_same(*results)


def test_weights_that_were_loaded_are_seen_by_all_threads() -> None:
    model, other = make(one_pair()), make(one_pair(), seed=1)
    objective = Objective(model, 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 3)
    model.load_state_dict(other.state_dict())
    workers.gradients(BATCHES, TOKENS)
    workers.close()
    assert_same(taken(objective), computed(Objective(other, 0.1), 1)[0])


def test_only_the_first_of_the_weights_keep_gradients() -> None:
    """What the other threads found is handed over: nothing of it is added to the next update."""
    objective = Objective(make(one_pair()).train(), 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 3)
    results = []
    for _ in range(2):
        workers.gradients(BATCHES, TOKENS)
        results.append(taken(objective))
    workers.close()
    assert_same(*results)


def test_a_crew_leaves_the_weights_as_they_are() -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    computed(objective, 3)
    for parameter, kept in zip(objective.parameters(), before, strict=True):
        assert torch.equal(parameter, kept)


# --- training or not


@pytest.mark.parametrize(
    "trains_first",
    [
        True,
        False,
    ],
)
def test_all_threads_drop_out_or_none(trains_first: bool) -> None:
    """A model may be told to train after its workers was made, as a model that was loaded is."""
    model = make(one_pair()).train(trains_first)
    objective = Objective(model, 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 2)
    model.train()
    workers.gradients(BATCHES, TOKENS)
    workers.close()
    assert_same(taken(objective), computed(objective, 1)[0])


# --- errors, and torch's threads


class Refusing(Objective):
    """An objective that refuses one batch."""

    def __init__(self, model: Model, refused: TrainingBatch | None) -> None:
        super().__init__(model, 0.1)
        self.refused: list[list[int]] = [] if refused is None else refused.source.tolist()

    def forward(self, batch: TrainingBatch) -> Loss:
        if batch.source.tolist() == self.refused:
            raise KeyError("refused")
        return super().forward(batch)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("number", [0, 3])
def test_an_error_in_a_thread_reaches_the_caller(threads: int, number: int) -> None:
    objective = Refusing(make(one_pair()), BATCHES[number][0])
    with pytest.raises(KeyError, match="refused"):
        computed(objective, threads)


@pytest.mark.parametrize("refused", [None, BATCHES[1][0]])
def test_torch_has_its_threads_back_after_an_error_too(refused: TrainingBatch | None) -> None:
    objective = Refusing(make(one_pair()), refused)
    torch.set_num_threads(2)
    try:
        with nullcontext() if refused is None else pytest.raises(KeyError, match="refused"):
            computed(objective, 2, BATCHES[:2])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("refused", [0, 1])
def test_after_an_error_nothing_is_left_of_it(refused: int) -> None:
    """Whoever catches the error, and cuts smaller batches where memory ended, starts from nothing."""
    objective = Refusing(make(one_pair()), BATCHES[refused][0])
    wanted, _ = computed(Objective(objective.model, 0.1), 1, BATCHES[2:])
    workers = GradientWorkers(objective, "float32", CPU, 2)
    with pytest.raises(KeyError, match="refused"):
        workers.gradients(BATCHES[:2], TOKENS)
    objective.zero_grad(set_to_none=True)
    workers.gradients(BATCHES[2:], TOKENS)
    workers.close()
    assert_same(taken(objective), wanted)


def test_an_error_is_told_when_all_threads_are_at_rest() -> None:
    """Else the next update would find a replica still at work on this one."""
    begun, told, told_early = threading.Event(), threading.Event(), []

    class Slow(Refusing):
        def forward(self, batch: TrainingBatch) -> Loss:
            if batch.source.tolist() == self.refused:
                assert begun.wait(10)
                raise KeyError("refused")
            begun.set()
            told_early.append(told.wait(0.3))
            return super().forward(batch)

    workers = GradientWorkers(Slow(make(one_pair()), BATCHES[0][0]), "float32", CPU, 2)
    with pytest.raises(KeyError, match="refused"):
        workers.gradients(BATCHES[:2], TOKENS)
    told.set()
    workers.close()
    assert told_early == [False]


def test_closing_lets_the_threads_go() -> None:
    before = threading.active_count()
    workers = GradientWorkers(Objective(make(one_pair()), 0.1), "float32", CPU, 3)
    workers.gradients(BATCHES, TOKENS)
    assert threading.active_count() > before
    workers.close()
    assert threading.active_count() == before


def test_every_batch_is_computed_once_and_by_as_many_threads_as_there_are() -> None:
    seen: list[tuple[str, int]] = []
    meet = threading.Barrier(2, timeout=10)

    class Seen(Objective):
        def forward(self, batch: TrainingBatch) -> Loss:
            meet.wait()  # both are at work at once
            seen.append((threading.current_thread().name, batch.indices[0]))
            return super().forward(batch)

    objective = Seen(make(one_pair()), 0.1)
    computed(objective, 2, [(collate(some, [n] * len(some)), str(n)) for n, some in enumerate(EXAMPLES)])
    assert sorted(line for _, line in seen) == [0, 1, 2, 3]
    names = [{name for name, line in seen if line % 2 == rest} for rest in (0, 1)]
    assert [len(some) for some in names] == [1, 1]
    assert names[0] != names[1]


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_precision_says_what_products_are_made_in(name: str, dtype: torch.dtype) -> None:
    with autocast(name, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
