"""Residual: connections on and off, by depth."""

from __future__ import annotations

from collections.abc import Mapping

from regard.common.bilingual import Text, join_texts
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Plot, Table, Verdict, judge, listed
from regard.learn.lab.measures import Contrast, known_contrasts, score_curve, score_of, score_or_failed
from regard.learn.lab.models import transformer

TEXTS = experiment_texts("residual", "names", "table", "layers", "change", "changes", "stuck", "separator")
NAMES = TEXTS.table("names")
DEPTHS = (1, 3)


def run(bench: Bench) -> Findings:
    """Train Transformers of 1 and 3 layers a side, with and without residual connections."""
    models = {f"{name}-{depth}": transformer(layers=depth, residual=name == "on") for depth in DEPTHS for name in NAMES}
    trained = bench.train(models, bench.choose(600, 900), may_fail=True)
    comparison = bench.compare(trained)
    rows = ((str(depth), *(score_or_failed(comparison, f"{name}-{depth}") for name in NAMES)) for depth in DEPTHS)
    table = Table(TEXTS["table"], (TEXTS["layers"], *NAMES.values()), tuple(rows))
    losses = known_contrasts(comparison, {depth: (f"on-{depth}", f"off-{depth}") for depth in DEPTHS})
    shares = {
        depth: score_of(comparison, f"off-{depth}").mean / max(score_of(comparison, f"on-{depth}").mean, 1e-9)
        for depth in losses
    }
    clear = [depth not in losses or losses[depth].is_worse for depth in DEPTHS]
    is_larger = DEPTHS[-1] not in losses or shares[DEPTHS[-1]] < shares.get(DEPTHS[0], 0)
    verdict = Verdict(judge(all(clear) and is_larger, any(clear)), _text(losses, shares))
    curves = tuple(
        score_curve(words, comparison, [f"{name}-{depth}" for depth in DEPTHS]) for name, words in NAMES.items()
    )
    plot = Plot("chrF", TEXTS["layers"], curves, tuple(str(depth) for depth in DEPTHS))
    return Findings(verdict, (table,), Graph((plot,), TEXTS["caption"]))


def _text(losses: Mapping[int, Contrast], shares: Mapping[int, float]) -> Text:
    """Say what the connections change at each depth; a depth without a difference did not learn."""
    changes = [
        TEXTS["change"].fill(change=loss, depth=depth, plural="s" * (depth > 1), share=shares[depth])
        for depth, loss in losses.items()
    ]
    failed = [Text(str(depth), str(depth)) for depth in DEPTHS if depth not in losses]
    parts = [TEXTS["changes"].fill(changes=listed(changes))] if changes else []
    parts += [TEXTS["stuck"].fill(depths=listed(failed))] if failed else []
    return TEXTS["verdict"].fill(parts=join_texts(parts, TEXTS["separator"]))
