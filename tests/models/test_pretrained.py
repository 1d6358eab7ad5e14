"""Pretrained weights of torchvision's networks: they load, give the same features, and invalid
files are refused.

torchvision itself is no dependency: its networks are written here in plain functions, from its
published source (`torchvision/models/resnet.py`), with the names that its `state_dict` files have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from regard.common.errors import TrainingError
from regard.models import Batch, Model, ModelSettings, build, load_pretrained
from regard.models.vision import DEVIATION, MEAN

pytestmark = pytest.mark.system

Weights = dict[str, Tensor]
NETWORKS: dict[str, tuple[str, tuple[int, ...]]] = {
    "resnet18": ("basic", (2, 2, 2, 2)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)),
}
COUNTS = {"resnet18": 11_689_512, "resnet50": 25_557_032}
"""Numbers of parameters, from torchvision's table of models."""
DECODER = {"kind": "no_attention", "size": 8, "embedding": 8}


Convolution = tuple[str, int, int, int]


def layers(block: str, depths: tuple[int, ...]) -> list[Convolution]:
    """List every convolution of torchvision's network: its name, inputs, outputs and kernel
    size.
    """
    convolutions = [("conv1", 3, 64, 7)]
    inputs = 64

    for i, depth in enumerate(depths):
        planes = 64 * 2**i
        outputs = planes if block == "basic" else 4 * planes
        for j in range(depth):
            name = f"layer{i + 1}.{j}"
            first_kernel = 3 if block == "basic" else 1
            convolutions.append((f"{name}.conv1", inputs, planes, first_kernel))
            convolutions.append((f"{name}.conv2", planes, planes, 3))
            if block == "bottleneck":
                convolutions.append((f"{name}.conv3", planes, outputs, 1))
            if j == 0 and (i > 0 or inputs != outputs):
                convolutions.append((f"{name}.downsample.0", inputs, outputs, 1))
            inputs = outputs

    return convolutions


def norm_name(convolution: str) -> str:
    return convolution.replace("downsample.0", "downsample.1").replace("conv", "bn")


def random_weights(block: str, depths: tuple[int, ...]) -> Weights:
    """Draw random weights with every name that torchvision's files hold."""
    weights = Weights()

    for name, inputs, outputs, size in layers(block, depths):
        scale = (inputs * size * size) ** -0.5
        weights[f"{name}.weight"] = torch.randn(outputs, inputs, size, size) * scale
        norm = norm_name(name)
        weights[f"{norm}.weight"] = 1 + 0.1 * torch.randn(outputs)
        weights[f"{norm}.bias"] = 0.1 * torch.randn(outputs)
        weights[f"{norm}.running_mean"] = 0.1 * torch.randn(outputs)
        weights[f"{norm}.running_var"] = 0.5 + torch.rand(outputs)
        weights[f"{norm}.num_batches_tracked"] = torch.tensor(12345)

    last = 512 if block == "basic" else 2048
    weights["fc.weight"] = torch.randn(1000, last)
    weights["fc.bias"] = torch.randn(1000)
    return weights


def plain_resnet(x: Tensor, w: Weights, block: str, depths: tuple[int, ...]) -> Tensor:
    """Compute the last feature map of torchvision's ResNet in plain functions, in evaluation
    mode.
    """

    def step(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = w[f"{name}.weight"]
        norm = norm_name(name)
        x = F.conv2d(x, weight, None, stride, weight.shape[2] // 2)
        mean, var, scale, bias = (
            w[f"{norm}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * scale + bias

    x = F.max_pool2d(F.relu(step(x, "conv1", 2)), 3, 2, 1)

    for i, depth in enumerate(depths):
        for j in range(depth):
            name = f"layer{i + 1}.{j}"
            stride = 2 if i > 0 and j == 0 else 1
            if block == "basic":
                y = step(F.relu(step(x, f"{name}.conv1", stride)), f"{name}.conv2")
            else:
                y = F.relu(
                    step(F.relu(step(x, f"{name}.conv1")), f"{name}.conv2", stride)
                )
                y = step(y, f"{name}.conv3")
            down = f"{name}.downsample.0"
            if f"{down}.weight" in w:
                x = step(x, down, stride)
            x = F.relu(y + x)

    return x


def settings(path: Path | None, **values: Any) -> ModelSettings:
    encoder = {
        "kind": "resnet",
        "block": "basic",
        "depths": [1, 1],
        "width": 64,
        "stem": "classic",
        "norm": "batch",
        "size": 16,
        "weights": None if path is None else str(path),
        **values,
    }
    return ModelSettings.parse({"encoder": encoder, "decoder": DECODER}, "test")


def load_model(path: Path, **values: Any) -> Model:
    model_settings = settings(path, **values)
    model = build(model_settings, 0, 20, False).eval()
    load_pretrained(model, model_settings)
    return model


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "kind"), [("resnet18", "pth"), ("resnet50", "safetensors")]
)
def test_pretrained_networks_give_the_same_features(
    name: str, kind: str, tmp_path: Path
) -> None:
    block, depths = NETWORKS[name]
    path = tmp_path / f"{name}.{kind}"
    weights = random_weights(block, depths)
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    learnt = [key for key in weights if not key.endswith(statistics)]
    count = sum(weights[key].numel() for key in learnt)

    assert count == COUNTS[name], "the names and shapes are those of that network"

    if kind == "pth":
        torch.save(weights, path)
    else:
        save_file(weights, path)
    model = load_model(path, block=block, depths=list(depths))
    pixels = torch.rand(2, 3, 70, 96)
    mean = torch.tensor(MEAN)[:, None, None]
    deviation = torch.tensor(DEVIATION)[:, None, None]
    normalised = (pixels - mean) / deviation
    expected = plain_resnet(normalised, weights, block, depths)
    features, keep = model.encoder.backbone(normalised, None)

    assert float(expected.std()) > 0.1
    assert keep is None
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)
    assert model.encoder(Batch(pixels)).grid == (3, 3)


def test_a_nested_state_dict_is_loaded_and_without_a_path_nothing(
    tmp_path: Path,
) -> None:
    weights = random_weights("basic", (1, 1))
    path = tmp_path / "w.pth"
    torch.save({"state_dict": weights, "epoch": 3}, path)
    model = load_model(path)
    kernel = model.encoder.backbone.get_parameter("conv1.weight")

    assert torch.equal(kernel, weights["conv1.weight"])

    load_pretrained(model, settings(None))

    assert torch.equal(kernel, weights["conv1.weight"])


def error_message(path: Path, **values: Any) -> str:
    with pytest.raises(TrainingError) as caught:
        load_model(path, **values)
    assert all(
        str(path) in cause or "model.encoder" in cause or cause.startswith("and ")
        for cause in caught.value.causes
    )

    return str(caught.value)


def test_all_mismatches_are_reported_at_once(tmp_path: Path) -> None:
    weights = random_weights("basic", (1, 1))
    path = tmp_path / "w.pth"
    weights["conv1.weight"] = weights["conv1.weight"][:32]
    weights["extra"] = torch.ones(1)
    weights["layer1.0.bn1.bias"][3] = float("nan")
    del weights["bn1.bias"]
    torch.save(weights, path)
    message = error_message(path)

    for part in (
        "conv1.weight have another shape: expected (64, 3, 7, 7), got (32, 3, 7, 7)",
        "weights extra belong to no part",
        "no weights called bn1.bias",
        "layer1.0.bn1.bias hold NaN or infinite values",
        "depths, width, block and stem",
    ):
        assert part in message

    torch.save(random_weights("basic", (2, 2)), path)
    message = error_message(path)

    assert "and 12 more" in message
    assert "norm" not in message.splitlines()[-1]

    torch.save(random_weights("basic", (1, 1)), path)

    assert "model.encoder.norm = 'batch'" in error_message(path, norm="group")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.pth", None),
        ("empty.safetensors", b""),
        ("numbers.pth", [1, 2]),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(
    name: str, content: Any, tmp_path: Path
) -> None:
    """Files that hold code are in `training/test_payloads.py`."""
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    message = error_message(path)

    assert message.startswith(f"{path}: ")
    assert "Traceback" not in message
