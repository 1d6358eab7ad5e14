"""Placeholders, tags and addresses of a text, which its translation has as well."""

from __future__ import annotations

import re

from regard.data.spans import find_spans

PLACEHOLDERS = ("placeholder", "message", "token", "tag", "address")
"""Kinds of spans that a translation has as its source has them."""
_MAY_HAVE_PLACEHOLDERS = re.compile(r"[{%$#@<\[_]|:[^\s\d]|\.[A-Za-z]|[^\0-\uffff]")
"""Signs of which each of them has one."""


def placeholders(text: str) -> list[str]:
    """Return what a program replaces in a text, its tags and addresses."""
    if not _MAY_HAVE_PLACEHOLDERS.search(text):
        return []
    return [
        text[span.start : span.end]
        for span in find_spans(text)
        if span.kind in PLACEHOLDERS
    ]


def without_placeholders(text: str) -> str:
    """Return a text with spaces in their place."""
    for span in placeholders(text):
        text = text.replace(span, " ")
    return text
