"""The examples of docs/reference/python-research.md run, one after another, and do what they say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from repository.pages import DOCS, fenced
from test_plugins import _without_plugins  # noqa: F401 (a fixture)

PAGE = DOCS / "reference" / "python-research.md"


@pytest.mark.system
def test_the_examples_of_the_reference_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.run.progress_bar", lambda: None)
    left: dict[str, Any] = {"__name__": "__main__"}
    for code in fenced(PAGE, "python"):
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), left)

    query, keys = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[1.0, 0.0]]]])
    assert left["Distance"](1, 2)(query, keys).item() == -4
    weights = left["softplus"](
        torch.tensor([[[[3.0, 1.0, 9.0]]]]), torch.tensor([True, True, False])
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 1))
    assert weights[..., 2] == 0
    ratio = (math.log1p(math.exp(3)) + 0.01) / (math.log1p(math.exp(1)) + 0.01)
    assert (weights[..., 0] / weights[..., 1]).item() == pytest.approx(ratio)
    assert not left["report"].failures
    assert [event["update"] for event in left["norms"]] == [1, 2]
    assert all(event["norm"] > 0 for event in left["norms"])
    recorded = left["weights"][left["layer"]]
    assert recorded.shape[:3] == (2, 1, left["target_in"].shape[1])
    torch.testing.assert_close(recorded.sum(-1), torch.ones(recorded.shape[:3]))
