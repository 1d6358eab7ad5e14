"""The page that translates shows of a line what the package shows of it: attention, search and
states.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.explain.explanation import explain
from regard.pipeline import load_translator
from regard.visualisation.explanation_data import page_data
from regard.visualisation.text import clean

LINE = "you read a book"


def cleaned(values: list[Any]) -> list[Any]:
    """Replace control characters in texts, which random weights may write."""
    return [clean(value) if isinstance(value, str) else value for value in values]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_an_explanation_is_that_of_the_package(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
    kind: str,
) -> None:
    model = make(kind, kind)
    script = Path(__file__).with_name("live_data.mjs")
    command = [node, str(script), str(wasm), str(model), LINE]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr

    actual = json.loads(done.stdout)
    translator = load_translator(model.with_suffix(""), engine="pytorch")
    explanation = explain(translator, LINE, attributions=False)
    data = explanation.data
    expected = json.loads(json.dumps(page_data(data)))

    assert cleaned(actual["target"]) == expected["target"]
    assert cleaned(actual["tokens"]) == expected["tokens"]

    for name in ("source", "target_words", "rtl"):
        assert actual[name] == expected[name], name

    for layer, other in zip(actual["layers"], data.layers, strict=True):
        assert (layer["role"], layer["name"]) == (other.role, other.name)
        np.testing.assert_allclose(layer["weights"], other.weights, atol=1e-4)
        if other.log_sums is not None:
            np.testing.assert_allclose(layer["logSums"], other.log_sums, atol=1e-3)

    for step, other_step in zip(actual["steps"], expected["steps"], strict=True):
        for name in ("nodes", "candidates"):
            rows = [cleaned(row) for row in step[name]]
            assert rows == [pytest.approx(row, abs=2e-3) for row in other_step[name]]

    states = actual["states"]

    assert (states is None) == (data.states is None)

    if data.states is not None:
        assert states["words"] == list(data.states.token_words)
        assert states["order"] == data.states.order

        np.testing.assert_allclose(states["encoder"], data.states.encoder, atol=1e-4)
        np.testing.assert_allclose(states["decoder"], data.states.decoder, atol=1e-4)
        np.testing.assert_allclose(states["initial"], data.states.initial, atol=1e-4)

    shares = np.zeros(len(data.target))
    for word, log_prob in zip(data.target_words, actual["logProbs"], strict=False):
        shares[word] += log_prob

    assert actual["words"]["words"] == actual["target"]
    assert actual["words"]["shares"] == pytest.approx(np.exp(shares), abs=1e-3)
