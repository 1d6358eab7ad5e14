"""Captions: a captioner with attention, one without, and one that sees a blank image."""

from __future__ import annotations

from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import caption_measure
from regard.learn.lab.models import decoder_settings
from regard.learn.lab.sweep import Columns
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("captions", "names", "parts", "right")
NAMES = TEXTS.table("names")
PLAN = Plan(updates=700, rates=(2e-3, 4e-3, 8e-3))


def run(bench: Bench) -> Findings:
    """Train three captioners on images of six shapes.

    The first attends to the cells of the image, the second gets one vector, and the third sees a
    grey image.
    """
    arms = {
        "attention": captioner("recurrent"),
        "vector": captioner("no_attention"),
        "blind": captioner("recurrent", blank=True),
    }
    sweep = bench.sweep(arms, NAMES, PLAN, caption_measure(bench), "image-sample")
    attention, vector, blind = (sweep.dots(arm, "right") for arm in arms)
    columns: Columns = {
        TEXTS["right"]: "right",
        "BLEU-4": "BLEU-4",
        "CIDEr-D": "CIDEr-D",
    }
    parts = (
        above(attention, vector, TEXTS["parts.gain"]),
        above(vector, blind, TEXTS["parts.sight"]),
    )
    graph = Graph((sweep.plot(TEXTS["right"], "right"),), LABELS["dots"])
    return Findings(
        Verdict(parts), (sweep.table(LABELS["after_training"], columns),), graph
    )


def captioner(decoder: str, blank: bool = False) -> dict[str, object]:
    """Make the recipe of a captioner with a small ResNet encoder and a recurrent decoder."""
    encoder = {
        "kind": "resnet",
        "depths": [1, 1],
        "width": 16,
        "size": 64,
        "group_size": 4,
        "dropout": 0.1,
    }
    return {
        "data": {"images": {"height": 72, "width": 72, "cell": 4, "blank": blank}},
        "tokenizer": {"kind": "whitespace"},
        "model": {
            "encoder": {**encoder, "positions": "learned"},
            "decoder": decoder_settings(decoder),
        },
        "batching": {"tokens": 16 * 324, "buffer_size": 256, "micro_batches": 1},
    }
