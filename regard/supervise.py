"""Supervise a server: what `regard serve` becomes once it has read its options, in the same
process, begun anew.

The library that reads options is most of the memory of the command, and would stay as long as the
server runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Serve with the arguments in a file that is given by its number; then end as the command line
    does.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    number, _, *command = sys.argv[1:]
    try:
        # Those that came meanwhile wait for this.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        from regard.serving.supervisor import serve

        with os.fdopen(int(number)) as file:
            arguments = json.load(file)
        serve(**arguments, say=_hush if arguments["configuration"]["quiet"] else _say)
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as problem:
        from regard.cli.app import begin, end

        begin(command)
        end(problem)


def _say(line: str) -> None:
    with suppress(OSError):  # what nobody reads any more stops no work
        print(line, file=sys.stderr, flush=True)


def _hush(_: str) -> None:
    pass
