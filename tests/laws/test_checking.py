"""Annotations are checked in the first call of each form, and every wrong form is refused."""

from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, TypeCheckError

from laws.checking import checked, checked_once

annotated = checked_once(typechecker=checked)


class Scaled:
    """A function of two tensors, with a result that the test gives."""

    def __init__(self) -> None:
        self.result: object = None
        self.calls = 0

    @annotated
    def __call__(
        self, queries: Float[torch.Tensor, "B T"], scale: Float[torch.Tensor, " T"]
    ) -> Float[torch.Tensor, "B T"]:
        self.calls += queries.ndim > 0 and scale.ndim > 0
        return self.result  # type: ignore[return-value]


@annotated
@dataclass
class Sized:
    """A class whose annotations its constructor has."""

    weights: Float[torch.Tensor, "B T"]


def passes(scaled: Scaled) -> None:
    scaled.result = torch.zeros(2, 3)
    for _ in range(2):
        assert scaled(torch.zeros(2, 3), torch.zeros(3)) is scaled.result


@pytest.mark.parametrize(
    ("queries", "scale"),
    [
        pytest.param(torch.zeros(2, 3), torch.zeros(2), id="another-size"),
        pytest.param(torch.zeros(2, 3, 1), torch.zeros(3), id="another-axis"),
        pytest.param(torch.zeros(2, 3).long(), torch.zeros(3), id="another-type"),
        pytest.param([[0.0]], torch.zeros(1), id="no-tensor"),
    ],
)
def test_wrong_arguments_are_refused_after_right_ones(
    queries: torch.Tensor, scale: torch.Tensor
) -> None:
    scaled = Scaled()
    passes(scaled)
    for _ in range(2):
        with pytest.raises(TypeCheckError, match="parameters"):
            scaled(queries, scale)
    assert scaled.calls == 2  # a call that is refused never begins
    passes(scaled)


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(torch.zeros(3, 2), id="another-size"),
        pytest.param(torch.zeros(2, 3).long(), id="another-type"),
        pytest.param(None, id="no-tensor"),
    ],
)
def test_a_wrong_result_of_known_arguments_is_refused(result: object) -> None:
    scaled = Scaled()
    passes(scaled)
    scaled.result = result
    for call in range(3, 5):
        with pytest.raises(TypeCheckError, match="return value"):
            scaled(torch.zeros(2, 3), torch.zeros(3))
        assert scaled.calls == call  # each once, though its result is checked by itself
    passes(scaled)


def test_constructors_are_checked() -> None:
    for _ in range(2):
        assert Sized(torch.zeros(2, 3)).weights.shape == (2, 3)
        with pytest.raises(TypeCheckError, match="weights"):
            Sized(torch.zeros(2))
