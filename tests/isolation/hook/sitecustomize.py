"""Audit hook of every Python process below a watched one: notes in $REGARD_WATCH what could execute
or send something.

Python imports a module of this name at its start. Lines are event, tab, path or name, as those of
interposer.c, which sees what other languages open; without it (no compiler) the files that Python
opens are noted here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

NAMES = {
    "socket.connect": "connect",
    "socket.bind": "bind",
    "socket.sendto": "send",
    "socket.getaddrinfo": "lookup",
    "socket.gethostbyname": "lookup",
}
"""What is noted of the events of sockets."""
_SEEN: set[tuple[str, str]] = set()


def _note(event: str, what: object) -> None:
    line = f"{event}\t{what}\n"
    log = os.environ.get("REGARD_WATCH", os.devnull)
    if (line, log) not in _SEEN:
        _SEEN.add((line, log))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(handle, line.encode("utf-8", "surrogateescape"))
        os.close(handle)


def _path(path: object) -> str:
    """Return the absolute path of an argument; empty for a file descriptor."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    return os.path.join(os.getcwd(), os.fsdecode(path))


def _opened(path: object, mode: object, flags: object) -> None:
    if (text := _path(path)) and text != os.environ.get("REGARD_WATCH"):
        writes = "r" not in str(mode)
        if isinstance(flags, int):
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        _note("write" if writes else "read", text)


def _listed(path: object = None) -> None:
    if path is None or (text := _path(path)):
        _note("list", os.getcwd() if path is None else text)


def _executed(code: object) -> None:
    """Note from which file code is executed; pseudo files such as <string> are made by code that
    was noted before.
    """
    name = getattr(code, "co_filename", "<string>")
    if not name.startswith("<"):
        _note("execute", _path(name))


def _unmarshalled(*_: object) -> None:
    frame = sys._getframe(2)
    if not frame.f_code.co_filename.startswith("<frozen importlib"):
        _note("unmarshal", frame.f_code.co_filename)


def _started(executable: object, *_: object) -> None:
    if isinstance(executable, (str, bytes, os.PathLike)):
        executable = os.fsdecode(executable)
    _note("start", executable)


def _addressed(name: str) -> Callable[..., None]:
    def note(*arguments: Any) -> None:
        address = arguments[0] if name == "lookup" else arguments[1]
        if isinstance(address, tuple):
            address = address[0]
        elif name != "lookup":
            address = f"unix:{address!r}"
        _note(name, address)

    return note


EVENTS: dict[str, Callable[..., None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "pickle.find_class": lambda module, name: _note("unpickle", f"{module}.{name}"),
    "marshal.loads": _unmarshalled,
    "marshal.load": _unmarshalled,
    "exec": _executed,
    "ctypes.dlopen": lambda name: name and _note("library", os.fsdecode(name)),
    "subprocess.Popen": _started,
    "os.exec": _started,
    "os.posix_spawn": _started,
    "os.system": _started,
    **{event: _addressed(name) for event, name in NAMES.items()},
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if (handle := EVENTS.get(event)) is not None:
        handle(*arguments)


if "REGARD_WATCH" in os.environ:
    # Torchrun has started it; what torchrun itself does is noted elsewhere.
    if "RANK" in os.environ:
        os.environ["REGARD_WATCH"] += "-worker"
    sys.addaudithook(_audit)
