"""JavaScript modules as one script: browsers refuse to load modules into a page that is opened from
disk.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = r"^(?:async )?(?:class|const|function\*?) (\w+)"
_EXPORT = re.compile(_NAME.replace("^", "^export "), re.MULTILINE)
_TOP_LEVEL = re.compile(_NAME, re.MULTILINE)
_IMPORT = re.compile(r'^import [^;]*? from "(\.[\w./-]+\.js)";\n', re.MULTILINE)


def module_script() -> str:
    """Return the JavaScript module of the library, regard.js, and its imports as one script."""
    return bundle(Path(__file__).parent / "js" / "regard.js")


def bundle(path: Path) -> str:
    """Return a module and its imports as one script; what they export are its variables.

    A module may import the functions and constants of a script that exports nothing.
    """
    texts = dict[Path, str]()
    _add_module(path.resolve(), texts)
    return "".join(texts.values()).replace("import.meta.url", "location.href")


def _add_module(path: Path, texts: dict[Path, str]) -> None:
    """Add a module after its imports, as a function call that returns its exports."""
    text = path.read_text(encoding="utf-8")
    for name in _IMPORT.findall(text):
        other = (path.parent / name).resolve()
        if other not in texts:
            _add_module(other, texts)
    names = _EXPORT.findall(text) or _TOP_LEVEL.findall(text)
    exported = f"{{ {', '.join(names)} }}"
    body = re.sub("^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)
    texts[path] = f"const {exported} = (() => {{\n{body}\nreturn {exported};\n}})();\n"
