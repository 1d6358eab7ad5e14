"""A serving process whose service harms it.

A line is translated as by the fake service, unless it names a harm.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fake import FakeService

from regard.serving import serving_process


class PlantedService(FakeService):
    """Its "models" are files that it does not read."""

    def __init__(self, _: Any, log: Any, *__: Any) -> None:
        super().__init__()
        self.log = log

    async def start(self, paths: Sequence[Path], *_: Any) -> None:
        for path in paths:
            if not path.exists():
                self.log(f"{path} is away")

    async def close(self) -> None:
        pass

    def drain(self) -> None:
        self.is_ready = False

    async def _trouble(self, line: str) -> None:
        harm, _, value = line.partition(" ")
        if harm == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        elif harm == "wait":  # until there is a file of this name
            Path(f"{value}.begun").touch()
            while not Path(value).exists():
                await asyncio.sleep(0.01)
        await super()._trouble(line)


if __name__ == "__main__":
    serving_process.Models = PlantedService  # type: ignore[assignment, misc]
    serving_process.main()
