"""The options of `regard serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict

from regard.common.requests import Option
from regard.common.settings import Settings
from regard.requests.server_settings import ServerSettings


class ServeArguments(Settings):
    """The models of a server, its address, and how it is run."""

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
    max_memory: Annotated[
        str | None,
        Option(
            "Memory of a process, such as 2GB or 500MiB, above which another takes its place; "
            "Linux alone."
        ),
    ] = None
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


class ServeCommand(ServerSettings, ServeArguments):
    """A call of `regard serve`."""

    model_config = ConfigDict(strict=False)
