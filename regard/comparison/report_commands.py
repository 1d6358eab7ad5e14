"""Command lines that compute the scores of a comparison again."""

from __future__ import annotations

from collections.abc import Iterator

from regard.comparison.result import Comparison

METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter"}
"""Names of scores that sacreBLEU's command line computes, there."""


def commands(comparison: Comparison) -> list[str]:
    """Return the command lines that compute the scores of sacreBLEU again, from the texts beside
    the report.
    """
    scores = [
        score
        for run in comparison.runs
        for score in run.scores
        if score.name in METRICS and "version" in _settings(score.signature)
    ]
    firsts = {score.name: _settings(score.signature) for score in reversed(scores)}
    if not firsts:
        return []
    count = max((len(texts) for texts in comparison.test.references), default=1)
    references = " ".join(
        f"texts/reference{number}.txt" for number in range(1, count + 1)
    )
    names = [name for name in METRICS if name in firsts]
    options = [option for name in names for option in _options(name, firsts[name])]
    metrics = " ".join(["-m", *(METRICS[name] for name in names), *options])
    draws = next(
        (settings["bs"] for settings in firsts.values() if "bs" in settings), ""
    )
    seed = next(
        (settings["seed"] for settings in firsts.values() if "seed" in settings), ""
    )
    start = (
        f"SACREBLEU_SEED={seed} sacrebleu {references} -i"
        if seed
        else f"sacrebleu {references} -i"
    )
    confidence = f" --confidence --confidence-n {draws}" if draws else ""
    lines = [f"{start} texts/RUN.txt {metrics}{confidence}"]
    if draws and any(score.p is not None for score in scores):
        lines.append(
            f"{start} texts/BASELINE.txt texts/RUN.txt {metrics} --paired-bs --paired-bs-n {draws}"
        )
    return lines


def _settings(signature: str) -> dict[str, str]:
    """Return the settings of a signature such as `nrefs:1|case:mixed`, as far as they are plain
    words.
    """
    parts = (part.partition(":") for part in signature.split("|"))
    return {
        name: value
        for name, _, value in parts
        if value and all(c.isalnum() or c in "+-._" for c in value)
    }


def _options(name: str, settings: dict[str, str]) -> Iterator[str]:
    """Yield the options of the command line that say what a signature says, if it is not the
    usual.
    """
    if name == "BLEU":
        yield from (f"--tokenize {settings['tok']}",) if "tok" in settings else ()
        yield from ("--lowercase",) if settings.get("case") == "lc" else ()
        smooth = settings.get("smooth", "exp")
        yield from (f"--smooth-method {smooth}",) if smooth != "exp" else ()
    elif name == "chrF":
        yield from (
            (f"--chrf-char-order {settings['nc']}",)
            if settings.get("nc", "6") != "6"
            else ()
        )
        yield from (
            (f"--chrf-word-order {settings['nw']}",)
            if settings.get("nw", "0") != "0"
            else ()
        )
        yield from ("--chrf-whitespace",) if settings.get("space") == "yes" else ()
        yield from ("--chrf-lowercase",) if settings.get("case") == "lc" else ()
    else:
        yield from ("--ter-case-sensitive",) if settings.get("case") == "mixed" else ()
        yield from ("--ter-normalized",) if settings.get("norm") == "yes" else ()
        yield from ("--ter-no-punct",) if settings.get("punct") == "no" else ()
        yield from ("--ter-asian-support",) if settings.get("asian") == "yes" else ()
