"""The source of the program, offered for download where pages say how to install it, if git is
there to pack it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NAME = "_static/regard.tar.gz"
MARK = re.compile(r"<!-- source -->(.*?)<!-- end -->", re.DOTALL)
"""The sentence of a page for readers of a site without the archive."""
OFFER = {
    "en": "The source comes with this site: {link}.",
    "ko": "소스는 이 사이트에 있습니다: {link}.",
}


def commit() -> str:
    """Return the commit that is checked out, in short; "" outside of a repository of git, or
    without git.
    """
    try:
        command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        top = subprocess.run(
            [*command[:3], "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            check=True,
        )
        # Not a repository around an unpacked archive.
        is_own = Path(top.stdout.strip()).resolve() == ROOT.resolve()
        return (
            subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
            if is_own
            else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


def offer(app: Any, docname: str, source: list[str]) -> None:
    """Put a link to the archive in place of the sentence that says whom to ask, where there is
    one.
    """
    if MARK.search(source[0]) and (name := commit()):
        href = "../" * docname.count("/") + NAME
        link = f'<a href="{href}" download>regard.tar.gz</a> (commit {name})'
        source[0] = MARK.sub(
            OFFER["ko" if docname.startswith("ko/") else "en"].format(link=link),
            source[0],
        )


def write(app: Any, exception: Exception | None) -> None:
    """Pack what is committed, without local changes."""
    if exception is None and app.builder.name == "html" and commit():
        path = Path(app.outdir) / NAME
        command = [
            "git",
            "-C",
            str(ROOT),
            "archive",
            "--format=tar.gz",
            "--prefix=regard/",
            "-o",
            str(path),
            "HEAD",
        ]
        subprocess.run(command, check=True)
