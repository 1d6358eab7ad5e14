"""Payloads: contents of files that create a folder, their marker, when they are executed; harmless
otherwise.
"""

from __future__ import annotations

import io
import marshal
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

MARKER = "marker"


class Payload:
    """Object whose pickle creates a folder when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.marker),)

    @property
    def source(self) -> str:
        """Python that does the same."""
        return f"import os\nos.mkdir({str(self.marker)!r})\n"


def _array(payload: Payload) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([payload], dtype=object), allow_pickle=True)
    return file.getvalue()


def _torch(payload: Payload, zipped: bool) -> bytes:
    file = io.BytesIO()
    torch.save({"weight": payload}, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def _zip(payload: Payload) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("__main__.py", payload.source)
        archive.writestr("data.pkl", pickle.dumps(payload))
    return file.getvalue()


FORMS: dict[str, Callable[[Payload], bytes]] = {
    "pickle": pickle.dumps,
    "torch": lambda payload: _torch(payload, True),
    "old torch": lambda payload: _torch(payload, False),
    "numpy": _array,
    "zip": _zip,
    "marshal": lambda payload: marshal.dumps(
        compile(payload.source, "payload", "exec")
    ),
    "source": lambda payload: payload.source.encode(),
}
ALL_FORMS = [
    pytest.param([*FORMS], id="in turn"),
    *(pytest.param([form], id=form, marks=pytest.mark.slow) for form in FORMS),
]
"""Parameters of a test of many files: each holds one of the forms in turn, or all hold the same
form.
"""
