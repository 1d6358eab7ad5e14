"""Bottleneck: one vector for the whole sentence, of several sizes, by sentence length."""

from __future__ import annotations

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Verdict, judge
from regard.learn.lab.measures import by_length, length_findings
from regard.learn.lab.models import recurrent

TEXTS = experiment_texts("bottleneck", "size")
SIZES = (32, 128, 256)
NAMES = {f"vector-{size}": TEXTS["size"].fill(size=size) for size in SIZES}


def run(bench: Bench) -> Findings:
    """Train models without attention whose one vector is small, middling and large; translate all lengths."""
    models = {
        name: recurrent("no_attention", {"size": size // 2}, size=size) for name, size in zip(NAMES, SIZES, strict=True)
    }
    trained = bench.train(models, bench.choose(1200, 2000))
    comparison = bench.compare(trained, "length")
    ends = [(parts[0], parts[-1]) for parts in (by_length(comparison)[name] for name in NAMES)]
    falls = [long.high < short.low for short, long in ends]
    (small_short, small_long), *_, (large_short, large_long) = ends
    text = TEXTS["verdict"].fill(
        small=SIZES[0],
        large=SIZES[-1],
        small_short=small_short,
        small_long=small_long,
        large_short=large_short,
        large_long=large_long,
    )
    return length_findings(comparison, NAMES, Verdict(judge(all(falls), falls[0]), text), TEXTS["caption"])
