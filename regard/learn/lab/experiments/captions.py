"""Captions: with attention to the image's cells, without, and of an image that cannot be seen."""

from __future__ import annotations

from typing import Any

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Verdict, judge
from regard.learn.lab.measures import contrast, score_of, score_plot, score_table
from regard.learn.lab.models import decoder_settings

TEXTS = experiment_texts("captions", "names", "table")
NAMES = TEXTS.table("names")
SCORE = "CIDEr-D"


def run(bench: Bench) -> Findings:
    """Train captioners that attend, that get one vector, and that see grey; caption images of new combinations."""
    models = {
        "attention": captioner("recurrent"),
        "vector": captioner("no_attention"),
        "blind": captioner("recurrent", blank=True),
    }
    trained = bench.train(models, bench.choose(500, 800), of_images=True)
    comparison = bench.compare(trained, "test.en.tsv")
    table = score_table(TEXTS["table"], comparison, NAMES, {name: name for name in ("BLEU-1", "BLEU-4", SCORE)})
    gain, sight = (contrast(comparison, name, "attention", SCORE) for name in ("vector", "blind"))
    text = TEXTS["verdict"].fill(gain=gain, blind=score_of(comparison, "blind", SCORE).mean)
    outcome = judge(sight.is_better and gain.is_better, sight.is_better)
    graph = Graph((score_plot(comparison, NAMES, SCORE),), TEXTS["caption"])
    return Findings(Verdict(outcome, text), (table,), graph)


def captioner(decoder: str, blank: bool = False) -> dict[str, Any]:
    """Make the recipe of a captioner: a small ResNet, and a recurrent decoder with attention or without."""
    encoder = {"kind": "resnet", "depths": [1, 1], "width": 16, "size": 64, "group_size": 4, "dropout": 0.1}
    return {
        "data": {"images": {"height": 72, "width": 72, "cell": 4, "blank": blank}},
        "tokenizer": {"kind": "whitespace"},
        "model": {"encoder": {**encoder, "positions": "learned"}, "decoder": decoder_settings(decoder)},
        "batching": {"tokens": 16 * 324, "buffer_size": 256, "micro_batches": 1},
        "schedule": {"peak": 4e-3},
    }
