"""A font with the Hangul of the pages: browsers load it only on machines without one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from regard.visualisation.fonts import face

FAMILY = "Regard Hangul"
COMMON = b"".join(
    bytes((row, cell)) for row in range(0xB0, 0xC9) for cell in range(0xA1, 0xFF)
).decode("euc-kr")
"""The 2,350 syllables of KS X 1001, of which typed text consists."""
KOREAN = f"'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', '{FAMILY}'"
STACK = f"-apple-system, 'Segoe UI', 'Roboto', {KOREAN}, system-ui, sans-serif"
MONOSPACE = (
    "'SFMono-Regular', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', "
    f"{KOREAN}, monospace"
)


def write(app: Any, exception: Exception | None) -> None:
    """Write the Hangul that occurs in the pages as the font that site.css names."""
    if exception is None and app.builder.name == "html":
        paths = [
            path
            for kind in ("html", "js")
            for path in Path(app.outdir).rglob(f"*.{kind}")
        ]
        texts = [
            *(path.read_text(encoding="utf-8", errors="replace") for path in paths),
            COMMON,
        ]
        letters = sorted(
            {letter for text in texts for letter in text if "ㄱ" <= letter <= "힣"}
        )
        data = face("".join(letters)).partition("base64,")[2].partition(")")[0]
        (Path(app.outdir) / "_static" / "hangul.woff").write_bytes(
            base64.b64decode(data)
        )
