"""The maker of all pages: Jinja2 templates in the `assets` folders of the packages, with every text
escaped.
"""

from __future__ import annotations

import base64
import re
import string
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    pass_context,
)
from jinja2.runtime import Context
from markupsafe import Markup

from regard.common.bilingual import Text, Words, words_by
from regard.visualisation import html
from regard.visualisation.text import clean, is_korean

# Pages go without comments, indentation and empty lines.
_SPARED = re.compile(r'(?m)^ *(?:// .*|/[*][*] .* [*]/)?\n|^ +| // [^"`\n]*$')


@cache
def templates(package: str) -> Environment:
    """Return the templates in the assets of a package, and the ones here that all pages share."""
    loader = ChoiceLoader(
        [PackageLoader(name, "assets") for name in (package, "regard.visualisation")]
    )
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
    }
    environment.filters |= {"clean": clean, "digest": _digest, "words": _words}
    environment.tests["korean"] = is_korean
    environment.globals |= {
        "asset": lambda name: Markup(
            _SPARED.sub("", loader.get_source(environment, name)[0])
        ),
        "face": _face,
        "text": _text,
        "own_fonts": Markup(html.STACK),
        "system_fonts": Markup(html.SYSTEM_FONTS),
        "colour_variables": lambda: Markup(html.colour_variables()),
        "paint_rules": lambda: Markup(html.paint_rules()),
    }
    return environment


def make_page(package: str, name: str, **values: Any) -> str:
    """Render a page by a template of a package; the names in `values` are those of the template."""
    return templates(package).get_template(name).render(values)


@pass_context
def _words(context: Context, words: Words) -> str:
    """Return words in the language of the page."""
    return words_by(words, context["lang"])


@pass_context
def _text(context: Context, en: str, ko: str) -> str:
    """Return one of both texts, in the language of the page."""
    return Text(en, ko).by(context["lang"])


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


def _face(text: str) -> Markup:
    """Return the rule of the font that has the letters of a page; the server's page has none, nor
    the packages.
    """
    from regard.visualisation.fonts import face

    return Markup(face("".join(sorted({*string.printable, *text}))))
