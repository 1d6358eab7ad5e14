"""A font with the Hangul of the pages: browsers load it only on machines without one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from regard.visualisation.fonts import face

FAMILY = "Regard Hangul"
KOREAN = f"'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', '{FAMILY}'"
STACK = f"-apple-system, 'Segoe UI', 'Roboto', {KOREAN}, system-ui, sans-serif"
MONOSPACE = f"'SFMono-Regular', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', {KOREAN}, monospace"


def write(app: Any, exception: Exception | None) -> None:
    """Write the Hangul that occurs in the pages as the font that site.css names."""
    if exception is None and app.builder.name == "html":
        texts = (path.read_text(encoding="utf-8") for path in sorted(Path(app.outdir).rglob("*.html")))
        letters = sorted({letter for text in texts for letter in text if "ㄱ" <= letter <= "힣"})
        data = face("".join(letters)).partition("base64,")[2].partition(")")[0]
        (Path(app.outdir) / "_static" / "hangul.woff").write_bytes(base64.b64decode(data))
