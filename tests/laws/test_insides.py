"""Heads that are ablated are heads whose output is zeroed by hand; recorded weights and scores have
the gradients of finite differences; hooks of attention fire in every family.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine.test_c_search import is_packed, loaded, requests
from engine.test_decode import assert_same
from torch import Tensor

import regard
from laws.models import kinds, make, sources, targets
from laws.searching import beam
from regard.attention import Attention, watch
from regard.common.errors import UsageError
from regard.models import Model, ModelSettings
from regard.runtime.engine import Engine
from regard.search import LengthPenalty


def attentions(model: Model) -> dict[str, Attention]:
    modules = model.named_modules()
    return {name: part for name, part in modules if isinstance(part, Attention)}


def zero_by_hand(attention: Attention, head: int) -> Any:
    """Zero the part of a head in what the output projection, or identity, reads."""
    size = attention.value_size // attention.heads

    def zeroed(_: object, inputs: tuple[Tensor]) -> Tensor:
        contexts = inputs[0].clone()
        contexts[..., head * size : (head + 1) * size] = 0
        return contexts

    return attention.output.register_forward_pre_hook(zeroed)


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_an_ablated_head_is_one_whose_output_is_zeroed_by_hand(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, 6)
    longest = torch.tensor([6, 5, 6])

    def outputs() -> tuple[Tensor, Any]:
        beams = beam(model, model.encode(batch), longest, 3, LengthPenalty(1.0))
        return model(batch, target), beams

    before = outputs()
    for name, attention in attentions(model).items():
        head = attention.heads - 1
        handle = zero_by_hand(attention, head)
        expected = outputs()
        handle.remove()
        with regard.ablate(model, name, head):
            actual = outputs()
        assert torch.equal(actual[0], expected[0])
        assert actual[1] == expected[1]
        assert not torch.equal(actual[0], before[0])
    again = outputs()

    assert torch.equal(again[0], before[0])
    assert again[1] == before[1]


@pytest.mark.parametrize("settings", kinds())
def test_no_engine_ignores_an_ablation(settings: ModelSettings) -> None:
    folder = loaded(settings, {"beam": 3})
    names = attentions(folder.model)
    if not names or not is_packed(folder):
        return
    name = [*names][-1]
    by_hand = copy.deepcopy(folder.model)
    zero_by_hand(attentions(by_hand)[name], 0)
    asked = requests(folder)[1:4]
    options = folder.settings.search
    expected = Engine(by_hand, folder=folder).decode(asked, options)
    for choice in ("auto", "pytorch"):
        engine = Engine(folder.model, folder=folder, choice=choice, is_private=True)
        engine.decode(asked, options)
        with regard.ablate(folder.model, name, 0):
            assert_same(engine.decode(asked, options), expected)
    for precision, choice in (("float32", "library"), ("int8", "auto")):
        engine = Engine(folder.model, precision, folder, choice, is_private=True)
        with (
            regard.ablate(folder.model, name, 0),
            pytest.raises(UsageError, match=r"`regard.ablate` changes it"),
        ):
            engine.decode(asked, options)


def test_heads_and_layers_that_a_model_lacks() -> None:
    attention = Attention("cross", 8, 8, 8, 2)
    cases: list[tuple[Any, Any, Any, str]] = [
        (attention, "layer", 0, "wanted a layer of"),
        (torch.nn.Linear(1, 1), "", 0, "a model with attention"),
        (attention, "", 2, "from 0 to 1, got 2"),
        (attention, "", True, "from 0 to 1"),
    ]
    for model, layer, head, message in cases:
        with (
            pytest.raises(UsageError, match=message),
            regard.ablate(model, layer, head),
        ):
            pass


def test_nested_ablations_remove_several_heads() -> None:
    torch.manual_seed(0)
    attention = Attention("cross", 8, 8, 8, 2)
    x = torch.randn(1, 4, 8)
    with regard.ablate(attention, "", 0), regard.ablate(attention, "", 1):
        result = attention(x, attention.prepare(x, x))

    assert torch.equal(result, attention.output.bias.expand(1, 4, 8))


def changed(function: Callable[..., Tensor], by: Tensor, step: list[float]) -> Any:
    """Add a tensor, so many times, to what a function returns."""
    return lambda *arguments: function(*arguments) + step[0] * by


@pytest.mark.parametrize("has_scores", [False, True])
@pytest.mark.parametrize("settings", kinds(reads=["text"]))
def test_gradients_are_those_of_finite_differences(
    settings: ModelSettings, has_scores: bool
) -> None:
    """Two targets share a source, whose scores or weights are moved at all steps."""
    model = make(settings)
    batch = sources(settings, 5, 5)
    target = targets(4, 3)
    for name, attention in attentions(model).items():
        if attention.positions is not None:
            continue
        torch.manual_seed(0)
        direction = torch.randn(1, attention.heads, 1, 1) * torch.tensor(
            [1.0, -1, 1, 0.5, -0.5]
        )
        if attention.role == "decoder":
            direction = direction[..., :3]
        step = [0.0]
        # An attribute of the object, which hides the method of its class.
        if has_scores:
            attention._scores = changed(attention._scores, direction, step)
        else:
            attention._normalised = changed(attention._normalised, direction, step)
        weight = torch.randn(4, 3, 1)

        def loss() -> Tensor:
            return (model(batch, target).tanh() * weight).sum()  # noqa: B023

        with watch(model, gradients=True, scores=has_scores) as readings:
            gradient = readings.gradient(loss(), name)
            losses = []
            for value in (-2e-3, 2e-3):
                step[0] = value
                losses.append(float(loss().detach()))
        for attribute in ("_scores", "_normalised"):
            vars(attention).pop(attribute, None)
        expected = (losses[1] - losses[0]) / 4e-3
        actual = float((gradient * direction).sum().detach())
        assert actual == pytest.approx(expected, rel=0.05, abs=0.02), name


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_hooks_of_every_attention_fire(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1)
    target = targets(2, 4)
    before = model(batch, target)
    for attention in attentions(model).values():
        for part in (attention, attention.output):
            handle = part.register_forward_hook(lambda *hooked: hooked[-1] * 0)
            after = model(batch, target)
            handle.remove()
            assert not torch.equal(after, before)
