"""One maker of pages: Jinja2 templates in the `assets` folders of the rooms, in which every text is escaped."""

from __future__ import annotations

import base64
import string
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from regard.visualisation import html
from regard.visualisation.text import clean, is_korean


@cache
def templates(package: str) -> Environment:
    """Return the templates in the assets of a package, and the ones here that all pages share."""
    loader = ChoiceLoader([PackageLoader(name, "assets") for name in (package, "regard.visualisation")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"clean": clean, "digest": _digest, "script_json": _script_json}
    environment.tests["korean"] = is_korean
    environment.globals |= {
        "asset": lambda name: Markup(loader.get_source(environment, name)[0]),
        "face": _face,
        "own_fonts": Markup(html.STACK),
        "system_fonts": Markup(html.SYSTEM_FONTS),
        "colour_variables": lambda: Markup(html.colour_variables()),
        "paint_rules": lambda: Markup(html.paint_rules()),
    }
    return environment


def make_page(package: str, name: str, **values: Any) -> str:
    """Render a page by a template of a package; the names in `values` are those of the template."""
    return templates(package).get_template(name).render(values)


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


def _script_json(values: object) -> Markup:
    return Markup(html.script_json(values))


def _face(text: str) -> Markup:
    """Return the rule of the font that has the letters of a page; the server's page has none, nor the packages."""
    from regard.visualisation.fonts import face

    return Markup(face("".join(sorted({*string.printable, *text}))))
