"""Render pages and Markdown from the Jinja2 templates in the `assets` folders of packages. In pages
every text is escaped, in Markdown those that go through `markdown`.
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
from regard.common.counting import counted
from regard.common.markdown import code_span, escape_text
from regard.visualisation import html
from regard.visualisation.text import clean, is_korean

# Comments, indentation and empty lines of assets, which pages omit.
_OMITTED = re.compile(r'(?m)^ *(?:// .*|/[*][*] .* [*]/)?\n|^ +| // [^"`\n]*$')
# Line breaks that end no statement of a script; no comment stands before one.
_NEEDLESS_BREAK = re.compile(r"(?<=[;,{(])\n")
# Comments, spaces beside punctuation and empty lines of style sheets.
_OMITTED_IN_CSS = re.compile(r"(?m)/[*].*?[*]/|^\s+|(?<=[:;,{]) | (?={)")


@cache
def templates(package: str) -> Environment:
    """Return an environment with the templates of a package and those that all pages share."""
    loader = ChoiceLoader(
        [PackageLoader(name, "assets") for name in (package, "regard.visualisation")]
    )
    environment = Environment(
        loader=loader,
        autoescape=lambda name: not str(name).endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
    }
    environment.filters |= {"clean": clean, "digest": _digest, "words": _words}
    environment.filters |= {"code": code_span, "markdown": escape_text}
    environment.filters["css"] = lambda text: Markup(_OMITTED_IN_CSS.sub("", text))
    environment.tests["korean"] = is_korean
    environment.globals |= {
        "counted": counted,
        "asset": lambda name: compact(loader.get_source(environment, name)[0]),
        "face": _face,
        "text": _text,
        "own_fonts": Markup(html.STACK),
        "system_fonts": Markup(html.SYSTEM_FONTS),
        "colour_variables": lambda: Markup(html.colour_variables()),
        "paint_rules": lambda: Markup(html.paint_rules()),
    }
    return environment


def compact(asset: str) -> Markup:
    """Return a script or style sheet without comments, indentation and needless line breaks."""
    return Markup(_NEEDLESS_BREAK.sub("", _OMITTED.sub("", asset)))


def make_page(package: str, name: str, **values: Any) -> str:
    """Render the template of this name with `values`."""
    return templates(package).get_template(name).render(values)


@pass_context
def _words(context: Context, words: Words) -> str:
    """Return words in the language of the page."""
    return words_by(words, context["lang"])


@pass_context
def _text(context: Context, en: str, ko: str) -> str:
    """Return the text in the language of the page."""
    return Text(en, ko).by(context["lang"])


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


def _face(text: str) -> Markup:
    """Return the CSS rule of a font with the letters of a page.

    The import is here because the server's page embeds no font and works without its packages.
    """
    from regard.visualisation.fonts import face

    return Markup(face("".join(sorted({*string.printable, *text}))))
