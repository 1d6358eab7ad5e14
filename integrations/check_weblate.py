"""Try a server as Weblate does: save its settings in Weblate's own forms, then translate strings
with placeholders.

    python integrations/check_weblate.py http://localhost:5072 en hsb STRINGS

runs where Weblate is installed (`make weblate`). STRINGS: lines of the source language. Each engine
(LibreTranslate, DeepL, and this folder's) prints whether its form accepts the server, and in how
many lines each placeholder came back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Beside this file, `weblate` would be the engine.
sys.path[0] = str(Path(__file__).resolve().parent.parent)
os.environ["DJANGO_SETTINGS_MODULE"] = "weblate.settings_example"

import django
from django.conf import settings

settings.CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
settings.SITE_DOMAIN = "localhost"
settings.ALLOWED_MACHINERY_DOMAINS = ["*"]
django.setup()
from weblate.checks.flags import Flags
from weblate.machinery.deepl import DeepLTranslation
from weblate.machinery.libretranslate import LibreTranslateTranslation

from integrations.weblate import RegardTranslation

FLAGS = Flags(
    r'c-format, python-brace-format, xml-text, placeholders:r"\{ ?[$-]?[\w.-]+ ?\}"'
)
ENGINES = {
    LibreTranslateTranslation: {},
    DeepLTranslation: {"key": "any"},
    RegardTranslation: {},
}


def kept(
    engine: Any, languages: tuple[str, str], lines: Iterable[str]
) -> tuple[int, int]:
    """Return in how many lines with placeholders each came back once, and how many there are."""
    right = count = 0
    for line in lines:
        unit = SimpleNamespace(
            all_flags=FLAGS, translation=None, effective_source=line, source=line
        )
        text, replacements = engine.cleanup_text(line, unit)
        if replacements:
            drafts = engine.download_multiple_translations(*languages, [(text, None)])
            engine.uncleanup_results(replacements, drafts[text])
            wanted = list(map(engine.unescape_text, replacements.values()))
            count = count + 1
            right = right + all(
                drafts[text][0]["text"].count(p) == line.count(p) for p in wanted
            )
    return right, count


def main() -> int:
    """Print a line for each engine; 1 if a form refuses the server."""
    address, source, target, strings = sys.argv[1:]
    lines = Path(strings).read_text(encoding="utf-8").splitlines()
    failed = 0
    for kind, values in ENGINES.items():
        form = kind.settings_form(
            kind, data={"url": address, "key": "", **values}, allow_private_targets=True
        )
        accepted = form.is_valid()
        failed += not accepted
        engine = kind({"url": address, "key": "", **values})
        codes = [
            code.upper() if kind is DeepLTranslation else code
            for code in (source, target)
        ]
        right, count = kept(engine, (codes[0], codes[1]), lines)
        outcome = (
            "its form accepts the server"
            if accepted
            else f"its form refuses it: {form.errors.as_text()}"
        )
        print(
            f"{kind.name}: {outcome}; supported: {engine.is_supported(*codes)}; placeholders kept "
            f"in {right} of {count}"
        )
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())
