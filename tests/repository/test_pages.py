"""Pages as they are written: both languages have the same commands and figures, and what they name
exists.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
KOREAN = sorted((DOCS / "ko").rglob("*.md"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if "log" not in path.parts)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _english(path: Path) -> Path:
    return DOCS / path.relative_to(DOCS / "ko")


def _commands(path: Path) -> list[str]:
    return [line for line in _read(path).splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("path", KOREAN, ids=lambda path: path.name)
def test_a_korean_page_has_the_commands_and_the_code_of_the_english_one(
    path: Path,
) -> None:
    """A summary has some of them."""
    assert _english(path).is_file(), "each Korean page is a page in English too"

    if _read(path).startswith("---\nsummary: true"):
        assert set(_commands(path)) <= set(_commands(_english(path)))
        for block in re.findall(r"```python\n(.*?)```", _read(path), re.DOTALL):
            assert block in _read(_english(path))
        return
    assert _commands(path) == _commands(_english(path))

    code = [
        re.findall(r"```python\n(.*?)```", re.sub(r" +#.*", "", _read(page)), re.DOTALL)
        for page in (path, _english(path))
    ]
    assert code[0] == code[1]
    assert len(re.findall("^## ", _read(path), re.MULTILINE)) == len(
        re.findall("^## ", _read(_english(path)), re.MULTILINE)
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_images_exist_and_are_described(path: Path) -> None:
    for text, image in IMAGE.findall(_read(path)):
        assert (path.parent / image).is_file(), image
        assert len(text) > 10, f"{image} has no text for those who do not see it"


@pytest.mark.parametrize("page", ["coming-from.md", "ko/coming-from.md"])
def test_settings_and_commands_beside_those_of_other_toolkits_exist(page: str) -> None:
    from regard.cli import app
    from regard.training import presets

    text = _read(DOCS / page)
    settings = set(
        re.findall(r"^\| `([\w.]+)` \|", _read(DOCS / "settings.md"), re.MULTILINE)
    )
    keys = set(
        re.findall(
            r"`((?:batching|data|model|schedule|tokenizer|training)\.[\w.]+)`", text
        )
    )

    assert len(keys) > 9
    assert keys <= settings, keys - settings

    commands = {
        command.name or (command.callback.__name__ if command.callback else "")
        for command in app.registered_commands
    }
    used = set(re.findall(r"(?<![\w./-])regard ([a-z]+)\b", text))

    assert used <= commands | {"export", "import"}, used - commands

    named = set(re.findall(r"--preset ([a-z-]+)", text)) | set(
        re.findall(r"`((?:rnn|transformer)-\w+)`", text)
    )
    assert named <= set(presets()), named - set(presets())


def test_the_two_lists_of_other_toolkits_have_the_same_rows() -> None:
    pages = [_read(DOCS / page) for page in ("coming-from.md", "ko/coming-from.md")]
    code = [
        [
            re.findall(r"`[^`]*`", row)
            for row in re.findall(r"^\| ([^|]*)\|", page, re.MULTILINE)
        ]
        for page in pages
    ]
    assert code[0] == code[1]


def test_korean_figures_are_those_of_the_english_ones() -> None:
    """Their font aside, which depends on the version of the package that subsets it."""
    script = runpy.run_path(str(DOCS / "make_korean_figures.py"))
    written = {path.stem for path in (DOCS / "images" / "ko").glob("*.svg")}
    assert written == set(script["TEXTS"])
    for name in written:
        shown = _read(DOCS / "images" / "ko" / f"{name}.svg")
        assert script["FACE"].sub("", shown) == script["FACE"].sub(
            "", script["relabel"](name)
        ), f"{name}: run python docs/make_korean_figures.py"
        labels = {text for _, text in script["TEXT"].findall(shown)}
        assert not [
            text
            for text in labels
            if re.search(r"layer|source|target|weight|attention|\bfrom\b", text)
        ]
