"""Building models: weight tying, and settings that do not fit together."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from regard.common.errors import ConfigurationError
from regard.models import ModelSettings, build, count_parameters
from regard.training.recipe import preset, presets

Side = dict[str, object]
TRANSFORMER: Side = {
    "kind": "transformer",
    "layers": 1,
    "size": 8,
    "heads": 2,
    "feedforward": 8,
}
RECURRENT: Side = {"kind": "recurrent", "size": 8, "embedding": 12}
RESNET: Side = {"kind": "resnet", "width": 4, "depths": [1], "size": 8}


def _settings(encoder: Side, decoder: Side, **values: object) -> ModelSettings:
    return ModelSettings.parse(
        {"encoder": encoder, "decoder": decoder, **values}, "test"
    )


def test_every_preset_builds() -> None:
    for name in presets():
        with torch.device("meta"):
            build(ModelSettings.parse(preset(name)["model"], name), 30, 30, joint=True)


def test_embeddings_are_shared_as_far_as_sizes_and_vocabularies_allow() -> None:
    same_sizes = build(_settings(TRANSFORMER, TRANSFORMER), 20, 20, joint=True)
    shared = same_sizes.decoder.embedding.weight

    assert same_sizes.encoder.embedding.weight is shared
    assert same_sizes.decoder.output.weight is shared

    other_sizes = build(_settings(TRANSFORMER, RECURRENT), 20, 20, joint=True)
    shared = other_sizes.decoder.embedding.weight

    assert other_sizes.encoder.embedding.weight is not shared
    assert other_sizes.decoder.output.weight is shared

    two_vocabularies = build(_settings(TRANSFORMER, TRANSFORMER), 20, 30, joint=False)

    assert two_vocabularies.decoder.output.weight.shape == (30, 8)
    assert two_vocabularies.encoder.embedding.weight.shape == (20, 8)


def test_shared_weights_count_once() -> None:
    counts = []

    for share in ("none", "target", "all"):
        settings = _settings(TRANSFORMER, TRANSFORMER, share=share)
        counts.append(count_parameters(build(settings, 20, 20, joint=True)))

    none, target, everything = counts

    assert none - target == 20 * 8
    assert target - everything == 20 * 8


def test_all_contradictions_are_named_at_once() -> None:
    encoder = {**TRANSFORMER, "heads": 3}
    settings = _settings(encoder, RECURRENT, share="all")

    with pytest.raises(ConfigurationError) as caught:
        build(settings, 20, 20, joint=False)

    heads, vocabulary, size = caught.value.causes

    assert "model.encoder: size 8 cannot be split into 3 heads" in heads
    assert "one vocabulary" in vocabulary
    assert "got 8 in the encoder and 12 in the decoder" in size


def test_an_image_encoder_has_no_embeddings_to_share() -> None:
    for joint in (True, False):
        model = build(_settings(RESNET, TRANSFORMER), 0, 20, joint)
        assert model.decoder.embedding.weight is model.decoder.output.weight

    message = "resnet reads images, not tokens; set model.share = 'target'"

    with pytest.raises(ConfigurationError, match=message):
        build(_settings(RESNET, TRANSFORMER, share="all"), 20, 20, joint=True)


def test_heads_must_divide_the_size_if_cells_attend_to_each_other() -> None:
    encoder = {**RESNET, "heads": 3}
    build(_settings(encoder, TRANSFORMER), 0, 20, joint=False)

    for invalid in ({**encoder, "layers": 1}, {"kind": "vit", "size": 8, "heads": 3}):
        settings = _settings(invalid, TRANSFORMER)
        with pytest.raises(ConfigurationError, match="size 8 cannot be split into 3"):
            build(settings, 0, 20, joint=False)


@pytest.mark.parametrize(
    "encoder",
    [
        {"depths": [2, 2, 2, 2], "stem": "classic"},
        {"depths": [1, 1], "stem": "strided", "block": "bottleneck"},
        {"depths": [1], "stem": "small"},
        {"kind": "vit", "patch_size": 8},
    ],
)
def test_cell_centres_are_those_of_the_receptive_fields(encoder: Side) -> None:
    """The centre of a receptive field is the mean position of its pixels, weighted by their
    gradients.
    """
    is_resnet = "depths" in encoder
    values: Side = {"size": 8, "heads": 2, **encoder}
    if is_resnet:
        # Statistics of group norm would cover the whole image.
        values |= {"kind": "resnet", "norm": "batch", "width": 16}
    settings = _settings(values, TRANSFORMER)
    model = build(settings, 0, 20, False).encoder.eval()

    for weight in model.parameters():
        # Every pixel of the receptive field has the same weight.
        weight.data.fill_(0.01)

    stride = settings.encoder.stride
    images = torch.rand(8, 3, 10 * stride, 10 * stride, requires_grad=True)
    if is_resnet:
        outputs, _ = model.backbone(images, None)
    else:
        outputs = model.patch_embedding(images)
    (gradient,) = torch.autograd.grad(outputs[..., 5, 5].square().sum(), images)
    strength = gradient.square().sum((0, 1))
    positions = torch.arange(10 * stride) + 0.5
    expected = (5 + model.cell_centre) * stride

    for side in (0, 1):
        centre = float((strength.sum(side) * positions).sum() / strength.sum())
        assert centre == pytest.approx(expected, abs=0.03 * stride)


IMPORTS_OF_SHAPES = """
import json, sys
from regard.model_folder import shapes_of
from regard.models import ModelSettings
presets = json.loads(sys.argv[1])
for name in sorted(presets, key="conv".__eq__):
    assert len(shapes_of(ModelSettings.parse(presets[name], name), (40, 40), joint=True)) > 10
    late = [module for module in ("torch._dynamo", "sympy", "torch.distributed.tensor") if module in sys.modules]
    if late and name != "conv":  # which initialises its weights by their norms
        sys.exit(f"{name} imports {late}")
"""


@pytest.mark.slow
def test_no_shape_needs_the_compiler_of_pytorch() -> None:
    """It takes a second to import, symbolic mathematics half of one, and whatever loads a model
    compares shapes first.
    """
    models = json.dumps({name: preset(name)["model"] for name in presets()})
    command = [sys.executable, "-c", IMPORTS_OF_SHAPES, models]
    process = subprocess.run(command, capture_output=True, text=True, check=False)

    assert process.returncode == 0, process.stderr
