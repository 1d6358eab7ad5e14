"""The models of benchmarks/ in plain torch.nn, which Regard is timed against, compute the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from laws.models import sentences, targets

from regard.models import Batch, Model, ModelSettings, build
from regard.models.registry import count_parameters
from regard.search import SearchSettings, SuppressTokens, Task, decode
from regard.training import preset

PLAIN = Path(__file__).resolve().parents[1] / "benchmarks" / "peers" / "plain_models.py"
VOCABULARY = 60
STEPS = 9


def plain_models() -> ModuleType:
    """Import the file, which is in no package."""
    spec = importlib.util.spec_from_file_location("plain_models", PLAIN)
    assert spec is not None, f"{PLAIN} is a module"
    assert spec.loader is not None, f"{PLAIN} is a module"

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def both(name: str) -> tuple[ModuleType, Model, torch.nn.Module]:
    """Return a preset with random weights, all of which vary, and the plain model with the same
    weights.
    """
    plain = plain_models()
    ours = build(
        ModelSettings.parse(preset(name)["model"], name), VOCABULARY, VOCABULARY, True
    )
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs = plain.plain(name, VOCABULARY)
    plain.fill(theirs, name, ours.state_dict())
    return plain, ours.eval(), theirs.eval()


def keep_mask(batch: Batch) -> torch.Tensor:
    assert batch.keep is not None, "sentences of different lengths have a mask"
    return batch.keep


@pytest.mark.parametrize("name", ["rnn", "rnn-bahdanau", "rnn-luong", "conv"])
def test_logits_and_gradients_equal_those_of_regard(name: str) -> None:
    _, ours, theirs = both(name)
    assert count_parameters(ours) == sum(
        parameter.numel() for parameter in theirs.parameters()
    )

    batch = sentences(7, 1, 4)
    target = targets(3, 6)
    logits = ours.project(ours(batch, target))
    torch.testing.assert_close(
        theirs(batch.data, keep_mask(batch), target), logits, rtol=0, atol=1e-4
    )
    for outputs in (logits, theirs(batch.data, keep_mask(batch), target)):
        outputs.log_softmax(-1)[..., 5].sum().backward()
    expected = ours.decoder.embedding.weight.grad
    torch.testing.assert_close(
        theirs.embedding.weight.grad, expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", ["rnn", "rnn-bahdanau", "rnn-luong", "conv"])
def test_greedy_tokens_equal_those_of_regard(name: str) -> None:
    plain, ours, theirs = both(name)
    batch = sentences(7, 1, 4)
    written = plain.write(
        plain.for_decoding(theirs, "float32"), batch.data, keep_mask(batch), STEPS
    )
    tasks = [Task(row, STEPS) for row in range(3)]
    with torch.inference_mode():
        expected = decode(
            ours,
            ours.encode(batch),
            tasks,
            SearchSettings(beam=1, length_penalty=0.0),
            (SuppressTokens(tuple(range(4))),),
        )

    assert written[:, :-1].tolist() == [
        list(hypotheses[0].ids) for hypotheses in expected
    ]
    assert len({tuple(row) for row in written.tolist()}) == 3, "the outputs differ"
