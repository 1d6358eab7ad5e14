"""Pages show of a line what the package knows of it: attention, search and states, whether they
translate themselves or hold the data of an explanation.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.explain.explanation import explain
from regard.pipeline import load_translator
from regard.visualisation.explanation_data import ExplanationData, TreeStep, page_data

LINE = "you read a book"


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_an_explanation_is_that_of_the_package(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
    tmp_path: Path,
    kind: str,
) -> None:
    model = make(kind, kind)
    translator = load_translator(model.with_suffix(""), engine="pytorch")
    data = explain(translator, LINE, attributions=False).data
    page = tmp_path / "page.json"
    page.write_text(json.dumps(page_data(data, langs=("", "en"))), encoding="utf-8")
    shown = output_of(node, [wasm, model, LINE, page])

    check(shown["live"], data, tolerance=1e-4)
    check(shown["page"], data, tolerance=0.004)
    assert shown["page"]["langs"]["target"] == ["en"] * len(data.target)

    head = shown["page"]["shown_head"]
    assert head == [data.shown_head.layer, data.shown_head.head, False]

    shares = np.zeros(len(data.target))
    for word, log_prob in zip(data.target_words, shown["logProbs"], strict=False):
        shares[word] += log_prob

    assert len(shown["words"]["words"]) == len(data.target)
    assert shown["words"]["shares"] == pytest.approx(np.exp(shares), abs=1e-3)


def test_direction_and_language_are_those_of_most_letters(
    node: str, wasm: Path, make: Callable[..., Path], tmp_path: Path
) -> None:
    model = make("transformer", "transformer")
    translator = load_translator(model.with_suffix(""), engine="pytorch")
    data = explain(translator, LINE, attributions=False).data
    hebrew = ("שלום", "you", "עולם", "나는")
    page = tmp_path / "page.json"
    page.write_text(json.dumps(page_data(replace(data, source=hebrew))), "utf-8")
    shown = output_of(node, [wasm, model, LINE, page])["page"]

    assert shown["rtl"]["source"]
    assert shown["langs"]["source"] == ["", "", "", "ko"]


def output_of(node: str, arguments: list[Any]) -> dict[str, Any]:
    script = Path(__file__).with_name("explanation_data.mjs")
    done = subprocess.run(
        [node, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr

    values = json.loads(done.stdout)
    assert isinstance(values, dict)

    return values


def check(shown: dict[str, Any], data: ExplanationData, tolerance: float) -> None:
    """Check what a page shows against the data of the package."""
    assert tuple(shown["source"]) == data.source
    assert tuple(shown["target"]) == data.target
    assert tuple(shown["target_words"]) == data.target_words
    assert shown["tokens"] == [token.replace("▁", " ") for token in data.tokens]
    assert shown["rtl"] == {"source": False, "target": False}

    for layer, other in zip(shown["layers"], data.layers, strict=True):
        assert (layer["role"], layer["name"]) == (other.role, other.name)
        np.testing.assert_allclose(layer["weights"], other.weights, atol=tolerance)
        if other.log_sums is not None:
            np.testing.assert_allclose(layer["logSums"], other.log_sums, atol=1e-3)

    for step, other_step in zip(shown["steps"], data.steps, strict=True):
        check_step(step, other_step)

    states = shown["states"]
    assert (states is None) == (data.states is None)

    if data.states is not None:
        assert states["words"] == list(data.states.token_words)
        assert states["order"] == data.states.order

        for name in ("encoder", "decoder", "initial"):
            expected = getattr(data.states, name)
            np.testing.assert_allclose(states[name], expected, atol=tolerance)


def check_step(shown: dict[str, Any], step: TreeStep) -> None:
    nodes = [
        (
            node.parent,
            node.token.replace("▁", " "),
            pytest.approx(node.probability, abs=1e-4),
            pytest.approx(node.total, abs=1e-3),
            node.fate,
            node.wins,
        )
        for node in step.nodes
    ]
    candidates = [
        (token.replace("▁", " "), pytest.approx(probability, abs=1e-4), chosen)
        for token, probability, chosen in step.candidates
    ]
    assert [tuple(node) for node in shown["nodes"]] == nodes
    assert [tuple(candidate) for candidate in shown["candidates"]] == candidates
