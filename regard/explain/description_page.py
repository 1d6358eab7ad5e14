"""Page that describes a model, for models that no browser runs: its card as HTML."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markupsafe import Markup

from regard.visualisation.template import make_page


def render_description(title: str, card: str) -> str:
    """Render the page of a card. HTML is shown as text, and images become links, as nothing is
    fetched.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).disable("image")
    blocks = Markup(markdown.render(card))
    return make_page("regard.explain", "description.html", title=title, blocks=blocks)
