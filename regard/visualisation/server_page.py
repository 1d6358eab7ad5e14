"""Page of the server: that of `live.py`, with the server's models instead of its own, and the fonts of the machine.

It needs neither Pillow nor fontTools: the process that sends it has none.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache

from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.html import (
    OPEN_PLAYER,
    SYSTEM_FONTS,
    asset,
    fill_page,
    fill_template,
    page_style,
    palette,
    script_json,
)

TYPING = 250
"""Milliseconds without a key after which the server is asked."""
_SCRIPTS = ("page.js", "live_data.js", "live.js", "server_client.js", "history.js", "captions.js", "server_page.js")
_ICON = (
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 3 3'%3E%3Cpath fill='%23dce6f5' d='M0 0h3v3H0z'/%3E"
    "%3Cpath fill='%232b5fa8' d='M0 0h1v1H0zM2 1h1v1H2zM1 2h1v1H1z'/%3E%3C/svg%3E"
)


@dataclass(frozen=True)
class ServerPage:
    """A page and its content security policy: only its own script and style, and requests to its own server."""

    html: str
    policy: str


@cache
def render_server_page() -> ServerPage:
    """Render the page of the server; it asks for the models itself."""
    values = {"endpoint": "", "palette": palette(), "veil": [*VEIL, OPACITY], "models": [], "typing": TYPING}
    styles = (page_style(SYSTEM_FONTS), fill_template(asset("live.css"), {"ui": SYSTEM_FONTS}), asset("server.css"))
    parts = {
        "title": "Regard",
        "head": f'<link rel="icon" href="data:image/svg+xml,{_ICON}">\n',
        "css": "\n".join(styles),
        "top": asset("server.html") + asset("live.html") + asset("captions.html"),
        "facts": asset("history.html") + asset("about.html"),
        "open_player": OPEN_PLAYER,
        "js": "\n".join(map(asset, _SCRIPTS)),
        "data": script_json(values),
    }
    html = fill_page({**parts, "policy": ""})
    (script,), (style,) = (re.findall(f"<{name}>(.*?)</{name}>", html, re.DOTALL) for name in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    return ServerPage(fill_page({**parts, "policy": policy}), f"{policy}; frame-ancestors 'none'")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
