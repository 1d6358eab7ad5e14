"""Models broken on purpose: what each switch changes, how it is said, and that training of them can
be resumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.common.errors import ConfigurationError
from regard.layers.residual import BatchNorm, Residual
from regard.learn.samples import korean_english
from regard.model_folder import load_tensors
from regard.models import ModelSettings, build
from regard.runtime.engine import pack_model, why_not_packed
from regard.training.recipe import preset

SIDE = {
    "kind": "transformer",
    "layers": 1,
    "size": 16,
    "heads": 2,
    "feedforward": 16,
    "dropout": 0.0,
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "model.decoder.causal = false": {"model.decoder.causal": False},
    "model.encoder.residual = false": {"model.encoder.residual": False},
    "model.decoder.norm = 'batch'": {"model.encoder.norm": "batch", "model.decoder.norm": "batch"},
    "model.encoder.norm = 'none'": {"model.encoder.norm": "none"},
    "model.decoder.score = 'cosine_plain'": {"model.decoder.score": "cosine_plain"},
}
"""What is said of a model, and the settings that make it."""


def train(folder: Path, out: str, settings: dict[str, Any], **arguments: Any) -> regard.Run:
    values = {
        f"model.{side}.{key}": value
        for side in ("encoder", "decoder")
        for key, value in SIDE.items()
    }
    values |= {
        "tokenizer.size": 560,
        "batching.tokens": 256,
        "training.updates": 6,
        "training.validate_every": 3,
    }
    values |= {"training.checkpoint_minutes": 0}
    files = {
        f"{prefix}{side}": folder / f"{split}.{language}"
        for prefix, split in (("", "train"), ("valid_", "valid"))
        for side, language in (("source", "ko"), ("target", "en"))
    }
    return regard.train(
        out=folder / out,
        settings={**values, **settings},
        **({} if "resume" in arguments else files),
        **arguments,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    sizes = {"train": 200, "valid": 8, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return folder


def test_batch_norm_equals_that_of_torch() -> None:
    ours = BatchNorm(5)
    theirs = nn.BatchNorm1d(5)
    for step in range(3):
        x = torch.randn(4, 7, 5, generator=torch.Generator().manual_seed(step)) * 3 + 1
        torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    torch.testing.assert_close(ours.mean, theirs.running_mean, check_dtype=False)
    ours.eval()
    theirs.eval()
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))


def test_batch_norm_of_a_single_position_takes_the_running_statistics() -> None:
    norm = BatchNorm(3).train()
    assert torch.isfinite(norm(torch.tensor([[[1.0, 2.0, 3.0]]]))).all()


def test_without_a_residual_connection_the_input_is_not_added() -> None:
    x = torch.randn(2, 3, 8)
    branch = torch.randn(2, 3, 8)
    assert torch.equal(Residual(8, "pre", 0.0, connected=False).after(x, branch), branch)
    assert torch.equal(Residual(8, "none", 0.0).after(x, branch), x + branch)
    assert torch.equal(Residual(8, "none", 0.0).before(x), x)


@pytest.mark.system
@pytest.mark.parametrize("said", ABLATIONS)
def test_it_is_said_in_training_on_the_card_and_when_loaded(
    data: Path, tmp_path: Path, said: str
) -> None:
    messages = list[str]()
    out = tmp_path / "run"
    train(
        data,
        str(out),
        ABLATIONS[said],
        report=lambda _, values: messages.append(values.get("text", "")),
    )
    assert any("an experiment, not for use" in text and said in text for text in messages)
    card = (out / "README.md").read_text("utf-8")
    assert "**An experiment, not for use**: " in card
    assert said in card
    with pytest.warns(UserWarning, match="trained for an experiment, not for use") as warned:
        translator = regard.load(out)
    assert said in str(warned[0].message)
    assert len(translator.translate(["나는 집에 간다"], no_repeat_ngram=2)) == 1


@pytest.mark.system
def test_an_ordinary_model_is_loaded_without_a_word(
    data: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    train(data, str(tmp_path / "run"), {})
    regard.load(tmp_path / "run")
    assert not [item for item in recwarn if "experiment" in str(item.message)]
    assert "experiment" not in (tmp_path / "run" / "README.md").read_text("utf-8")


@pytest.mark.system
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_training_with_batch_norm_is_resumed_to_the_same_weights(
    data: Path, tmp_path: Path, threads: int
) -> None:
    settings = {"model.encoder.norm": "batch", "model.decoder.norm": "batch"}
    train(data, str(tmp_path / "whole"), settings, threads=threads)
    train(data, str(tmp_path / "parts"), {**settings, "training.updates": 3}, threads=threads)
    train(data, str(tmp_path / "parts"), {"training.updates": 6}, threads=threads, resume=True)
    whole, parts = (
        load_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "parts")
    )
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    means = [value for name, value in whole.items() if name.endswith("norm.mean")]
    assert means
    assert all(bool(value.any()) for value in means), "the running mean has moved"


def test_batch_norm_takes_whole_batches(data: Path, tmp_path: Path) -> None:
    settings = {"model.encoder.norm": "batch", "batching.micro_batches": 2}
    with pytest.raises(
        ConfigurationError,
        match=r"normalises over a whole batch: .* batching.micro_batches = 1 or auto",
    ):
        train(data, str(tmp_path / "run"), settings)


@pytest.mark.parametrize("settings", [{"norm": "batch"}, {"norm": "none"}, {"residual": False}])
def test_native_kernels_leave_these_models_to_torch(settings: dict[str, Any]) -> None:
    values = {"encoder": SIDE, "decoder": {**SIDE, **settings}}
    model = build(ModelSettings.parse(values, "test"), 30, 30, joint=True).eval()
    reason = why_not_packed(model)
    assert reason is not None
    assert "lacks its residual connection or layer norm" in reason or "not available" in reason
    with pytest.raises(ValueError, match="cannot be packed"):
        pack_model(model)


def test_luong_dot_compares_the_states_themselves() -> None:
    model = build(ModelSettings.parse(preset("luong-dot")["model"], "test"), 30, 30, joint=True)
    attention: Any = model.decoder.cross_attention
    assert not list(attention.parameters())
    states = torch.randn(1, 4, 512)
    outputs = torch.randn(1, 6, 512)
    context = attention(states, attention.prepare(outputs, outputs))
    torch.testing.assert_close(context, (states @ outputs.transpose(1, 2)).softmax(-1) @ outputs)


def test_states_of_another_size_cannot_be_compared_as_they_are() -> None:
    values = preset("luong-dot")["model"]
    values["decoder"]["size"] = 256
    with pytest.raises(
        ConfigurationError,
        match=r"states of 256 numbers with encoder outputs of 512; set model.decoder.size = 512",
    ):
        build(ModelSettings.parse(values, "test"), 30, 30, joint=True)
