"""Law: what decodes is the model in hand. However a model was changed in Python, its outputs are
those of PyTorch's search over the model as it is; the library decodes only what it knows to be the
same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from engine.test_c_search import is_packed, loaded, reference, requests
from engine.test_decode import assert_same
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.overrides import TorchFunctionMode

import regard
from laws.models import kinds
from regard.attention import Attention
from regard.common.errors import UsageError
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import FeedForward
from regard.model_folder import ModelFolder
from regard.models import DECODERS, Model
from regard.pipeline import FolderTranslator
from regard.runtime import native
from regard.runtime.engine import Engine

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SEARCH = {"beam": 3}
Change = Callable[[Any, pytest.MonkeyPatch], object]
"""Changes a model, for as long as the test runs; returns what has to live as long."""
OUTPUT_FORWARD = OutputProjection.forward


def flipped(*arguments: Any) -> Any:
    """Return the last argument in the opposite order, as a hook returns the output that it
    replaces.
    """
    return arguments[-1].flip(-1)


class Flipped(nn.Module):
    """A layer around another, as adapters are."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.weight = inner.weight
        self.bias = inner.bias

    def forward(self, x: Any) -> Any:
        return self.inner(x).flip(-1)


class FlippedOutput(OutputProjection):
    """A subclass with another forward pass."""

    def forward(self, features: Any) -> Any:
        return super().forward(features).flip(-1)


class Negated:
    """An activation that is the negative of another."""

    def __init__(self, activation: Callable[[Any], Any]) -> None:
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        return -self.activation(x)


class Negative(nn.Module):
    """A parametrization."""

    def forward(self, weight: Any) -> Any:
        return -weight


class WithoutEmbeddings(TorchFunctionMode):
    """A mode in which each embedding is zero."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 0 if function is F.embedding else result


def hook(model: Any, _: Any) -> None:
    model.decoder.output.register_forward_hook(flipped)


def hook_before(model: Any, _: Any) -> None:
    def flip_input(_: nn.Module, inputs: Any) -> Any:
        return inputs[0].flip(-1)

    model.decoder.output.register_forward_pre_hook(flip_input)


def hook_of_encoder(model: Any, _: Any) -> None:
    model.encoder.embedding.register_forward_hook(flipped)


def hook_with_keywords(model: Any, _: Any) -> None:
    def flip_output(_: nn.Module, inputs: Any, keywords: Any, output: Any) -> Any:
        return output.flip(-1)

    model.decoder.embedding.register_forward_hook(flip_output, with_kwargs=True)


def global_hook(model: Any, patch: pytest.MonkeyPatch) -> None:
    def halved(module: Any, inputs: Any, output: Any) -> Any:
        return output.flip(-1) if isinstance(module, OutputProjection) else None

    handle = nn.modules.module.register_module_forward_hook(halved)
    patch.setattr(model, "removal", Removal(handle.remove), raising=False)


class Removal:
    """Removes what a test did to all of PyTorch when its model is collected, at the latest."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove


def zero_data(model: Any, _: Any) -> None:
    model.decoder.output.weight.data.zero_()


def other_data(model: Any, _: Any) -> None:
    model.decoder.output.weight.data = model.decoder.output.weight.data.flip(0)


def in_place(model: Any, _: Any) -> None:
    with torch.no_grad():
        model.decoder.embedding.weight.mul_(-1)


def from_vector(model: Any, _: Any) -> None:
    vector = nn.utils.parameters_to_vector(model.decoder.parameters()).detach()
    nn.utils.vector_to_parameters(-vector, model.decoder.parameters())


def from_numpy(model: Any, _: Any) -> None:
    model.decoder.output.bias.detach().numpy()[5:9] += 3


def state_dict(model: Any, _: Any) -> None:
    model.load_state_dict({name: weight.flip(0) for name, weight in model.state_dict().items()})


def wrapped(model: Any, _: Any) -> None:
    model.decoder.output = Flipped(model.decoder.output)


def replaced(model: Any, _: Any) -> None:
    other = copy.deepcopy(model.decoder.output)
    other.weight.data = other.weight.data.flip(0)
    model.decoder.output = other


def replaced_decoder(model: Any, _: Any) -> None:
    model.decoder = copy.deepcopy(model.decoder)
    model.decoder.output.bias.data[5:9] += 3


def replaced_encoder(model: Any, _: Any) -> None:
    model.encoder = copy.deepcopy(model.encoder)
    model.encoder.embedding.weight.data.mul_(-1)


def forward_of_instance(model: Any, _: Any) -> None:
    output = model.decoder.output
    output.forward = lambda features: OUTPUT_FORWARD(output, features).flip(-1)


def method_of_instance(model: Any, _: Any) -> None:
    project = model.decoder.project
    model.decoder.project = lambda features: project(features).flip(-1)


def method_of_model(model: Any, _: Any) -> None:
    step = model.step
    model.step = lambda tokens, state, source: step(tokens.flip(1) * 0 + 5, state, source)


def forward_of_class(_: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        OutputProjection, "forward", lambda self, features: OUTPUT_FORWARD(self, features).flip(-1)
    )


def call_of_class(_: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Embedding,
        "__call__",
        lambda self, tokens: Embedding.forward(self, tokens) * 0,
        raising=False,
    )


def class_of_torch(_: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nn.Linear, "forward", lambda self, x: -F.linear(x, self.weight, self.bias))


def attention_of_class(_: Any, patch: pytest.MonkeyPatch) -> None:
    attend = Attention.attend
    patch.setattr(Attention, "attend", lambda self, *rest, **more: -attend(self, *rest, **more))


def attribute(model: Any, _: Any) -> None:
    model.decoder.embedding.scale = 0.0


def attribute_of_encoder(model: Any, _: Any) -> None:
    model.encoder.embedding.scale = -1.0


def activation(model: Any, _: Any) -> None:
    for part in model.modules():
        if isinstance(part, FeedForward):
            part.activation = Negated(part.activation)


def pruned(model: Any, _: Any) -> None:
    prune.l1_unstructured(model.decoder.output, "weight", 0.7)


def pruned_for_good(model: Any, _: Any) -> None:
    prune.random_structured(model.decoder.output, "weight", 0.5, dim=1)
    prune.remove(model.decoder.output, "weight")


def parametrized(model: Any, _: Any) -> None:
    parametrize.register_parametrization(model.decoder.output, "bias", Negative())


def weight_norm(model: Any, _: Any) -> None:
    parametrizations.weight_norm(model.decoder.output)
    model.decoder.output.parametrizations.weight.original0.data.mul_(-1)


def subclass(model: Any, _: Any) -> None:
    model.decoder.output.__class__ = FlippedOutput


def without_a_layer(model: Any, _: Any) -> None:
    if hasattr(model.decoder, "layers"):
        model.decoder.layers = model.decoder.layers[:1]
    else:
        model.decoder.cells[-1].hidden.weight.data.zero_()


def shared_layers(model: Any, _: Any) -> None:
    if hasattr(model.decoder, "layers"):
        model.decoder.layers[0] = model.decoder.layers[-1]
    else:
        model.decoder.bridges[0] = model.decoder.bridges[-1]


def mode(model: Any, patch: pytest.MonkeyPatch) -> None:
    active = WithoutEmbeddings()
    active.__enter__()
    patch.setattr(
        model, "removal", Removal(lambda: active.__exit__(None, None, None)), raising=False
    )


CHANGES: list[Change] = [
    hook, hook_before, hook_of_encoder, hook_with_keywords, global_hook, zero_data, other_data, in_place, from_vector,
    from_numpy, state_dict, wrapped, replaced, replaced_decoder, replaced_encoder, forward_of_instance,
    method_of_instance, method_of_model, forward_of_class, call_of_class, class_of_torch, attention_of_class,
    attribute, attribute_of_encoder, activation, pruned, pruned_for_good, parametrized, weight_norm, subclass,
    without_a_layer, shared_layers, mode,
]  # fmt: skip
WEIGHTS_ALONE = {
    zero_data, other_data, in_place, from_vector, from_numpy, state_dict, replaced, replaced_decoder, replaced_encoder,
    pruned_for_good,
}  # fmt: skip
"""Changes after which the library still decodes, with the new weights."""
OF_SOME_FAMILIES = {
    activation,
    attention_of_class,
    class_of_torch,
    call_of_class,
    without_a_layer,
    shared_layers,
}
"""Changes of what some families lack."""
OF_TEXT = {hook_of_encoder, attribute_of_encoder, replaced_encoder}
"""Changes of embeddings, which encoders of images have not."""


def family(settings: Any) -> ModelFolder:
    return loaded(settings, SEARCH)


@cache
def packed_families() -> list[Any]:
    """Return the settings of a model of each family that the library decodes."""
    return [kind.values[0] for kind in kinds() if is_packed(family(kind.values[0]))]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_decodes_is_the_model_in_hand(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the families that the library decodes each change has one, in turn."""
    readers = [
        item for item in packed_families() if change not in OF_TEXT or item.encoder.reads == "text"
    ]
    check(readers[CHANGES.index(change) % len(readers)], change, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("settings", kinds())
def test_what_decodes_is_the_model_in_hand_in_all_families(
    settings: Any, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change in OF_TEXT and settings.encoder.reads == "images":
        return  # such an encoder has no embedding
    check(settings, change, monkeypatch)


def check(settings: Any, change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode before and after a change, and compare with the reference."""
    made = family(settings)
    folder = ModelFolder(made.settings, made.tokenizer, copy.deepcopy(made.model))
    engine = Engine(folder.model, folder=folder)
    asked = requests(folder)[1:7]
    before = reference(folder, asked)
    assert_same(engine.decode(asked, folder.settings.search), before)
    was_library = engine.describe().startswith("C library")
    assert was_library == is_packed(folder)
    change(folder.model, monkeypatch)
    try:
        after = reference(folder, asked)
        actual = engine.decode(asked, folder.settings.search)
    finally:
        getattr(folder.model, "removal", Removal(lambda: None)).remove()
    assert_same(actual, after)
    assert change in OF_SOME_FAMILIES or after != before, "the change was to change something"
    if was_library and change in WEIGHTS_ALONE:
        assert engine.describe().startswith("C library")


@pytest.mark.parametrize("settings", kinds(reads=["text"]))
def test_a_registered_subclass_decodes_as_itself(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(settings.decoder)
    plain = DECODERS[kind]

    class Own(plain):  # type: ignore[misc, valid-type]
        def project(self, features: Any) -> Any:
            return super().project(features).flip(-1)

    before = family(settings)
    monkeypatch.setitem(DECODERS, kind, Own)
    folder = family(settings)
    engine = Engine(folder.model, folder=folder, is_private=True)
    asked = requests(folder)[1:7]
    actual = engine.decode(asked, folder.settings.search)
    assert_same(actual, reference(folder, asked))
    assert actual != reference(before, asked)
    assert (
        "Own, a class that only PyTorch can run" in engine.describe()
        or "Own has no program" in engine.describe()
    )


@pytest.mark.parametrize("settings", kinds())
def test_a_watched_model_decodes_by_pytorch_and_is_recorded(settings: Any) -> None:
    folder = family(settings)
    engine = Engine(folder.model, folder=folder)
    asked = requests(folder)[1:4]
    unwatched = engine.decode(asked, folder.settings.search)
    if not any(isinstance(module, Attention) for module in folder.model.modules()):
        with pytest.raises(UsageError, match="has no attention"), regard.watch(folder.model):
            pass
        return
    with regard.watch(folder.model) as readings:
        watched = engine.decode(asked, folder.settings.search)
    assert_same(watched, unwatched)
    assert all(len(readings.passes(name)) >= 1 for name in readings)
    assert set(readings) == {
        name for name, part in folder.model.named_modules() if isinstance(part, Attention)
    }
    assert engine.describe().startswith("PyTorch")
    engine.decode(asked, folder.settings.search)
    assert engine.describe().startswith("C library") == is_packed(folder)


def test_a_patch_is_noticed_though_nobody_was_given_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = family(packed_families()[0])
    engine = Engine(folder.model, folder=folder, is_private=True)
    asked = requests(folder)[1:7]
    settings = folder.settings.search
    before = engine.decode(asked, settings)
    with monkeypatch.context() as patch:
        forward_of_class(folder.model, patch)
        assert_same(engine.decode(asked, settings), reference(folder, asked))
        assert engine.describe() == "PyTorch, float32 (OutputProjection.forward was replaced)"
    assert engine.decode(asked, settings) == before
    assert engine.describe() == "C library, float32"


def test_what_other_packages_add_to_pytorch_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The package transformers gives nn.Module a method more."""
    monkeypatch.setattr(nn.Module, "smart_apply", lambda self: self, raising=False)
    folder = family(packed_families()[0])
    engine = Engine(folder.model, folder=folder)
    engine.decode(requests(folder)[:2], folder.settings.search)
    assert engine.describe().startswith("C library")


def test_another_model_in_place_of_the_first_is_decoded() -> None:
    folder = family(packed_families()[0])
    translator = FolderTranslator(folder.model, folder.tokenizer, folder.settings)
    (before,) = translator.translate("w1 w2 w3", max_length=4)
    other: Model = copy.deepcopy(folder.model)
    other.decoder.output.bias.data[7] += 30
    translator.model = other
    (after,) = translator.translate("w1 w2 w3", max_length=4)
    assert after.text != before.text
    assert translator.model is other
