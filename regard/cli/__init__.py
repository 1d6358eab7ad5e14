"""The command line: one module per command, each registered with `app` when it is imported.

`app` holds the entry point and the exit statuses, `options` the options that commands share,
`search_options` those generated from the search settings, `progress` the live line. Results go to
stdout, messages to stderr.
"""

from regard.cli import (  # noqa: F401 (each registers its command)
    align,
    caption,
    compare,
    demo,
    doctor,
    evaluate,
    interchange,
    lab,
    sample,
    serve,
    show,
    train,
    translate,
    walkthrough,
)
from regard.cli.app import app, main

__all__ = ["app", "main"]
