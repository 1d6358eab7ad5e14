"""The page "Your language, from nothing": its script pairs strings, and its commands run, to a page
that one can send.
"""

from __future__ import annotations

import gzip
import re
import shlex
import sys
import zipfile
from pathlib import Path

import pytest
from command import Command, text_of

CORPUS = (
    Path(__file__).parents[3]
    / "shared"
    / "data"
    / "localisation"
    / "firefox.en-hsb.train.tsv.gz"
)
PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
(SCRIPT,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FLUENT = """# a comment
open = {open}
save =
    {save}
delete = Delete {{ $name }}
    .label = {label}
count = {{ $n ->
    [one] one
   *[other] many
}}
same = OK
"""


def _pack(path: Path, code: str, **texts: str) -> Path:
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr(f"localization/{code}/app.ftl", FLUENT.format(**texts))
        pack.writestr(
            f"chrome/{code}/app.properties", f"# no string\nopen={texts['open']}!\n"
        )
        pack.writestr("manifest.json", "open = no string")
    return path


def test_the_script_pairs_strings_by_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    english = _pack(
        tmp_path / "en.xpi", "en-GB", open="Open", save="Save", label="Label"
    )
    sorbian = _pack(
        tmp_path / "hsb.xpi", "hsb", open="Wočinić", save="Składować", label="Popis"
    )
    words = ["pair_strings.py", str(english), str(sorbian), "en-GB", "hsb"]
    monkeypatch.setattr(sys, "argv", words)
    exec(SCRIPT, {})
    pairs = ["Open\tWočinić", "Save\tSkładować", "Label\tPopis", "Open!\tWočinić!"]
    assert capsys.readouterr().out.splitlines() == pairs


@pytest.mark.slow
def test_the_commands_of_the_page_run(regard: Command) -> None:
    """On the corpus that such packages gave, for a minute instead of twelve."""
    if not CORPUS.is_file():
        pytest.skip(f"{CORPUS} is not there: it may not be shipped")
    Path("app.en-hsb.tsv").write_bytes(gzip.decompress(CORPUS.read_bytes()))
    text = re.sub(r" \\\n *", " ", PAGE)
    for command in re.findall(r"^    regard (.*)$", text, re.MULTILINE):
        quick = command.replace("12m", "60s").replace("updates=5000", "updates=200")
        regard(*shlex.split(quick, comments=True))
    assert "chrF" in text_of("runs/hsb/report.html")
    assert "MPL-2.0" in text_of("runs/hsb/README.md")
    assert regard("translate hsb.regard", stdin="Open the file\n").lines
    assert Path("hsb.html").stat().st_size > 100_000
