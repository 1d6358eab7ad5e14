"""Measure the decoding speed of Regard and others on this machine: `make bench-translate`, or the
options below.

Every run is a process of its own. The systems take turns in rounds and the median of the rounds
counts, so that a machine that slows down slows all of them. README.md defines what is measured.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from models import texts
from prepare import MissingData, prepare, test_files, training_files
from runs import (
    ROOT,
    WORK,
    Run,
    ends_tidily,
    environments,
    failure,
    names,
    noise,
    quiet,
    run_adapter,
    settings,
    write,
)
from shapes import SHAPES
from translators import FORCED, MODELS, NATURAL, TRANSLATORS, Translator
from translators_report import RESULTS, report

SPINE = "811e636"
"""The last commit before the optimisations: the search that recurrent models are compared with."""
TRANSLATIONS = WORK / "translations"
MODES = ("forced", "natural")
BEAMS = (1, 5)


class Cell(NamedTuple):
    """The coordinates of one run."""

    round: int
    mode: str
    model: str
    beam: int
    name: str

    @property
    def translator(self) -> Translator:
        """The system that is measured."""
        return TRANSLATORS[self.name]

    def __str__(self) -> str:
        return f"{self.mode}-{self.model}-beam{self.beam}-{self.name}"


def main() -> int:
    """Run the measurements of the command line and print the tables."""
    options = _options()
    try:
        bench = Bench(options)
    except MissingData as missing:
        print(missing, file=sys.stderr)
        return 2
    measured: dict[str, Any] = {"settings": settings(options), "runs": []}
    for index, cell in enumerate(plan := list(_plan(options)), 1):
        print(
            f"{index}/{len(plan)}  round {cell.round + 1}, {cell}: ", end="", flush=True
        )
        run = (
            bench.measure(cell)
            if options.once
            else quiet(lambda cell=cell: bench.measure(cell), _line)
        )
        print(_line(run), flush=True)
        measured["runs"].append({**cell._asdict(), **run})
        write(measured, RESULTS)
    measured["quality"] = bench.quality()
    write(measured, RESULTS)
    print("\n" + report(measured))
    return 0


def _plan(options: argparse.Namespace) -> Iterator[Cell]:
    """Yield the runs in order: forced in every round, natural in the first; every other round in
    reverse.
    """
    for number in range(options.rounds):
        cells = [
            Cell(number, mode, model, beam, name)
            for mode in options.modes
            for model in options.models
            for beam in options.beams
            for name in options.systems
            if _is_planned(options, number, mode, model, TRANSLATORS[name])
        ]
        yield from cells if number % 2 == 0 else reversed(cells)


def _is_planned(
    options: argparse.Namespace,
    number: int,
    mode: str,
    model: str,
    translator: Translator,
) -> bool:
    """Return whether a system runs in this round, mode and model."""
    if model not in translator.models or (translator.rounds or number + 1) <= number:
        return False
    if mode == "natural":
        return (
            number == 0 and translator.natural and _run_of(options, model) is not None
        )
    return translator.forced and (number == 0 or model in SHAPES)


def _run_of(options: argparse.Namespace, model: str) -> Path | None:
    run: Path | None = getattr(options, "run_" + model.replace("-", "_"))
    return run


def _runs(options: argparse.Namespace) -> list[Path]:
    return [run for model in MODELS if (run := _run_of(options, model)) is not None]


class Bench:
    """The models made and settings found so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        absent = [
            str(path)
            for path in (*(options.test or ()), *_runs(options))
            if not path.exists()
        ]
        if absent:
            raise MissingData(
                f"{' and '.join(absent)} not found: name existing files and run folders"
            )
        # So that no earlier output is scored.
        shutil.rmtree(TRANSLATIONS, ignore_errors=True)
        self.data = prepare(training_files(options.data), WORK / "data")
        self.lines = test_files(options.data)[0]
        self.source, self.reference = options.test or test_files(options.data)
        peers = {TRANSLATORS[name].peer for name in options.systems} - {None}
        self.broken = environments(peer for peer in peers if peer)
        self._made: dict[tuple[str, ...], Run] = {}
        self._settings: dict[tuple[str, str, int], Run] = {}

    def measure(self, cell: Cell) -> Run:
        """Run one system once."""
        translator = cell.translator
        if translator.peer in self.broken:
            return {"error": self.broken[translator.peer]}
        made = self._models_made(cell)
        if "error" in made:
            return made
        whole = int(translator.whole or (cell.mode == "natural" and self._scored(cell)))
        arguments = self._arguments(cell) | {"whole": whole}
        if cell.mode == "natural":
            arguments["out"] = self._output_file(cell)
        if translator.adapter == "ctranslate2_translate":
            best = self._best_settings(cell)
            if "error" in best:
                return best
            arguments["setting"] = json.dumps(best[translator.precision])
        return self._run(cell, str(cell), arguments)

    def quality(self) -> dict[str, Any]:
        """Score the outputs at natural length: BLEU, and how often the tokens are those of Regard
        in float32.
        """
        from sacrebleu.metrics import BLEU

        references = self.reference.read_text("utf-8").removesuffix("\n").split("\n")
        scores: dict[str, Any] = {}
        for cell in _plan(self.options):
            if cell.mode == "forced" or not self._output_file(cell).is_file():
                continue
            ours = _sentences(self._output_file(cell._replace(name="regard-float32")))
            outputs = _sentences(self._output_file(cell))
            same = (
                sum(a == b for a, b in zip(ours, outputs, strict=False)) / len(outputs)
                if ours
                else None
            )
            bleu = None
            if len(outputs) == len(references[: self.options.sentences]):
                text = texts(self._folder(cell) / "regard", outputs)
                bleu = (
                    BLEU()
                    .corpus_score(text, [references[: self.options.sentences]])
                    .score
                )
            scores[f"{cell.model} {cell.beam} {cell.name}"] = {
                "bleu": bleu,
                "same": same,
                "sentences": len(outputs),
            }
        return scores

    def _scored(self, cell: Cell) -> bool:
        return cell.name.startswith(("regard", "ctranslate2"))

    def _output_file(self, cell: Cell) -> Path:
        return TRANSLATIONS / f"{cell}.txt"

    def _folder(self, cell: Cell) -> Path:
        """Return the folder of Regard's model or, for systems with models of their own, of
        theirs.
        """
        own = not (cell.translator.natural or cell.name == "spine")
        return (
            WORK
            / "models"
            / (f"{cell.name}-{cell.model}" if own else f"{cell.mode}-{cell.model}")
        )

    def _source(self, cell: Cell) -> Path:
        return WORK / "models" / f"{cell.mode}-{cell.model}" / "source.txt"

    def _models_made(self, cell: Cell) -> Run:
        """Make the models of a run, once; return the run with its error if that failed."""
        made = self._once(
            ("model", cell.mode, cell.model), lambda: self._make_ours(cell)
        )
        if "error" not in made and not cell.translator.natural and cell.name != "spine":
            made = self._once(
                ("peer", cell.name, cell.model), lambda: self._make_theirs(cell)
            )
        if cell.name == "spine":
            _check_out(SPINE)
        return made

    def _once(self, key: tuple[str, ...], make: Any) -> Run:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _make_ours(self, cell: Cell) -> Run:
        run = _run_of(self.options, cell.model) if cell.mode == "natural" else None
        lines = self.source if cell.mode == "natural" else self.lines
        arguments = {"model": cell.model, "data": self.data, "lines": lines, "run": run}
        arguments |= {
            "folder": self._source(cell).parent,
            "sentences": self.options.sentences,
        }
        log = WORK / "logs" / f"make-{cell.mode}-{cell.model}.txt"
        return run_adapter(
            "models", None, arguments, log, self.options.threads, self.options.timeout
        )

    def _make_theirs(self, cell: Cell) -> Run:
        folder = self._folder(cell)
        if (folder / "ready").is_file():
            return {}
        folder.mkdir(parents=True, exist_ok=True)
        made = self._run(
            cell,
            f"make-{cell.name}-{cell.model}",
            {**self._arguments(cell), "task": "make"},
        )
        if "error" not in made:
            (folder / "ready").touch()
        return made

    def _best_settings(self, cell: Cell) -> Run:
        """Find CTranslate2's best settings for a model and beam, once, at forced length; return
        them for all rounds.
        """
        key = (
            ("forced", cell.model, cell.beam)
            if "forced" in self.options.modes
            else (cell.mode, cell.model, cell.beam)
        )
        if key not in self._settings:
            arguments = {**self._arguments(cell._replace(mode=key[0])), "task": "try"}
            self._settings[key] = self._run(
                cell, f"try-{key[0]}-{cell.model}-beam{cell.beam}", arguments
            )
        return self._settings[key]

    def _arguments(self, cell: Cell) -> dict[str, Any]:
        """Return the arguments that every adapter gets."""
        options = self.options
        return {
            "model": cell.model,
            "folder": self._folder(cell),
            "source": self._source(cell),
            "data": self.data,
            "precision": cell.translator.precision,
            "beam": cell.beam,
            "forced": FORCED if cell.mode == "forced" else None,
            "max-length": NATURAL,
            "threads": options.threads,
            "seconds": options.seconds,
        }

    def _run(self, cell: Cell, name: str, arguments: dict[str, Any]) -> Run:
        log = WORK / "logs" / f"{name}.txt"
        translator = cell.translator
        path = WORK / "code" / SPINE if cell.name == "spine" else ROOT
        module = f"peers.{translator.adapter}"
        return run_adapter(
            module,
            translator.peer,
            arguments,
            log,
            self.options.threads,
            self.options.timeout,
            path,
        )


def _check_out(commit: str) -> None:
    """Extract Regard as it was at a commit into .work/code/COMMIT."""
    folder = WORK / "code" / commit
    if not (folder / "regard").is_dir():
        process = subprocess.run(
            ["git", "archive", commit, "regard"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
        )
        with tarfile.open(fileobj=io.BytesIO(process.stdout)) as archive:
            archive.extractall(folder)


def _sentences(file: Path) -> list[list[str]]:
    """Read translations as tokens; none if there is no file."""
    return (
        [line.split() for line in file.read_text("utf-8").split("\n")[:-1]]
        if file.is_file()
        else []
    )


def _line(run: Run) -> str:
    """Format the result of a run in one line."""
    if "error" in run:
        return failure(run)
    speed = (
        f"{run['sentences_s']:,.1f} sentences/s of {run['sentences']}, {run['p50_ms']:,.2f} ms "
        "alone"
    )
    return f"{speed}, {run['peak_rss_mb']:,} MB{noise(run)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the decoding speed of Regard and others on this machine."
    )
    quick = [name for name, translator in TRANSLATORS.items() if translator.quick]
    parser.add_argument(
        "--data", help="folder with multi30k/ in it (REGARD_DATA, else ../shared/data)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one round of tiny and base, Regard and CTranslate2 only",
    )
    parser.add_argument("--models", type=names(MODELS), help=",".join(MODELS))
    parser.add_argument(
        "--systems", type=names(TRANSLATORS), help=",".join(TRANSLATORS)
    )
    parser.add_argument(
        "--beams",
        type=lambda text: [int(beam) for beam in text.split(",")],
        default=list(BEAMS),
    )
    parser.add_argument(
        "--modes",
        type=names(MODES),
        help="forced (15 tokens each), natural (needs a run)",
    )
    for model in MODELS:
        parser.add_argument(
            f"--run-{model}",
            type=Path,
            metavar="RUN",
            help=f"run folder of a trained {model}, for natural length",
        )
    parser.add_argument(
        "--test",
        type=Path,
        nargs=2,
        metavar="FILE",
        help="other sentences and references for runs",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="of Regard and CTranslate2 at forced length; the others run once",
    )
    parser.add_argument(
        "--once", action="store_true", help="do not repeat disturbed runs"
    )
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument(
        "--seconds",
        type=float,
        default=6,
        help="slow systems translate as many sentences as take this long",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--timeout",
        type=float,
        default=900,
        help="seconds after which a run has failed",
    )
    options = parser.parse_args()
    options.models = options.models or (
        list(SHAPES.keys() & MODELS.keys()) if options.quick else list(MODELS)
    )
    options.models.sort(key=list(MODELS).index)
    options.systems = options.systems or (quick if options.quick else list(TRANSLATORS))
    options.modes = options.modes or (["forced"] if options.quick else list(MODES))
    options.rounds = options.rounds or (1 if options.quick else 3)
    if min(options.rounds, options.threads, options.sentences, *options.beams) < 1:
        parser.error("--rounds, --threads, --sentences and --beams are 1 or more")
    return options


if __name__ == "__main__":
    sys.exit(ends_tidily(main))
