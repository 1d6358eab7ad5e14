"""Pages that the program makes: the translator of the start page, with the model in site/model, and
pages of numbers.

From a server the start page loads `regard.js`, `regard.wasm` and `model.regard`, packed by gzip;
from disk it may not: it gets them from scripts, `regard.js` and `files.js`.

    python site/live.py translator.html # takes the model out of a page that `regard export --to
    page` wrote
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from regard.common.bilingual import Language
from regard.learn import walkthrough_block
from regard.runtime import native
from regard.runtime.module_script import module_script
from regard.visualisation import live_page

MODEL = Path(__file__).parent / "model" / "ko-en.regard"
ASSETS = Path(live_page.__file__).parent / "assets"
OF_PAGES = ("explanation_data.js", "unread.js")
"""Scripts of pages that the start page uses, too."""
FOLDERS: dict[Language, str] = {"en": "", "ko": "ko"}
BACK: dict[Language, str] = {"en": "A lesson of 50 minutes", "ko": "50분 수업"}
"""The link of the pages of numbers to the lesson that it belongs to."""
NUMBERS = {"numbers": (2, 1), "numbers-two-heads": (4, 2)}
"""Names of the pages of numbers, with the size of their vectors and the number of heads."""
FILE = re.compile(r'<script type="text/plain" class="file">\s*([^<]+?)\s*</script>')
DATA = re.compile(
    r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL
)


def page(wasm: bytes) -> str:
    """Return the page that translates with the model, and shows every layer and the search."""
    about = json.loads(MODEL.with_suffix(".json").read_text(encoding="utf-8"))
    trust = about["trust"] and live_page.Trust(
        about["trust"]["sentences"], dict(about["trust"]["agreement"])
    )
    model = live_page.LiveModel(
        MODEL.read_bytes(),
        **{**about, "languages": tuple(about["languages"]), "trust": trust},
    )
    return live_page.render_live_page([model], wasm, module_script())


def opened_in(language: str, text: str) -> str:
    """Return the page so that it opens in a language, whatever that of the browser is."""
    return text.replace('id="data">{', f'id="data">{{"language": "{language}", ', 1)


def write(app: Any, exception: Exception | None) -> None:
    """Write the pages, and beside the start page the files of its translator, which are those of
    the first.
    """
    if exception is not None or app.builder.name != "html":
        return
    wasm = native.wasm_file().read_bytes()
    text = page(wasm)
    for language, name in FOLDERS.items():
        (Path(app.outdir) / name / "translator.html").write_text(
            opened_in(language, text), encoding="utf-8"
        )
    for name, (size, heads) in NUMBERS.items():
        block = walkthrough_block("I go home", size=size, heads=heads)
        for language, folder_name in FOLDERS.items():
            link = f'<main>\n<p><a href="tutorials/lesson.html">← {BACK[language]}</a></p>\n'
            linked = block.page(language).replace("<main>\n", link, 1)
            (Path(app.outdir) / folder_name / f"{name}.html").write_text(
                linked, encoding="utf-8"
            )
    folder = Path(app.outdir) / "_static" / "translator"
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"regard.wasm": wasm, "model.regard": MODEL.read_bytes()}
    script = start_script().encode()
    for name, content in {**contents, "regard.js": script}.items():
        packed = gzip.compress(content, 9, mtime=0)
        (folder / f"{name}.gz").write_bytes(packed)
    files = json.dumps(dict(zip(contents, FILE.findall(text), strict=True)))
    (folder / "files.js").write_text(
        f"window.regardFiles = {files};\n", encoding="utf-8"
    )
    (folder / "regard.js").write_bytes(script)


def start_script() -> str:
    """Return the script by which the start page translates, and finds words that get lost."""
    parts = [
        "window.regard = (() => {",
        module_script(),
        *((ASSETS / name).read_text(encoding="utf-8") for name in OF_PAGES),
        "return { load, unreadWords };\n})();\n",
    ]
    return "\n".join(parts)


def take_apart(text: str) -> None:
    """Keep the model of a page, and what the page says of it."""
    _, model = FILE.findall(text)
    (about,) = json.loads(DATA.findall(text)[0])["models"]
    MODEL.write_bytes(gzip.decompress(base64.b64decode(model)))
    MODEL.with_suffix(".json").write_text(
        json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    take_apart(Path(sys.argv[1]).read_text(encoding="utf-8"))
