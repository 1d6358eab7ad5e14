"""Fonts with the Hangul of the pages, and with what else may be typed: browsers load them only on
machines without one, the second one only for a syllable that no page has.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from regard.visualisation.fonts import face

FAMILIES = "'Regard Hangul', 'Regard Hangul typed'"
"""As in site.css."""
COMMON = b"".join(
    bytes((row, cell)) for row in range(0xB0, 0xC9) for cell in range(0xA1, 0xFF)
).decode("euc-kr")
"""The 2,350 syllables of KS X 1001, of which typed text consists."""
KOREAN = f"'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', {FAMILIES}"
STACK = f"-apple-system, 'Segoe UI', 'Roboto', {KOREAN}, system-ui, sans-serif"
MONOSPACE = (
    "'SFMono-Regular', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', "
    f"{KOREAN}, monospace"
)


def write(app: Any, exception: Exception | None) -> None:
    """Write the fonts that site.css names."""
    if exception is not None or app.builder.name != "html":
        return
    texts = (
        path.read_text(encoding="utf-8", errors="replace")
        for kind in ("html", "js")
        for path in Path(app.outdir).rglob(f"*.{kind}")
    )
    shown = {letter for text in texts for letter in text if "ㄱ" <= letter <= "힣"}
    for name, letters in {"hangul": shown, "typed": set(COMMON) - shown}.items():
        data = face("".join(sorted(letters)))
        data = data.partition("base64,")[2].partition(")")[0]
        path = Path(app.outdir) / "_static" / f"{name}.woff"
        path.write_bytes(base64.b64decode(data))
