"""Page that describes a model, for models that no browser runs: its card as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from regard.visualisation.template import make_page

_INLINE = re.compile(
    r"(?P<fence>`+)(?P<code>.+?)(?P=fence)(?!`)"
    r"|\[(?P<label>[^\]\\]+)\]\((?P<address>(?:https?://)?[\w./#-]+)\)"
    r"|\*\*(?P<strong>[^*\\]+)\*\*"
    r"|\\(?P<literal>[^\w\s])"
)
_BLOCK = re.compile(
    r"```\w*\n(?P<code>.*?)\n```"
    r"|(?P<hashes>#{1,3}) (?P<heading>[^\n]+)"
    r"|(?P<items>- [^\n]*(?:\n- [^\n]*)*)"
    r"|(?P<indented>    [^\n]*(?:\n    [^\n]*)*)"
    r"|(?P<text>[^\n]+(?:\n(?!- |#{1,3} |```)[^\n]+)*)",
    re.DOTALL,
)


def render_description(title: str, card: str) -> str:
    """Render the page of a card. Markdown that no card has is shown as text."""
    blocks = Markup("\n").join(_blocks(card))
    return make_page("regard.explain", "description.html", title=title, blocks=blocks)


def _blocks(card: str) -> Iterator[Markup]:
    for block in _BLOCK.finditer(card):
        if block["heading"]:
            name = f"h{len(block['hashes'])}"
            yield Markup("<{0}>{1}</{0}>").format(
                Markup(name), _inline(block["heading"])
            )
        elif block["items"]:
            items = [line.removeprefix("- ") for line in block["items"].split("\n")]
            shown = Markup("").join(
                Markup("<li>{}</li>").format(_inline(item)) for item in items
            )
            yield Markup("<ul>{}</ul>").format(shown)
        elif block["text"]:
            yield Markup("<p>{}</p>").format(_inline(block["text"]))
        else:
            code = block["code"] or re.sub("(?m)^    ", "", block["indented"])
            yield Markup("<pre>{}</pre>").format(code)


def _inline(text: str) -> Markup:
    """Return a text with its code, links, emphasis and escaped characters as HTML."""
    parts = []
    end = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[end : match.start()]))
        parts.append(_element(match))
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _element(match: re.Match[str]) -> Markup:
    if match["code"]:
        return Markup("<code>{}</code>").format(match["code"].strip())
    if match["label"]:
        return Markup('<a href="{}">{}</a>').format(match["address"], match["label"])
    if match["strong"]:
        return Markup("<strong>{}</strong>").format(_inline(match["strong"]))
    return escape(match["literal"])
