"""Where else a model could run is said of its settings, with every reason why not."""

from __future__ import annotations

from typing import Any

import pytest

from regard.models import ModelSettings, ctranslate2_obstacles, huggingface_obstacles
from regard.training import preset, presets


def settings(**both: Any) -> ModelSettings:
    side = {"kind": "transformer", "norm": "post", **both}
    return ModelSettings.parse({"encoder": side, "decoder": side}, "test")


def test_what_the_presets_can_become() -> None:
    known = {name: ModelSettings.parse(preset(name)["model"], name) for name in presets()}
    ctranslate2 = {name for name, one in known.items() if not ctranslate2_obstacles(one)}
    assert ctranslate2 == {name for name in known if name.startswith("transformer-")} | {"marian"}
    assert [name for name, one in known.items() if not huggingface_obstacles(one, joint=True)] == ["marian"]


@pytest.mark.parametrize(
    ("both", "ctranslate2", "huggingface"),
    [
        ({}, [], []),
        ({"positions": "learned"}, [], ["positions is 'learned'"]),
        ({"positions": "none"}, [], ["positions is 'none'"]),
        ({"activation": "swiglu"}, [], ["activation is 'swiglu'"]),
        ({"final_norm": "on"}, [], ["final_norm is 'on'"]),
        ({"norm": "pre"}, [], ["norm is 'pre'"]),
        ({"score": "cosine"}, ["score is 'cosine'"], ["score is 'cosine'"]),
        ({"window": 3}, ["window is 3"], ["window is 3"]),
        ({"window": 3, "score": "dot", "norm": "pre"}, ["score is", "window is"], ["score is", "window is", "norm is"]),
    ],
)
def test_every_reason_is_given_for_each_side(
    both: dict[str, Any], ctranslate2: list[str], huggingface: list[str]
) -> None:
    for wanted, said in (
        (ctranslate2, ctranslate2_obstacles(settings(**both))),
        (huggingface, huggingface_obstacles(settings(**both), joint=True)),
    ):
        assert len(said) == 2 * len(wanted)
        for part in wanted:
            assert [any(f"model.{side}.{part}" in one for one in said) for side in ("encoder", "decoder")] == [
                True,
                True,
            ]


def test_what_a_marian_model_has_once() -> None:
    side = {"kind": "transformer", "norm": "post"}
    parts = {"encoder": side, "decoder": {**side, "size": 64, "activation": "gelu", "scale_embedding": False}}
    said = huggingface_obstacles(ModelSettings.parse({**parts, "share": "none"}, "test"), joint=False)
    assert [cause.split(" ")[0] for cause in said] == [
        "model.*.size",
        "model.*.activation",
        "model.*.scale_embedding",
        "model.share",
    ]
