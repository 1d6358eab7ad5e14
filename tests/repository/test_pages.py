"""Pages as they are written: both languages have the same commands and figures, and what they name
exists.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import reference
from repository.pages import DOCS, PAGES, read

from regard.training import presets

ENGLISH_WORD = re.compile(r"layer|source|target|weight|attention|\bfrom\b")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_images_exist_and_are_described(path: Path) -> None:
    for text, image in IMAGE.findall(read(path)):
        if not image.startswith("https:"):
            assert (path.parent / image).is_file(), image
        assert len(text) > 10, f"{image} has no text for those who do not see it"


@pytest.mark.parametrize("page", ["coming-from.md", "ko/coming-from.md"])
def test_settings_and_commands_beside_those_of_other_toolkits_exist(page: str) -> None:
    text = read(DOCS / page)
    table = read(DOCS / "settings.md")
    settings = {*re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)}
    groups = "batching|data|model|schedule|tokenizer|training"
    keys = {*re.findall(rf"`((?:{groups})\.[\w.]+)`", text)}
    assert len(keys) > 9
    assert keys <= settings, keys - settings
    used = {*re.findall(r"(?<![\w./-])regard ([a-z]+)\b", text)}
    commands = {name.split()[1] for name, _ in reference.command_tree()}
    assert used <= commands, used - commands
    named = {*re.findall(r"--preset ([a-z-]+)", text)}
    named |= {*re.findall(r"`((?:rnn|transformer)-\w+)`", text)}
    assert named <= set(presets()), named - set(presets())


def test_the_two_lists_of_other_toolkits_have_the_same_rows() -> None:
    pages = [read(DOCS / page) for page in ("coming-from.md", "ko/coming-from.md")]
    code = []
    for page in pages:
        rows = re.findall(r"^\| ([^|]*)\|", page, re.MULTILINE)
        code.append([re.findall(r"`[^`]*`", row) for row in rows])
    assert code[0] == code[1]


def test_korean_figures_are_those_of_the_english_ones() -> None:
    """Their font aside, which depends on the version of the package that subsets it."""
    script = runpy.run_path(str(DOCS / "make_korean_figures.py"))
    folder = DOCS / "images" / "ko"
    written = {path.stem for path in folder.glob("*.svg")} - {"caption-narrow"}
    assert written == set(script["TEXTS"])
    narrowed = script["narrowed"](read(folder / "caption.svg"))
    assert read(folder / "caption-narrow.svg") == narrowed
    face = script["FACE"]
    for name in written:
        shown = read(DOCS / "images" / "ko" / f"{name}.svg")
        made = face.sub("", script["relabel"](name))
        assert face.sub("", shown) == made, "run python docs/make_korean_figures.py"
        for _, text in script["TEXT"].findall(shown):
            assert not ENGLISH_WORD.search(text), name
