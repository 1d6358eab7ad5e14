"""Page of the server: that of `visualisation/live_page.py`, with the models of the server and the
fonts of the machine.

It needs neither Pillow nor fontTools: the process that sends it has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from regard.visualisation.html import script_colours
from regard.visualisation.sentence_rules import sentence_rules
from regard.visualisation.template import make_page

TYPING = 250
"""Milliseconds without a key after which the server is asked."""


@dataclass(frozen=True)
class ServerPage:
    """A page and its content security policy: only its own script and style, and requests to its
    own server.
    """

    html: str
    policy: str


@cache
def render_server_page() -> ServerPage:
    """Render the page of the server; it asks for the models itself."""
    data = {
        "endpoint": "",
        "sentences": sentence_rules(),
        **script_colours(),
        "models": [],
        "typing": TYPING,
    }
    html = make_page("regard.visualisation", "server.html", data=data)
    (policy,) = re.findall('"Content-Security-Policy" content="(.*?)"', html)
    return ServerPage(html, f"{policy}; frame-ancestors 'none'")
