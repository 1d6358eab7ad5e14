"""DeferredLinear equals the linear layer: at every step of a loop, and in every gradient.

In a recurrent network it is compared with PyTorch's kernels in `test_rnn.py`.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.tensor_equality import (
    assert_all_close,
    assert_all_near,
    gradients,
    with_gradients,
)
from torch import Tensor, nn

from regard.layers.deferred_linear import DeferredLinear

N = 4
IN = 5
OUT = 6
STEPS = 7


def parameters() -> tuple[Tensor, Tensor]:
    weight = torch.randn(OUT, IN, requires_grad=True)
    bias = torch.randn(OUT, requires_grad=True)
    return weight, bias


def inputs() -> list[Tensor]:
    return [torch.randn(N, IN, requires_grad=True) for _ in range(STEPS)]


@pytest.mark.parametrize(
    ("biased", "frozen"),
    [
        (True, "nothing"),
        (True, "inputs"),
        (True, "weight"),
        (True, "bias"),
        (True, "weight and bias"),
        (False, "nothing"),
        (False, "weight"),
    ],
)
def test_steps_equal_the_linear_layer_and_gradients_are_summed(
    biased: bool, frozen: str
) -> None:
    weight, bias = parameters()
    steps = inputs()
    if "weight" in frozen:
        weight = weight.detach()
    if "bias" in frozen:
        bias = bias.detach()
    if frozen == "inputs":
        steps = [step.detach() for step in steps]
    used_bias = bias if biased else None
    leaves = [leaf for leaf in (weight, *steps) if leaf.requires_grad]
    if biased and bias.requires_grad:
        leaves.append(bias)
    linear = DeferredLinear(weight, used_bias)
    actual = [linear(x) for x in steps]
    expected = [F.linear(x, weight, used_bias) for x in steps]

    assert_all_close(with_gradients(actual, leaves), with_gradients(expected, leaves))


def test_no_grad_output_has_no_graph() -> None:
    with torch.no_grad():
        output = DeferredLinear(*parameters())(inputs()[0])

    assert not output.requires_grad


@pytest.mark.parametrize("biased", [True, False])
def test_bfloat16_outputs_are_close_and_gradients_are_float32(biased: bool) -> None:
    layer = nn.Linear(IN, OUT, bias=biased)
    steps = inputs()
    leaves = [*layer.parameters(), *steps]

    with torch.autocast("cpu", torch.bfloat16):
        linear = DeferredLinear.from_layer(layer)
        outputs = [linear(x) for x in steps]

    assert linear(steps[0]).dtype == torch.bfloat16, "also outside of autocast"
    assert all(output.dtype == torch.bfloat16 for output in outputs)

    actual = with_gradients(outputs, leaves)

    assert all(gradient.dtype == torch.float32 for gradient in actual[STEPS:])
    assert_all_near(actual, with_gradients([layer(x) for x in steps], leaves), 0.05)


def test_every_backward_pass_of_one_loop_has_its_own_gradients() -> None:
    weight, bias = parameters()
    linear = DeferredLinear(weight, bias)
    steps = inputs()
    outputs = [linear(x) for x in steps]
    exact = [F.linear(x, weight, bias) for x in steps]
    leaves = [weight, bias, *steps]
    gradients(outputs, steps)  # of the inputs alone

    for span in (slice(0, 3), slice(2, None), slice(None), slice(None)):
        assert_all_close(
            gradients(outputs[span], leaves), gradients(exact[span], leaves)
        )


def test_second_backward_pass_without_a_retained_graph_is_an_error() -> None:
    linear = DeferredLinear(*parameters())
    total = torch.stack([linear(x) for x in inputs()]).sin().sum()
    total.backward(retain_graph=False)

    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def test_only_linear_layers_are_accepted() -> None:
    with pytest.raises(AssertionError, match=r"expected an nn\.Linear, got Identity"):
        DeferredLinear.from_layer(nn.Identity())
