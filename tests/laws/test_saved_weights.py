"""Loaded weights equal the saved ones, to the last bit."""

from pathlib import Path

import pytest
import torch
from helpers.small_models import folder

from laws.models import kinds, make, pairs, sources, targets
from regard.model_folder import (
    load_folder,
    load_tensors,
    load_weights,
    named_weights,
    save_tensors,
)
from regard.models import ModelSettings


@torch.no_grad()
@pytest.mark.parametrize(
    "settings", [*pairs(), *kinds("target")[:4], *kinds("all")[:4]]
)
def test_loaded_weights_equal_the_saved_ones_to_the_last_bit(
    settings: ModelSettings, tmp_path: Path
) -> None:
    model = make(settings, seed=1)
    loaded = make(settings, seed=2)
    path = tmp_path / "model.safetensors"
    batch = sources(settings, 5, 2, 7, vocabulary=17)
    target = targets(3, 6)
    expected = model.project(model(batch, target))
    weights = named_weights(model)
    pointers = {tensor.data_ptr() for tensor in weights.values()}

    assert pointers == {parameter.data_ptr() for parameter in model.parameters()}
    assert len(pointers) == len(weights), "shared weights are saved once"
    assert not list(model.buffers()), "buffers would not be saved"

    save_tensors(path, weights, {"update": "7"})

    assert not torch.allclose(loaded.project(loaded(batch, target)), expected, atol=0.1)

    load_weights(loaded, load_tensors(path), path)

    assert torch.equal(loaded.project(loaded(batch, target)), expected)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]

    embedding = loaded.decoder.embedding.weight

    assert (loaded.decoder.output.weight is embedding) == (settings.share != "none")

    if settings.encoder.reads == "text":
        is_joint = loaded.encoder.embedding.weight is embedding
        assert is_joint == (settings.share == "all")

    save_tensors(tmp_path / "again", named_weights(loaded), {"update": "7"})

    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
def test_a_folder_is_loaded_without_random_numbers(kind: str, tmp_path: Path) -> None:
    run = folder(tmp_path / "run", kind, kind)
    before = torch.default_generator.get_state()
    load_folder(run)
    assert torch.equal(torch.default_generator.get_state(), before)
