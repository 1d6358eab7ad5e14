"""Comparison of tensors, and of the gradients of two ways to compute the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["assert_all_close", "assert_all_near", "gradients", "with_gradients"]


def gradients(
    outputs: Tensor | Sequence[Tensor], leaves: Sequence[Tensor]
) -> list[Tensor]:
    """Compute gradients of a fixed random combination of the outputs; zeros for unused leaves."""
    if isinstance(outputs, Tensor):
        outputs = [outputs]
    generator = torch.Generator().manual_seed(7)
    total = torch.zeros(())
    for output in outputs:
        direction = torch.randn(output.shape, generator=generator)
        total = total + (output * direction).sum()
    computed = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(leaf) if gradient is None else gradient
        for gradient, leaf in zip(computed, leaves, strict=True)
    ]


def with_gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return the outputs, followed by the gradients of all leaves."""
    return [*outputs, *gradients(outputs, leaves)]


def assert_all_close(
    actual: Sequence[Tensor | None],
    expected: Sequence[Tensor | None],
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Compare tensors pair by pair; None stands for a gradient that there is not."""
    for result, reference in zip(actual, expected, strict=True):
        assert (result is None) == (reference is None)
        if result is not None:
            torch.testing.assert_close(result, reference, rtol=rtol, atol=atol)


def assert_all_near(
    actual: Sequence[Tensor], expected: Sequence[Tensor], share: float
) -> None:
    """Compare roughly, as bfloat16 needs it: by the length of the difference, as a share."""
    for result, reference in zip(actual, expected, strict=True):
        difference = (result.float() - reference.float()).detach().norm()
        assert float(difference) <= share * float(reference.float().detach().norm())
