"""The lineage in plain torch.nn, trained in a plain loop, in float32 or under bfloat16 autocast."""

from __future__ import annotations

from peers.observe import start
from peers.plain_loop import loop
from prepare import BOS
from shapes import VOCABULARY


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("plain_lineage")
    import torch

    from peers.plain_models import plain

    torch.manual_seed(1)
    model = plain(options.name, VOCABULARY)
    loop(options, recorder, model, BOS, model)


if __name__ == "__main__":
    main()
