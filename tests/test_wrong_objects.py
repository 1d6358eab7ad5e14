"""Public Python functions given other people's objects: each is used, or refused in a sentence,
never from within.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import captioner_folder, folder
from PIL import Image

import regard
from regard.common.errors import RegardError, UsageError
from regard.interchange import probe_sentences
from regard.interchange.runtime import export
from regard.pipeline import (
    Captioner,
    RuntimeTranslator,
    Translator,
    last_layer,
    load_captioner,
    load_translator,
    open_runtime,
)
from regard.search import Constraints

PIXELS = np.zeros((8, 9, 3), np.uint8)


class Frame:
    """A table, as pandas has them: its items are the names of its columns."""

    shape = (2, 1)
    ndim = 2
    columns = ("a",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("this object cannot be shown")


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a whole number": lambda: 5,
    "a negative number": lambda: -1,
    "a huge number": lambda: 10**30,
    "a fraction": lambda: 2.5,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a complex number": lambda: 1j,
    "a truth value": lambda: True,
    "bytes": lambda: b"x",
    "a bytearray": lambda: bytearray(b"x"),
    "an object": object,
    "an unprintable object": Unprintable,
    "a class": lambda: Path,
    "a function": lambda: len,
    "a slice": lambda: slice(1),
    "an empty dictionary": dict,
    "a dictionary": lambda: {"a": "b"},
    "a dictionary of a number": lambda: {"a": 5},
    "an empty set": set,
    "an empty list": list,
    "an empty tuple": tuple,
    "a list of a list": lambda: [["a"]],
    "a list of an empty list": lambda: [[]],
    "a list of None": lambda: [None],
    "a list of bytes": lambda: [b"x"],
    "a list of a number": lambda: [5],
    "a list of nan": lambda: [float("nan")],
    "a list with None": lambda: ["a", None],
    "an iterator": lambda: iter([1, 2]),
    "a range": lambda: range(3),
    "an empty text": str,
    "a text with NUL": lambda: "a\0b",
    "a long text": lambda: "x" * 30_000,
    "a text of no file": lambda: "no/such/file",
    "an array without axes": lambda: np.array(5),
    "a text as an array": lambda: np.array("a"),
    "an array of numbers": lambda: np.array([1.5]),
    "an array of texts": lambda: np.array(["a", "b"]),
    "a matrix of texts": lambda: np.array([["a"]]),
    "an array of four axes": lambda: np.zeros((2, 3, 4, 5)),
    "a date of NumPy": lambda: np.datetime64("2020"),
    "a tensor without axes": lambda: torch.zeros(()),
    "a tensor": lambda: torch.zeros(3),
    "a matrix": lambda: torch.zeros(2, 2),
    "a table": Frame,
    "an image": lambda: Image.new("RGB", (4, 4)),
}
"""Objects that are wrong for most arguments."""

Call = Callable[[Any, Any], Any]


def _with(name: str, call: Callable[..., Any]) -> Call:
    """Return a call that gives the object as the argument of this name."""
    return lambda used, value: call(used, **{name: value})


def _watch(model: Any, role: Any = None) -> None:
    with regard.watch(model, role=role):
        model(None)


def _text_calls(kind: str) -> dict[str, tuple[str, Call]]:
    """Return the calls of a translator by a name for messages, with the object that each is made
    on.
    """
    calls: dict[str, Call] = {
        "translate": lambda used, value: used.translate(value),
        "stream": lambda used, value: list(used.stream(value)),
        "trace": lambda used, value: used.trace(value),
        "encode": lambda used, value: used.encode(value),
    }
    names = (
        "nbest alignments readings constraints keep beam length_penalty min_length "
        "sample seed score_threshold groups mbr beams"
    )
    for name in names.split():
        calls[f"translate, {name}"] = _with(
            name, lambda used, **given: used.translate(["a b", "c"], **given)
        )

    for part in ("prefix", "terms", "forbid"):
        calls[f"translate, constraints of {part}"] = lambda used, value, part=part: (
            used.translate("a", constraints=Constraints(**{part: value}))
        )

    for name in ("constraints", "beam"):
        calls[f"stream, {name}"] = _with(
            name, lambda used, **given: list(used.stream("a", **given))
        )
        calls[f"trace, {name}"] = _with(
            name, lambda used, **given: used.trace("a", **given)
        )
    return {f"{kind}.{name}": (kind, call) for name, call in calls.items()}


def _folder_calls() -> dict[str, tuple[str, Call]]:
    """Return the calls that read model folders and files of data."""
    openers: list[Any] = [
        regard.load,
        load_translator,
        load_captioner,
        open_runtime,
        RuntimeTranslator,
    ]
    calls: dict[str, Call] = {
        opener.__name__: lambda _, value, opener=opener: opener(value)
        for opener in openers
    }
    for name in ("device", "precision"):
        calls[f"load, {name}"] = _with(
            name, lambda used, **given: regard.load(used, **given)
        )
    arguments = (
        "source target valid_source pairs valid_pairs alignments images captions test "
        "languages preset parent settings seed budget device threads report recipe"
    )
    absent = {"source": "absent.ko", "target": "absent.en"}
    for name in arguments.split():
        calls[f"train, {name}"] = _with(
            name,
            lambda used, **given: regard.train(
                **{"out": used / "new", **absent, **given}
            ),
        )

    calls["train, out"] = lambda _, value: regard.train(out=value, **absent)
    arguments = (
        "runs hypotheses presets report settings minutes updates tokens seeds seed baseline beam "
        "device threads source target test_source test_target test_pairs"
    )

    for name in arguments.split():
        calls[f"compare, {name}"] = _with(
            name,
            lambda used, **given: regard.compare(
                **{
                    "runs": [used],
                    "out": used / "report",
                    "test_source": "absent",
                    "test_target": "absent",
                    **given,
                }
            ),
        )

    calls["compare, out"] = lambda used, value: regard.compare(
        [used], out=value, test_source="absent"
    )
    arguments = "reverse licence author source_of_data languages precision source page"
    for name in arguments.split():
        calls[f"publish, {name}"] = _with(
            name,
            lambda used, **given: regard.publish(
                used, used / "published", **{"page": False, **given}
            ),
        )
    calls["publish, run"] = lambda used, value: regard.publish(value, used / "new")
    calls["publish, out"] = lambda used, value: regard.publish(used, value)
    return {name: ("folder", call) for name, call in calls.items()}


CALLS: dict[str, tuple[str, Call]] = {
    **_text_calls("translator"),
    **_text_calls("runtime translator"),
    "score, source": ("translator", lambda used, value: used.score(value, "a")),
    "score, target": ("translator", lambda used, value: used.score("a", value)),
    "read_all, sources": (
        "translator",
        lambda used, value: used.read_all(value, [[5]]),
    ),
    "read_all, targets": (
        "translator",
        lambda used, value: used.read_all(["a"], value),
    ),
    "read_all, role": (
        "translator",
        lambda used, value: used.read_all(["a"], [[5]], value),
    ),
    "align": ("translator", lambda used, value: used.align(value)),
    "last_layer": ("translator", lambda _, value: last_layer(value)),
    "watch": ("translator", lambda _, value: _watch(value)),
    "watch, role": (
        "translator",
        _with(
            "role", lambda used, role: regard.watch(used.model, role=role).__enter__()
        ),
    ),
    "caption": ("captioner", lambda used, value: used.caption(value)),
    "caption, second": ("captioner", lambda used, value: used.caption([PIXELS, value])),
    "caption, trace": ("captioner", lambda used, value: used.trace(value)),
    "model_view": ("captioner", lambda used, value: used.model_view(value)),
    "caption, score of image": (
        "captioner",
        lambda used, value: used.score(value, "a"),
    ),
    "caption, score of target": (
        "captioner",
        lambda used, value: used.score(PIXELS, value),
    ),
    **{
        f"caption, {name}": (
            "captioner",
            _with(name, lambda used, **given: used.caption(PIXELS, **given)),
        )
        for name in ("nbest", "readings", "constraints", "beam", "beams")
    },
    **_folder_calls(),
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("used")
    translator = load_translator(folder(path / "text"))

    assert isinstance(translator, Translator)

    export(path / "text", path / "text.regard")
    captioner = load_captioner(captioner_folder(path / "images"))

    assert isinstance(captioner, Captioner)

    return {
        "folder": path / "text",
        "translator": translator,
        "captioner": captioner,
        "runtime translator": RuntimeTranslator(path / "text.regard"),
    }


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_no_object_fails_from_within(
    used: dict[str, Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Each object that is used publishes, and the export is compared with the model.
    monkeypatch.setattr(probe_sentences, "MAX_SENTENCES", 1)
    kind, call = CALLS[name]
    failures = []

    for label, make in WRONG.items():
        try:
            with suppress(RegardError):
                call(used[kind], make())
        except Exception as problem:  # each is a failure of this test
            failures.append(f"{label}: {type(problem).__name__}: {problem}")

    assert failures == []


def test_all_causes_are_named_at_once(used: dict[str, Any]) -> None:
    with pytest.raises(RegardError) as refused:
        used["captioner"].caption(
            [PIXELS, None, PIXELS / 255.0, "absent.png", [PIXELS]]
        )
    numbers = [cause.split(":")[0] for cause in refused.value.causes]
    assert numbers == ["image 2", "image 3", "absent.png", "image 5"]
    with pytest.raises(
        UsageError, match=r"wanted a module .*Translator.*; give its `\.model`"
    ):
        _watch(used["translator"])
