"""Compatibility of settings with other toolkits: every obstacle to an export is listed."""

from __future__ import annotations

from typing import Any

import pytest

from regard.models import ModelSettings, ctranslate2_obstacles, huggingface_obstacles
from regard.training import preset, presets


def settings(**values: Any) -> ModelSettings:
    side = {"kind": "transformer", "norm": "post", **values}
    return ModelSettings.parse({"encoder": side, "decoder": side}, "test")


def test_transformer_presets_can_be_exported() -> None:
    models = {name: ModelSettings.parse(preset(name)["model"], name) for name in presets()}
    ctranslate2 = {name for name, model in models.items() if not ctranslate2_obstacles(model)}
    assert ctranslate2 == {name for name in models if name.startswith("transformer-")} | {"marian"}
    marian = [
        name for name, model in models.items() if not huggingface_obstacles(model, joint=True)
    ]
    assert marian == ["transformer-published", "marian"]


@pytest.mark.parametrize(
    ("values", "ctranslate2", "huggingface"),
    [
        ({}, [], []),
        ({"positions": "learned"}, [], ["positions is 'learned'"]),
        ({"positions": "none"}, [], ["positions is 'none'"]),
        ({"activation": "swiglu"}, [], ["activation is 'swiglu'"]),
        ({"final_norm": "on"}, [], ["final_norm is 'on'"]),
        ({"norm": "pre"}, [], ["norm is 'pre'"]),
        ({"norm": "batch"}, ["norm is 'batch'"], ["norm is 'batch'"]),
        (
            {"norm": "none", "residual": False},
            ["norm is 'none'", "residual is"],
            ["norm is 'none'", "residual is"],
        ),
        ({"score": "cosine"}, ["score is 'cosine'"], ["score is 'cosine'"]),
        ({"window": 3}, ["window is 3"], ["window is 3"]),
        (
            {"window": 3, "score": "dot", "norm": "pre"},
            ["score is", "window is"],
            ["score is", "window is", "norm is"],
        ),
    ],
)
def test_every_obstacle_is_listed_for_each_side(
    values: dict[str, Any], ctranslate2: list[str], huggingface: list[str]
) -> None:
    for expected, obstacles in (
        (ctranslate2, ctranslate2_obstacles(settings(**values))),
        (huggingface, huggingface_obstacles(settings(**values), joint=True)),
    ):
        assert len(obstacles) == 2 * len(expected)
        for obstacle in expected:
            assert [
                any(f"model.{side}.{obstacle}" in cause for cause in obstacles)
                for side in ("encoder", "decoder")
            ] == [
                True,
                True,
            ]


def test_settings_that_a_marian_model_has_once_must_be_equal_on_both_sides() -> None:
    side = {"kind": "transformer", "norm": "post"}
    parts = {
        "encoder": side,
        "decoder": {**side, "size": 64, "activation": "gelu", "scale_embedding": False},
    }
    obstacles = huggingface_obstacles(
        ModelSettings.parse({**parts, "share": "none"}, "test"), joint=False
    )
    assert [cause.split(" ")[0] for cause in obstacles] == [
        "model.*.size",
        "model.*.activation",
        "model.*.scale_embedding",
        "model.share",
    ]
