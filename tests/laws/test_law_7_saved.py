"""Law 7, its second part: what was saved is what is loaded, to the last bit."""

from pathlib import Path

import pytest
import torch

from laws.models import make, pairs, sources, targets
from regard.model_folder import load_tensors, load_weights, named_weights, save_tensors
from regard.models import ModelSettings

SHARES = [p for share in ("none", "target", "all") for p in pairs(2, share)]


@torch.no_grad()
@pytest.mark.parametrize("settings", SHARES)
def test_saved_is_loaded_to_the_last_bit(settings: ModelSettings, tmp_path: Path) -> None:
    model, other, path = make(settings, seed=1), make(settings, seed=2), tmp_path / "model.safetensors"
    batch, target = sources(settings, 5, 2, 7, pieces=17), targets(3, 6)
    wanted = model.project(model(batch, target))
    save_tensors(path, named_weights(model), {"update": "7"})
    assert not torch.allclose(other.project(other(batch, target)), wanted, atol=0.1)
    load_weights(other, load_tensors(path), path)
    assert torch.equal(other.project(other(batch, target)), wanted)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    shared = settings.share != "none"
    assert (other.decoder.output.weight is other.decoder.embedding.weight) == shared
    if settings.encoder.reads == "text":
        assert (other.encoder.embedding.weight is other.decoder.embedding.weight) == (settings.share == "all")
    save_tensors(tmp_path / "again", named_weights(other), {"update": "7"})
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_everything_that_is_learnt_is_saved_and_shared_weights_once() -> None:
    for parameter in SHARES:
        model = make(parameter.values[0])
        saved = named_weights(model)
        assert {tensor.data_ptr() for tensor in saved.values()} == {p.data_ptr() for p in model.parameters()}
        assert len({tensor.data_ptr() for tensor in saved.values()}) == len(saved)
        assert not list(model.buffers()), "what is not a parameter is not saved"
