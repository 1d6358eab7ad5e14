"""Program that supervises a server; `regard serve` replaces its own process by it (`exec`).

Otherwise the supervisor would keep the memory of the library that parses the options, which is most
of the memory of the command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Serve with arguments that are read from an open file descriptor, and end like the command
    line.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    number, _, *command = sys.argv[1:]
    try:
        # Signals have been blocked since before the exec; pending ones are delivered now.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        from regard.serving.supervisor import serve

        with os.fdopen(int(number)) as file:
            arguments = json.load(file)
        is_quiet = arguments["configuration"]["quiet"]
        serve(**arguments, say=_say_nothing if is_quiet else _say)
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as problem:
        from regard.cli.app import begin, end

        begin(command)
        end(problem)


def _say(line: str) -> None:
    with suppress(OSError):  # standard error may be closed
        print(line, file=sys.stderr, flush=True)


def _say_nothing(_: str) -> None:
    pass
