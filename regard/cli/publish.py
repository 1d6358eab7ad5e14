"""regard publish: write a folder that is ready for a web space."""

from __future__ import annotations

from regard.cli.app import app, say
from regard.common.counting import counted
from regard.common.requests import call_with
from regard.requests.publish_request import PublishRequest


@app.command(request=PublishRequest, sets=("threads",))
def publish(command: PublishRequest) -> None:
    """Write a folder to put on any web space: page, runtime file, card, licence, and a checklist.

    regard publish runs/first published

    Nothing is uploaded. The checklist, also in CHECKLIST.md, names what is missing, with what mends
    it.
    """
    from regard.explain.publication import publish
    from regard.explain.published_checklist import NOTHING_SENT

    publication = call_with(publish, command)
    say(*publication.comparisons)
    size = sum(publication.sizes.values()) / 1e6
    files = counted(len(publication.sizes), "file")
    say(f"wrote {publication.folder}: {files}, {size:.1f} MB. {NOTHING_SENT}")
    if publication.checklist:
        say("before you put it on a web space:")
    say(*(f"- {item}" for item in publication.checklist))
