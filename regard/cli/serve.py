"""regard serve: translate and caption over HTTP; regard keys: make, list and revoke keys."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import typer

from regard.cli import options
from regard.cli.app import app, is_quiet, say, setup_process, warn
from regard.common.errors import MissingExtra, UsageError
from regard.common.lazy import needs_extra
from regard.common.processes import module_command
from regard.runtime.model import available_cores

EXTRA = (
    "fastapi",
    "uvicorn",
    "prometheus_client",
    "python_multipart",
    "msgspec",
    "jinja2",
)
PACKAGES = (*EXTRA, "multipart", "starlette", "h11")

ModelLanguages = Annotated[
    list[str] | None,
    typer.Option(
        help="Languages of a model, such as ko,en; once for each model, in their order."
    ),
]
FolderPrecision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option(
        help="Precision of the weights of folders; a runtime file has its own."
    ),
]
CorsOrigins = Annotated[
    list[str] | None,
    typer.Option(help="Origin whose pages may call; may be repeated; '*': all."),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Host name by which the server may be called; may be repeated; '*': any."
    ),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        help="Address or network of a proxy whose X-Forwarded-For is believed; may be repeated."
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        help="Serve on a Ray cluster: its HOST:PORT, or local: one on this machine."
    ),
]
LeastReplicas = Annotated[
    int,
    typer.Option(
        min=1, max=1024, help="With --cluster: replicas of the server, at least."
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        help="Memory of a process, such as 2GB or 500MiB, above which another takes its place; "
        "Linux alone."
    ),
]
MostReplicas = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, help="With --cluster: most replicas, as requests need them."
    ),
]


@app.command()
def serve(
    models: Annotated[
        list[Path], typer.Argument(help="Runtime files, model folders or run folders.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0: all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0: one that is free.")
    ] = 5000,
    languages: ModelLanguages = None,
    precision: FolderPrecision = "int8",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
    deadline: Annotated[
        float, typer.Option(help="Seconds that a request may take.")
    ] = 20.0,
    queue: Annotated[
        int, typer.Option(min=1, max=10**7, help="Lines that may wait for a model.")
    ] = 4096,
    char_limit: Annotated[
        int, typer.Option(min=0, help="Most characters of a request; 0: any.")
    ] = 100_000,
    answer_limit: Annotated[
        int, typer.Option(help="Most bytes of attention and the like in an answer.")
    ] = 32_000_000,
    keys: Annotated[
        Path | None, typer.Option(help="File of API keys; see regard keys.")
    ] = None,
    require_key: Annotated[
        bool, typer.Option("--require-key", help="Refuse requests without a key.")
    ] = False,
    requests_per_minute: Annotated[
        int, typer.Option(min=0, help="Limit for each key or address; 0: none.")
    ] = 0,
    characters_per_minute: Annotated[
        int, typer.Option(min=0, help="Limit for each key or address; 0: none.")
    ] = 0,
    keep: options.Keep = None,
    cors: CorsOrigins = None,
    allow_host: HostNames = None,
    trusted_proxy: TrustedProxies = None,
    page: Annotated[
        bool,
        typer.Option("--page/--no-page", help="Send a page that translates, at /."),
    ] = True,
    metrics: Annotated[
        bool,
        typer.Option("--metrics", help="Offer metrics for Prometheus at /metrics."),
    ] = False,
    reload_seconds: Annotated[
        float, typer.Option(min=0, help="Look for changed models so often; 0: never.")
    ] = 2.0,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Write texts to the log, too.")
    ] = False,
    cluster: ClusterAddress = None,
    replicas: LeastReplicas = 1,
    max_replicas: MostReplicas = None,
) -> None:
    """Translate and caption over HTTP, for LibreTranslate's and DeepL's clients and for programs of
    your own.

    The server loads changed models while it runs (also at SIGHUP). At SIGTERM and Ctrl-C it
    finishes open requests first. The bearer token of /metrics is read from the environment variable
    REGARD_METRICS_TOKEN.
    """
    from regard.serving.supervisor import LOOPBACK

    settings = {
        "char_limit": char_limit,
        "answer_limit": answer_limit,
        "deadline": deadline,
        "requests_per_minute": requests_per_minute,
        "characters_per_minute": characters_per_minute,
        "require_key": require_key,
        "page": page,
        "metrics": metrics,
        "log_texts": log_texts,
        "cors_origins": cors or (),
        "hosts": allow_host or _host_names(host),
        "trusted_proxies": trusted_proxy or (),
        "keep": options.kept_patterns(keep or ()),
        "key_file": str(keys or ""),
        "metrics_token": os.environ.get("REGARD_METRICS_TOKEN", ""),
    }
    if host not in LOOPBACK and not require_key:
        warn(
            f"anybody who reaches {host} may use this server; `require_key=True` asks for keys"
        )
    default_threads = 1 if cluster is not None else max(1, available_cores())
    service = {
        "precision": precision,
        "threads": threads or default_threads,
        "most_lines": queue,
        "reload_seconds": reload_seconds,
        "answer_limit": answer_limit,
    }
    configuration = {
        "models": list(map(str, models)),
        "languages": languages or [],
        "settings": settings,
        "service": service,
        "quiet": is_quiet(),
    }
    if cluster is not None:
        _serve_on_cluster(
            cluster, configuration, (host, port), (replicas, max_replicas or replicas)
        )
        return
    if replicas > 1 or max_replicas is not None:
        raise UsageError("--replicas, --max-replicas: only with --cluster")
    _serve_here(configuration, (host, port), _size(max_memory or "0"))


def _serve_here(
    configuration: Mapping[str, Any], address: tuple[str, int], max_memory: int
) -> None:
    """Supervise the serving processes, which alone import the packages of the extra.

    Except on Windows, `exec` replaces this process by `regard.supervise`, which is smaller, because
    it does not import typer.
    """
    for package in EXTRA:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve", "the server")
    if os.name == "nt":
        from regard.serving.supervisor import serve

        serve(configuration, *address, say, max_memory)
        return
    host, port = address
    arguments = {
        "configuration": configuration,
        "host": host,
        "port": port,
        "max_memory": max_memory,
    }
    # The arguments contain a token, and other users can read a command line, so a file passes them.
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(arguments).encode())
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        # Signals are blocked until the new program has installed its handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        command = module_command(
            "regard.supervise", str(file.fileno()), "regard", *sys.argv[1:]
        )
        os.execv(command[0], command)


def _size(text: str) -> int:
    """Parse a size such as 2GB or 500MiB, and return its bytes. Raises UsageError."""
    try:
        return pydantic.TypeAdapter(pydantic.ByteSize).validate_python(text)
    except pydantic.ValidationError:
        raise UsageError(
            f"--max-memory {text}: wanted a size such as 2GB or 500MiB"
        ) from None


def _serve_on_cluster(
    cluster: str,
    configuration: Mapping[str, Any],
    address: tuple[str, int],
    least_and_most: tuple[int, int],
) -> None:
    with needs_extra("serve", "the server", PACKAGES):
        from regard.serving.cluster.ray_serve import Replicas, serve_on_cluster
        from regard.serving.models import ServiceSettings
        from regard.serving.server_settings import ServerSettings
        from regard.serving.serving_process import parse_pairs

    least, most = least_and_most
    if most < least:
        raise UsageError(
            f"--max-replicas {most}: wanted at least {least}, the number of --replicas"
        )
    models = [Path(model) for model in configuration["models"]]
    settings = ServerSettings.parse(configuration["settings"], "regard serve")
    service = ServiceSettings(**configuration["service"])
    pairs, notes = parse_pairs(configuration["languages"], len(models))
    say(*notes)
    replicas = Replicas(least, most, service.threads * len(models))
    serve_on_cluster(cluster, models, *address, service, settings, pairs, replicas, say)


keys_app = typer.Typer(
    add_completion=False, help="API keys of a server, kept as hashes in a file."
)
app.add_typer(keys_app, name="keys")
KeyFileArgument = Annotated[
    Path, typer.Argument(help="File of keys, as `regard serve --keys` reads it.")
]
KeyName = Annotated[
    str, typer.Argument(help="Name of the key, such as that of its owner.")
]


@keys_app.command("add")
def add(file: KeyFileArgument, name: KeyName, debug: options.Debug = False) -> None:
    """Make a key, add its hash to the file, and print the key, this once."""
    setup_process(None, False, debug)
    from regard.serving.keys import add_key

    typer.echo(add_key(file, name))


@keys_app.command("list")
def list_(file: KeyFileArgument, debug: options.Debug = False) -> None:
    """Print names and dates of the keys."""
    setup_process(None, False, debug)
    from regard.serving.keys import list_keys

    for key in list_keys(file):
        typer.echo(f"{key.name}\t{key.created}")


@keys_app.command("revoke")
def revoke(file: KeyFileArgument, name: KeyName, debug: options.Debug = False) -> None:
    """Take a key out of the file; a server that runs notices."""
    setup_process(None, False, debug)
    from regard.serving.keys import revoke_key

    revoke_key(file, name)


def _host_names(host: str) -> list[str]:
    """Return the default host names of a server that listens at an address.

    If it listens at all addresses, the name of the machine is one of them.
    """
    import socket

    from regard.serving.supervisor import LOOPBACK

    name = socket.gethostname() if host in ("0.0.0.0", "::", "") else host
    return list(dict.fromkeys([*LOOPBACK, name]))
