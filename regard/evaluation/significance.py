"""temporary"""

from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest


@dataclass(frozen=True)
class P:
    name: str
    value: float
    mean: float
    ci: float
    low: float
    high: float
    p: float | None
    signature: str


def paired_tests(systems, references):
    m = {"BLEU": BLEU(references=references), "chrF": CHRF(references=references), "TER": TER(references=references)}
    t = PairedTest([(a, list(b)) for a, b in systems], m, None, test_type="bs")
    sig, res = t()
    out = []
    for i in range(len(systems)):
        rows = []
        for k, s in sig.items():
            r = res[k][i]
            n = {"BLEU": "BLEU", "chrF2": "chrF", "TER": "TER"}[k]
            rows.append(
                P(
                    n,
                    float(r.score),
                    float(r.mean),
                    float(r.ci),
                    max(0.0, float(r.mean - r.ci)),
                    float(r.mean + r.ci) if n == "TER" else min(100.0, float(r.mean + r.ci)),
                    r.p_value,
                    str(s),
                )
            )
        out.append(tuple(rows))
    return out
