"""The plug-ins of `examples/`, compared with formulas and loops, and in models of every family; the
table of heads, compared with heads that are zeroed by hand.
"""

from __future__ import annotations

import math
import runpy
import sys
import warnings
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.broad_cases import broad_beyond_cover
from helpers.small_models import SENTENCES, folder
from laws.models import fitted, make, sources, targets
from laws.searching import beam
from test_plugins import _without_plugins  # noqa: F401 (a fixture)

from regard.attention import NORMALISERS, SCORES, Attention, watch
from regard.common.plugins import import_named
from regard.data.batch import Example, collate
from regard.models import ENCODERS, ModelSettings
from regard.models.interface import Batch
from regard.pipeline import load_translator
from regard.runtime.engine import why_not_packed
from regard.search import LengthPenalty
from regard.testing import check
from regard.training.loss import Objective

PARTS = {"coverage": "score", "sparsemax": "normaliser", "entmax": "normaliser"}
EXAMPLES = Path(__file__).parents[1] / "examples"
TRANSFORMER = {
    "kind": "transformer",
    "layers": 2,
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
}
RECURRENT: dict[str, Any] = {"kind": "recurrent", "size": 16, "embedding": 16}
RECURRENT["dropout"] = 0.0
DECODERS = [
    TRANSFORMER,
    *(
        {**RECURRENT, "attention_size": 8, "order": order}
        for order in ("bahdanau", "luong", "luong_input_feeding")
    ),
    {"kind": "convolutional", "size": 16, "embedding": 16, "layers": 2, "dropout": 0.0},
]
ENCODER = {"kind": "recurrent", "size": 8, "embedding": 16, "dropout": 0.0}
MINGRU = {"kind": "mingru", "size": 8, "embedding": 16, "dropout": 0.0}


@pytest.fixture(autouse=True)
def _examples(_without_plugins: None) -> None:  # noqa: F811
    import_named(str(path) for path in EXAMPLES.glob("*.py"))


def models() -> list[Any]:
    """Return models with each plug-in, as encoder and decoder; those beyond the first with each
    plug-in and with each decoder are marked `broad`.
    """
    sparse = {**TRANSFORMER, "normaliser": "sparsemax"}
    values = [(sparse, TRANSFORMER), (MINGRU, DECODERS[1])]
    features = [{"encoder"}, {"mingru"}]
    names = ["sparsemax", "mingru"]
    for decoder in DECODERS:
        kind = f"{decoder['kind']}.{decoder.get('order')}"
        for name, part in PARTS.items():
            values.append((ENCODER, {**decoder, part: name}))
            features.append({kind, name})
            names.append(f"{kind}.{name}")
    return broad_beyond_cover(values, features, names)


EVERY_MODEL = pytest.mark.parametrize(("encoder", "decoder"), models())


def settings_of(encoder: Any, decoder: Any) -> ModelSettings:
    values = {"encoder": encoder, "decoder": decoder, "share": "none"}
    parsed = ModelSettings.parse(values, "a test")
    sides = fitted(parsed.encoder, parsed.decoder)
    return ModelSettings(encoder=sides[0], decoder=sides[1], share="none")


@EVERY_MODEL
def test_the_laws_hold(encoder: Any, decoder: Any) -> None:
    check(make(settings_of(encoder, decoder))).raise_for_failures()


@EVERY_MODEL
def test_a_sentence_is_translated_alone_as_in_a_batch(
    encoder: Any, decoder: Any
) -> None:
    settings = settings_of(encoder, decoder)
    model = make(settings)
    lengths = (7, 3, 5)
    together = beam(
        model,
        model.encode(sources(settings, *lengths)),
        torch.full((3,), 6),
        3,
        LengthPenalty(1.0),
    )
    whole = sources(settings, *lengths)
    for i, length in enumerate(lengths):
        data = whole.data[i : i + 1, :length]
        (alone,) = beam(
            model, model.encode(Batch(data)), torch.full((1,), 6), 3, LengthPenalty(1.0)
        )
        assert [h.ids for h in alone] == [h.ids for h in together[i]]


@EVERY_MODEL
def test_the_library_refuses_by_name(encoder: Any, decoder: Any) -> None:
    settings = settings_of(encoder, decoder)
    reason = why_not_packed(make(settings))
    if encoder["kind"] == "mingru" or encoder.get("normaliser"):
        return  # PyTorch encodes; a runtime file is refused

    assert reason is None or any(
        name in reason for name in ("sparsemax", "entmax", "Coverage")
    )


@EVERY_MODEL
def test_gradients_reach_every_weight(encoder: Any, decoder: Any) -> None:
    settings = settings_of(encoder, decoder)
    model = make(settings)
    model.project(model(sources(settings, 7, 2, 5), targets(3, 6))).sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    """Michelot's algorithm, which drops what is negative until nothing is."""
    scores = np.random.default_rng(1).normal(size=(40, 6)) * 2
    expected = np.zeros_like(scores)
    for row, z in enumerate(scores):
        support = np.arange(6)
        while True:
            threshold = (z[support].sum() - 1) / len(support)
            positive = support[z[support] > threshold]
            if len(positive) == len(support):
                break
            support = positive
        expected[row, support] = z[support] - threshold

    weights = NORMALISERS["sparsemax"](torch.tensor(scores)[None, None], None)

    np.testing.assert_allclose(weights[0, 0], expected, atol=1e-12)
    assert (weights == 0).any()


def test_entmax_has_the_threshold_that_bisection_finds() -> None:
    scores = np.random.default_rng(1).normal(size=(40, 6)) * 2
    low = scores.max(1, keepdims=True) / 2 - 1
    high = low + 1
    for _ in range(60):
        middle = (low + high) / 2
        is_low = (np.maximum(scores / 2 - middle, 0) ** 2).sum(1, keepdims=True) > 1
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)

    weights = NORMALISERS["entmax"](torch.tensor(scores)[None, None], None)

    expected = np.maximum(scores / 2 - low, 0) ** 2
    np.testing.assert_allclose(weights[0, 0], expected, atol=1e-12)
    assert (weights == 0).any()


@pytest.mark.parametrize("name", ["sparsemax", "entmax"])
def test_gradients_of_sparse_weights(name: str) -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 2, 3, 5, dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([True, True, False, True, True])[None, None, None]

    assert torch.autograd.gradcheck(
        lambda scores: NORMALISERS[name](scores, keep), scores
    )


def test_recorded_weights_and_scores_are_those_of_sparsemax() -> None:
    settings = settings_of(ENCODER, {**TRANSFORMER, "normaliser": "sparsemax"})
    model = make(settings)
    inputs = sources(settings, 7, 5), targets(2, 6)
    recorded = []
    for has_scores in (False, True):
        with torch.no_grad(), watch(model, role="cross", scores=has_scores) as readings:
            model(*inputs)
        recorded.append(dict(readings))

    for layer, weights in recorded[0].items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        scores = recorded[1][layer]
        torch.testing.assert_close(
            NORMALISERS["sparsemax"](scores, scores > -torch.inf), weights
        )


def test_coverage_is_the_sum_of_earlier_weights() -> None:
    settings = settings_of(ENCODER, {**RECURRENT, "score": "coverage"})
    model = make(settings)
    batch = sources(settings, 7, 5)
    with torch.no_grad(), watch(model) as readings:
        source = model.encode(batch)
        _, state = model.step(targets(2, 4), model.begin(source), source)

    (weights,) = readings.values()
    torch.testing.assert_close(state.tensors["coverage.0"], weights.sum(2))
    score = model.decoder.cross_attention.score
    assert type(score) is SCORES["coverage"]


def test_the_encoder_equals_a_loop_over_positions() -> None:
    settings = settings_of(MINGRU, DECODERS[1])
    model = make(settings)
    encoder = model.encoder
    batch = sources(settings, 6, 4)
    with torch.no_grad():
        encoded = encoder(batch)
        for row, length in enumerate((6, 4)):
            x = encoder.embedding(batch.data[row, :length])
            for layer in encoder.layers:
                sides = layer(x).chunk(2, -1)
                x = torch.cat([_loop(sides[0]), _loop(sides[1].flip(0)).flip(0)], -1)
            torch.testing.assert_close(encoded.outputs[row, :length], x)
    assert type(settings.encoder) in ENCODERS


def _loop(gates: torch.Tensor) -> torch.Tensor:
    """Run the recurrence of the paper: h = (1 − z) h + z g(c)."""
    state = torch.zeros(gates.shape[1] // 2)
    states = []
    for gate, candidate in zip(*gates.chunk(2, -1), strict=True):
        z = gate.sigmoid()
        g = torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
        state = (1 - z) * state + z * g
        states.append(state)
    return torch.stack(states)


def test_the_auxiliary_loss_is_the_cross_entropy_of_the_links() -> None:
    supervised = sys.modules[str(EXAMPLES / "supervised_attention.py")]
    settings = settings_of(TRANSFORMER, TRANSFORMER)
    model = make(settings)
    links = [array("i", [0, 0, 1, 2]), array("i", [1, 0, 0, 1])]
    examples = [
        Example([5, 6, 7, 3], [8, 9, 5, 3], links=links[0]),
        Example([6, 5, 3], [9, 8, 3], links=links[1]),
    ]
    batch = collate(examples)
    assert batch.links is not None
    loss = supervised.SupervisedAttention(0.5)(model, batch)
    with torch.no_grad(), watch(model, role="cross") as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)

    terms = []
    for weights in readings.values():
        mean = np.mean(weights.numpy(), axis=1)
        total = 0.0
        for row, target, source in zip(*np.nonzero(batch.links.numpy()), strict=True):
            link = float(batch.links[row, target, source])
            total -= link * math.log(mean[row, target, source])
        terms.append(total)
    assert loss.guided.item() == pytest.approx(np.mean(terms), rel=1e-5)
    assert int(loss.linked) == 4
    plain = Objective(0.1)(model, batch)
    expected = plain.smoothed.item() + 0.5 * np.mean(terms)
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(loss.cross_entropy, plain.cross_entropy)
    without = replace(batch, links=None)
    assert torch.equal(
        supervised.SupervisedAttention(0.5)(model, without).smoothed, plain.smoothed
    )


@pytest.mark.system
def test_the_table_of_heads_has_the_scores_without_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = runpy.run_path(str(EXAMPLES / "head_ablation.py"))
    translator = load_translator(folder(tmp_path / "run", end=-2.0))
    inputs = SENTENCES[:2], SENTENCES[2:4]
    rows = example["ablation_table"](translator, *inputs)
    modules = dict(translator.model.named_modules())
    attentions = {
        name: part for name, part in modules.items() if isinstance(part, Attention)
    }

    assert {(row["layer"], row["head"]) for row in rows} == {
        (name, head) for name, part in attentions.items() for head in range(part.heads)
    }
    losses = [row["loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    whole = example["score"](translator, *inputs, warnings.catch_warnings())
    for row in (rows[0], rows[-1]):
        attention = attentions[row["layer"]]
        size = attention.value_size // attention.heads

        first = size * row["head"]
        handle = attention.output.register_forward_pre_hook(
            zero_between(first, first + size)
        )
        score = example["score"](translator, *inputs, warnings.catch_warnings())
        handle.remove()
        assert row["chrF"] == score
        assert row["loss"] == whole - score
    assert any(losses), "heads matter"
    by_edits = example["ablation_table"](translator, *inputs, "TER")
    edits = example["score"](translator, *inputs, warnings.catch_warnings(), "TER")
    assert all(row["loss"] == row["TER"] - edits for row in by_edits)
    paths = [tmp_path / "test.ko", tmp_path / "test.en"]
    for path, lines in zip(paths, inputs, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    arguments = map(str, ["head_ablation.py", tmp_path / "run", *paths])
    monkeypatch.setattr(sys, "argv", [*arguments])
    runpy.run_path(str(EXAMPLES / "head_ablation.py"), run_name="__main__")
    table = capsys.readouterr().out.splitlines()
    assert table == example["markdown"](rows).splitlines()
    assert len(table) == len(rows) + 2
    assert table[2].startswith(f"| {rows[0]['layer']} | {rows[0]['head'] + 1} | ")


def zero_between(first: int, end: int) -> Any:
    """Return a hook that zeroes these numbers of what a module reads."""

    def zero(_: object, inputs: Any) -> None:
        inputs[0][..., first:end] = 0

    return zero
