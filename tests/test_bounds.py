"""Every number that a user can set has bounds: what lies beyond them is refused in one sentence, at
once.
"""

from __future__ import annotations

import math
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard import translate_stdin
from regard.common.errors import ConfigurationError
from regard.common.settings import MAX_COMPARED, Settings, parse_assignments
from regard.data.corpus_settings import CorpusSettings
from regard.model_folder import FolderSettings
from regard.runtime import model
from regard.search import SearchSettings
from regard.training import Recipe

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import make_text_tables  # noqa: E402

REQUIRED: dict[str, dict[str, Any]] = {
    "CorpusSettings": {"source": "a", "target": "b"},
    "ImageSettings": {"folder": "a", "captions": "b"},
}
NUMBERS = [
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e-320",
    "1" + "0" * 20,
    "9" * 400,
    "9" * 5000,
    "0x" + "f" * 5000,
]
WHOLE = 2**63 - 1
REAL = 1e9


def settings_classes(root: type[Settings]) -> Iterator[type[Settings]]:
    """Yield every class of settings inside this one."""
    yield root
    for field in root.model_fields.values():
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, Settings):
                yield from settings_classes(part)


def parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from parts(part)


def is_number(annotation: Any) -> bool:
    return any(part in (int, float) for part in parts(annotation))


CLASSES = {
    cls.__name__: cls
    for root in (Recipe, FolderSettings)
    for cls in settings_classes(root)
}
FIELDS = [
    pytest.param(cls, name, id=f"{cls.__name__}.{name}")
    for cls in CLASSES.values()
    for name, field in cls.model_fields.items()
    if is_number(field.annotation) and name != "weight"
]


def parsed(
    cls: type[Settings], name: str, value: str
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the numbers that a class of settings makes of a value, and why it refuses it."""
    values = {**REQUIRED.get(cls.__name__, {}), **parse_assignments([value])}
    try:
        accepted = getattr(cls.parse(values, "here"), name)
    except ConfigurationError as problem:
        return (), problem.causes
    return accepted if isinstance(accepted, tuple) else (accepted,), ()


@pytest.mark.parametrize(("cls", "name"), FIELDS)
def test_a_number_beyond_its_bounds_is_refused(cls: type[Settings], name: str) -> None:
    lowest = -REAL if name == "score_threshold" else 0
    highest = WHOLE if "seed" in name else REAL
    for text in NUMBERS:
        value = f"[{text}]" if name == "depths" else text
        numbers, causes = parsed(cls, name, f"{name}={value}")
        assert numbers or causes
        for cause in causes:
            assert cause.startswith("here: ")
            assert "\n" not in cause
            assert len(cause) < 300
        for number in numbers:
            assert math.isfinite(number), f"{text[:40]} was accepted"
            assert lowest <= number <= highest, f"{text[:40]} was accepted"


@pytest.mark.parametrize("text", [text for text in NUMBERS if text != "1e-320"])
def test_weights_of_a_mix_have_bounds(text: str) -> None:
    mix = [{"source": "c", "target": "d", **parse_assignments([f"weight={text}"])}]
    with pytest.raises(ConfigurationError, match="weight"):
        CorpusSettings.parse({"source": "a", "target": "b", "mix": mix}, "here")


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e308", "9" * 400])
def test_numbers_are_refused_from_python_too(text: str) -> None:
    whole = int(text) if text.lstrip("-").isdigit() else math.nan
    for number in (float(text[:308]), whole):
        with pytest.raises(ConfigurationError, match="beam: input should be"):
            SearchSettings().with_values(beam=number)
        with pytest.raises(ConfigurationError, match="length_penalty: input should be"):
            SearchSettings().with_values(length_penalty=number)


def test_the_bounds_of_search_settings_agree() -> None:
    """The runtime states them again, because it is opened without pydantic, and in C."""
    bounds = make_text_tables.search_bounds()
    samples = bounds["beam"][1]
    for name, limits in model._BOUNDS.items():
        most = MAX_COMPARED if name == "beam" else bounds[name][1]
        assert limits == (bounds[name][0], most), name
        assert (name in model._FRACTIONS) is not bounds[name][2], name
    assert translate_stdin._MAXIMA["--beam"] == MAX_COMPARED
    header = (ROOT / "regard" / "runtime" / "c" / "model.h").read_text("utf-8")
    assert {
        name: int(value)
        for name, value in re.findall(
            r"^#define (MAX_(?!STATES)\w+) (\d+)", header, re.M
        )
    } == {
        "MAX_COMPARED": MAX_COMPARED,
        "MAX_SAMPLES": samples,
        "MAX_LENGTH_PENALTY": bounds["length_penalty"][1],
        "MAX_RATIO": bounds["max_ratio"][1],
    }
