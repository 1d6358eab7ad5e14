"""The model of the start page: docs/translator.html taken apart into the library, the model and the script that runs them.

From a server the page loads `regard.wasm` and `model.regard`; a page from disk may not, and gets both from `files.js`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import languages

from regard.visualisation import live as live_page

PAGE = Path(__file__).parent.parent / "docs" / "translator.html"
FILE = re.compile(r'<script type="text/plain" class="file">([^<]+)</script>')
NAMES = ("regard.wasm", "model.regard")


def write(app: Any, exception: Exception | None) -> None:
    """Write the files of the translator beside the pages."""
    if exception is not None or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "_static" / "translator"
    folder.mkdir(parents=True, exist_ok=True)
    packed = [content.strip() for content in FILE.findall(PAGE.read_text(encoding="utf-8"))]
    for name, content in zip(NAMES, packed, strict=True):
        (folder / name).write_bytes(gzip.decompress(base64.b64decode(content)))
    files = json.dumps(dict(zip(NAMES, packed, strict=True)))
    (folder / "files.js").write_text(f"window.regardFiles = {files};\n", encoding="utf-8")
    (folder / "regard.js").write_text(
        f"window.regard = (() => {{\n{live_page._module()}\nreturn {{ load }};\n}})();\n", encoding="utf-8"
    )
    shutil.copy(PAGE, Path(app.outdir) / PAGE.name)
    (Path(app.outdir) / "_static" / "ko-words.js").write_text(languages.search_words(), encoding="utf-8")
