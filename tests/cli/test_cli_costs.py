"""`regard costs`: the paper's table, counted and measured, as text, JSON and figures."""

from __future__ import annotations

import json
import re
import xml.dom.minidom
from pathlib import Path

import pytest
from command import Command
from PIL import Image

NAMES = ["self-attention", "self-attention, weights kept", "recurrent", "convolutional", "restricted self-attention"]


@pytest.fixture(autouse=True)
def _short_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.lessons import costs

    monkeypatch.setattr(costs, "MULTIPLES", (0.5, 0.75, 1))


def test_the_table_names_counts_and_formulas(regard: Command) -> None:
    done = regard("costs", "--n", 128, "--d", 16)
    assert done.lines[0].startswith("one layer over n = 128 positions of d = 16 numbers; k = 3")
    counted = [line for line in done.lines if "nd²" in line or "n²d" in line or "rnd" in line]
    assert [re.split(r"  +", line)[0] for line in counted[: len(NAMES)]] == NAMES
    row = re.split(r"  +", counted[0])
    assert row[1:5] == ["O(n²d)", "2.00 n²d", "2.00 (2)", "1.00 (1)"]
    assert "1 × 128 = 128" in counted[2]
    assert len({len(line) for line in counted[: len(NAMES)]}) == 1, "columns stand in line"
    assert done.lines[-1] == "attention is counted between its projections, which take 4.00 nd² more"


def test_costs_are_written_as_json_and_as_a_figure(regard: Command) -> None:
    done = regard("costs", "--n", 64, "--d", 18, "--format", "json", "--out", "costs.svg")
    assert "d is 16: attention has four heads, which must divide it" in done.err
    report = json.loads(done.out)
    assert report["sizes"]["d"] == 16
    assert [layer["name"] for layer in report["layers"]] == NAMES
    assert report["layers"][0]["operations"] == 2 * 64 * 64 * 16
    svg = xml.dom.minidom.parse("costs.svg")
    lines = [line for line in svg.getElementsByTagName("polyline") if len(line.getAttribute("points").split()) == 3]
    assert len(lines) == 4 * len(NAMES)


@pytest.mark.parametrize("name", ["costs.png", "costs.html"])
def test_figures_can_be_png_or_html(regard: Command, name: str) -> None:
    regard("costs", "--n", 64, "--d", 16, "--out", name, "--quiet")
    if name.endswith("png"):
        with Image.open(name) as image:
            assert image.size[0] > 1000
    else:
        assert "longest path" in Path(name).read_text(encoding="utf-8")


def test_invalid_options_are_refused_before_counting(regard: Command) -> None:
    regard.fails("costs", "--out", "costs.gif", status=2, because="a figure is written as .svg, .png, .html")
    regard.fails("costs", "--n", 3, status=2, because="64")
