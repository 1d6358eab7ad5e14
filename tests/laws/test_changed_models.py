"""What decodes is the model in hand: however a model was changed in Python, its outputs are those of
PyTorch's search over the model as it is; the library decodes only what it knows to be the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch.nn.functional as F
from engine.test_c_search import is_packed, loaded, reference, requests
from engine.test_decode import assert_same
from torch import nn
from torch.nn.utils import prune
from torch.overrides import TorchFunctionMode

import regard
from laws.models import kinds
from regard.attention import Attention
from regard.common.errors import UsageError
from regard.layers.embedding import Embedding, OutputProjection
from regard.model_folder import ModelFolder
from regard.models import DECODERS
from regard.pipeline import FolderTranslator
from regard.runtime import native
from regard.runtime.engine import Engine

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

Apply = Callable[[Any, pytest.MonkeyPatch], None]
OUTPUT_FORWARD = OutputProjection.forward


@dataclass(frozen=True)
class Change:
    """A change of a model, for as long as the test runs."""

    apply: Apply
    of_weights: bool = False  # the library still decodes, with the new weights
    of_text: bool = False  # of embeddings, which encoders of images have not
    of_some: bool = False  # of what some families lack


CHANGES: dict[str, Change] = {}
CLEANUP = ExitStack()
"""Ends what a change does to all of PyTorch."""


def change(**kind: bool) -> Callable[[Apply], Apply]:
    """Register a change."""

    def register(apply: Apply) -> Apply:
        CHANGES[apply.__name__] = Change(apply, **kind)
        return apply

    return register


def flipped(*arguments: Any) -> Any:
    """Return the last argument in the opposite order, as a hook returns the output that it
    replaces.
    """
    return arguments[-1].flip(-1)


# --- hooks and modes


@change()
def hook(model: Any, _: Any) -> None:
    model.decoder.output.register_forward_hook(flipped)


@change()
def global_hook(_: Any, patch: pytest.MonkeyPatch) -> None:
    def flip_outputs(module: Any, inputs: Any, output: Any) -> Any:
        return output.flip(-1) if isinstance(module, OutputProjection) else None

    handle = nn.modules.module.register_module_forward_hook(flip_outputs)
    CLEANUP.callback(handle.remove)


class WithoutEmbeddings(TorchFunctionMode):
    """A mode in which each embedding is zero."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 0 if function is F.embedding else result


@change()
def mode(_: Any, patch: pytest.MonkeyPatch) -> None:
    CLEANUP.enter_context(WithoutEmbeddings())


# --- weights


@change(of_weights=True)
def from_numpy(model: Any, _: Any) -> None:
    model.decoder.output.bias.detach().numpy()[5:9] += 3


@change(of_weights=True)
def state_dict(model: Any, _: Any) -> None:
    model.load_state_dict(
        {name: weight.flip(0) for name, weight in model.state_dict().items()}
    )


@change(of_weights=True, of_text=True)
def replaced_encoder(model: Any, _: Any) -> None:
    model.encoder = copy.deepcopy(model.encoder)
    model.encoder.embedding.weight.data.mul_(-1)


@change()
def pruned(model: Any, _: Any) -> None:
    prune.l1_unstructured(model.decoder.output, "weight", 0.7)


# --- modules and attributes


class FlippedOutput(OutputProjection):
    """A subclass with another forward pass."""

    def forward(self, features: Any) -> Any:
        return super().forward(features).flip(-1)


@change()
def subclass(model: Any, _: Any) -> None:
    model.decoder.output.__class__ = FlippedOutput


@change(of_some=True)
def without_a_layer(model: Any, _: Any) -> None:
    if hasattr(model.decoder, "layers"):
        model.decoder.layers = model.decoder.layers[:1]
    else:
        model.decoder.bridges[0] = model.decoder.bridges[-1]


@change()
def attribute(model: Any, _: Any) -> None:
    model.decoder.embedding.scale = 0.0


# --- methods


@change()
def method_of_model(model: Any, _: Any) -> None:
    step = model.step
    model.step = lambda tokens, state, source: step(
        tokens.flip(1) * 0 + 5, state, source
    )


@change()
def forward_of_class(_: Any, patch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, features: Any) -> Any:
        return OUTPUT_FORWARD(self, features).flip(-1)

    patch.setattr(OutputProjection, "forward", forward)


@change(of_some=True)
def call_of_class(_: Any, patch: pytest.MonkeyPatch) -> None:
    def call(self: Any, tokens: Any) -> Any:
        return Embedding.forward(self, tokens) * 0

    patch.setattr(Embedding, "__call__", call, raising=False)


@change(of_some=True)
def class_of_torch(_: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        nn.Linear,
        "forward",
        lambda self, x: -F.linear(x, self.weight, self.bias),
    )


def family(settings: Any) -> ModelFolder:
    return loaded(settings, {"beam": 3})


@cache
def packed_families() -> list[Any]:
    """Return the settings of a model of each family that the library decodes."""
    return [kind.values[0] for kind in kinds() if is_packed(family(kind.values[0]))]


@pytest.mark.system
@pytest.mark.parametrize("name", CHANGES)
def test_what_decodes_is_the_model_in_hand(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decode before and after a change, and compare with the reference; of the families that the
    library decodes each change has one, in turn.
    """
    change = CHANGES[name]
    families = packed_families()
    if change.of_text:
        families = [one for one in families if one.encoder.reads == "text"]
    turn = [*CHANGES].index(name)
    made = family(families[turn % len(families)])
    folder = ModelFolder(made.settings, made.tokenizer, copy.deepcopy(made.model))
    engine = Engine(folder.model, folder=folder)
    asked = requests(folder)[1:7]
    before = reference(folder, asked)

    assert_same(engine.decode(asked, folder.settings.search), before)
    assert engine.describe().startswith("C library")

    with CLEANUP:
        change.apply(folder.model, monkeypatch)
        after = reference(folder, asked)
        actual = engine.decode(asked, folder.settings.search)

    assert_same(actual, after)
    assert change.of_some or after != before, "the change was to change something"
    assert not change.of_weights or engine.describe().startswith("C library")


@pytest.mark.system
@pytest.mark.parametrize("settings", kinds(reads=["text"])[:4])
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

    reasons = ("Own, a class that only PyTorch can run", "Own has no program")

    assert any(reason in engine.describe() for reason in reasons)


@pytest.mark.parametrize("settings", kinds())
def test_a_watched_model_decodes_by_pytorch_and_is_recorded(
    settings: Any,
) -> None:
    folder = family(settings)
    engine = Engine(folder.model, folder=folder)
    asked = requests(folder)[1:4]
    parts = folder.model.named_modules()
    attentions = {name for name, part in parts if isinstance(part, Attention)}

    if not attentions:
        with (
            pytest.raises(UsageError, match="has no attention"),
            regard.watch(folder.model),
        ):
            pass
        return

    unwatched = engine.decode(asked, folder.settings.search)

    assert engine.describe().startswith("C library") == is_packed(folder)

    with regard.watch(folder.model) as readings:
        watched = engine.decode(asked, folder.settings.search)

    assert_same(watched, unwatched)
    assert all(len(readings.passes(name)) >= 1 for name in readings)
    assert set(readings) == attentions
    assert engine.describe().startswith("PyTorch")


@pytest.mark.system
def test_a_patch_is_noticed_though_nobody_was_given_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = family(packed_families()[0])
    engine = Engine(folder.model, folder=folder, is_private=True)
    asked = requests(folder)[1:7]
    settings = folder.settings.search
    # The package transformers gives nn.Module a method more, which changes nothing.
    monkeypatch.setattr(nn.Module, "smart_apply", lambda self: self, raising=False)
    before = engine.decode(asked, settings)

    assert engine.describe() == "C library, float32"

    with monkeypatch.context() as patch:
        forward_of_class(folder.model, patch)
        assert_same(engine.decode(asked, settings), reference(folder, asked))
        assert (
            engine.describe()
            == "PyTorch, float32 (OutputProjection.forward was replaced)"
        )

    assert engine.decode(asked, settings) == before
    assert engine.describe() == "C library, float32"


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_another_model_in_place_of_the_first_is_decoded() -> None:
    folder = family(packed_families()[0])
    translator = FolderTranslator(folder.model, folder.tokenizer, folder.settings)
    (before,) = translator.translate("w1 w2 w3", keep=False, max_length=4)
    other = copy.deepcopy(folder.model)
    other.decoder.output.bias.data[7] += 30
    translator.model = other
    (after,) = translator.translate("w1 w2 w3", keep=False, max_length=4)

    assert after.text != before.text
    assert translator.model is other
