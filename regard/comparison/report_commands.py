"""Command lines that compute the scores of a comparison again."""

from __future__ import annotations

from collections.abc import Iterator

from regard.comparison.result import Comparison

METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter"}
"""Names of the scores that sacreBLEU computes, in its command line."""
AS_TEXT = "--format text"
"""In a pipe sacreBLEU writes JSON by default, which fails for its paired tests."""


def commands(comparison: Comparison) -> list[str]:
    """Return the command lines with which sacreBLEU computes the scores again, from the texts
    beside the report.
    """
    scores = [
        score
        for run in comparison.runs
        for score in run.scores
        if score.name in METRICS and "version" in _settings(score.signature)
    ]
    # The first score of each name decides its settings.
    settings = {score.name: _settings(score.signature) for score in reversed(scores)}
    if not settings:
        return []
    count = max((len(texts) for texts in comparison.test.references), default=1)
    references = " ".join(
        f"texts/reference{number}.txt" for number in range(1, count + 1)
    )
    names = [name for name in METRICS if name in settings]
    options = [option for name in names for option in _options(name, settings[name])]
    metrics = " ".join(["-m", *(METRICS[name] for name in names), *options])
    draws = next((values["bs"] for values in settings.values() if "bs" in values), "")
    seeds = [values["seed"] for values in settings.values() if "seed" in values]
    start = f"sacrebleu {references} -i"
    if seeds and seeds[0]:
        start = f"SACREBLEU_SEED={seeds[0]} {start}"
    confidence = f" --confidence --confidence-n {draws}" if draws else ""
    lines = [f"{start} texts/RUN.txt {metrics}{confidence} {AS_TEXT}"]
    if draws and any(score.p is not None for score in scores):
        lines.append(
            f"{start} texts/BASELINE.txt texts/RUN.txt {metrics} --paired-bs --paired-bs-n {draws} "
            f"{AS_TEXT}"
        )
    return lines


def _settings(signature: str) -> dict[str, str]:
    """Return the settings of a signature such as `nrefs:1|case:mixed`.

    Values with characters that a shell might interpret are left out.
    """
    settings = dict[str, str]()
    for part in signature.split("|"):
        name, _, value = part.partition(":")
        if value and all(c.isalnum() or c in "+-._" for c in value):
            settings[name] = value
    return settings


def _options(name: str, settings: dict[str, str]) -> Iterator[str]:
    """Return the command-line options for those settings that are not sacreBLEU's defaults."""
    if name == "BLEU":
        return _bleu_options(settings)
    if name == "chrF":
        return _chrf_options(settings)
    return _ter_options(settings)


def _bleu_options(settings: dict[str, str]) -> Iterator[str]:
    if "tok" in settings:
        yield f"--tokenize {settings['tok']}"
    if settings.get("case") == "lc":
        yield "--lowercase"
    smooth = settings.get("smooth", "exp")
    if smooth != "exp":
        yield f"--smooth-method {smooth}"


def _chrf_options(settings: dict[str, str]) -> Iterator[str]:
    if settings.get("nc", "6") != "6":
        yield f"--chrf-char-order {settings['nc']}"
    if settings.get("nw", "0") != "0":
        yield f"--chrf-word-order {settings['nw']}"
    if settings.get("space") == "yes":
        yield "--chrf-whitespace"
    if settings.get("case") == "lc":
        yield "--chrf-lowercase"


def _ter_options(settings: dict[str, str]) -> Iterator[str]:
    if settings.get("case") == "mixed":
        yield "--ter-case-sensitive"
    if settings.get("norm") == "yes":
        yield "--ter-normalized"
    if settings.get("punct") == "no":
        yield "--ter-no-punct"
    if settings.get("asian") == "yes":
        yield "--ter-asian-support"
