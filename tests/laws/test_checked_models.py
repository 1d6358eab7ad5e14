"""`regard.testing.check` passes every registered variant, and finds each kind of broken model with
the smallest example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from laws.models import make, pairs
from regard.common.errors import UsageError
from regard.models import Batch, Encoded, ModelSettings
from regard.testing import LAWS, LawError, check

SIDE = {"kind": "transformer", "size": 16, "heads": 2, "feedforward": 24, "layers": 1}


def transformer(**decoder: Any) -> Any:
    values = {"encoder": SIDE, "decoder": {**SIDE, **decoder}, "share": "none"}
    return make(ModelSettings.parse(values, "a law"))


@pytest.mark.parametrize("settings", pairs())
def test_every_registered_variant_obeys_the_laws(settings: ModelSettings) -> None:
    report = check(make(settings))

    report.raise_for_failures()

    assert [result.law for result in report.results] == [*LAWS]


def without_causal_mask(_: pytest.MonkeyPatch) -> Any:
    return transformer(causal=False)


def without_padding_mask(patch: pytest.MonkeyPatch) -> Any:
    model = transformer()
    forward = model.encoder.forward
    patch.setattr(
        model.encoder, "forward", lambda batch: forward(replace(batch, keep=None))
    )
    return model


def state_in_the_model(patch: pytest.MonkeyPatch) -> Any:
    model = transformer()
    step = model.decoder.step
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        features, state = step(*arguments)
        return features + len(calls), state

    patch.setattr(model.decoder, "step", counted)
    return model


def mean_of_padding(patch: pytest.MonkeyPatch) -> Any:
    model = transformer()
    prepare = model.decoder.prepare

    def prepared(encoded: Any) -> Any:
        outputs = encoded.outputs + encoded.outputs.mean(1, keepdim=True)
        return prepare(replace(encoded, outputs=outputs))

    patch.setattr(model.decoder, "prepare", prepared)
    return model


def other_top_tokens(patch: pytest.MonkeyPatch) -> Any:
    model = transformer()
    patch.setattr(model, "top_tokens", lambda *_: model.missing)
    return model


def unsaved_buffer(patch: pytest.MonkeyPatch) -> Any:
    model = transformer()
    model.decoder.register_buffer("shift", torch.ones(1))
    plain = type(model.decoder).step  # of the class, so that a copy has it, too

    def shifted_step(self: Any, *arguments: Any) -> Any:
        features, state = plain(self, *arguments)
        return features + self.shift, state

    patch.setattr(type(model.decoder), "step", shifted_step)
    return model


BROKEN: list[tuple[Callable[[pytest.MonkeyPatch], Any], str]] = [
    (without_causal_mask, "step by step = all at once"),
    (without_padding_mask, "alone = in a batch"),
    (without_padding_mask, "joined = begun together"),
    (state_in_the_model, "stepped again = stepped once"),
    (state_in_the_model, "watched = unwatched"),
    (mean_of_padding, "hidden entries change nothing"),
    (other_top_tokens, "greedy = beam of one"),
    (unsaved_buffer, "saved = loaded"),
]


@pytest.mark.parametrize(("broken", "law"), BROKEN)
def test_each_law_is_found_broken_with_the_smallest_example(
    broken: Any, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = check(broken(monkeypatch))
    (failure,) = [result for result in report.failures if result.law == law]

    assert failure.example is not None
    assert f"FAILS  {law}: {failure.problem}\n" in repr(report)
    assert str(failure.example.target.tolist()) in repr(report)
    with pytest.raises(LawError, match=law):
        report.raise_for_failures()
    if broken is mean_of_padding:
        assert failure.problem.startswith("with NaN in the hidden rows of Encoded")
    if broken is without_causal_mask:
        # One input token sees nothing that it should not, and two do.
        assert failure.example.target.shape == (2, 2)
        assert "holds  alone" in repr(report)


def test_a_summary_may_be_a_view_of_the_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here it is a row that no attention sees, in which an in-place NaN would be seen."""
    side = {"kind": "recurrent", "cell": "gru", "size": 8, "embedding": 8, "layers": 1}
    values = {"encoder": side, "decoder": side, "share": "none"}
    model = make(ModelSettings.parse(values, "a law"))
    forward = model.encoder.forward

    def with_a_row(batch: Batch) -> Encoded:
        encoded = forward(batch)
        keep = torch.ones(encoded.outputs.shape[:2], dtype=torch.bool)
        keep = keep if encoded.keep is None else encoded.keep
        outputs = torch.cat([encoded.outputs, encoded.summary], 1)
        return replace(
            encoded,
            outputs=outputs,
            embedded=torch.nn.functional.pad(encoded.embedded, (0, 0, 0, 1)),
            summary=outputs[:, -1:],
            keep=torch.nn.functional.pad(keep, (0, 1)),
        )

    monkeypatch.setattr(model.encoder, "forward", with_a_row)
    check(model).raise_for_failures()


def test_sources_of_your_own() -> None:
    report = check(transformer(), sources=[[5, 3], [6, 7, 3], [8, 9, 5, 3]])

    assert not report.failures
    assert transformer().training is False


def test_what_cannot_be_checked() -> None:
    for arguments, message in (
        (("runs/first",), "wanted a Model of regard.models, got 'runs/first'"),
        ((transformer(), [[5, 3]]), "at least two sources"),
    ):
        with pytest.raises(UsageError, match=message):
            check(*arguments)


def test_a_model_in_training_is_checked_and_left_in_training() -> None:
    model = transformer(dropout=0.5).train()

    check(model).raise_for_failures()

    assert model.training
