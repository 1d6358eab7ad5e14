"""Calls of Python functions, counted: what noise cannot hide when a path through the package
becomes longer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
"""Functions without a name: Python 3.12 and newer do without some of them."""
MODULE = "<module>"


class Counts(NamedTuple):
    """Calls of named functions of the package, those of dataclasses included, and of C functions
    from its code.
    """

    python: int
    c: int


def count_calls(call: Callable[[], object]) -> Counts:
    """Count what a call calls, in this thread and in those that it starts; what runs during an
    import aside.
    """
    counted = {"call": 0, "c_call": 0}
    importing = list[CodeType]()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == MODULE:
            if event == "call":
                importing.append(code)
            elif event == "return":
                importing.pop()
        elif (
            event in counted
            and not importing
            and frame.f_globals["__name__"].partition(".")[0] == "regard"
        ):
            counted[event] += event == "c_call" or code.co_name not in COMPREHENSIONS

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Counts(counted["call"], counted["c_call"])
