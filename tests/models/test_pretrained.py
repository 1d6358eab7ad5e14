"""Pretrained weights of torchvision's networks: they load, give the same features, and invalid
files are refused.

torchvision itself is no dependency: its networks are written here in plain functions, from its
published source (`torchvision/models/resnet.py`), with the names that its `state_dict` files have.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from regard.common.errors import TrainingError
from regard.layers.resnet import ResNetBackbone
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


def layers(block: str, depths: tuple[int, ...]) -> list[tuple[str, int, int, int]]:
    """List every convolution of torchvision's network: its name, inputs, outputs and kernel
    size.
    """
    convolutions = [("conv1", 3, 64, 7)]
    inputs = 64
    for i, depth in enumerate(depths):
        planes = 64 * 2**i
        outputs = planes * (4 if block == "bottleneck" else 1)
        for j in range(depth):
            name = f"layer{i + 1}.{j}"
            if block == "basic":
                convolutions += [
                    (f"{name}.conv1", inputs, planes, 3),
                    (f"{name}.conv2", planes, planes, 3),
                ]
            else:
                convolutions += [
                    (f"{name}.conv1", inputs, planes, 1),
                    (f"{name}.conv2", planes, planes, 3),
                ]
                convolutions += [(f"{name}.conv3", planes, outputs, 1)]
            if j == 0 and (i > 0 or inputs != outputs):
                convolutions.append((f"{name}.downsample.0", inputs, outputs, 1))
            inputs = outputs
    return convolutions


def norm_name(convolution: str) -> str:
    return convolution.replace("downsample.0", "downsample.1").replace("conv", "bn")


def random_weights(block: str, depths: tuple[int, ...]) -> Weights:
    """Draw random weights with every name that torchvision's files hold."""
    generator = torch.Generator().manual_seed(7)
    weights = Weights()
    outputs = 0
    for name, inputs, outputs, size in layers(block, depths):
        scale = (inputs * size * size) ** -0.5
        weights[f"{name}.weight"] = (
            torch.randn(outputs, inputs, size, size, generator=generator) * scale
        )
        norm = norm_name(name)
        weights[f"{norm}.weight"] = 1 + 0.1 * torch.randn(outputs, generator=generator)
        weights[f"{norm}.bias"] = 0.1 * torch.randn(outputs, generator=generator)
        weights[f"{norm}.running_mean"] = 0.1 * torch.randn(outputs, generator=generator)
        weights[f"{norm}.running_var"] = 0.5 + torch.rand(outputs, generator=generator)
        weights[f"{norm}.num_batches_tracked"] = torch.tensor(12345)
    last = 512 * (4 if block == "bottleneck" else 1)
    return {**weights, "fc.weight": torch.randn(1000, last), "fc.bias": torch.randn(1000)}


def plain_resnet(x: Tensor, w: Weights, block: str, depths: tuple[int, ...]) -> Tensor:
    """Compute the last feature map of torchvision's ResNet in plain functions, in evaluation
    mode.
    """

    def step(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = w[f"{name}.weight"]
        norm = norm_name(name)
        x = F.conv2d(x, weight, None, stride, weight.shape[2] // 2)
        mean = w[f"{norm}.running_mean"][:, None, None]
        var = w[f"{norm}.running_var"][:, None, None]
        return (x - mean) / (var + 1e-5).sqrt() * w[f"{norm}.weight"][:, None, None] + w[
            f"{norm}.bias"
        ][:, None, None]

    x = F.max_pool2d(F.relu(step(x, "conv1", 2)), 3, 2, 1)
    for i, depth in enumerate(depths):
        for j in range(depth):
            name = f"layer{i + 1}.{j}"
            stride = 2 if i > 0 and j == 0 else 1
            if block == "basic":
                y = step(F.relu(step(x, f"{name}.conv1", stride)), f"{name}.conv2")
            else:
                y = F.relu(step(F.relu(step(x, f"{name}.conv1")), f"{name}.conv2", stride))
                y = step(y, f"{name}.conv3")
            down = f"{name}.downsample.0"
            x = F.relu(y + (step(x, down, stride) if f"{down}.weight" in w else x))
    return x


def settings(
    path: Path | None, block: str = "basic", depths: tuple[int, ...] = (1, 1), **values: Any
) -> ModelSettings:
    encoder = {
        "kind": "resnet",
        "block": block,
        "depths": list(depths),
        "width": 64,
        "stem": "classic",
        **values,
    }
    encoder |= {
        "norm": values.get("norm", "batch"),
        "size": 16,
        "weights": None if path is None else str(path),
    }
    return ModelSettings.parse({"encoder": encoder, "decoder": DECODER}, "test")


def load_model(path: Path, **values: Any) -> Model:
    model_settings = settings(path, **values)
    model = build(model_settings, 0, 20, False).eval()
    load_pretrained(model, model_settings)
    return model


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_pretrained_networks_give_the_same_features(name: str, kind: str, tmp_path: Path) -> None:
    (block, depths), path = NETWORKS[name], tmp_path / f"{name}.{kind}"
    weights = random_weights(block, depths)
    counted = [
        tensor
        for key, tensor in weights.items()
        if "running" not in key and "num_batches" not in key
    ]
    assert sum(tensor.numel() for tensor in counted) == COUNTS[name], (
        "the names and shapes are those of that network"
    )
    if kind == "pth":
        torch.save(weights, path)
    else:
        save_file(weights, path)
    model = load_model(path, block=block, depths=depths)
    assert settings(path, block, depths).encoder.stride == 32
    pixels = torch.rand(2, 3, 70, 96)
    mean = torch.tensor(MEAN)[:, None, None]
    deviation = torch.tensor(DEVIATION)[:, None, None]
    expected = plain_resnet((pixels - mean) / deviation, weights, block, depths)
    assert expected.shape[2:] == (3, 3)
    assert float(expected.std()) > 0.1
    backbone = model.encoder.backbone
    assert isinstance(backbone, ResNetBackbone)
    features, keep = backbone((pixels - mean) / deviation, None)
    assert keep is None
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)
    assert model.encoder(Batch(pixels)).grid == (3, 3)
    names = {key for key, _ in backbone.named_parameters()}
    assert names == {
        key for key in weights if not key.startswith("fc.") and "num_batches" not in key
    }


def test_a_nested_state_dict_is_loaded(tmp_path: Path) -> None:
    weights = random_weights("basic", (1, 1))
    path = tmp_path / "w.pth"
    torch.save({"state_dict": weights, "epoch": 3}, path)
    model = load_model(path)
    assert torch.equal(
        model.encoder.backbone.get_parameter("conv1.weight"), weights["conv1.weight"]
    )


def test_without_a_path_nothing_is_loaded() -> None:
    model_settings = settings(None)
    model = build(model_settings, 0, 20, False)
    before = model.encoder.backbone.get_parameter("conv1.weight").clone()
    load_pretrained(model, model_settings)
    assert torch.equal(model.encoder.backbone.get_parameter("conv1.weight"), before)


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
    assert "conv1.weight have another shape: expected (64, 3, 7, 7), got (32, 3, 7, 7)" in message
    assert "weights extra belong to no part" in message
    assert "no weights called bn1.bias" in message
    assert "layer1.0.bn1.bias hold NaN or infinite values" in message
    assert "depths, width, block and stem" in message
    torch.save(random_weights("basic", (2, 2)), path)
    message = error_message(path)
    assert "and 12 more" in message
    assert "norm" not in message.splitlines()[-1]


def test_statistics_without_batch_norm_name_the_remedy(tmp_path: Path) -> None:
    torch.save(random_weights("basic", (1, 1)), tmp_path / "w.pth")
    assert "model.encoder.norm = 'batch'" in error_message(tmp_path / "w.pth", norm="group")


class Harmful:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm.txt"),)


def test_a_file_that_holds_code_is_refused_and_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"conv1.weight": torch.ones(3), "other": Harmful()}, tmp_path / "w.pth")
    assert "holds code besides tensors, which is never executed" in error_message(
        tmp_path / "w.pth"
    )
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Harmful()))
    error_message(tmp_path / "w.pth")
    assert not (tmp_path / "harm.txt").exists()


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "text", "truncated", "numbers"])
def test_damaged_files_are_refused_in_a_sentence(name: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / name
    weights = {"conv1.weight": torch.randn(64, 3, 7, 7)}
    if name == "w.pth":
        torch.save(weights if damage != "numbers" else [1, 2], path)
    else:
        save_file(weights, path)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage != "numbers":
        path.write_bytes(
            {
                "empty": b"",
                "text": b"no tensors here\n" * 40,
                "truncated": content[: len(content) // 2],
            }[damage]
        )
    message = error_message(path)
    assert message.splitlines()[0].startswith(f"{path}: ")
    assert "Traceback" not in message
