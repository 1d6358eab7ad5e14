"""Weblate's own classes against the server: its forms accept it, and placeholders come back
(integrations/weblate.py).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "integrations" / "check_weblate.py"


@pytest.mark.slow
def test_the_forms_of_weblate_accept_the_server(
    serve: Callable[..., str], tmp_path: Path
) -> None:
    python = os.environ.get("REGARD_WEBLATE")
    if python is None:
        pytest.skip(
            "Weblate has an environment of its own: REGARD_WEBLATE is not set to its Python (docs/weblate.md)"
        )
    strings = tmp_path / "strings.txt"
    text = "Open %s now\nno placeholder\nOpen {name} & close <b>it</b>\n"
    strings.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [python, str(SCRIPT), serve(), "en", "ko", str(strings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr

    accepted = r"^(\w+): its form accepts the server; supported: True"
    services = re.findall(accepted, done.stdout, re.MULTILINE)
    assert services == ["LibreTranslate", "DeepL", "Regard"]
    assert done.stdout.count("placeholders kept in 2 of 2\n") == 2
