"""Write data and still drawings of the living figures: python site/make_figures.py [NAME…]

For each module `figures/NAME.py` (with _ for -): `make()` returns the data, which are written to
`figures/data/NAME.json`; `still(data, language)`, if there is one, returns the drawing, a `Figure`
or SVG, which is written to `figures/stills/NAME.LANGUAGE.svg`. `files()`, if there is one, returns
further files by name, packed by gzip, which the figure loads: `figures/data/NAME.FILE.gz`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from regard.common.bilingual import Language
from regard.visualisation.figure import Figure
from regard.visualisation.rendering import draw_svg

FIGURES = Path(__file__).parent / "figures"
LANGUAGES: tuple[Language, ...] = ("en", "ko")


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
    if not hasattr(maker, "still"):
        return
    for language in LANGUAGES:
        drawing = _svg(maker.still(data, language))
        _write(folder / "stills" / f"{name}.{language}.svg", drawing)


def filled(name: str) -> Any:
    """Return the data of a figure as its script gets them: `fill(data)` of the module, if there is
    one, adds what is made anew with each site.
    """
    data = json.loads((FIGURES / "data" / f"{name}.json").read_text(encoding="utf-8"))
    maker = importlib.import_module(makers()[name])
    return maker.fill(data) if hasattr(maker, "fill") else data


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _svg(drawing: Any) -> str:
    return draw_svg(drawing) if isinstance(drawing, Figure) else str(drawing)


def main(wanted: list[str]) -> None:
    """Write the figures of these names, or all."""
    unknown = [name for name in wanted if name not in makers()]
    if unknown:
        known = ", ".join(makers())
        sys.exit(f"there is no figure {', '.join(unknown)}: there are {known}")
    for name in wanted or makers():
        write(name)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1:])
