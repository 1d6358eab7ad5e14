"""The command line: one module per command, which registers itself with `app` at its import.

`app` has the entry point and the exit statuses, `options` the options that commands share,
`search_options` the options that are generated from the search settings, and `progress` the live
line. Results go to stdout, messages to stderr.
"""

from regard.cli import (  # noqa: F401 (the import registers the command)
    align,
    calibrate,
    caption,
    check,
    compare,
    demo,
    doctor,
    evaluate,
    interchange,
    lab,
    publish,
    reproduce,
    sample,
    serve,
    show,
    train,
    translate,
    walkthrough,
)
from regard.cli.app import app, main

__all__ = ["app", "main"]
