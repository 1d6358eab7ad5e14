"""Run an experiment in its own folder, and write its page, graph and data.

An interrupted experiment continues where it stopped.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import time
import warnings
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path

import torch

from regard.common.atomic import write_text
from regard.common.bilingual import Language, Text, join_texts
from regard.common.errors import DataError, LineWarning, UsageError
from regard.common.reading import file_bytes, parse_json
from regard.common.requests import takes
from regard.common.version import __version__
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.experiment_page import render_page
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import LABELS, Findings
from regard.learn.lab.sweep import Sweep
from regard.learn.lab.verdicts import despite_shifts
from regard.requests.lab_request import ExperimentRequest
from regard.visualisation import save

BEGUN = "lab.json"
RESULT = "result.json"
PAGE = "index.html"
GRAPH = "graph.svg"


def find_experiment(name: str) -> Experiment:
    """Return the experiment with this name.

    Raises UsageError, which suggests the nearest name, for an unknown one.
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    nearest = difflib.get_close_matches(name, EXPERIMENTS, 1, 0.4)
    hint = f"there are {', '.join(EXPERIMENTS)}"
    if nearest:
        hint = f"did you mean {nearest[0]!r}?"
    raise UsageError(f"no experiment is called {name!r}; {hint}")


@takes(ExperimentRequest)
def run_experiment(request: ExperimentRequest) -> Findings:
    """Run an experiment, and write its page, graph and data into `out` (default: lab/NAME-quick or
    lab/NAME-full).

    - `full`: train complete sweeps of learning rates with three seeds; otherwise train one seed,
      and add the shipped results.
    - `language`: language of page and graph; the data hold both languages.
    - `seed`: the first seed.
    - `workers`: number of models trained at once, each on one thread; by default one for each core,
      at most four.
    - `say`: function that is called with lines on progress.

    An interrupted experiment continues where it stopped if the call is repeated. Raises UsageError
    for an unknown experiment, or if the folder holds something else.
    """
    experiment = find_experiment(request.name)
    effort = "full" if request.full else "quick"
    folder = Path(request.out or Path("lab") / f"{request.name}-{effort}")
    begun = {
        "experiment": request.name,
        "effort": effort,
        "seed": request.seed,
        "regard": __version__,
    }
    _begin(folder, begun)
    workers = request.workers or min(4, torch.get_num_threads())
    bench = Bench(
        folder,
        request.full,
        workers,
        request.seed,
        request.say,
        shipped_results(request.name),
    )
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*trained for an experiment, not for use"
        )
        warnings.filterwarnings("ignore", category=LineWarning)
        findings = with_sweep(experiment.run(bench), bench, experiment)
    request.say(f"done in {(time.monotonic() - started) / 60:.1f} min")
    write_result(folder, experiment, findings, begun, request.language, bench)
    return findings


def shipped_results(name: str) -> Sweep | None:
    """Return the results of `--full` that ship with the package, or None if there are none."""
    path = files("regard.learn.lab") / "results" / f"{name}.json"
    return Sweep.of_shipped(parse_json(path.read_bytes())) if path.is_file() else None


def with_sweep(findings: Findings, bench: Bench, experiment: Experiment) -> Findings:
    """Add the scope of the verdict, the table of the sweep, and remarks on the choice of seeds and
    rates and on the caveats.

    Parts of the claim whose outcome differed with halved or doubled learning rates become
    undecided.
    """
    remarks = (*findings.remarks, experiment.caveats)
    texts = [text for text in (experiment.scope, findings.verdict.text) if text]
    verdict = replace(findings.verdict, text=join_texts(texts, " "))
    if bench.swept is None:
        return replace(findings, verdict=verdict, remarks=remarks)

    shipped = bench.shipped
    if shipped and shipped.shifted and shipped.recipes == bench.digests:
        halved, doubled = shipped.shifted
        tried = verdict.parts[: len(halved)]  # the others on one grid alone
        shifted = tuple(
            despite_shifts(part, outcomes)
            for part, *outcomes in zip(tried, halved, doubled, strict=True)
        )
        verdict = replace(verdict, parts=shifted + verdict.parts[len(halved) :])

    quick_origin = LABELS["one_seed" if bench.shipped else "alone"]
    origin = LABELS["full"] if bench.full else quick_origin
    remarks += (LABELS["small"],)
    has_several_seeds = len({run.seed for run in bench.swept.runs}) > 1
    if not bench.full or has_several_seeds:
        remarks += (origin.fill(version=__version__),)
    return replace(
        findings,
        verdict=verdict,
        tables=(*findings.tables, bench.swept.board()),
        remarks=remarks,
    )


def _begin(folder: Path, begun: dict[str, object]) -> None:
    """Record in `folder` which experiment begins there.

    Raises UsageError if the folder holds something else, and DataError if the record is damaged.
    """
    path = folder / BEGUN
    existing = next(
        parent for parent in (folder, *folder.absolute().parents) if parent.exists()
    )
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise UsageError(
            f"`out={folder}`: nothing can be written in {existing}; choose another folder"
        )
    if path.is_file():
        try:
            before = parse_json(file_bytes(path))
        except ValueError:
            raise DataError(
                f"{path}: damaged; delete {folder} and begin again, or choose another `out=`"
            ) from None
        if before != begun:
            described = ", ".join(
                f"{key} {value}"
                for key, value in before.items()
                if begun.get(key) != value
            )
            raise UsageError(
                f"`out={folder}`: another experiment was begun there ({described}); choose another "
                "folder, or delete it"
            )
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"`out={folder}`: holds other files; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(begun, indent=1) + "\n")


def write_result(
    folder: Path,
    experiment: Experiment,
    findings: Findings,
    begun: dict[str, object],
    language: Language,
    bench: Bench | None = None,
) -> None:
    """Write data, graph and page, the page last."""
    title = experiment.title.by(language)
    swept = bench.swept if bench else None
    facts = _facts(folder, begun, swept)
    content: dict[str, object] = {
        "experiment": experiment.name,
        "claim": asdict(experiment.claim),
        "begun": begun,
        "facts": [asdict(fact) for fact in facts],
        "outcome": findings.verdict.outcome,
        **asdict(findings),
    }
    if swept:
        content["sweep"] = swept.to_json()
    if bench:
        content["measured"] = bench.measured
    write_text(
        folder / RESULT, json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    )
    save(findings.graph.chart(title, language), folder / GRAPH)
    options = " --korean" if language == "ko" else ""
    command = f"regard lab {experiment.name} --{begun['effort']}{options}"
    write_text(
        folder / PAGE, render_page(experiment, findings, command, facts, language)
    )


def _facts(
    folder: Path, begun: dict[str, object], swept: Sweep | None
) -> tuple[Text, ...]:
    """Return lines on versions, machine and training time."""
    versions = (
        f"regard {begun['regard']}, PyTorch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
    machine = f"{versions}, {platform.system()} {platform.machine()}"
    facts = [Text(machine, machine)]
    seconds = [run.seconds for run in swept.runs if not run.is_shipped] if swept else []
    if seconds:
        plural = "s" if len(seconds) > 1 else ""
        minutes = sum(seconds) / 60
        facts.append(
            LABELS["trained"].fill(
                count=len(seconds),
                plural=plural,
                minutes=minutes,
                folder=folder / "runs",
            )
        )
    return tuple(facts)
