"""Law 7, second part: loaded weights equal the saved ones, to the last bit."""

from pathlib import Path

import pytest
import torch

from laws.models import kinds, make, pairs, sources, targets
from regard.model_folder import load_tensors, load_weights, named_weights, save_tensors
from regard.models import ModelSettings

SHARES = [*pairs(), *kinds("target"), *kinds("all")]


@torch.no_grad()
@pytest.mark.parametrize("settings", SHARES)
def test_loaded_weights_equal_the_saved_ones_to_the_last_bit(
    settings: ModelSettings, tmp_path: Path
) -> None:
    model = make(settings, seed=1)
    loaded = make(settings, seed=2)
    path = tmp_path / "model.safetensors"
    batch = sources(settings, 5, 2, 7, vocabulary=17)
    target = targets(3, 6)
    expected = model.project(model(batch, target))
    save_tensors(path, named_weights(model), {"update": "7"})
    assert not torch.allclose(loaded.project(loaded(batch, target)), expected, atol=0.1)
    load_weights(loaded, load_tensors(path), path)
    assert torch.equal(loaded.project(loaded(batch, target)), expected)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    shared = settings.share != "none"
    assert (loaded.decoder.output.weight is loaded.decoder.embedding.weight) == shared
    if settings.encoder.reads == "text":
        assert (loaded.encoder.embedding.weight is loaded.decoder.embedding.weight) == (
            settings.share == "all"
        )
    save_tensors(tmp_path / "again", named_weights(loaded), {"update": "7"})
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_all_parameters_are_saved_and_shared_weights_once() -> None:
    for parameter in SHARES:
        model = make(parameter.values[0])
        saved = named_weights(model)
        assert {tensor.data_ptr() for tensor in saved.values()} == {
            p.data_ptr() for p in model.parameters()
        }
        assert len({tensor.data_ptr() for tensor in saved.values()}) == len(saved)
        assert not list(model.buffers()), "buffers would not be saved"
