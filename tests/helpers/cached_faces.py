"""Fonts of pages, cut once: some 150 tests draw pages, and each set of letters takes a tenth of a
second.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from regard.visualisation import fonts, rendering

SOURCES = Path(fonts.__file__), Path(fonts.__file__).parent / "assets"


def install(folder: Path) -> None:
    """Let figures and pages take fonts from a folder, named by the letters and by all that they
    were made from. Tests of fonts, which import the function itself, make their own.
    """
    fonts.face = rendering.face = _remembered(folder, fonts.face)  # type: ignore[assignment]


def _remembered(folder: Path, face: Callable[[str], str]) -> Callable[[str], str]:
    source, assets = SOURCES
    made_from = hashlib.sha256(version("fonttools").encode())
    made_from.update(source.read_bytes())
    for font in sorted(assets.glob("*.otf")):
        made_from.update(font.read_bytes())

    def remembered(text: str) -> str:
        key = made_from.copy()
        key.update(text.encode())
        file = folder / key.hexdigest()[:32]
        if not file.exists():
            part = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            part.write_text(face(text), encoding="utf-8")
            part.replace(file)
        return file.read_text(encoding="utf-8")

    return remembered
