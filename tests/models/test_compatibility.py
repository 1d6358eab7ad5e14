"""Compatibility of settings with other toolkits: every obstacle to an export is listed."""

from __future__ import annotations

from typing import Any

import pytest

from regard.models import ModelSettings, ctranslate2_obstacles, huggingface_obstacles
from regard.training import preset, presets

SIDE = {"kind": "transformer", "norm": "post"}


def test_transformer_presets_can_be_exported() -> None:
    models = {
        name: ModelSettings.parse(preset(name)["model"], name) for name in presets()
    }
    ctranslate2 = {
        name for name, model in models.items() if not ctranslate2_obstacles(model)
    }

    assert ctranslate2 == {
        name for name in models if name.startswith("transformer-")
    } | {"marian"}

    marian = [
        name for name, model in models.items() if not huggingface_obstacles(model, True)
    ]

    assert marian == ["transformer-published", "marian"]


@pytest.mark.parametrize(
    ("values", "of_all", "of_marian"),
    [
        ({}, [], []),
        ({"positions": "learned"}, [], ["positions is 'learned'"]),
        ({"activation": "swiglu"}, [], ["activation is 'swiglu'"]),
        ({"final_norm": "on"}, [], ["final_norm is 'on'"]),
        ({"norm": "pre"}, [], ["norm is 'pre'"]),
        ({"norm": "batch"}, ["norm is 'batch'"], []),
        ({"norm": "none", "residual": False}, ["norm is 'none'", "residual is"], []),
        (
            {"window": 3, "score": "dot", "norm": "pre"},
            ["score is", "window is"],
            ["norm is"],
        ),
    ],
)
def test_every_obstacle_is_listed_for_each_side(
    values: dict[str, Any], of_all: list[str], of_marian: list[str]
) -> None:
    side = {**SIDE, **values}
    settings = ModelSettings.parse({"encoder": side, "decoder": side}, "test")

    for expected, obstacles in (
        (of_all, ctranslate2_obstacles(settings)),
        (of_all + of_marian, huggingface_obstacles(settings, joint=True)),
    ):
        assert len(obstacles) == 2 * len(expected)
        for obstacle in expected:
            for name in ("encoder", "decoder"):
                assert any(f"model.{name}.{obstacle}" in cause for cause in obstacles)


def test_settings_that_a_marian_model_has_once_must_be_equal_on_both_sides() -> None:
    decoder = {**SIDE, "size": 64, "activation": "gelu", "scale_embedding": False}
    settings = ModelSettings.parse(
        {"encoder": SIDE, "decoder": decoder, "share": "none"}, "test"
    )
    obstacles = huggingface_obstacles(settings, joint=False)

    assert [cause.split(" ")[0] for cause in obstacles] == [
        "model.*.size",
        "model.*.activation",
        "model.*.scale_embedding",
        "model.share",
    ]
