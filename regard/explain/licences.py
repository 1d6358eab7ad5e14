"""Texts and names of common licences."""

from __future__ import annotations

import re
from importlib import resources

_CHANGED_IDS = {
    f"{family}-{kind}": family.lower()
    for family in ("AGPL-3.0", "GPL-2.0", "GPL-3.0", "LGPL-2.1", "LGPL-3.0")
    for kind in ("only", "or-later")
} | {"ODbL-1.0": "odbl"}
"""Licences whose names on Hugging Face are not those of SPDX in lower case."""
_SAME_IDS = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-SA-3.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "EUPL-1.2",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unlicense",
}
_HOLDERS = "<year> <copyright holders>"


def licence_text(licence: str, author: str) -> str:
    """Return the text of a licence; empty if Regard does not have it.

    A text that names who grants it has the author there; without an author there is no text.
    """
    file = resources.files("regard.explain").joinpath("assets/licences")
    path = file.joinpath(f"{licence}.txt")
    text = path.read_text("utf-8") if path.is_file() else ""
    if _HOLDERS in text and not author:
        return ""
    return text.replace(_HOLDERS, author)


def licence_address(licence: str) -> str:
    """Return the address at which a licence can be read; empty for one of one's own, and for
    several.
    """
    if not re.fullmatch(r"[\w.-]+", licence) or licence.startswith("LicenseRef-"):
        return ""
    return f"https://spdx.org/licenses/{licence}.html"


def licence_on_hugging_face(licence: str) -> str:
    """Return the name of a licence in the metadata of a card; "other" if it has none there."""
    if licence in _SAME_IDS:
        return licence.lower()
    return _CHANGED_IDS.get(licence, "other")
