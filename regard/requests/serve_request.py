"""The options of `regard serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from regard.common.requests import REQUEST, Option
from regard.requests.shared_fields import Keep, ThreadCount


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class ServeCommand:
    """A call of `regard serve`."""

    models: Annotated[
        tuple[Path, ...],
        Option(
            "Runtime files, model folders or run folders.",
            is_argument=True,
            is_local=True,
            is_repeated=True,
        ),
    ]
    host: Annotated[
        str, Option("Address to listen at; 0.0.0.0: all of this machine's.")
    ] = "127.0.0.1"
    port: Annotated[int, Option("Port; 0: one that is free.", least=0, most=65535)] = (
        5000
    )
    languages: Annotated[
        tuple[str, ...],
        Option(
            "Languages of a model, such as ko,en; once for each model, in their order.",
            is_repeated=True,
        ),
    ] = ()
    precision: Annotated[
        Literal["float32", "bfloat16", "int8"],
        Option("Precision of the weights of folders; a runtime file has its own."),
    ] = "int8"
    threads: ThreadCount = None
    max_memory: Annotated[
        str | None,
        Option(
            "Memory of a process, such as 2GB or 500MiB, above which another takes its place; "
            "Linux alone."
        ),
    ] = None
    deadline: Annotated[float, Option("Seconds that a request may take.")] = 20.0
    most_lines: Annotated[
        int, Option("Lines that may wait for a model.", "--queue", least=1, most=10**7)
    ] = 4096
    char_limit: Annotated[
        int, Option("Most characters of a request; 0: any.", least=0)
    ] = 100_000
    answer_limit: Annotated[
        int, Option("Most bytes of attention and the like in an answer.")
    ] = 32_000_000
    key_file: Annotated[
        Path | None,
        Option("File of API keys; see regard keys.", "--keys", is_local=True),
    ] = None
    require_key: Annotated[bool, Option("Refuse requests without a key.")] = False
    requests_per_minute: Annotated[
        int, Option("Limit for each key or address; 0: none.", least=0)
    ] = 0
    characters_per_minute: Annotated[
        int, Option("Limit for each key or address; 0: none.", least=0)
    ] = 0
    keep: Keep = ()
    cors_origins: Annotated[
        tuple[str, ...],
        Option(
            "Origin whose pages may call; may be repeated; '*': all.",
            "--cors",
            is_repeated=True,
        ),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "Host name by which the server may be called; may be repeated; '*': any.",
            "--allow-host",
            is_repeated=True,
        ),
    ] = ()
    trusted_proxies: Annotated[
        tuple[str, ...],
        Option(
            "Address or network of a proxy whose X-Forwarded-For is believed; may be repeated.",
            "--trusted-proxy",
            is_repeated=True,
        ),
    ] = ()
    page: Annotated[
        bool,
        Option("Send a page that translates, at /."),
    ] = True
    metrics: Annotated[
        bool,
        Option("Offer metrics for Prometheus at /metrics."),
    ] = False
    reload_seconds: Annotated[
        float, Option("Look for changed models so often; 0: never.", least=0)
    ] = 2.0
    log_texts: Annotated[bool, Option("Write texts to the log, too.")] = False
    cluster: Annotated[
        str | None,
        Option("Serve on a Ray cluster: its HOST:PORT, or local: one on this machine."),
    ] = None
    replicas: Annotated[
        int,
        Option("With --cluster: replicas of the server, at least.", least=1, most=1024),
    ] = 1
    max_replicas: Annotated[
        int | None,
        Option(
            "With --cluster: most replicas, as requests need them.", least=1, most=1024
        ),
    ] = None
