"""Write data and still drawings of the living figures: python site/make_figures.py [NAME…]

For each module `figures/NAME.py` (with _ for -): `make()` returns the data, which are written to
`figures/data/NAME.json`; `still(data, language, state)`, if there is one, returns the drawing, a
`Figure` or SVG, which is written to `figures/stills/NAME.LANGUAGE.svg`, and for each state in which
a page opens the figure to `figures/stills/NAME.STATE.LANGUAGE.svg`; what is drawn otherwise on a
phone also to `….narrow.svg`. `files()`, if there is one, returns further files by name, packed by
gzip, which the figure loads: `figures/data/NAME.FILE.gz`.
`python site/make_figures.py --stills [NAME…]` draws anew from the data that are there.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from regard.common.bilingual import Language
from regard.visualisation.figure import Figure
from regard.visualisation.rendering import draw_svg, without_hints
from regard.visualisation.screen import figures_within

FIGURES = Path(__file__).parent / "figures"
DOCS = Path(__file__).resolve().parents[1] / "docs"
LANGUAGES: tuple[Language, ...] = ("en", "ko")
DIRECTIVE = re.compile(r"^`{3,}\{living\} *(\S+)\n(?::state: *(.+)\n)?", re.MULTILINE)
NARROW = 366.0
"""Pixels that a drawing has on a phone of 400."""
ONLY_STILLS = "--stills"


def makers() -> dict[str, str]:
    """Return the modules that make figures, by the names of the figures."""
    stems = sorted(path.stem for path in FIGURES.glob("*.py"))
    return {stem.replace("_", "-"): f"figures.{stem}" for stem in stems}


def write(name: str, folder: Path = FIGURES) -> None:
    """Write the data and the drawings of a figure into `data` and `stills` of a folder."""
    maker = importlib.import_module(makers()[name])
    data = maker.make()
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    _write(folder / "data" / f"{name}.json", f"{text}\n")
    if hasattr(maker, "files"):
        for file, content in maker.files().items():
            (folder / "data" / f"{name}.{file}").write_bytes(content)
    write_stills(name, data, folder)


def write_stills(name: str, data: Any, folder: Path = FIGURES) -> None:
    """Draw each state in which a page opens a figure, in both languages."""
    maker = importlib.import_module(makers()[name])
    if not hasattr(maker, "still"):
        return
    for state in states(name):
        for language in LANGUAGES:
            path = folder / "stills" / still_name(name, state, language)
            wide = _svg(maker.still(data, language, values_of(state)))
            with figures_within(NARROW):
                narrow = _svg(maker.still(data, language, values_of(state)))
            _write(path, wide)
            if narrow != wide:
                _write(path.with_suffix(".narrow.svg"), narrow)


def states(name: str) -> list[str]:
    """Return the states in which pages open a figure; the empty one, which is first, always."""
    texts = (page.read_text(encoding="utf-8") for page in DOCS.glob("**/*.md"))
    openings = (match for text in texts for match in DIRECTIVE.findall(text))
    return sorted({"", *(state for figure, state in openings if figure == name)})


def values_of(state: str) -> dict[str, str]:
    """Return names and values of a state, as "rule=softmax temperature=0.3"."""
    return dict(pair.split("=", 1) for pair in state.split())


def still_name(name: str, state: str, language: Language) -> str:
    """Return the name of the drawing of a figure in a state."""
    return ".".join([name, *re.sub("[ =]", "-", state).split(), language, "svg"])


def read(name: str) -> Any:
    """Return the data of a figure as they were written."""
    return json.loads((FIGURES / "data" / f"{name}.json").read_text(encoding="utf-8"))


def filled(name: str, language: Language) -> Any:
    """Return the data of a figure as its script gets them: `fill(data, language)` of the module, if
    there is one, adds what is made anew with each site.
    """
    data = read(name)
    maker = importlib.import_module(makers()[name])
    return maker.fill(data, language) if hasattr(maker, "fill") else data


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _svg(drawing: Any) -> str:
    svg = draw_svg(drawing) if isinstance(drawing, Figure) else str(drawing)
    return without_hints(svg)


def main(wanted: list[str], only_stills: bool) -> None:
    """Write the figures of these names, or all; or their drawings alone."""
    unknown = [name for name in wanted if name not in makers()]
    if unknown:
        known = ", ".join(makers())
        sys.exit(f"there is no figure {', '.join(unknown)}: there are {known}")
    for name in wanted or makers():
        if only_stills:
            write_stills(name, read(name))
        else:
            write(name)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    names = [name for name in sys.argv[1:] if name != ONLY_STILLS]
    main(names, only_stills=ONLY_STILLS in sys.argv)
