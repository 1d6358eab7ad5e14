"""Packed models equal PyTorch: every encoder with every decoder, in every precision, alone and batched."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from laws.covering import ENCODERS_BY_INPUT, parse
from laws.models import alone, beam_rows, kinds, label, make, pairs, sentences, sources, targets
from systems import posix

from regard.engine import PackedModel, pack_model, why_not_packed
from regard.engine.packed_state import PackedState
from regard.engine.program import Program, _Operation, address
from regard.models import Batch, Model, ModelSettings, build
from regard.models.recurrent import RecurrentDecoderSettings
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.runtime import native

if (reason := native.why_unavailable()) is not None:
    pytest.skip(f"no native kernels on this machine: {reason}", allow_module_level=True)

LENGTHS = (6, 1, 9, 40, 9, 2)


def programmed_settings() -> list[Any]:
    """List models with a native program beyond the defaults: every encoder with recurrent decoders, and Transformers."""
    small, encoders = parse(RecurrentDecoderSettings, {}), [parse(kind, {}) for kind in ENCODERS_BY_INPUT["text"]]
    choices = [("gru", "scaled_dot", 1), ("lstm", "additive", 2), ("lstm", "scaled_dot", 1)]
    decoders = [small.with_values(cell=cell, score=score, layers=layers) for cell, score, layers in choices]
    decoders += [small.with_values(gate=True, order=order) for order in ("bahdanau", "luong", "luong_input_feeding")]
    combinations = [(encoder, decoder) for encoder in encoders for decoder in decoders]
    base_encoder, base_decoder = parse(TransformerEncoderSettings, {}), parse(TransformerDecoderSettings, {})
    for norm, activation, positions, layers in (
        ("post", "relu", "none", 1),
        ("post", "silu", "sinusoidal", 2),
        ("pre", "gelu", "learned", 1),
    ):
        options = {"norm": norm, "activation": activation, "positions": positions, "layers": layers}
        combinations.append((base_encoder.with_values(**options), base_decoder.with_values(**options)))
    return [
        pytest.param(ModelSettings(encoder=e, decoder=d, share="none"), id=f"{label(e)}+{label(d)}")
        for e, d in combinations
    ]


def with_program(parameters: list[Any]) -> list[Any]:
    """Return those of some models that the kernels can compute; what the others lack is said by `why_not_packed`."""
    models = [build(parameter.values[0], 23, 17, False) for parameter in parameters]
    return [parameter for parameter, model in zip(parameters, models, strict=True) if why_not_packed(model) is None]


ALL, KINDS = with_program(pairs()), with_program(kinds())
PRECISIONS = ("float32", "bfloat16", "int8")


def packed(settings: ModelSettings, precision: Any = "float32", threads: int = 1) -> tuple[Model, PackedModel]:
    model = make(settings)
    return model, pack_model(model, precision, threads)


def features_of(model: Any, batch: Batch, target: torch.Tensor, beams: int) -> torch.Tensor:
    """Compute the features of given targets, `beams` rows per sentence."""
    with torch.inference_mode():
        source = model.encode(batch)
        state = model.begin(source).select(beam_rows(len(batch.data), beams))
        return torch.as_tensor(model.step(target, state, source)[0])


def perturbed(model: Model) -> Model:
    """Copy the model with weights changed in the last bits; the change of its output estimates the rounding error."""
    perturbed_model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in perturbed_model.parameters():
            parameter.mul_(1 + 2e-7 * torch.randn_like(parameter))
    return perturbed_model


@pytest.mark.parametrize("settings", ALL + programmed_settings())
def test_float32_equals_the_model(settings: ModelSettings) -> None:
    model, packed_model = packed(settings)
    target, batch = targets(12, 7), sources(settings, *LENGTHS)
    expected, actual = (features_of(tested, batch, target, 2) for tested in (model, packed_model))
    tolerance = 2 * (features_of(perturbed(model), batch, target, 2) - expected).abs().max().item()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=max(1e-4, tolerance))
    with torch.inference_mode():
        torch.testing.assert_close(packed_model.project(expected), model.project(expected), rtol=1e-4, atol=2e-4)
        for result, reference in zip(
            packed_model.top_tokens(expected, 5, (0, 3)), model.top_tokens(expected, 5, (0, 3)), strict=True
        ):
            torch.testing.assert_close(result, reference, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("settings", ALL + programmed_settings())
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precision_is_close_to_the_model(settings: ModelSettings, precision: str) -> None:
    model, packed_model = packed(settings, precision)
    target, batch = targets(12, 7), sources(settings, *LENGTHS)
    expected, actual = (features_of(tested, batch, target, 2) for tested in (model, packed_model))
    error = (actual - expected).pow(2).mean().sqrt() / expected.pow(2).mean().sqrt()
    assert 0 < error < (0.2 if precision == "bfloat16" else 0.5)


@pytest.mark.parametrize("settings", [p for p in ALL if p.values[0].encoder.reads == "text"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_batched_features_equal_those_alone_to_the_bit(settings: ModelSettings, precision: str) -> None:
    _, packed_model = packed(settings, precision)
    if packed_model.programs.encoder is None:
        return  # PyTorch computes it, whose matrix products depend on the batch size: nothing is promised
    target, batch = targets(6, 7), sources(settings, *LENGTHS)
    batched = features_of(packed_model, batch, target, 1)
    for row in range(6):
        assert torch.equal(
            features_of(packed_model, alone(batch, row), target[row : row + 1], 1), batched[row : row + 1]
        )


@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_threads_equal_one(settings: ModelSettings, precision: str) -> None:
    (_, one), (_, two) = packed(settings, precision), packed(settings, precision, threads=2)
    assert two.threads == 2
    target, batch = targets(12, 7), sources(settings, *LENGTHS)
    features = features_of(one, batch, target, 2)
    assert torch.equal(features_of(two, batch, target, 2), features)
    for result, reference in zip(one.top_tokens(features, 4), two.top_tokens(features, 4), strict=True):
        torch.testing.assert_close(result, reference, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("settings", KINDS)
def test_states_can_be_stepped_again_selected_and_joined(settings: ModelSettings) -> None:
    _, packed_model = packed(settings)
    target, batch = targets(6, 9), sources(settings, *LENGTHS)
    expected = features_of(packed_model, batch, target, 1)
    source = packed_model.encode(batch)
    _, state = packed_model.step(target[:, :3], packed_model.begin(source), source)
    again = [packed_model.step(target[:, 3:5], state, source) for _ in range(2)]
    assert np.array_equal(again[0][0], again[1][0])
    rows = np.array([4, 0, 3])
    selected, selected_source = again[0][1].select(rows), source.select(rows)
    added_source = packed_model.encode(alone(batch, 2))
    _, added_state = packed_model.step(target[2:3, :1], packed_model.begin(added_source), added_source)
    joined, joined_source = selected.join(added_state), selected_source.join(added_source)
    positions = torch.tensor([5, 5, 5, 1])
    for step in range(4):
        index = (torch.tensor([4, 0, 3, 2]), positions + step)
        features, joined = packed_model.step(target[index][:, None], joined, joined_source)
        np.testing.assert_allclose(features[:, 0], expected[index], rtol=1e-4, atol=1e-4)


def test_blocks_without_hypotheses_are_released() -> None:
    settings = next(
        p.values[0] for p in ALL if p.values[0].encoder.reads == "text" and p.values[0].decoder.kind == "transformer"
    )
    _, packed_model = packed(settings)
    source = packed_model.encode(sources(settings, *LENGTHS))
    state: PackedState = packed_model.begin(source)
    for _ in range(200):
        _, state = packed_model.step(targets(len(state), 1), state, source)
        if len(state) == 6 and state.position[0] > 20:
            state = packed_model.begin(source)  # all hypotheses have finished
            state = state.join(
                packed_model.step(targets(1, 1), packed_model.begin(source.select([0])), source.select([0]))[1]
            )
            state = state.select(range(6))
    assert len(state.buffers) < 60


def test_positions_beyond_the_first_table_equal_the_model() -> None:
    settings = next(
        p.values[0] for p in pairs(reads=["text"]) if getattr(p.values[0].encoder, "positions", None) == "sinusoidal"
    )
    model, packed_model = packed(settings)
    batch, target = sentences(700, 3), targets(2, 300)
    expected, actual = (features_of(tested, batch, target, 1) for tested in (model, packed_model))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


def test_longer_position_table_of_another_thread_is_kept() -> None:
    """Another thread extends the table while this one waits for the lock."""
    buffers: list[Any] = []
    program = Program((_Operation * 1)(), [8], buffers, (0, lambda count: np.zeros((count, 8))))
    lock = program._lock

    class Waiting:
        def __enter__(self) -> None:
            program._lock = lock
            program.ensure_positions(3000)

        def __exit__(self, *_: object) -> None: ...

    program._lock = Waiting()  # type: ignore[assignment]
    program.ensure_positions(100)
    assert program.operations[0].second == address(buffers[-1])
    assert len(buffers[-1]) >= 3000


def test_nan_stays_nan() -> None:
    model = make(next(p.values[0] for p in KINDS if p.values[0].encoder.reads == "text"))
    with torch.no_grad():
        model.decoder.output.bias[5] = torch.nan
    log_probs, tokens, _ = pack_model(model).top_tokens(torch.randn(3, 1, model.decoder.output.weight.shape[1]), 3)
    assert bool(log_probs.isnan().all())
    assert bool(((tokens >= 0) & (tokens < model.decoder.output.weight.shape[0])).all())


@pytest.mark.system
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"REGARD_KERNELS": "off"}, "REGARD_KERNELS"),
        ({"PATH": "/nowhere"}, "no C compiler"),
        ({"CC": "false"}, "failed"),
    ],
)
def test_missing_kernels_have_a_reason(environment: dict[str, str], reason: str, tmp_path: Path) -> None:
    command = "from regard.runtime import native; print(native.why_unavailable())"
    env = {**os.environ, "REGARD_CACHE": str(tmp_path), "REGARD_KERNELS": "compile", **environment}
    process = subprocess.run([sys.executable, "-c", command], env=env, capture_output=True, text=True, timeout=120)
    assert reason in process.stdout, process.stderr
    assert not list(tmp_path.iterdir()), "no partial file is left"


@posix
@pytest.mark.system
def test_world_writable_cache_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    env = {**os.environ, "REGARD_CACHE": str(tmp_path), "REGARD_KERNELS": "compile"}
    command = "from regard.runtime import native; print(native.why_unavailable())"
    process = subprocess.run([sys.executable, "-c", command], env=env, capture_output=True, text=True, timeout=120)
    assert "ours alone" in process.stdout, process.stderr
    assert not list(tmp_path.iterdir())
