"""A linear layer repeated in a loop is the linear layer: at every step, and in every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.deferred_linear import DeferredLinear

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
N, IN, OUT, STEPS = 4, 5, 6, 7


def parameters(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(OUT, IN, dtype=dtype).requires_grad_(), torch.randn(OUT, dtype=dtype).requires_grad_()


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(N, IN, dtype=dtype).requires_grad_() for _ in range(STEPS)]


def told(outputs: list[Tensor]) -> Tensor:
    """One number in which every output counts, each in its own way."""
    return torch.stack([(y * (1 + t)).sin().sum() for t, y in enumerate(outputs)]).sum()


def assert_same(found: Any, wanted: Any) -> None:
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("biased", [True, False])
def test_every_step_is_the_linear_layer_and_gradients_are_summed_over_steps(biased: bool) -> None:
    weight, bias = parameters()
    steps, own = inputs(), bias if biased else None
    learnt = [weight, *steps, *([bias] if biased else [])]
    repeated = DeferredLinear(weight, own)
    found, wanted = [repeated(x) for x in steps], [F.linear(x, weight, own) for x in steps]
    assert_same(found, wanted)
    assert_same(torch.autograd.grad(told(found), learnt), torch.autograd.grad(told(wanted), learnt))


def test_one_step_that_feeds_the_next_is_the_linear_layer_too() -> None:
    weight, bias = torch.randn(IN, IN, requires_grad=True), torch.randn(IN, requires_grad=True)
    start, results = torch.randn(N, IN, requires_grad=True), []
    for step in (DeferredLinear(weight, bias), lambda x: F.linear(x, weight, bias)):
        x = start
        for _ in range(STEPS):
            x = torch.tanh(step(x))
        results.append([x, *torch.autograd.grad(told([x]), [weight, bias, start])])
    assert_same(*results)


def test_the_gradients_are_those_of_small_steps() -> None:
    weight, x = torch.randn(3, 2, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)

    def twice(weight: Tensor, x: Tensor) -> Tensor:
        repeated = DeferredLinear(weight)
        return repeated(x) * repeated(x.tanh()).sin()

    assert torch.autograd.gradcheck(twice, [weight.requires_grad_(), x.requires_grad_()])


def test_the_gradient_of_a_float64_bias_is_that_of_small_steps() -> None:
    weight, bias = torch.randn(3, 2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda b: DeferredLinear(weight, b)(x).sin(), [bias.requires_grad_()])


@pytest.mark.parametrize("used", [[0], [STEPS - 1], [1, 3, 4]])
def test_steps_whose_output_is_not_used_give_no_gradient(used: list[int]) -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight, bias), inputs()
    outputs = [repeated(x) for x in steps]
    learnt = [weight, bias, *steps]
    found = torch.autograd.grad(told([outputs[t] for t in used]), learnt, allow_unused=True)
    some = told([F.linear(steps[t], weight, bias) for t in used])
    assert [gradient is None for gradient in found[2:]] == [t not in used for t in range(STEPS)]
    wanted = torch.autograd.grad(some, [weight, bias, *(steps[t] for t in used)])
    assert_same([gradient for gradient in found if gradient is not None], wanted)


def test_a_layer_that_is_never_used_is_left_alone() -> None:
    weight, bias = parameters()
    DeferredLinear(weight, bias)
    assert weight.grad is None


def test_inputs_that_are_not_learnt() -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight, bias), [x.detach() for x in inputs()]
    found = torch.autograd.grad(told([repeated(x) for x in steps]), [weight, bias])
    wanted = torch.autograd.grad(told([F.linear(x, weight, bias) for x in steps]), [weight, bias])
    assert_same(found, wanted)


def test_a_frozen_layer_hands_gradients_to_its_inputs_alone() -> None:
    weight, bias = (parameter.detach() for parameter in parameters())
    repeated, steps = DeferredLinear(weight, bias), inputs()
    found = torch.autograd.grad(told([repeated(x) for x in steps]), steps)
    assert_same(found, torch.autograd.grad(told([F.linear(x, weight, bias) for x in steps]), steps))


def test_a_frozen_bias_beside_a_weight_that_is_learnt() -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight, bias.detach()), inputs()
    found = torch.autograd.grad(told([repeated(x) for x in steps]), [weight, *steps])
    wanted = torch.autograd.grad(told([F.linear(x, weight, bias) for x in steps]), [weight, *steps])
    assert_same(found, wanted)


def test_a_bias_is_learnt_beside_a_frozen_weight() -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight.detach(), bias), inputs()
    found = torch.autograd.grad(told([repeated(x) for x in steps]), [bias], allow_unused=True)
    assert found[0] is not None
    assert_same(found, torch.autograd.grad(told([F.linear(x, weight, bias) for x in steps]), [bias]))


def test_without_gradients_nothing_is_kept() -> None:
    weight, bias = parameters()
    with torch.no_grad():
        repeated, x = DeferredLinear(weight, bias), inputs()[0]
        found = repeated(x)
    assert not found.requires_grad
    torch.testing.assert_close(found, F.linear(x, weight, bias).detach(), **CLOSE)


def test_two_loops_over_one_layer_add_up() -> None:
    layer, steps, others = nn.Linear(IN, OUT), inputs(), inputs()
    one, other = DeferredLinear.from_layer(layer), DeferredLinear.from_layer(layer)
    outputs = [step(x) for pair in zip(steps, others, strict=True) for step, x in zip((one, other), pair, strict=True)]
    plain = [layer(x) for pair in zip(steps, others, strict=True) for x in pair]
    learnt = [layer.weight, layer.bias, *steps, *others]
    found = torch.autograd.grad(told(outputs), learnt)
    assert_same(found, torch.autograd.grad(told(plain), learnt))


def test_gradients_are_added_to_those_that_are_there() -> None:
    layer = nn.Linear(IN, OUT)
    for _ in range(2):
        repeated = DeferredLinear.from_layer(layer)
        torch.stack([repeated(torch.ones(N, IN)).sum() for _ in range(STEPS)]).sum().backward()
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.full((OUT, IN), 2.0 * STEPS * N))


@pytest.mark.parametrize("biased", [True, False])
def test_in_bfloat16_outputs_are_close_and_the_gradient_of_the_weight_is_float32(biased: bool) -> None:
    layer, steps = nn.Linear(IN, OUT, bias=biased), inputs()
    learnt = [*layer.parameters(), *steps]
    with torch.autocast("cpu", torch.bfloat16):
        repeated = DeferredLinear.from_layer(layer)
        outputs = [repeated(x) for x in steps]
    assert all(output.dtype == torch.bfloat16 for output in outputs)
    plain = [layer(x) for x in steps]
    found = [*outputs, *torch.autograd.grad(told([y.float() for y in outputs]), learnt)]
    wanted = [*plain, *torch.autograd.grad(told(plain), learnt)]
    for mine, other in zip(found[len(steps) :], learnt, strict=True):
        assert mine.dtype == other.dtype == torch.float32
    for mine, other in zip(found, wanted, strict=True):
        assert float((mine.float() - other).detach().norm() / other.detach().norm()) < 0.05


def test_a_layer_made_under_autocast_keeps_its_precision_outside() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        repeated = DeferredLinear(*parameters())
    assert repeated(inputs()[0]).dtype == torch.bfloat16


# --- going back more than once


def test_going_back_twice_gives_the_same_twice() -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight, bias), inputs()
    total, learnt = told([repeated(x) for x in steps]), [weight, bias, *steps]
    first = torch.autograd.grad(total, learnt, retain_graph=True)
    assert_same(torch.autograd.grad(total, learnt, retain_graph=True), first)


def test_going_back_from_two_losses_of_one_loop_one_by_one() -> None:
    weight, bias = parameters()
    repeated, steps, learnt = DeferredLinear(weight, bias), inputs(), [weight, bias]
    outputs = [repeated(x) for x in steps]
    plain = [F.linear(x, weight, bias) for x in steps]
    for part in (slice(0, 3), slice(2, None)):
        found = torch.autograd.grad(told(outputs[part]), learnt, retain_graph=True)
        assert_same(found, torch.autograd.grad(told(plain[part]), learnt, retain_graph=True))


def test_going_back_twice_without_keeping_the_graph_is_an_error() -> None:
    repeated = DeferredLinear(*parameters())
    total = told([repeated(x) for x in inputs()])
    total.backward(retain_graph=False)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def test_the_gradient_of_an_input_alone_leaves_nothing_behind() -> None:
    weight, bias = parameters()
    repeated, steps = DeferredLinear(weight, bias), inputs()
    total = told([repeated(x) for x in steps])
    torch.autograd.grad(total, steps, retain_graph=True)
    found = torch.autograd.grad(total, [weight, bias])
    wanted = torch.autograd.grad(told([F.linear(x, weight, bias) for x in steps]), [weight, bias])
    assert_same(found, wanted)


def test_only_linear_layers_are_repeated() -> None:
    with pytest.raises(AssertionError, match=r"expected an nn\.Linear, got Identity"):
        DeferredLinear.from_layer(nn.Identity())
