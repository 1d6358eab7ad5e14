"""Pages of the experiments: made from the shipped results, in both languages, and no headline says
more than was tried.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import regard.learn.lab
from regard.learn.lab import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(regard.learn.lab.__file__).parent / "results"
FACE = re.compile(r"@font-face\{[^}]*\}")
SAME_CLAIM = [("norm", "failures"), ("attention", "bottleneck"), ("warmup", "failures")]


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    script = runpy.run_path(str(DOCS / "make_experiments.py"))
    made: dict[Path, str] = script["pages"]()
    return made


def test_the_pages_are_those_of_the_results(pages: dict[Path, str]) -> None:
    """Fonts of graphs aside, which depend on the version of the package that subsets them."""
    assert len(pages) == 2 * (1 + 3 * len(EXPERIMENTS))

    for path, text in pages.items():
        written = FACE.sub("", path.read_text(encoding="utf-8"))
        assert written == FACE.sub("", text), "run python docs/make_experiments.py"


def test_results_of_a_folder_are_taken_in(tmp_path: Path) -> None:
    """The shipped results, given as those of a folder, come out as they were."""
    script = runpy.run_path(str(DOCS / "make_experiments.py"))
    keep = script["keep"]
    measured = json.loads(script["MEASURED"].read_text(encoding="utf-8"))
    kept = tmp_path / "measured.json"
    kept.write_text("{}", encoding="utf-8")
    keep.__globals__.update(RESULTS=tmp_path, MEASURED=kept)
    shifts = {}
    for name in ("mask", "costs"):
        folder = tmp_path / f"{name}-full"
        folder.mkdir()
        values = {"measured": measured[name]}
        if name == "mask":
            path = RESULTS / "mask.json"
            values["sweep"] = json.loads(path.read_text(encoding="utf-8"))
            shifts[name] = values["sweep"].pop("shifted")
        (folder / "result.json").write_text(json.dumps(values), encoding="utf-8")
    (tmp_path / "shifts.json").write_text(json.dumps(shifts), encoding="utf-8")

    keep(tmp_path, ["mask", "costs"])

    taken = json.loads(kept.read_text(encoding="utf-8"))
    assert taken == {name: measured[name] for name in ("mask", "costs")}
    assert (tmp_path / "mask.json").read_text() == (RESULTS / "mask.json").read_text()


def test_both_languages_have_the_same_numbers(pages: dict[Path, str]) -> None:
    """In tables and verdicts; sentences may put a number elsewhere, or leave it out."""
    for name in EXPERIMENTS:
        rows = []
        for folder in (DOCS, DOCS / "ko"):
            text = pages[folder / "experiments" / f"{name}.md"]
            lines = re.findall(r"^(?:\||\d\.).*", text, re.MULTILINE)
            rows.append([sorted(re.findall(r"\d[\d.,]*\d", line)) for line in lines])
        assert rows[0] == rows[1], name


def test_no_bound_lies_beyond_what_can_be(pages: dict[Path, str]) -> None:
    for path, text in pages.items():
        assert "a bound beyond" not in text, path.name
        assert "기준값:" not in text or "다른 기준값:" in text, path.name


def test_experiments_of_one_claim_point_at_each_other() -> None:
    for pair in SAME_CLAIM:
        for name, other in (pair, pair[::-1]):
            scope = EXPERIMENTS[name].scope
            assert f"`{other}`" in scope.en, name
            assert f"`{other}`" in scope.ko, name


def _runs(name: str) -> list[dict[str, Any]]:
    values = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    runs: list[dict[str, Any]] = values["runs"]
    return runs


def _tested(name: str, arm: str, score: str) -> list[float]:
    """Return a score of the runs of an arm that were tested, which are those at its best rate."""
    runs = [run for run in _runs(name) if run["arm"] == arm and run["scores"]]
    return [run["scores"][score] for run in runs]


def test_what_a_scope_says_of_the_results_is_so() -> None:
    """Read from the files alone."""
    by_rate = {
        arm: {
            run["rate"]: run["valid"] for run in _runs("failures") if run["arm"] == arm
        }
        for arm in ("none-warm", "pre-warm")
    }
    none, before = by_rate["none-warm"], by_rate["pre-warm"]

    assert len(none) == 6
    assert all(none[rate] > before[rate] for rate in before), "failures and norm"
    assert min(_tested("norm", "pre", "chrF")) > max(_tested("norm", "none", "chrF"))
    shapes = sorted(_tested("captions", "attention", "right"))
    assert len(shapes) == 3
    assert shapes[0] < 10
    assert shapes[1] > 90, "one of three hardly learnt"
    vector = _tested("captions", "vector", "CIDEr-D")
    attention = _tested("captions", "attention", "CIDEr-D")
    assert min(attention) < max(vector), "another measure decides nothing"
    deep, shallow = (_tested("residual", f"on-{depth}", "chrF") for depth in (4, 1))
    assert min(shallow) > max(deep)
