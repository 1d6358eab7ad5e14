"""Image encoders from timm, with a stand-in for the package."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from laws.models import alone, images, make, targets
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.common.errors import ConfigurationError, MissingExtra, TrainingError
from regard.model_folder import named_weights
from regard.models import Batch, ModelSettings, build, load_pretrained

DECODER = {
    "kind": "recurrent",
    "size": 16,
    "embedding": 16,
    "attention_size": 12,
    "dropout": 0.0,
}


class Network(nn.Module):
    """Stand-in for a network of timm: feature maps at the given indices, with batch norm; each
    stage halves the sides.
    """

    def __init__(self, name: str, out_indices: tuple[int, ...]) -> None:
        super().__init__()
        self.out_indices = out_indices
        self.channels_last = name == "channels_last"
        shape = (2, 2, 0) if name == "patches" else (3, 2, 1)  # size, stride, padding
        sizes = (3, 8, 12, 20)
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, *shape), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in pairwise(sizes[: max(out_indices) + 2])
        )
        selected = [(sizes[index + 1], 2 ** (index + 1)) for index in out_indices]
        self.feature_info = SimpleNamespace(
            channels=lambda: [channels for channels, _ in selected],
            reduction=lambda: [stride for _, stride in selected],
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []

        for stage in self.stages:
            x = stage(x)
            maps.append(x.movedim(1, 3) if self.channels_last else x)

        return [maps[index] for index in self.out_indices]


def create_model(
    name: str,
    pretrained: bool,
    features_only: bool,
    out_indices: tuple[int, ...] = (0, 1, 2),
) -> Network:
    assert not pretrained, "nothing is downloaded"
    assert features_only

    if name not in ("channels_first", "channels_last", "patches"):
        raise RuntimeError(f"Unknown model ({name})")
    return Network(name, out_indices)


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in: Any = ModuleType("timm")
    stand_in.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", stand_in)


def settings(**encoder: Any) -> ModelSettings:
    values = {
        "kind": "timm",
        "name": "channels_first",
        "stride": 4,
        "size": 16,
        "dropout": 0.0,
        **encoder,
    }
    return ModelSettings.parse({"encoder": values, "decoder": DECODER}, "test")


@torch.no_grad()
@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "stride"), [("channels_first", 4), ("channels_last", 8)]
)
def test_an_image_alone_equals_the_same_in_a_batch_in_training_too(
    name: str, stride: int
) -> None:
    model = make(settings(name=name, stride=stride))
    batch = images(6, 1, 9)
    target = targets(3, 4)
    rows = [model(alone(batch, row), target[row : row + 1]) for row in range(3)]
    expected = torch.cat(rows)

    torch.testing.assert_close(model(batch, target), expected, rtol=0, atol=1e-4)

    model.train()

    torch.testing.assert_close(model(batch, target), expected, rtol=0, atol=1e-4)

    encoded = model.encoder(batch)
    Y, X = batch.data.shape[2:]

    assert encoded.grid == (-(-Y // stride), -(-X // stride))
    assert model.encoder(Batch(batch.data)).grid == encoded.grid


@torch.no_grad()
@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["channels_first", "channels_last", "patches"])
def test_cell_centres_are_detected(name: str) -> None:
    """Overlapping convolutions are centred near the corner of their cell, patches in the middle."""
    for stride in (2, 8):
        centre = 0.5 if name == "patches" else 0.5 / stride
        encoder = build(settings(name=name, stride=stride), 0, 20, False).encoder
        assert encoder.cell_centre == centre


@torch.no_grad()
@pytest.mark.usefixtures("timm")
def test_channels_are_distinguished_from_equally_many_rows() -> None:
    first = build(settings(name="channels_first", stride=2), 0, 20, False).encoder
    last = build(settings(name="channels_last", stride=2), 0, 20, False).encoder
    last.load_state_dict(first.state_dict())
    batch = Batch(torch.rand(2, 3, 16, 16))  # 8 rows, 8 columns, 8 channels

    torch.testing.assert_close(last(batch).outputs, first(batch).outputs)


@pytest.mark.usefixtures("timm")
def test_batch_norm_statistics_are_parameters() -> None:
    model = make(settings())

    assert not list(model.buffers())

    saved = named_weights(model)

    assert "encoder.backbone.stages.1.1.running_var" in saved

    model.train()
    model(images(5, 6), targets(2, 3)).sum().backward()
    learning = {name for name, p in model.named_parameters() if p.requires_grad}

    assert {name for name in saved if "running" not in name} == learning
    assert model.encoder.backbone.get_parameter("stages.0.0.weight").grad is not None


@pytest.mark.usefixtures("timm")
def test_freeze_backbone_freezes_the_network_only() -> None:
    model = build(settings(freeze_backbone=True), 0, 20, False)

    for name, parameter in model.named_parameters():
        is_frozen = name.startswith("encoder.backbone.")
        assert parameter.requires_grad != is_frozen


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"name": "other"},
            r"'other' \(Unknown model \(other\)\); see timm.list_models",
        ),
        ({"stride": 16}, "feature maps of stride 2, 4, 8, not 16"),
    ],
)
def test_unknown_networks_and_strides_are_refused_with_the_remedy(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(settings(**values), 0, 20, False)


def test_a_missing_package_is_named_with_its_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)

    with pytest.raises(MissingExtra, match=r"pip install 'regard\[vision\]'"):
        build(settings(), 0, 20, False)


@pytest.mark.usefixtures("timm")
def test_weights_of_a_whole_network_fill_the_stages_in_use(tmp_path: Path) -> None:
    """A pretrained file has more stages, and a head, and may name modules with other separators."""
    pretrained = Network("channels_first", (0, 1, 2, 2)).state_dict()
    tensors = {
        name: torch.randn_like(tensor)
        for name, tensor in pretrained.items()
        if tensor.is_floating_point()
    }
    path = tmp_path / "a.safetensors"
    counter = {"stages.0.1.num_batches_tracked": torch.tensor(8)}
    save_file({**tensors, **counter, "head.fc.weight": torch.zeros(3)}, path)
    model_settings = settings(stride=4, weights=str(path))
    model = build(model_settings, 10, 10, joint=False)
    load_pretrained(model, model_settings)
    loaded = dict(model.encoder.backbone.named_parameters())

    assert 0 < len(loaded) < len(tensors)
    assert all(torch.equal(loaded[name], tensors[name]) for name in loaded)

    incomplete = {name: tensors[name] for name in tensors if "1.0" not in name}
    save_file(incomplete, path)

    with pytest.raises(
        TrainingError, match=r"no weights called stages\.1\.0"
    ) as raised:
        load_pretrained(model, model_settings)

    assert raised.value.causes[-1].startswith("set model.encoder.name to the network")


@pytest.mark.parametrize(
    "name",
    ["hf-hub:org/net", "timm/net", "../net", "", ".", "a.b.c", "net\n", "ñet"]
    + ["n" * 5000],
)
def test_a_name_that_leads_to_the_network_or_to_a_folder_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # refused before timm is imported

    assert settings(name="resnet18.a1_in1k")

    with pytest.raises(ConfigurationError, match=r"encoder\.name") as refused:
        settings(name=name)

    assert "plain name" in str(refused.value)
    assert len(str(refused.value)) < 400
