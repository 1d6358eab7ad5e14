"""The recipes of docs/insides.md run, on a Transformer and on a recurrent model, and what they
compute is what its words say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_models import folder
from repository.pages import DOCS, fenced

PAGE = DOCS / "insides.md"

pytestmark = pytest.mark.system


@pytest.fixture(params=["transformer", "recurrent"])
def names(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return the names that the recipes leave, one after another."""
    folder(tmp_path / "runs" / "first", request.param, request.param)
    monkeypatch.chdir(tmp_path)
    left: dict[str, Any] = {}
    for code in fenced(PAGE, "python"):
        exec(compile(code, str(PAGE), "exec"), left)
    return left


def test_the_recipes_compute_what_they_say(names: dict[str, Any]) -> None:
    model = names["model"]
    batch = names["batch"]
    loss = names["loss"]
    plain = float(loss().detach())

    log_probs = model.project(model(batch, names["target_in"])).log_softmax(-1)
    rows = zip(log_probs, names["target_out"], names["keep"], strict=True)
    total = -sum(
        float(row[t, ids[t]].detach())
        for row, ids, keep in rows
        for t in range(len(ids))
        if keep[t]
    )
    assert plain == pytest.approx(total, rel=1e-5)

    hidden = ~batch.keep
    assert not names["of_states"][hidden].any()
    assert names["of_states"][batch.keep].any(-1).all()
    assert not names["of_source"][hidden].any()
    assert names["saliency"].shape == batch.data.shape
    layer = names["layer"]
    assert names["of_weights"].shape == names["weights"][layer].shape
    # The softmax in the graph: the gradient of scores follows from that of weights.
    weights = names["weights"][layer]
    centred = (names["of_weights"] * weights).sum(-1, keepdim=True)
    torch.testing.assert_close(
        names["of_scores"], weights * (names["of_weights"] - centred)
    )
    assert float(names["without"].detach()) != pytest.approx(plain, abs=1e-6)
    assert float(loss().detach()) == plain
    assert not names["report"].failures


def test_a_patch_of_everything_is_the_clean_run(names: dict[str, Any]) -> None:
    loss = names["loss"]
    patched = names["patched"]
    batch = names["batch"]
    corrupted = names["corrupted"]
    with torch.no_grad():
        assert patched("decoder.output", batch, corrupted) == loss(batch)
        assert patched("encoder", batch, corrupted) == loss(batch)
        for name, value in names["effects"].items():
            assert value != float(loss(corrupted)), name
            assert patched(name, corrupted, corrupted) == loss(corrupted)
