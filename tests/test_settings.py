"""Settings are strict: unknown keys and wrong values are errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.common.errors import ConfigurationError
from regard.common.settings import (
    OTHER_NAMES,
    _keys,
    merge,
    override,
    parse_assignments,
    read_toml,
)
from regard.search import SearchSettings
from regard.training import Recipe, preset, presets
from regard.training.schedule import ScheduleSettings

BASE = merge(preset("transformer-tiny"), {"data": {"source": "a", "target": "b"}})


def _causes(values: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        Recipe.parse(values, "recipe.toml")
    return caught.value.causes


TABLES = "batching, data, model, schedule, search, tokenizer, training, variation"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("training.label_smothing", "did you mean 'training.label_smoothing'?"),
        ("batchin.tokens", "did you mean 'batching'?"),
        ("warmup", "did you mean 'schedule.warmup'?"),
        ("schedule.xyzzy", "; known are schedule.kind, schedule.peak, schedule.warmup"),
        ("a.xyzzy", f"; known are {TABLES}"),
        (
            "model.encoder.depths",
            "is a setting of another kind of model.encoder; leave it out",
        ),
    ],
)
def test_an_unknown_key_suggests_the_nearest_or_lists_its_table(
    key: str, hint: str
) -> None:
    (cause,) = _causes(override(BASE, {key: 1}))
    assert cause.startswith("recipe.toml: ")
    assert hint in cause


def test_the_names_of_other_toolkits_lead_to_ours() -> None:
    known = set(_keys(Recipe))
    names = [name for others in OTHER_NAMES.values() for name in others.split()]

    assert OTHER_NAMES.keys() <= known
    assert len({*names}) == len(names) > 60
    assert not [key for key in known if "." not in key and key in names]

    for ours, others in OTHER_NAMES.items():
        for name in others.split():
            for key in (name, f"training.{name}", f"search.{name.replace('_', '-')}"):
                if key not in known:
                    assert (
                        f"did you mean {ours!r}?"
                        in _causes(override(BASE, {key: 1}))[0]
                    ), key

    with pytest.raises(ConfigurationError, match="did you mean 'beam'"):
        SearchSettings.parse({"num_beams": 4}, "search")


def test_all_causes_come_at_once() -> None:
    causes = _causes(
        override(
            BASE,
            parse_assignments(
                ["training.seed=-1", "model.encoder.norm=sideways", "search.beams=2"]
            ),
        )
    )
    assert len(causes) == 3
    assert any("training.seed" in cause and "-1" in cause for cause in causes)
    assert any(
        "model.encoder.norm" in cause and "sideways" in cause for cause in causes
    )


def test_override_values_are_toml_or_plain_text() -> None:
    values = override(
        {},
        parse_assignments(
            ["a.b=3", "a.c=0.5", "a.d=true", "e=some words", 'f="3"', "g=[1, 2]"]
        ),
    )
    assert values == {
        "a": {"b": 3, "c": 0.5, "d": True},
        "e": "some words",
        "f": "3",
        "g": [1, 2],
    }
    with pytest.raises(ConfigurationError, match="wanted key=value"):
        parse_assignments(["a.b"])


def test_another_kind_replaces_the_whole_table() -> None:
    recipe = Recipe.parse(
        override(
            BASE,
            parse_assignments(
                ["model.decoder.kind=recurrent", "model.decoder.size=64"]
            ),
        ),
        "x",
    )
    assert (recipe.model.decoder.kind, recipe.model.decoder.size) == ("recurrent", 64)
    assert recipe.model.encoder.kind == "transformer"


def test_the_order_of_assignments_does_not_matter() -> None:
    assignments = ["tokenizer.size=900", "tokenizer.kind=unigram"]
    for order in (assignments, assignments[::-1]):
        tokenizer = Recipe.parse(
            override(BASE, parse_assignments(order)), "x"
        ).tokenizer
        assert (tokenizer.kind, tokenizer.size) == ("unigram", 900)


@pytest.mark.parametrize("name", presets())
def test_schedule_settings_of_a_preset_hold_for_its_kind_only(name: str) -> None:
    values = merge(preset(name), {"data": BASE["data"]})
    before = preset(name)["schedule"]
    same = override(values, parse_assignments([f"schedule.kind={before['kind']}"]))[
        "schedule"
    ]

    assert same == before

    noam = ScheduleSettings.parse(
        override(values, parse_assignments(["schedule.kind=noam"]))["schedule"], "x"
    )
    assert noam == ScheduleSettings(kind="noam", peak=1.0, warmup=4000), (
        "another kind's peak does not carry over"
    )


def test_a_written_recipe_is_read_back_the_same(tmp_path: Path) -> None:
    recipe = Recipe.parse(BASE, "x").resolved("cpu")
    recipe.write(tmp_path / "train.toml")
    assert Recipe.parse(read_toml(tmp_path / "train.toml"), "y") == recipe
    assert recipe.training.precision != "auto"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a = ", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (None, "cannot be read"),
    ],
)
def test_errors_name_bad_files(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=problem):
        read_toml(path)
