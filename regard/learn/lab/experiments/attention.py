"""Attention: quality by sentence length, with and without it (the graph of note 001)."""

from __future__ import annotations

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Verdict, judge
from regard.learn.lab.measures import by_length, contrast, length_findings
from regard.learn.lab.models import recurrent

TEXTS = experiment_texts("attention", "names")
NAMES = TEXTS.table("names")


def run(bench: Bench) -> Findings:
    """Train both models equally long, and translate sentences of all lengths."""
    models = {"without": recurrent("no_attention"), "with": recurrent()}
    trained = bench.train(models, bench.choose(2400, 4000))
    comparison = bench.compare(trained, "length")
    (short, *_, long), (short_with, *_, long_with) = (by_length(comparison)[name] for name in ("without", "with"))
    is_better = contrast(comparison, "without", "with").is_better
    falls_more = short.value - long.value > 2 * (short_with.value - long_with.value)
    text = TEXTS["verdict"].fill(short=short, long=long, short_with=short_with, long_with=long_with)
    return length_findings(
        comparison, NAMES, Verdict(judge(is_better and falls_more, is_better), text), TEXTS["caption"]
    )
