"""The examples, links and commands of the READMEs hold, and the sizes of the presets."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_models import folder

from regard.models import ModelSettings, build, count_parameters
from regard.training import preset, presets

ROOT = Path(__file__).parent.parent
READMES = [ROOT / "README.md", ROOT / "README.ko.md"]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_python_example_runs(
    readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "runs" / "first")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(
        r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL
    )
    exec(compile(code, str(readme), "exec"), {})


def test_the_parameter_counts_of_the_presets_hold() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+) M \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == presets()
    for name, millions in rows:
        with torch.device("meta"):  # whose weights have sizes and no values
            model = build(
                ModelSettings.parse(preset(name)["model"], name), 8000, 8000, joint=True
            )
        assert f"{count_parameters(model) / 1e6:.2g}" == millions, name


@pytest.mark.parametrize(
    ("page", "lines"), [*((page, 130) for page in READMES), (ROOT / "CHANGELOG.md", 60)]
)
def test_the_front_door_stays_short(page: Path, lines: int) -> None:
    """A further fact replaces another there, or goes to its page in docs."""
    assert len(page.read_text(encoding="utf-8").splitlines()) <= lines


def test_the_page_of_settings_is_up_to_date() -> None:
    page = ROOT / "docs" / "make_settings.py"
    names: dict[str, Any] = {"__name__": "page", "__file__": str(page)}
    exec(compile(page.read_text(encoding="utf-8"), str(page), "exec"), names)
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

    assert names["text"]() == written, "run python docs/make_settings.py"


def test_the_page_of_experiments_is_not_replaced_without_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ROOT / "docs" / "make_experiments.py"
    page = ROOT / "docs" / "experiments.md"
    before = page.read_bytes()
    monkeypatch.setattr("sys.argv", [str(script), str(tmp_path)])

    with pytest.raises(
        SystemExit,
        match=r"dictionary-full has no result\.json; run `regard lab dictionary --full`",
    ):
        runpy.run_path(str(script), run_name="__main__")
    assert page.read_bytes() == before
