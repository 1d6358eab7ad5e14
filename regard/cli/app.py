"""The command `regard`: one file for each command, errors as sentences, results on stdout and all else on stderr."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Annotated, Any

import typer

import regard
from regard.errors import RegardError

__all__ = ["app", "main", "say"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn to turn one sequence into another, with attention that you can see.",
)

_LEVEL = {"quiet": False, "debug": False}


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"regard {regard.__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    del version


def say(*lines: str) -> None:
    """Tell the user something that is not a result."""
    if not _LEVEL["quiet"]:
        for line in lines:
            print(line, file=sys.stderr, flush=True)


def prepare(threads: int | None, quiet: bool, debug: bool, seed: int | None = None) -> None:
    """What every command does first."""
    _LEVEL.update(quiet=quiet, debug=debug)
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    if threads is None and seed is None:
        return
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if seed is not None:
        torch.manual_seed(seed)


def main(arguments: list[str] | None = None) -> Any:
    """Run a command. Exit status: 0 done, 1 failed, 2 misuse, 130 after Ctrl-C, 143 after SIGTERM."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return app(arguments, prog_name="regard")
    except RegardError as problem:
        if debug:
            raise
        print(*(f"regard: {cause}" for cause in problem.causes), sep="\n", file=sys.stderr)
        sys.exit(problem.exit_status)
    except KeyboardInterrupt:
        print("regard: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as problem:
        if debug:
            raise
        name = type(problem).__name__
        print(f"regard: an error that should not happen ({name}: {problem}); run again with --debug", file=sys.stderr)
        sys.exit(1)


def _terminate(number: int, frame: Any) -> None:  # noqa: ARG001
    sys.exit(128 + number)
