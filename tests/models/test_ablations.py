"""Models broken on purpose: what each switch changes, and how it is said.

That their training can be resumed is tested in `training/test_trainer.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.common.errors import ConfigurationError
from regard.layers.residual import BatchNorm
from regard.learn.samples import korean_english
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
ABLATIONS: dict[str, Any] = {
    "model.encoder.norm": "none",
    "model.encoder.residual": False,
    "model.decoder.norm": "batch",
    "model.decoder.causal": False,
    "model.decoder.score": "cosine_plain",
}
SETTINGS_IN_WORDS = [
    "model.encoder.norm = 'none'",
    "model.encoder.residual = false",
    "model.decoder.norm = 'batch'",
    "model.decoder.causal = false",
    "model.decoder.score = 'cosine_plain'",
]


def train(folder: Path, settings: dict[str, Any], **arguments: Any) -> Path:
    """Train a small model for two updates, and return its folder."""
    sizes = {"train": 60, "valid": 4, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    values: dict[str, Any] = {
        "tokenizer.size": 560,
        "batching.tokens": 256,
        "training.updates": 2,
        "training.validate_every": 2,
    }

    for side in ("encoder", "decoder"):
        values |= {f"model.{side}.{key}": value for key, value in SIDE.items()}

    regard.train(
        source=folder / "train.ko",
        target=folder / "train.en",
        valid_source=folder / "valid.ko",
        valid_target=folder / "valid.en",
        out=folder / "run",
        settings=values | settings,
        **arguments,
    )
    return folder / "run"


def test_batch_norm_equals_that_of_torch() -> None:
    ours = BatchNorm(5)
    theirs = nn.BatchNorm1d(5)

    for _ in range(3):
        x = torch.randn(4, 7, 5) * 3 + 1
        torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))

    torch.testing.assert_close(ours.mean, theirs.running_mean, check_dtype=False)

    ours.eval()
    theirs.eval()

    torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))


def test_batch_norm_of_a_single_position_takes_the_running_statistics() -> None:
    norm = BatchNorm(3).train()

    assert torch.isfinite(norm(torch.tensor([[[1.0, 2.0, 3.0]]]))).all()


@pytest.mark.system
# Of a model that has learnt nothing.
@pytest.mark.filterwarnings("ignore:the translation")
def test_an_experiment_is_named_in_training_on_the_card_and_when_loaded(
    tmp_path: Path,
) -> None:
    """That an ordinary model is loaded without a word, every test that loads one shows: a warning
    would fail it.
    """
    messages = list[str]()

    def report(_: Any, values: dict[str, Any]) -> None:
        text = values.get("text", "")
        if "an experiment, not for use" in text:
            messages.append(text)

    run = train(tmp_path, ABLATIONS, report=report)
    card = (run / "README.md").read_text("utf-8")

    assert "**An experiment, not for use**: " in card

    with pytest.warns(
        UserWarning, match="trained for an experiment, not for use"
    ) as warned:
        translator = regard.load(run)

    for text in (" ".join(messages), card, str(warned[0].message)):
        assert [words for words in SETTINGS_IN_WORDS if words not in text] == []

    assert len(translator.translate(["나는 집에 간다"], no_repeat_ngram=2)) == 1


def test_batch_norm_takes_whole_batches(tmp_path: Path) -> None:
    settings = {"model.encoder.norm": "batch", "batching.micro_batches": 2}
    message = r"normalises over a whole batch: .* batching.micro_batches = 1 or auto"

    with pytest.raises(ConfigurationError, match=message):
        train(tmp_path, settings)


@pytest.mark.parametrize("settings", [{"norm": "batch"}, {"residual": False}])
def test_native_kernels_leave_these_models_to_torch(settings: dict[str, Any]) -> None:
    values = {"encoder": SIDE, "decoder": {**SIDE, **settings}}
    model = build(ModelSettings.parse(values, "test"), 30, 30, joint=True).eval()

    assert why_not_packed(model) is not None

    with pytest.raises(ValueError, match="cannot be packed"):
        pack_model(model)


def test_luong_dot_compares_the_states_themselves() -> None:
    settings = ModelSettings.parse(preset("luong-dot")["model"], "test")
    model = build(settings, 30, 30, joint=True)
    attention: Any = model.decoder.cross_attention
    states = torch.randn(1, 4, 512)
    outputs = torch.randn(1, 6, 512)
    context = attention(states, attention.prepare(outputs, outputs))
    weights = (states @ outputs.transpose(1, 2)).softmax(-1)

    assert not list(attention.parameters())
    torch.testing.assert_close(context, weights @ outputs)


def test_states_of_another_size_cannot_be_compared_as_they_are() -> None:
    values = preset("luong-dot")["model"]
    values["decoder"]["size"] = 256
    message = "states of 256 numbers with encoder outputs of 512; set model.decoder.size = 512"

    with pytest.raises(ConfigurationError, match=message):
        build(ModelSettings.parse(values, "test"), 30, 30, joint=True)
