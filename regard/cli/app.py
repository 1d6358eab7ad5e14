"""The command `regard`: one file for each command, errors as sentences, results on stdout and all else on stderr."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

import typer

import regard
from regard.errors import RegardError

__all__ = ["app", "flags_of", "in_flags", "main", "quiet", "say", "setup_process"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn to turn one sequence into another, with attention that you can see.",
)

_LEVEL = {"quiet": False, "debug": False}
_FLAGS: dict[str, str] = {}  # option of the running command by the name of its parameter
_ARGUMENT = re.compile(r"`([a-z_]+(?:\.[a-z_0-9]+)*)(?:=([^`]*))?`")
_Misuse: type[Exception] = typer.BadParameter.__mro__[1]  # click's UsageError, wherever this typer keeps it


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"regard {regard.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _everywhere(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    del version


def quiet() -> bool:
    """Whether results and errors are all that is wanted."""
    return _LEVEL["quiet"]


def say(*lines: str) -> None:
    """Tell the user something that is not a result."""
    if not quiet():
        for line in lines:
            print(in_flags(line), file=sys.stderr, flush=True)


def in_flags(text: str, flags: Mapping[str, str] = _FLAGS) -> str:
    """Word Python arguments and settings of a message as options of the running command: `resume=True` is --resume.

    A parameter without an option of its own stays as it is; a dotted setting goes to --set.
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or ""
        if "." in name:
            return f"{flags['set']} {name}={value}" if value and "set" in flags else match[0].strip("`")
        if name not in flags:
            return match[0]
        return flags[name] if value in ("", "True") else f"{flags[name]} {value}"

    return _ARGUMENT.sub(option, text)


def flags_of(arguments: Sequence[str]) -> dict[str, str]:
    """The options of the command that these arguments call, by parameter name."""
    command: Any = typer.main.get_command(app)
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    return {
        parameter.name.rstrip("_"): parameter.opts[0] for parameter in command.params if parameter.opts[0][:2] == "--"
    }


def setup_process(threads: int | None, quiet: bool, debug: bool, seed: int | None = None) -> None:
    """What every command does first."""
    _LEVEL.update(quiet=quiet, debug=debug)
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook's is not
        # A file name may hold bytes that are no UTF-8: it is written as it is.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    if threads is None and seed is None:
        return
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if seed is not None:
        torch.manual_seed(seed)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command. Exit status: 0 done, 1 failed, 2 misuse, 130 after Ctrl-C, 143 after SIGTERM."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _LEVEL.update(quiet=False, debug="--debug" in arguments)
    signal.signal(signal.SIGTERM, _terminate)
    _FLAGS.clear()
    _FLAGS.update(flags_of(arguments))
    try:
        with typer.main.get_command(app).make_context("regard", arguments or ["--help"]) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as problem:
        if _LEVEL["debug"]:
            traceback.print_exc()
        status, causes = _explained(problem)
        print(*(f"regard: {in_flags(cause)}" for cause in causes), sep="\n", file=sys.stderr)
        sys.exit(status)
    sys.exit(0)


def _explained(problem: BaseException) -> tuple[int, tuple[str, ...]]:
    """The exit status, and a sentence for each cause."""
    if isinstance(problem, RegardError):
        return problem.exit_status, problem.causes
    if isinstance(problem, _Misuse):
        return 2, (_misuse(problem),)
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return 130, ("stopped",)
    if isinstance(problem, OSError) and problem.strerror:
        where = f"{problem.filename}: " if problem.filename else ""
        return 1, (f"{where}{problem.strerror}; check the path, its permissions and the room on the disk",)
    name = type(problem).__name__
    return 1, (f"an error that should not happen ({name}: {problem}); run again with --debug to see where",)


def _misuse(problem: Any) -> str:
    """What typer says of a wrong command line, as one sentence of ours."""
    said = " ".join(problem.format_message().replace("Value error, ", "").split()).rstrip(".")
    command = problem.ctx.command_path if problem.ctx else "regard"
    return f"{said[:1].lower()}{said[1:]} – `{command} --help` says what can be given"


def _terminate(number: int, frame: Any) -> None:  # noqa: ARG001
    sys.exit(128 + number)
