"""The command line `regard`: entry point, exit statuses and error messages.

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from regard.cli.request_options import described_fields, parse_request
from regard.cli.search_options import GIVEN, SearchCommand
from regard.common.errors import MissingExtra, RegardError, UsageError
from regard.common.lazy import TRAINING_PACKAGES
from regard.common.plugins import import_named, plugin_failure
from regard.common.requests import Option
from regard.common.version import __version__
from regard.requests.shared_fields import Seed, ThreadCount

F = TypeVar("F", bound=Callable[..., object])


def _shared_options(
    threads: ThreadCount = None,
    seed: Seed = None,
    quiet: Annotated[bool, Option("Print only results and errors.")] = False,
    debug: Annotated[bool, Option("Print the traceback of an error.")] = False,
    plugin: Annotated[
        tuple[str, ...],
        Option(
            "A plug-in to import: an installed module, or ./FILE.py; may be repeated.",
            is_repeated=True,
        ),
    ] = (),
) -> None:
    """Declare the options that commands share."""


_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
)
_SHARED = {field.name: field.parameter() for field in described_fields(_shared_options)}


class App(typer.Typer):
    """A typer application whose commands share options, and refuse URLs in the place of paths.

    `pathlib` would take s3://bucket for a folder named "s3:".
    """

    def command(
        self,
        *arguments: Any,
        request: type | None = None,
        sets: Sequence[str] = (),
        search: type[SearchCommand] | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Register a command with --quiet, --debug, --plugin, and the options of `sets` ("threads",
        "seed").

        They are applied to the process before the function of the command runs. If there is a
        `request`, its fields are the other options, and the function receives the request alone;
        otherwise the parameters of the function are options. The values of `search` options are
        the field `search` of the request.
        """
        if search is not None:
            options["cls"] = search
        register = super().command(*arguments, **options)

        def add(function: F) -> F:
            register(_as_command(function, request, sets))
            return function

        return add


def _as_command(
    function: Callable[..., object], request: type | None, sets: Sequence[str]
) -> Callable[..., object]:
    """Return the function that typer calls with the values of all options of a command."""
    described = described_fields(request or function)
    declared = {field.name: field.parameter() for field in described}

    @wraps(function)
    def run(context: typer.Context, **values: Any) -> object:
        _refuse_addresses(values)
        setup_process(values["quiet"], values["debug"])
        threads = values["threads"] if "threads" in sets else None
        seed = values["seed"] if "seed" in sets else None
        import_named(values["plugin"] or ())
        setup_torch(threads, seed)

        if request is None:
            return function(**{name: values[name] for name in declared})
        if GIVEN in context.meta:
            values["search"] = context.meta[GIVEN]
        return function(parse_request(request, values))

    shared = [_SHARED[name] for name in sets if name not in declared]
    process = [_SHARED["quiet"], _SHARED["debug"], _SHARED["plugin"]]
    parameters = [_CONTEXT, *declared.values(), *shared, *process]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def _refuse_addresses(values: Mapping[str, object]) -> None:
    """Raise UsageError, with all causes, for paths that are URLs."""
    items = list[object]()
    for value in values.values():
        items += value if isinstance(value, list) else [value]
    paths = [str(item) for item in items if isinstance(item, Path)]
    addresses = [
        path.replace(":/", "://", 1)
        for path in paths
        if re.match(r"[A-Za-z][\w+.-]+:/", path)
    ]
    why = "an address, where a path of this machine is wanted; only data files are read by address"
    UsageError.raise_all(f"{address}: {why}" for address in addresses)


app = App(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Sequence-to-sequence learning with attention that you can see.",
)


@dataclass
class _Invocation:
    """The running command: its arguments, and its options that concern all output."""

    arguments: tuple[str, ...] = ()
    quiet: bool = False
    debug: bool = False


_invocation = _Invocation()
_ARGUMENT = re.compile(r"`([a-z_]+(?:\.[a-z_0-9]+)*)(?:=([^`]*))?`")
# Click's UsageError, which typer may have vendored.
_Misuse: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    del version


def is_quiet() -> bool:
    """Return whether only results and errors are printed (`--quiet`)."""
    return _invocation.quiet


def say(*lines: str) -> None:
    """Print lines that are not results to stderr, unless `--quiet` is given."""
    if not is_quiet():
        for line in lines:
            with suppress(OSError):  # a closed stderr must not stop the work
                print(in_flags(line), file=sys.stderr, flush=True)


def warn(*messages: str | None) -> None:
    """Print warnings to stderr, unless `--quiet` is given; None is ignored."""
    say(*(f"warning: {message}" for message in messages if message is not None))


def in_flags(text: str, flags: Mapping[str, str] | None = None) -> str:
    """Replace arguments that a message names by options of the command: `resume=True` by --resume.

    A setting with a dot becomes --set. A parameter without an option stays unchanged.
    """

    def option(match: re.Match[str]) -> str:
        options = flags_of(_invocation.arguments) if flags is None else flags
        name = match[1]
        value = match[2] or ""
        if "." in name:
            if value and "set" in options:
                return f"{options['set']} {name}={value}"
            return match[0].strip("`")
        if name not in options:
            return match[0]
        if value in ("", "True"):
            return options[name]
        if value == "False":
            return f"--no-{options[name].removeprefix('--')}"
        return f"{options[name]} {value}"

    return _ARGUMENT.sub(option, text)


@cache
def flags_of(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return the options of the command that `arguments` call, by parameter name."""
    command = _command()
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    params = [*command.params, *getattr(command, "search_params", ())]
    flags = dict[str, str]()
    for param in params:
        flag = param.opts[0]
        if flag.startswith("--"):
            # A field of a request may have an option of another name: `settings` has --set.
            flags[flag.removeprefix("--").replace("-", "_")] = flag
            flags[param.name.rstrip("_")] = flag
    return flags


def setup_process(quiet: bool, debug: bool) -> None:
    """Set verbosity, warnings and the encoding of stdout. Every command calls this first."""
    is_main_process = os.environ.get("RANK", "0") == "0"  # torchrun starts several
    _invocation.quiet = quiet or not is_main_process
    _invocation.debug = debug
    warnings.showwarning = lambda message, *_: warn(str(message))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another class
        # File names may contain bytes that are not UTF-8; they are written unchanged.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")


def setup_torch(threads: int | None, seed: int | None) -> None:
    """Set the threads and the seed of PyTorch, which is imported only if one of them is given."""
    if threads is None and seed is None:
        return
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if seed is not None:
        torch.manual_seed(seed)


def begin(arguments: Sequence[str]) -> None:
    """Store the arguments of the command that runs, since messages name its options."""
    _invocation.arguments = tuple(arguments)
    _invocation.quiet = False
    _invocation.debug = "--debug" in arguments


@cache
def _command() -> Any:
    """Return the command with its subcommands."""
    return typer.main.get_command(app)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit.

    Exit statuses: 0 success, 1 failure, 2 misuse, 130 Ctrl-C, 143 SIGTERM.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    begin(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        command = _command()
        with command.make_context("regard", arguments or ["--help"]) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (Exception, KeyboardInterrupt) as problem:
        end(problem)
    sys.exit(0)


def end(problem: BaseException) -> NoReturn:
    """Print an error, one sentence for each cause, and exit with its status."""
    status, causes = _status_and_causes(problem)
    with suppress(OSError):
        if _invocation.debug and causes:
            traceback.print_exc()
        print(
            *(f"regard: {in_flags(cause)}\n" for cause in causes),
            sep="",
            end="",
            file=sys.stderr,
        )
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Otherwise Python would flush again at its end and report the error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)


def _status_and_causes(problem: BaseException) -> tuple[int, tuple[str, ...]]:
    """Return the exit status of an exception, and one sentence for each of its causes."""
    if isinstance(problem, BrokenPipeError):
        return 1, ()
    if isinstance(problem, RegardError):
        return problem.exit_status, problem.causes
    if isinstance(problem, _Misuse):
        return 2, (_misuse(problem),)
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return 130, ("stopped",)
    if isinstance(problem, ModuleNotFoundError) and problem.name in TRAINING_PACKAGES:
        return 1, (str(MissingExtra(problem.name, "train", "this command")),)
    if isinstance(problem, OSError) and problem.strerror:
        path = f"{problem.filename}: " if problem.filename else ""
        return 1, (
            f"{path}{problem.strerror}; check the path, its permissions and the free disk space",
        )
    if (
        isinstance(problem, UnicodeEncodeError)
        and "\udc80" <= problem.object[problem.start] <= "\udcff"
    ):
        name = problem.object[: problem.end].split("\n")[-1][-60:]
        return 2, (
            f"{name}…: a name that is not UTF-8 cannot be written or shown here; rename the file "
            "or folder",
        )
    if (
        isinstance(problem, MemoryError)
        or "can't allocate memory" in str(problem)
        or "bad_alloc" in str(problem)
    ):
        return 1, (
            "there is not enough memory; lower `batching.tokens` or the beam, or give a smaller "
            "input",
        )
    if failure := plugin_failure(problem):
        return 1, (failure,)
    name = type(problem).__name__
    return 1, (
        f"internal error ({name}: {problem}); run again with --debug for the traceback, and "
        "report it",
    )


def _misuse(problem: Any) -> str:
    """Return typer's message about a wrong command line as one sentence in our format."""
    message = problem.format_message().replace("Value error, ", "")
    message = " ".join(message.split()).rstrip(".")
    command = problem.ctx.command_path if problem.ctx else "regard"
    return f"{message[:1].lower()}{message[1:]} – see `{command} --help`"
