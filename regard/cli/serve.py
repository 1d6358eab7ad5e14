"""regard serve: translate and caption over HTTP; regard keys: make, list and revoke keys."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pydantic
import typer

from regard.cli import options
from regard.cli.app import App, app, is_quiet, say, warn
from regard.common.errors import MissingExtra, UsageError
from regard.common.lazy import needs_extra
from regard.common.processes import module_command
from regard.common.requests import Option
from regard.requests.serve_request import ServeCommand
from regard.requests.server_settings import LOOPBACK, ServerSettings

EXTRA = (
    "fastapi",
    "uvicorn",
    "prometheus_client",
    "python_multipart",
    "msgspec",
    "jinja2",
)
PACKAGES = (*EXTRA, "multipart", "starlette", "h11")


@app.command(request=ServeCommand)
def serve(command: ServeCommand) -> None:
    """Translate and caption over HTTP, for LibreTranslate's and DeepL's clients and for programs of
    your own.

    The server loads changed models while it runs (also at SIGHUP). At SIGTERM and Ctrl-C it
    finishes open requests first. The bearer token of /metrics is read from the environment variable
    REGARD_METRICS_TOKEN.
    """
    if command.host not in LOOPBACK and not command.require_key:
        warn(
            f"anybody who reaches {command.host} may use this server; `require_key=True` asks for "
            "keys"
        )
    if command.cluster is not None:
        _serve_on_cluster(command, command.cluster)
    elif command.replicas > 1 or command.max_replicas is not None:
        raise UsageError("--replicas, --max-replicas: only with --cluster")
    else:
        _serve_here(command)


def server_settings(command: ServeCommand) -> ServerSettings:
    """Return the settings of the server, with those that depend on the machine."""
    values = command.model_dump(include={*ServerSettings.model_fields})
    if "hosts" not in command.model_fields_set:
        values["hosts"] = _host_names(command.host)
    if command.cluster is not None:
        values["threads"] = command.threads or 1
    values["keep"] = options.kept_patterns(command.keep)
    values["metrics_token"] = os.environ.get("REGARD_METRICS_TOKEN", "")
    return ServerSettings.parse(values, "regard serve")


def _serve_here(command: ServeCommand) -> None:
    """Supervise the serving processes, which alone import the packages of the extra.

    Except on Windows, `exec` replaces this process by `regard.supervise`, which is smaller, because
    it does not import typer.
    """
    for package in EXTRA:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve", "the server")
    configuration = {
        "models": list(map(str, command.models)),
        "languages": command.languages,
        "settings": server_settings(command).model_dump(mode="json"),
        "quiet": is_quiet(),
    }
    max_memory = _size(command.max_memory or "0")
    if os.name == "nt":
        from regard.serving.supervisor import serve

        serve(configuration, command.host, command.port, say, max_memory)
        return
    arguments = {
        "configuration": configuration,
        "host": command.host,
        "port": command.port,
        "max_memory": max_memory,
    }
    # The arguments contain a token, and other users can read a command line, so a file passes them.
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(arguments).encode())
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        # Signals are blocked until the new program has installed its handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        program = module_command(
            "regard.supervise", str(file.fileno()), "regard", *sys.argv[1:]
        )
        os.execv(program[0], program)


def _size(text: str) -> int:
    """Parse a size such as 2GB or 500MiB, and return its bytes. Raises UsageError."""
    try:
        return pydantic.TypeAdapter(pydantic.ByteSize).validate_python(text)
    except pydantic.ValidationError:
        raise UsageError(
            f"--max-memory {text}: wanted a size such as 2GB or 500MiB"
        ) from None


def _serve_on_cluster(command: ServeCommand, cluster: str) -> None:
    with needs_extra("serve", "the server", PACKAGES):
        from regard.serving.cluster.ray_serve import (
            ClusterServer,
            Replicas,
            serve_on_cluster,
        )
        from regard.serving.serving_process import parse_pairs

    most = command.max_replicas or command.replicas
    if most < command.replicas:
        raise UsageError(
            f"--max-replicas {most}: wanted at least {command.replicas}, the number of --replicas"
        )
    models = list(command.models)
    settings = server_settings(command)
    pairs, notes = parse_pairs(command.languages, len(models))
    say(*notes)
    server = ClusterServer(
        models,
        pairs,
        command.host,
        command.port,
        settings,
        Replicas(command.replicas, most, (settings.threads or 1) * len(models)),
    )
    serve_on_cluster(cluster, server, say)


keys_app = App(
    add_completion=False, help="API keys of a server, kept as hashes in a file."
)
app.add_typer(keys_app, name="keys")
KeyFileArgument = Annotated[
    Path,
    Option(
        "File of keys, as `regard serve --keys` reads it.",
        is_argument=True,
        is_local=True,
    ),
]
KeyName = Annotated[
    str, Option("Name of the key, such as that of its owner.", is_argument=True)
]


@keys_app.command("add")
def add(file: KeyFileArgument, name: KeyName) -> None:
    """Make a key, add its hash to the file, and print the key, this once."""
    from regard.serving.keys import add_key

    typer.echo(add_key(file, name))


@keys_app.command("list")
def list_(file: KeyFileArgument) -> None:
    """Print names and dates of the keys."""
    from regard.serving.keys import list_keys

    for key in list_keys(file):
        typer.echo(f"{key.name}\t{key.created}")


@keys_app.command("revoke")
def revoke(file: KeyFileArgument, name: KeyName) -> None:
    """Take a key out of the file; a server that runs notices."""
    from regard.serving.keys import revoke_key

    revoke_key(file, name)


def _host_names(host: str) -> list[str]:
    """Return the default host names of a server that listens at an address.

    If it listens at all addresses, the name of the machine is one of them.
    """
    import socket

    name = socket.gethostname() if host in ("0.0.0.0", "::", "") else host
    return list(dict.fromkeys([*LOOPBACK, name]))
