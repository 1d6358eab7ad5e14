"""The command line."""

from regard.cli import align, demo, doctor, evaluate, interchange, show, train, translate  # noqa: F401 (each adds its command)
from regard.cli.app import app, main

__all__ = ["app", "main"]
