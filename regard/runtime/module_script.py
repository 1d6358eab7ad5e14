"""The JavaScript module of the runtime as one script, for pages that are opened from disk."""

from __future__ import annotations

import re
from importlib import resources

_EXPORT = re.compile(
    r"^export (?:async )?(?:class|const|function\*?) (\w+)", re.MULTILINE
)
_IMPORT = re.compile(r'^import [^;]*? from "\./(\w+\.js)";\n', re.MULTILINE)


def module_script() -> str:
    """Return the JavaScript module regard.js and its imports as one script.

    Browsers refuse to load modules into a page that is opened from disk.
    """
    texts = dict[str, str]()
    _add_module("regard.js", texts)
    return "".join(texts.values()).replace("import.meta.url", "location.href")


def _add_module(name: str, texts: dict[str, str]) -> None:
    """Add a module after its imports, as a function call that returns its exports."""
    text = resources.files("regard.runtime").joinpath("js", name).read_text("utf-8")
    for other in _IMPORT.findall(text):
        if other not in texts:
            _add_module(other, texts)
    exported = f"{{ {', '.join(_EXPORT.findall(text))} }}"
    body = re.sub("^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)
    texts[name] = f"const {exported} = (() => {{\n{body}\nreturn {exported};\n}})();\n"
