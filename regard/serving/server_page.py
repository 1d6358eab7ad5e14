"""Page of the server: the page of `visualisation/live_page.py`, but with the models of the server
and the fonts of the browser's machine.

It is rendered without Pillow and fontTools, which the serving process does not import.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from regard.data.languages import language_names
from regard.visualisation.html import script_colours
from regard.visualisation.sentence_rules import sentence_rules
from regard.visualisation.template import make_page

TYPING = 250
"""Milliseconds after the last keystroke before the page sends a request."""


@dataclass(frozen=True)
class ServerPage:
    """A page with its content security policy, which allows its own script and style, and requests
    to its own server.
    """

    html: str
    policy: str


@cache
def render_server_page() -> ServerPage:
    """Render the page of the server, whose script requests the list of models."""
    data = {
        "endpoint": "",
        "sentences": sentence_rules(),
        **script_colours(),
        "models": [],
        "names": {code: names[:2] for code, names in language_names().items()},
        "typing": TYPING,
    }
    html = make_page("regard.visualisation", "server.html", data=data)
    (policy,) = re.findall('"Content-Security-Policy" content="(.*?)"', html)
    return ServerPage(html, f"{policy}; frame-ancestors 'none'")
