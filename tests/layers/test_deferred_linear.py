"""DeferredLinear equals the linear layer: at every step of a loop, and in every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.deferred_linear import DeferredLinear

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
N = 4
IN = 5
OUT = 6
STEPS = 7


def parameters(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(OUT, IN, dtype=dtype).requires_grad_(), torch.randn(
        OUT, dtype=dtype
    ).requires_grad_()


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(N, IN, dtype=dtype).requires_grad_() for _ in range(STEPS)]


def scalar_loss(outputs: list[Tensor]) -> Tensor:
    """Compute a scalar that depends differently on every output."""
    return torch.stack([(y * (1 + t)).sin().sum() for t, y in enumerate(outputs)]).sum()


def assert_same(actual: Any, expected: Any) -> None:
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("biased", [True, False])
def test_steps_equal_the_linear_layer_and_gradients_are_summed(biased: bool) -> None:
    weight, bias = parameters()
    steps = inputs()
    used_bias = bias if biased else None
    leaves = [weight, *steps, *([bias] if biased else [])]
    linear = DeferredLinear(weight, used_bias)
    actual = [linear(x) for x in steps]
    expected = [F.linear(x, weight, used_bias) for x in steps]
    assert_same(actual, expected)
    assert_same(
        torch.autograd.grad(scalar_loss(actual), leaves),
        torch.autograd.grad(scalar_loss(expected), leaves),
    )


def test_recurrent_steps_equal_the_linear_layer() -> None:
    weight = torch.randn(IN, IN, requires_grad=True)
    bias = torch.randn(IN, requires_grad=True)
    start = torch.randn(N, IN, requires_grad=True)
    results = []
    for step in (DeferredLinear(weight, bias), lambda x: F.linear(x, weight, bias)):
        x = start
        for _ in range(STEPS):
            x = torch.tanh(step(x))
        results.append([x, *torch.autograd.grad(scalar_loss([x]), [weight, bias, start])])
    assert_same(*results)


def test_gradients_equal_finite_differences() -> None:
    weight = torch.randn(3, 2, dtype=torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)

    def twice(weight: Tensor, x: Tensor) -> Tensor:
        linear = DeferredLinear(weight)
        return linear(x) * linear(x.tanh()).sin()

    assert torch.autograd.gradcheck(twice, [weight.requires_grad_(), x.requires_grad_()])


def test_gradient_of_a_float64_bias_equals_finite_differences() -> None:
    weight = torch.randn(3, 2, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda b: DeferredLinear(weight, b)(x).sin(), [bias.requires_grad_()]
    )


@pytest.mark.parametrize("used", [[0], [STEPS - 1], [1, 3, 4]])
def test_steps_with_unused_output_give_no_gradient(used: list[int]) -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    outputs = [linear(x) for x in steps]
    leaves = [weight, bias, *steps]
    actual = torch.autograd.grad(scalar_loss([outputs[t] for t in used]), leaves, allow_unused=True)
    reference_loss = scalar_loss([F.linear(steps[t], weight, bias) for t in used])
    assert [gradient is None for gradient in actual[2:]] == [t not in used for t in range(STEPS)]
    expected = torch.autograd.grad(reference_loss, [weight, bias, *(steps[t] for t in used)])
    assert_same([gradient for gradient in actual if gradient is not None], expected)


def test_unused_layer_gets_no_gradient() -> None:
    weight, bias = parameters()
    DeferredLinear(weight, bias)
    assert weight.grad is None


def test_gradients_equal_the_linear_layer_for_detached_inputs() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = [x.detach() for x in inputs()]
    actual = torch.autograd.grad(scalar_loss([linear(x) for x in steps]), [weight, bias])
    expected = torch.autograd.grad(
        scalar_loss([F.linear(x, weight, bias) for x in steps]), [weight, bias]
    )
    assert_same(actual, expected)


def test_frozen_layer_passes_gradients_to_its_inputs() -> None:
    weight, bias = (parameter.detach() for parameter in parameters())
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    actual = torch.autograd.grad(scalar_loss([linear(x) for x in steps]), steps)
    assert_same(
        actual, torch.autograd.grad(scalar_loss([F.linear(x, weight, bias) for x in steps]), steps)
    )


def test_weight_gets_a_gradient_beside_a_frozen_bias() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias.detach())
    steps = inputs()
    actual = torch.autograd.grad(scalar_loss([linear(x) for x in steps]), [weight, *steps])
    expected = torch.autograd.grad(
        scalar_loss([F.linear(x, weight, bias) for x in steps]), [weight, *steps]
    )
    assert_same(actual, expected)


def test_bias_gets_a_gradient_beside_a_frozen_weight() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight.detach(), bias)
    steps = inputs()
    actual = torch.autograd.grad(scalar_loss([linear(x) for x in steps]), [bias], allow_unused=True)
    assert actual[0] is not None
    assert_same(
        actual, torch.autograd.grad(scalar_loss([F.linear(x, weight, bias) for x in steps]), [bias])
    )


def test_no_grad_output_has_no_graph() -> None:
    weight, bias = parameters()
    with torch.no_grad():
        linear = DeferredLinear(weight, bias)
        x = inputs()[0]
        actual = linear(x)
    assert not actual.requires_grad
    torch.testing.assert_close(actual, F.linear(x, weight, bias).detach(), **CLOSE)


def test_gradients_of_two_loops_over_one_layer_are_summed() -> None:
    layer = nn.Linear(IN, OUT)
    steps = inputs()
    second_steps = inputs()
    first = DeferredLinear.from_layer(layer)
    second = DeferredLinear.from_layer(layer)
    outputs = [
        step(x)
        for pair in zip(steps, second_steps, strict=True)
        for step, x in zip((first, second), pair, strict=True)
    ]
    exact = [layer(x) for pair in zip(steps, second_steps, strict=True) for x in pair]
    leaves = [layer.weight, layer.bias, *steps, *second_steps]
    actual = torch.autograd.grad(scalar_loss(outputs), leaves)
    assert_same(actual, torch.autograd.grad(scalar_loss(exact), leaves))


def test_gradients_accumulate_over_backward_passes() -> None:
    layer = nn.Linear(IN, OUT)
    for _ in range(2):
        linear = DeferredLinear.from_layer(layer)
        torch.stack([linear(torch.ones(N, IN)).sum() for _ in range(STEPS)]).sum().backward()
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.full((OUT, IN), 2.0 * STEPS * N))


@pytest.mark.parametrize("biased", [True, False])
def test_bfloat16_outputs_are_close_and_gradients_are_float32(biased: bool) -> None:
    layer = nn.Linear(IN, OUT, bias=biased)
    steps = inputs()
    leaves = [*layer.parameters(), *steps]
    with torch.autocast("cpu", torch.bfloat16):
        linear = DeferredLinear.from_layer(layer)
        outputs = [linear(x) for x in steps]
    assert all(output.dtype == torch.bfloat16 for output in outputs)
    exact = [layer(x) for x in steps]
    actual = [*outputs, *torch.autograd.grad(scalar_loss([y.float() for y in outputs]), leaves)]
    expected = [*exact, *torch.autograd.grad(scalar_loss(exact), leaves)]
    for gradient, leaf in zip(actual[len(steps) :], leaves, strict=True):
        assert gradient.dtype == leaf.dtype == torch.float32
    for result, reference in zip(actual, expected, strict=True):
        assert (
            float((result.float() - reference).detach().norm() / reference.detach().norm()) < 0.05
        )


def test_layer_created_under_autocast_stays_bfloat16_outside() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        linear = DeferredLinear(*parameters())
    assert linear(inputs()[0]).dtype == torch.bfloat16


# --- repeated backward passes


def test_two_backward_passes_give_equal_gradients() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    total = scalar_loss([linear(x) for x in steps])
    leaves = [weight, bias, *steps]
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    assert_same(torch.autograd.grad(total, leaves, retain_graph=True), first)


def test_two_losses_of_one_loop_give_separate_gradients() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    leaves = [weight, bias]
    outputs = [linear(x) for x in steps]
    exact = [F.linear(x, weight, bias) for x in steps]
    for span in (slice(0, 3), slice(2, None)):
        actual = torch.autograd.grad(scalar_loss(outputs[span]), leaves, retain_graph=True)
        assert_same(
            actual, torch.autograd.grad(scalar_loss(exact[span]), leaves, retain_graph=True)
        )


def test_second_backward_pass_without_a_retained_graph_is_an_error() -> None:
    linear = DeferredLinear(*parameters())
    total = scalar_loss([linear(x) for x in inputs()])
    total.backward(retain_graph=False)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def test_gradients_of_inputs_alone_do_not_change_later_weight_gradients() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    total = scalar_loss([linear(x) for x in steps])
    torch.autograd.grad(total, steps, retain_graph=True)
    actual = torch.autograd.grad(total, [weight, bias])
    expected = torch.autograd.grad(
        scalar_loss([F.linear(x, weight, bias) for x in steps]), [weight, bias]
    )
    assert_same(actual, expected)


def test_only_linear_layers_are_accepted() -> None:
    with pytest.raises(AssertionError, match=r"expected an nn\.Linear, got Identity"):
        DeferredLinear.from_layer(nn.Identity())
