"""Engine process: one model, run apart from the server, which sends it calls and gets results by their numbers.

It ends when its standard input does, so it never outlives the server; signals of the terminal are the server's.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from regard.common.reading import is_runtime_file
from regard.serving.frames import Replies, error_message, read_frames

if TYPE_CHECKING:
    from regard.serving.pytorch_engine import PyTorchEngine
    from regard.serving.runtime_engine import RuntimeEngine


def serve_calls(model: RuntimeEngine | PyTorchEngine, calls: BinaryIO, reply: Replies) -> None:
    """Take calls until there are no more."""
    for message in read_frames(calls):
        number = message["number"]
        if message["call"] == "cancel":
            model.cancel(number)
            continue
        try:
            if message["call"] == "check":
                model.check()
                reply({"number": number})
            else:
                model.submit(number, message)
        except Exception as problem:  # the others' calls go on
            model.cancel(number)
            reply.fail(number, problem)


def open_model(
    path: Path, precision: str, threads: int, most_bytes: int, reply: Replies, languages: Sequence[str]
) -> RuntimeEngine | PyTorchEngine:
    """Open a runtime file, which needs no PyTorch, or a model folder, which does.

    `languages`: codes of source and target under which the model is served; none: its own.
    """
    if is_runtime_file(path):
        from regard.serving.runtime_engine import RuntimeEngine

        return RuntimeEngine(path, threads, most_bytes, reply, languages)
    from regard.serving.pytorch_engine import PyTorchEngine

    return PyTorchEngine(path, precision, threads, most_bytes, reply, languages)


def main() -> None:
    """Open the model that the arguments name, say that it is ready, or why not, and take calls."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    path, precision, most_bytes, names, threads = sys.argv[1:]
    languages = names.split(",") if names else ()
    sys.setswitchinterval(0.0005)  # a thread that computes lets others wait no longer
    calls, reply = _standard_streams()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = open_model(Path(path), precision, int(threads), int(most_bytes), reply, languages)
        reply({"ready": model.about(), "warnings": [str(warning.message) for warning in caught]})
    except Exception as problem:  # whatever it is, the server has to know why there is no model
        reply({"error": error_message(problem)})
        sys.exit(1)
    warnings.simplefilter("ignore")
    gc.freeze()  # as in the server
    serve_calls(model, calls, reply)
    os._exit(0)  # threads may be in the middle of a sentence that nobody waits for


def _standard_streams() -> tuple[BinaryIO, Replies]:
    """Return input and output; whatever else is printed goes to standard error and cannot get between messages."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, Replies(output)


if __name__ == "__main__":
    main()
