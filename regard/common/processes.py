"""Commands that start Python processes which import nothing from the folder that they are started in; peak memory."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])  # which need not be on the path of Python, if it is this process's folder


def module_command(module: str, *arguments: str, call: str = "main()") -> list[str]:
    """Return the command that calls a function of a module; unlike `python -m`, it imports nothing from this folder.

    That folder is taken off the path before any import, as by the option -P, which Python 3.10 lacks.
    """
    path = f"import sys; sys.path[:] = [*filter(None, sys.path), {_ROOT!r}]"
    code = f"{path}; from {module} import {call.partition('(')[0]}; sys.exit({call})"
    return [sys.executable, "-c", code, *arguments]


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB; None on Windows, which does not keep it."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
