"""Scripts stay what they are when a page leaves out their comments, indentation and empty lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import regard
from regard.visualisation.template import templates

ROOT = Path(regard.__file__).parent
SCRIPTS = sorted(ROOT.glob("**/assets/*.js"))


CHECK = """
const { readFileSync } = require("node:fs");
for (const file of process.argv.slice(1)) new (require("node:vm").Script)(readFileSync(file, "utf8"), file);
"""


def test_scripts_are_as_valid_in_a_page_as_in_their_files(
    node: str,
    tmp_path: Path,
) -> None:
    files = []
    for script in SCRIPTS:
        package = ".".join(script.relative_to(ROOT.parent).parts[:-2])
        source = script.read_text(encoding="utf-8")
        text = str(templates(package).globals["asset"](script.name))  # type: ignore[operator]

        assert len(text) < len(source)
        assert "\n\n" not in text

        files.append(tmp_path / f"{package}.{script.name}")
        files[-1].write_text(text, encoding="utf-8")
        for number, line in enumerate(source.splitlines(), 1):
            place = f"{script.name}, line {number}"

            assert line.count("`") % 2 == 0, f"{place}: a template of several lines"

            code, _, comment = line.partition(" // ")

            assert not comment or code.count("'") % 2 == 0 or "'" in comment, (
                f"{place}: ` // ` within a string"
            )

    subprocess.run([node, "-e", CHECK, *map(str, files)], check=True, timeout=60)
