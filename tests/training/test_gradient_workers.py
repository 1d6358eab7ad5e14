"""Gradient workers: several threads accumulate the same gradients as one, up to rounding."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from laws.models import batched, kinds, make
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
EXAMPLES = [
    [Example([*source, EOS], [*target, EOS]) for source, target in sentences] for sentences in PAIRS
]
BATCHES = [(collate(examples), f"1/1/{number}") for number, examples in enumerate(EXAMPLES)]
TOKENS = sum(batch.tokens for batch, _ in BATCHES)
ALL_PAIRS = kinds("target")
# Every encoder and every decoder, not every pair.
DIAGONAL = [
    ALL_PAIRS[i % (len(ALL_PAIRS) // len(DECODERS)) * len(DECODERS) + i % len(DECODERS)]
    for i in range(max(len(ALL_PAIRS) // len(DECODERS), len(DECODERS)))
]
Gradients = list[Tensor | None]


def with_dropout(settings: ModelSettings) -> ModelSettings:
    """Return the same settings with dropout."""
    sides = (settings.encoder, settings.decoder)
    encoder, decoder = (side.with_values(dropout=0.3) for side in sides)
    return ModelSettings(encoder=encoder, decoder=decoder, share=settings.share)


def batches_for(settings: ModelSettings) -> list[tuple[TrainingBatch, str]]:
    """Return the same batches, with images if the encoder reads images."""
    return [
        (batched(settings, examples), key)
        for examples, (_, key) in zip(EXAMPLES, BATCHES, strict=True)
    ]


def one_pair() -> ModelSettings:
    """Return the settings of one model with dropout, for tests that any model will do for."""
    settings: ModelSettings = kinds("target")[0].values[0]
    return with_dropout(settings)


def take_gradients(model: nn.Module) -> Gradients:
    """Return the gradients of a model, and clear them."""
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return gradients


def compute_gradients(
    objective: Objective,
    threads: int,
    batches: Sequence[tuple[TrainingBatch, str]] = BATCHES,
    tokens: int = TOKENS,
    precision: str = "float32",
) -> tuple[Gradients, list[Loss]]:
    """Compute gradients and losses with this number of threads."""
    workers = GradientWorkers(objective, precision, CPU, threads)
    try:
        losses = workers.gradients(batches, tokens)
    finally:
        workers.close()
    return take_gradients(objective), losses


def assert_gradients_close(actual: Gradients, expected: Gradients) -> None:
    for gradient, expected_gradient in zip(actual, expected, strict=True):
        assert (gradient is None) == (expected_gradient is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


def sorted_losses(losses: Sequence[Loss]) -> list[tuple[float, float, int]]:
    return sorted(
        (round(float(loss.smoothed), 3), round(float(loss.cross_entropy), 3), loss.tokens)
        for loss in losses
    )


# --- equal gradients for any number of threads


@pytest.mark.parametrize("settings", kinds())
def test_gradients_equal_those_of_one_backward_pass_over_all_sentences(
    settings: ModelSettings,
) -> None:
    objective = Objective(make(settings), 0.1)
    whole: Loss = objective(
        batched(settings, [example for examples in EXAMPLES for example in examples])
    )
    (whole.smoothed / TOKENS).backward()
    expected = take_gradients(objective)
    for threads in (1, 2, 3):
        gradients, losses = compute_gradients(objective, threads, batches_for(settings))
        assert_gradients_close(gradients, expected)
        assert sum(loss.tokens for loss in losses) == TOKENS
        assert float(sum(loss.smoothed for loss in losses)) == pytest.approx(
            whole.smoothed.item(), rel=1e-4
        )
        assert float(sum(loss.cross_entropy for loss in losses)) == pytest.approx(
            whole.cross_entropy.item(), rel=1e-4
        )


@pytest.mark.parametrize("settings", kinds())
@pytest.mark.parametrize("rdrop", [pytest.param(0.0, marks=pytest.mark.slow), 5.0])
def test_dropout_masks_depend_on_the_keys_and_not_on_the_thread(
    settings: ModelSettings, rdrop: float
) -> None:
    objective = Objective(make(with_dropout(settings)).train(), 0.1, rdrop, doubly_stochastic=0.1)
    batches = batches_for(settings)
    expected, expected_losses = compute_gradients(objective, 1, batches)
    torch.manual_seed(99)  # the global generator has no influence
    gradients, losses = compute_gradients(objective, 3, batches)
    assert_gradients_close(gradients, expected)
    assert sorted_losses(losses) == sorted_losses(expected_losses)


@pytest.mark.parametrize("threads", [1, 2])
def test_different_keys_give_different_masks(threads: int) -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    first, repeated = (compute_gradients(objective, threads)[0] for _ in range(2))
    different, _ = compute_gradients(
        objective, threads, [(batch, f"2/1/{n}") for n, (batch, _) in enumerate(BATCHES)]
    )
    assert_gradients_close(first, repeated)
    assert all(
        not torch.equal(a, b)
        for a, b in zip(first, different, strict=True)
        if a is not None and b is not None
    )


@pytest.mark.parametrize("settings", DIAGONAL)
@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_of_single_batches_add_up_to_those_of_the_update(
    settings: ModelSettings, threads: int
) -> None:
    objective = Objective(make(with_dropout(settings)).train(), 0.1)
    workers = GradientWorkers(objective, "float32", CPU, threads)
    batches = batches_for(settings)
    workers.gradients(batches, TOKENS)
    expected = take_gradients(objective)
    for batch in batches:
        workers.gradients([batch], TOKENS)  # not cleared: the gradients of the next batch are added
    workers.close()
    assert_gradients_close(take_gradients(objective), expected)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_there_may_be_fewer_batches_than_threads(count: int) -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    (expected, expected_losses), (gradients, losses) = (
        compute_gradients(objective, threads, BATCHES[:count]) for threads in (1, 3)
    )
    assert_gradients_close(gradients, expected)
    assert sorted_losses(losses) == sorted_losses(expected_losses)
    assert len(losses) == count


@pytest.mark.parametrize("settings", DIAGONAL)
def test_bfloat16_gradients_are_close_for_any_number_of_threads(settings: ModelSettings) -> None:
    objective = Objective(make(with_dropout(settings)).train(), 0.1)
    batches = batches_for(settings)
    (expected, _), (gradients, _) = (
        compute_gradients(objective, threads, batches, precision="bfloat16") for threads in (1, 2)
    )
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        assert (gradient is None) == (expected_gradient is None)
        if gradient is None or expected_gradient is None:  # of what this decoder does not read
            continue
        assert gradient.dtype == torch.float32
        assert float((gradient - expected_gradient).norm()) <= 1e-2 * float(
            expected_gradient.norm()
        )


@pytest.mark.parametrize("share", ["all", "target"])
def test_shared_weights_get_the_gradients_of_all_their_uses(share: str) -> None:
    objective = Objective(make(kinds(share)[0].values[0]), 0.1)
    (expected, _), (gradients, _) = (compute_gradients(objective, threads) for threads in (1, 3))
    assert_gradients_close(gradients, expected)


# --- the weights


def test_frozen_weights_get_no_gradient_and_the_rest_are_unchanged() -> None:
    model = make(one_pair()).train()
    unfrozen_gradients, _ = compute_gradients(Objective(model, 0.1), 1)
    for parameter in model.encoder.parameters():
        parameter.requires_grad_(False)
    frozen = [not parameter.requires_grad for parameter in model.parameters()]
    for threads in (1, 3):
        gradients, _ = compute_gradients(Objective(model, 0.1), threads)
        assert [gradient is None for gradient in gradients] == frozen
        expected = [
            None if is_frozen else gradient
            for gradient, is_frozen in zip(unfrozen_gradients, frozen, strict=True)
        ]
        assert_gradients_close(gradients, expected)


@pytest.mark.parametrize("settings", DIAGONAL)
def test_all_threads_use_the_weights_that_an_optimizer_updated(settings: ModelSettings) -> None:
    results = []
    batches = batches_for(settings)
    for threads in (1, 3):
        objective = Objective(make(settings), 0.1)
        workers = GradientWorkers(objective, "float32", CPU, threads)
        optimizer = torch.optim.SGD(objective.parameters(), 1e-2)
        workers.gradients(batches, TOKENS)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        workers.gradients(batches, TOKENS)
        workers.close()
        results.append(
            [
                *take_gradients(objective),
                *(parameter.detach() for parameter in objective.parameters()),
            ]
        )
    assert_gradients_close(*results)


def test_all_threads_use_loaded_weights() -> None:
    model = make(one_pair())
    loaded = make(one_pair(), seed=1)
    objective = Objective(model, 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 3)
    model.load_state_dict(loaded.state_dict())
    workers.gradients(BATCHES, TOKENS)
    workers.close()
    assert_gradients_close(
        take_gradients(objective), compute_gradients(Objective(loaded, 0.1), 1)[0]
    )


def test_replicas_keep_no_gradients_for_the_next_update() -> None:
    """The gradients of the replicas move to the model: nothing of them is added to the next
    update.
    """
    objective = Objective(make(one_pair()).train(), 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 3)
    results = []
    for _ in range(2):
        workers.gradients(BATCHES, TOKENS)
        results.append(take_gradients(objective))
    workers.close()
    assert_gradients_close(*results)


def test_computing_gradients_leaves_the_weights_unchanged() -> None:
    objective = Objective(make(one_pair()).train(), 0.1)
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    compute_gradients(objective, 3)
    for parameter, original in zip(objective.parameters(), before, strict=True):
        assert torch.equal(parameter, original)


# --- training mode


@pytest.mark.parametrize(
    "trains_first",
    [
        True,
        False,
    ],
)
def test_replicas_follow_the_training_mode_of_the_model(trains_first: bool) -> None:
    """Training mode may be set after the workers were created, as for a loaded model."""
    model = make(one_pair()).train(trains_first)
    objective = Objective(model, 0.1)
    workers = GradientWorkers(objective, "float32", CPU, 2)
    model.train()
    workers.gradients(BATCHES, TOKENS)
    workers.close()
    assert_gradients_close(take_gradients(objective), compute_gradients(objective, 1)[0])


# --- errors, and torch's threads


class Refusing(Objective):
    """Objective that raises an error for one batch."""

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
        compute_gradients(objective, threads)


@pytest.mark.parametrize("refused", [None, BATCHES[1][0]])
def test_the_number_of_torch_threads_is_restored_after_an_error_too(
    refused: TrainingBatch | None,
) -> None:
    objective = Refusing(make(one_pair()), refused)
    torch.set_num_threads(2)
    try:
        with nullcontext() if refused is None else pytest.raises(KeyError, match="refused"):
            compute_gradients(objective, 2, BATCHES[:2])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("refused", [0, 1])
def test_an_error_leaves_no_gradients_behind(refused: int) -> None:
    """A caller that catches the error, and splits the batches if memory ran out, starts from
    zero.
    """
    objective = Refusing(make(one_pair()), BATCHES[refused][0])
    expected, _ = compute_gradients(Objective(objective.model, 0.1), 1, BATCHES[2:])
    workers = GradientWorkers(objective, "float32", CPU, 2)
    with pytest.raises(KeyError, match="refused"):
        workers.gradients(BATCHES[:2], TOKENS)
    objective.zero_grad(set_to_none=True)
    workers.gradients(BATCHES[2:], TOKENS)
    workers.close()
    assert_gradients_close(take_gradients(objective), expected)


def test_an_error_is_raised_after_all_threads_have_finished() -> None:
    """Otherwise a replica could still be computing this update when the next one begins."""
    started = threading.Event()
    raised = threading.Event()
    raised_early = []

    class Slow(Refusing):
        def forward(self, batch: TrainingBatch) -> Loss:
            if batch.source.tolist() == self.refused:
                assert started.wait(60)
                raise KeyError("refused")
            started.set()
            raised_early.append(raised.wait(0.3))
            return super().forward(batch)

    workers = GradientWorkers(Slow(make(one_pair()), BATCHES[0][0]), "float32", CPU, 2)
    with pytest.raises(KeyError, match="refused"):
        workers.gradients(BATCHES[:2], TOKENS)
    raised.set()
    workers.close()
    assert raised_early == [False]


def test_closing_ends_the_threads() -> None:
    before = threading.active_count()
    workers = GradientWorkers(Objective(make(one_pair()), 0.1), "float32", CPU, 3)
    workers.gradients(BATCHES, TOKENS)
    assert threading.active_count() > before
    workers.close()
    assert threading.active_count() == before


def test_every_batch_is_computed_once_and_by_all_threads() -> None:
    computed: list[tuple[str, int]] = []
    barrier = threading.Barrier(2, timeout=60)

    class Recording(Objective):
        def forward(self, batch: TrainingBatch) -> Loss:
            barrier.wait()  # both threads compute at once
            computed.append((threading.current_thread().name, batch.indices[0]))
            return super().forward(batch)

    objective = Recording(make(one_pair()), 0.1)
    compute_gradients(
        objective,
        2,
        [(collate(examples, [n] * len(examples)), str(n)) for n, examples in enumerate(EXAMPLES)],
    )
    assert sorted(index for _, index in computed) == [0, 1, 2, 3]
    thread_names = [
        {name for name, index in computed if index % 2 == remainder} for remainder in (0, 1)
    ]
    assert [len(names) for names in thread_names] == [1, 1]
    assert thread_names[0] != thread_names[1]


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_autocast_sets_the_precision_of_matrix_products(name: str, dtype: torch.dtype) -> None:
    with autocast(name, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
