"""The command line."""

from regard.cli import (  # noqa: F401 (each adds its command)
    align,
    caption,
    costs,
    demo,
    doctor,
    evaluate,
    interchange,
    show,
    train,
    translate,
)
from regard.cli.app import app, main

__all__ = ["app", "main"]
