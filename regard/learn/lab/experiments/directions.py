"""Directions: a recurrent encoder that reads in one direction, or in both, of equal size."""

from __future__ import annotations

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Verdict, judge
from regard.learn.lab.measures import contrast, length_findings
from regard.learn.lab.models import recurrent

TEXTS = experiment_texts("directions", "names", "loss")
NAMES = TEXTS.table("names")


def run(bench: Bench) -> Findings:
    """Train an encoder of 128 forwards, one of 64 forwards and 64 backwards, and the latter with attention."""
    models = {
        "one": recurrent("no_attention", {"size": 128, "bidirectional": False}),
        "two": recurrent("no_attention"),
        "attention": recurrent(),
    }
    trained = bench.train(models, bench.choose(1300, 2000))
    comparison = bench.compare(trained, "length")
    gain, rest = contrast(comparison, "one", "two"), contrast(comparison, "two", "attention")
    loss = TEXTS["loss.remains_mostly" if gain.is_better else "loss.remains"]
    verdict = Verdict(
        judge(rest.is_better and gain.is_better, rest.is_better), TEXTS["verdict"].fill(gain=gain, rest=rest, loss=loss)
    )
    return length_findings(comparison, NAMES, verdict, TEXTS["caption"])
