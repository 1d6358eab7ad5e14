"""Scripts stay what they are when a page leaves out their comments, indentation and empty lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import regard
from regard.visualisation.template import templates

ROOT = Path(regard.__file__).parent
SCRIPTS = sorted(ROOT.glob("**/assets/*.js"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_as_valid_in_a_page_as_in_its_file(
    script: Path, node: str, tmp_path: Path
) -> None:
    package = ".".join(script.relative_to(ROOT.parent).parts[:-2])
    source = script.read_text(encoding="utf-8")
    text = str(templates(package).globals["asset"](script.name))  # type: ignore[operator]

    assert len(text) < len(source)
    assert "\n\n" not in text

    (tmp_path / "in-page.js").write_text(text, encoding="utf-8")
    subprocess.run(
        [node, "--check", str(tmp_path / "in-page.js")], check=True, timeout=60
    )
    for number, line in enumerate(source.splitlines(), 1):
        assert line.count("`") % 2 == 0, (
            f"line {number}: a template of several lines would lose its indentation"
        )
        code, _, comment = line.partition(" // ")
        assert not comment or code.count("'") % 2 == 0 or "'" in comment, (
            f"line {number}: ` // ` within a string"
        )
