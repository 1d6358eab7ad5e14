"""Gradient workers: several threads accumulate the same gradients as one, up to rounding."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import torch
from helpers.tensor_equality import assert_all_close, assert_all_near
from laws.models import batched, kinds, make
from torch import Tensor, nn
from training.examples import EXAMPLES, with_dropout

from regard.data.batch import TrainingBatch, collate
from regard.models import DECODERS, Model, ModelSettings
from regard.training.gradient_workers import GradientWorkers, autocast
from regard.training.loss import Loss, LossFunction, Objective

CPU = torch.device("cpu")
BATCHES = [
    (collate(examples), f"1/1/{number}") for number, examples in enumerate(EXAMPLES)
]
TOKENS = sum(batch.tokens for batch, _ in BATCHES)
ALL_KINDS = kinds("target")
# Every encoder and every decoder, not every pair.
ENCODER_COUNT = len(ALL_KINDS) // len(DECODERS)
DIAGONAL = [
    ALL_KINDS[i % ENCODER_COUNT * len(DECODERS) + i % len(DECODERS)]
    for i in range(max(ENCODER_COUNT, len(DECODERS)))
]
Gradients = list[Tensor | None]
Batches = Sequence[tuple[TrainingBatch, str]]


def batches_for(settings: ModelSettings) -> Batches:
    """Return the same batches, with images if the encoder reads images."""
    return [
        (batched(settings, examples), key)
        for examples, (_, key) in zip(EXAMPLES, BATCHES, strict=True)
    ]


SMOOTHED = Objective(0.1)


def one_model(seed: int = 0) -> Model:
    """Return a model with dropout, for tests that any model will do for."""
    return make(with_dropout(ALL_KINDS[0].values[0]), seed).train()


def take_gradients(model: nn.Module) -> Gradients:
    """Return the gradients of a model, and clear them."""
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return gradients


def compute_gradients(
    model: Model,
    threads: int,
    batches: Batches = BATCHES,
    precision: str = "float32",
    objective: LossFunction = SMOOTHED,
) -> tuple[Gradients, list[Loss]]:
    """Compute gradients and losses with this number of threads."""
    workers = GradientWorkers(model, objective, precision, CPU, threads)
    try:
        losses = workers.gradients(batches, TOKENS)
    finally:
        workers.close()

    return take_gradients(model), losses


def assert_gradients_close(actual: Gradients, expected: Gradients) -> None:
    assert_all_close(actual, expected, rtol=1e-4, atol=1e-5)


def assert_losses_close(actual: Sequence[Loss], expected: Sequence[Loss]) -> None:
    for loss, other in zip(actual, expected, strict=True):
        assert loss.tokens == other.tokens
        for name in ("smoothed", "cross_entropy"):
            torch.testing.assert_close(
                getattr(loss, name), getattr(other, name), rtol=1e-4, atol=1e-3
            )


# --- equal gradients for any number of threads


@pytest.mark.parametrize("settings", kinds())
def test_gradients_equal_those_of_one_backward_pass_over_all_sentences(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    everything = [example for examples in EXAMPLES for example in examples]
    whole = SMOOTHED(model, batched(settings, everything))
    (whole.smoothed / TOKENS).backward()
    expected = take_gradients(model)
    for threads in (1, 3):
        gradients, losses = compute_gradients(model, threads, batches_for(settings))

        assert_gradients_close(gradients, expected)

        assert sum(loss.tokens for loss in losses) == TOKENS

        for name in ("smoothed", "cross_entropy"):
            total = sum(float(getattr(loss, name)) for loss in losses)
            assert total == pytest.approx(getattr(whole, name).item(), rel=1e-4)


@pytest.mark.parametrize("settings", DIAGONAL)
def test_dropout_masks_depend_on_the_keys_and_not_on_the_thread(
    settings: ModelSettings,
) -> None:
    model = make(with_dropout(settings)).train()
    objective = Objective(0.1, 5.0, doubly_stochastic=0.1)
    batches = batches_for(settings)
    expected, expected_losses = compute_gradients(
        model, 1, batches, objective=objective
    )
    torch.manual_seed(99)  # the global generator has no influence
    actual, losses = compute_gradients(model, 3, batches, objective=objective)

    assert_gradients_close(actual, expected)

    assert_losses_close(losses, expected_losses)


def test_dropout_masks_in_bfloat16_do_not_depend_on_the_thread() -> None:
    model = one_model()
    expected, _ = compute_gradients(model, 1, precision="bfloat16")
    actual, _ = compute_gradients(model, 3, precision="bfloat16")
    for gradient, reference in zip(actual, expected, strict=True):
        assert (gradient is None) == (reference is None)
        if gradient is not None and reference is not None:
            assert gradient.dtype == torch.float32
            assert_all_near([gradient], [reference], 1e-2)


def test_different_keys_give_different_masks() -> None:
    model = one_model()
    first, repeated = (compute_gradients(model, 2)[0] for _ in range(2))
    others = [(batch, f"2/1/{number}") for number, (batch, _) in enumerate(BATCHES)]
    different, _ = compute_gradients(model, 2, others)

    assert_gradients_close(first, repeated)

    for one, other in zip(first, different, strict=True):
        assert one is None or other is None or not torch.equal(one, other)


@pytest.mark.parametrize("count", [0, 2])
def test_there_may_be_fewer_batches_than_threads(count: int) -> None:
    model = one_model()
    expected, expected_losses = compute_gradients(model, 1, BATCHES[:count])
    gradients, losses = compute_gradients(model, 3, BATCHES[:count])

    assert_gradients_close(gradients, expected)

    assert_losses_close(losses, expected_losses)
    assert len(losses) == count


# --- the weights


def test_frozen_and_shared_weights_get_the_gradients_that_they_get_in_one_thread() -> (
    None
):
    model = make(kinds("all")[0].values[0])
    expected, _ = compute_gradients(model, 1)
    frozen = next(model.encoder.layers.parameters())
    frozen.requires_grad_(False)
    for number, parameter in enumerate(model.parameters()):
        if parameter is frozen:
            expected[number] = None

    for threads in (1, 3):
        gradients, _ = compute_gradients(model, threads)
        assert_gradients_close(gradients, expected)


def test_all_threads_use_the_weights_and_the_mode_that_were_set_later() -> None:
    """A model is loaded, or its training mode is set, after the workers were created."""
    results = []
    loaded = one_model(seed=1).state_dict()
    for threads in (1, 3):
        model = one_model().eval()
        workers = GradientWorkers(model, SMOOTHED, "float32", CPU, threads)
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        model.load_state_dict(loaded)
        model.train()
        workers.gradients(BATCHES, TOKENS)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        workers.gradients(BATCHES, TOKENS)
        workers.close()
        weights = [parameter.detach() for parameter in model.parameters()]
        results.append([*take_gradients(model), *weights])

    assert_gradients_close(*results)


def test_gradients_are_added_to_those_there_are_and_replicas_keep_none() -> None:
    model = one_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    workers = GradientWorkers(model, SMOOTHED, "float32", CPU, 3)
    workers.gradients(BATCHES, TOKENS)
    expected = take_gradients(model)
    for batch in BATCHES:
        workers.gradients([batch], TOKENS)

    assert_gradients_close(take_gradients(model), expected)

    workers.gradients(BATCHES, TOKENS)

    assert_gradients_close(take_gradients(model), expected)

    workers.close()
    for parameter, original in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, original), "the weights stay"


# --- errors, and torch's threads


class Refusing(Objective):
    """Objective that raises an error for one batch."""

    def __init__(self, refused: TrainingBatch) -> None:
        super().__init__(0.1)
        self.refused: list[list[int]] = refused.source.tolist()

    def __call__(self, model: Model, batch: TrainingBatch) -> Loss:
        if batch.source.tolist() == self.refused:
            raise KeyError("refused")
        return super().__call__(model, batch)


@pytest.mark.parametrize(("threads", "number"), [(1, 0), (2, 1)])
def test_an_error_in_a_thread_reaches_the_caller_and_leaves_nothing_behind(
    threads: int, number: int
) -> None:
    """A caller that catches the error, and splits the batches if memory ran out, starts from
    zero.
    """
    model = one_model()
    objective = Refusing(BATCHES[number][0])
    expected, _ = compute_gradients(model, 1, BATCHES[2:])
    torch.set_num_threads(2)
    try:
        workers = GradientWorkers(model, objective, "float32", CPU, threads)

        with pytest.raises(KeyError, match="refused"):
            workers.gradients(BATCHES[:2], TOKENS)
        assert torch.get_num_threads() == 2

        model.zero_grad(set_to_none=True)
        workers.gradients(BATCHES[2:], TOKENS)
        workers.close()

        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)

    assert_gradients_close(take_gradients(model), expected)


def test_an_error_is_raised_after_all_threads_have_finished() -> None:
    """Otherwise a replica could still be computing this update when the next one begins."""
    started = threading.Event()
    raised = threading.Event()
    raised_early = []

    class Slow(Refusing):
        def __call__(self, model: Model, batch: TrainingBatch) -> Loss:
            if batch.source.tolist() == self.refused:
                assert started.wait(60)
                raise KeyError("refused")
            started.set()
            raised_early.append(raised.wait(0.3))
            return super().__call__(model, batch)

    workers = GradientWorkers(one_model(), Slow(BATCHES[0][0]), "float32", CPU, 2)

    with pytest.raises(KeyError, match="refused"):
        workers.gradients(BATCHES[:2], TOKENS)

    raised.set()
    workers.close()

    assert raised_early == [False]


def test_every_batch_is_computed_once_and_by_threads_that_end() -> None:
    computed = dict[str, list[int]]()
    barrier = threading.Barrier(2, timeout=60)
    before = threading.active_count()

    class Recording(Objective):
        def __call__(self, model: Model, batch: TrainingBatch) -> Loss:
            barrier.wait()  # both threads compute at once
            name = threading.current_thread().name
            computed.setdefault(name, []).append(len(batch.source))
            return super().__call__(model, batch)

    batches = []
    for count in (1, 2, 3, 4):
        batches.append((collate(EXAMPLES[0] * count), str(count)))
    compute_gradients(one_model(), 2, batches, objective=Recording(0.1))

    assert sorted(map(sorted, computed.values())) == [[2, 6], [4, 8]]
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_autocast_sets_the_precision_of_matrix_products(
    name: str, dtype: torch.dtype
) -> None:
    with autocast(name, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
