"""Compare several models on one test set: quality with significance, where it differs, cost, and
training.

`compare` is the application: it trains missing models under an equal budget, decodes, scores, and
writes a report, JSON and CSV. The command `regard compare` calls it.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from sacrebleu import __version__ as sacrebleu_version

from regard.common.arguments import (
    FUNCTION,
    NUMBER,
    PATH,
    TABLE,
    TEXT,
    THREADS,
    WHOLE,
    describe,
    problems_of_types,
)
from regard.common.errors import DataError, RegardError, UsageError
from regard.common.version import __version__
from regard.comparison.breakdowns import breakdowns
from regard.comparison.budget import (
    RUNS,
    Budget,
    ModelPlan,
    Plan,
    check_files,
    complete_plan,
    load_plan,
    model_plans,
    say,
    train_missing,
)
from regard.comparison.entries import (
    Entry,
    conflicts,
    open_hypotheses,
    open_runs,
    status_of,
)
from regard.comparison.examples import make_examples, most_different
from regard.comparison.files import check_out, write_files
from regard.comparison.measuring import Measured, cost_of, learning_curve, measure_run
from regard.comparison.result import Comparison, Example, RunResult, RunScore, System
from regard.comparison.scoring import over_seeds, score_groups, sentence_scores
from regard.comparison.test_data import (
    Files,
    TestData,
    TrainingWords,
    read_test_data,
    read_training_words,
    split_off_test,
)
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.evaluation.caption_metrics import WordTokenizer, tokenizer_for, words
from regard.evaluation.speed import measure_speed
from regard.evaluation.text_metrics import MAX_TER_WORDS
from regard.model_folder import load_tokenizer
from regard.models import select_device
from regard.pipeline import load
from regard.search import SearchOptions
from regard.training.journal import Report

DATA = "data"  # in the folder of a comparison: pairs that were held out
UNKNOWN = 0.5
"""Share of characters never seen in training above which a test line is not in a model's
language.
"""

MAX_SHOWN = 12  # runs whose attention is shown; of more, those of the first seeds
LONG = 80
SLOW_TER = "; outputs are long, so TER may take minutes"


@dataclass(frozen=True)
class CompareRequest:
    """Request to compare: runs and files of outputs that are there, models to train, and what to
    test on.

    `runs` and `hypotheses` are names and paths, where a name may be empty. `presets` are names of
    presets, or recipe files. `baseline` names a system; if empty, the first one.
    """

    files: Files
    runs: Sequence[tuple[str, Path]] = ()
    hypotheses: Sequence[tuple[str, Path]] = ()
    presets: Sequence[str | Path] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    seeds: int = 1
    first_seed: int = 1
    baseline: str = ""
    options: SearchOptions = field(default_factory=lambda: SearchOptions())
    speed: bool = True
    ter: bool = True


def compare(  # noqa: PLR0913 - keyword options of a public function
    runs: Sequence[str | Path] | Mapping[str, str | Path] = (),
    *,
    out: str | Path,
    hypotheses: Mapping[str, str | Path] | None = None,
    presets: Sequence[str | Path] = (),
    settings: Mapping[str, object] | None = None,
    minutes: float | None = None,
    updates: int | None = None,
    tokens: int | None = None,
    seeds: int = 1,
    seed: int = 1,
    baseline: str = "",
    beam: int | None = None,
    speed: bool = True,
    ter: bool = True,
    device: str = "auto",
    threads: int | None = None,
    report: Report | None = None,
    **files: str | Path | Sequence[str | Path] | None,
) -> Comparison:
    """Compare runs, models to be trained, and outputs of other systems; write report, JSON and CSV
    into `out`.

    - `runs`: run or model folders; as a mapping, by name. Runs that differ in the seed alone are
      one system.
    - `hypotheses`: files of outputs of other systems by name, a line for each sentence.
    - `presets`: presets or recipe files (.toml) to train, with `settings` on top, each with so many
      `seeds`: `seed` and those after it.
    - `minutes`, `updates`, `tokens`: the budget of each run; one of them.
    - `baseline`: the system that the others are compared with; the first one if not given.
    - `speed`: measure speed and memory, each model in a process of its own.
    - `ter`: score TER too, which may take minutes if outputs are long.
    - `source`, `target` and the like: training and validation files, to train on and to count words
      in.
    - `test_source`, `test_target` and the like: the test set; without it the validation data, or
      pairs held out of the training data. `test_alignments`: gold word links of the test pairs, for
      the alignment error rate.

    Repeat an interrupted call, and it continues where it stopped. Raises UsageError or DataError,
    with all causes, before anything is trained; TrainingError if training cannot continue;
    Interrupted if a signal stopped training.
    """
    UsageError.raise_all(_type_problems(locals()))
    named = runs.items() if isinstance(runs, Mapping) else (("", path) for path in runs)
    request = CompareRequest(
        _files(files),
        [(name, Path(path)) for name, path in named],
        [(name, Path(path)) for name, path in (hypotheses or {}).items()],
        presets,
        dict(settings or {}),
        Budget(minutes, updates, tokens),
        seeds,
        seed,
        baseline,
        SearchOptions() if beam is None else SearchOptions(beam=beam),
        speed,
        ter,
    )
    return compare_request(request, Path(out), device, threads, report)


def _type_problems(given: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each argument of `compare` that is of another type."""

    def pick(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names}

    causes = problems_of_types(PATH, pick("out"))
    for name in ("runs", "presets"):
        paths = given[name]
        if isinstance(paths, (str, bytes)) or not isinstance(
            paths, (Sequence, Mapping)
        ):
            causes.append(f"`{name}=`: wanted a list of paths, got {describe(paths)}")
            continue
        values = paths.values() if isinstance(paths, Mapping) else paths
        causes += [
            cause for path in values for cause in problems_of_types(PATH, {name: path})
        ]
    hypotheses = problems_of_types(TABLE, pick("hypotheses"), optional=True)
    if given["hypotheses"] is not None and not hypotheses:
        hypotheses = [
            c
            for path in given["hypotheses"].values()
            for c in problems_of_types(PATH, {"hypotheses": path})
        ]
    causes += hypotheses
    causes += problems_of_types(TABLE, pick("settings"), optional=True)
    causes += problems_of_types(NUMBER, pick("minutes"), optional=True)
    causes += problems_of_types(WHOLE, pick("updates", "tokens", "beam"), optional=True)
    causes += problems_of_types(THREADS, pick("threads"), optional=True)
    causes += problems_of_types(WHOLE, pick("seeds", "seed"))
    causes += problems_of_types(TEXT, pick("baseline", "device"))
    causes += problems_of_types(FUNCTION, pick("report"), optional=True)
    for name, path in given["files"].items():
        paths = (
            path
            if name == "test_target" and isinstance(path, (list, tuple))
            else [path]
        )
        causes += [
            cause
            for item in paths
            for cause in problems_of_types(PATH, {name: item}, optional=True)
        ]
    return causes


def _files(options: Mapping[str, str | Path | Sequence[str | Path] | None]) -> Files:
    """Make the files of a comparison. Raises UsageError for an unknown keyword."""
    values: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None
    }
    known = Files.__annotations__
    if unknown := values.keys() - known.keys():
        raise UsageError(
            f"compare has no argument {sorted(unknown)[0]!r}; files are {', '.join(known)}"
        )
    tests = values.pop("test_target", ())
    references = [tests] if isinstance(tests, (str, Path)) else tests
    return Files(
        test_target=tuple(map(str, references)),
        **{name: str(path) for name, path in values.items()},
    )


def compare_request(
    request: CompareRequest,
    out: Path,
    device: str = "auto",
    threads: int | None = None,
    report: Report | None = None,
) -> Comparison:
    """`compare` with its arguments as one object."""
    return _Session(request, out, select_device(device), threads, report).run()


@dataclass
class _Session:
    """One comparison: its request, its folder, and the function that reports."""

    request: CompareRequest
    out: Path
    device: str
    threads: int | None
    report: Report | None

    def run(self) -> Comparison:
        """Check everything, train missing models, measure, and write."""
        request = self.request
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        plan, files, note, entries, data = self._check()
        if plan is not None:
            plan = train_missing(plan, self.out, self.device, self.threads, self.report)
            entries = [*self._trained(plan), *entries]
        UsageError.raise_all(conflicts(entries, bool(request.files.images)))
        comparison = self._compare(entries, data, files, plan, note)
        write_files(comparison, self.out)
        say(
            self.report,
            f"wrote {self.out / 'report.html'}, comparison.json and the tables as .csv",
        )
        return comparison

    def _check(self) -> tuple[Plan | None, Files, str, list[Entry], TestData]:
        """Read and check all there is before anything is trained. Raises UsageError or DataError
        with all causes.
        """
        request = self.request
        causes = self.request.files.problems()
        causes += check_out(self.out)
        if not (request.runs or request.presets or request.hypotheses):
            causes.append(
                "there is nothing to compare: give runs, `presets=` to train, or `hypotheses=`"
            )
        if request.presets and not request.files.has_training:
            causes.append(
                "`presets=`: to train needs `source=` and `target=`, `pairs=`, or `images=` and "
                "`captions=`"
            )
        if request.presets:
            causes += request.budget.problems()
        elif request.budget != Budget() or request.seeds != 1 or request.settings:
            causes.append(
                "`minutes=`, `updates=`, `tokens=`, `seeds=` and settings are for `presets=` to "
                "train"
            )
        if not 1 <= request.seeds <= 100:
            causes.append(f"`seeds={request.seeds}`: wanted 1 to 100")
        if not (request.files.has_test or request.presets):
            causes.append(
                "there is nothing to test on: give `test_source=` and `test_target=`, or "
                "`test_captions=`"
            )
        models, causes = _collect(
            lambda: model_plans(request.presets, request.settings), causes, {}
        )
        runs, causes = _collect(lambda: open_runs(request.runs), causes, list[Entry]())
        UsageError.raise_all(causes)
        had_data = (self.out / DATA).exists()
        try:
            return self._check_data(models, runs)
        except BaseException:
            if not had_data:  # pairs held out for a comparison that did not begin
                shutil.rmtree(self.out / DATA, ignore_errors=True)
                with suppress(OSError):
                    self.out.rmdir()
            raise

    def _check_data(
        self, models: Mapping[str, ModelPlan], runs: list[Entry]
    ) -> tuple[Plan | None, Files, str, list[Entry], TestData]:
        request = self.request
        (files, note), causes = _collect(
            lambda: split_off_test(request.files, self.out / DATA), [], (None, "")
        )
        data, causes = (
            _collect(lambda: read_test_data(files), causes, None)
            if files
            else (None, causes)
        )
        if data is None:
            raise DataError(*causes, *conflicts(runs, bool(request.files.images)))
        what = f"the test set ({data.test.name})"
        outputs, causes = _collect(
            lambda: open_hypotheses(request.hypotheses, len(data.test.sources), what),
            causes,
            [],
        )
        entries = [*runs, *outputs]
        causes += conflicts(entries, bool(files.images))
        causes += [cause for entry in runs for cause in _wrong_language(entry, data)]
        names = [*dict.fromkeys([*models, *(entry.system for entry in entries)])]
        causes += [
            f"{name}: a run has the name of a preset to train; give it another, as NAME=RUN"
            for name in models
            if name in {entry.system for entry in entries}
        ]
        if request.baseline and request.baseline not in names:
            causes.append(
                f"`baseline={request.baseline}`: no system has this name; there are "
                f"{', '.join(names)}"
            )
        DataError.raise_all(causes)
        return self._plan(models, files) if models else None, files, note, entries, data

    def _plan(self, models: Mapping[str, ModelPlan], files: Files) -> Plan:
        """Make the plan, or take the one that was begun in this folder. Raises UsageError if it is
        another one.
        """
        training = {
            name: value for name, value in files.training.items() if value is not None
        }
        plan = Plan(
            self.request.budget,
            self.request.seeds,
            training,
            models,
            self.request.first_seed,
        )
        begun = load_plan(self.out)
        if begun is not None:
            stripped = {
                name: replace(item, expected=0, updates=None)
                for name, item in begun.models.items()
            }
            differing = [
                name
                for name in ("budget", "data", "models", "first_seed")
                if getattr(replace(begun, models=stripped), name) != getattr(plan, name)
            ]
            if differing:
                raise UsageError(
                    f"{self.out}: another comparison was begun there (its "
                    f"{' and '.join(differing)} differ); repeat its arguments to continue it, or "
                    "choose another `out=`"
                )
            check_files(begun, self.out)
            return replace(begun, seeds=plan.seeds)  # more seeds may be added
        plan = complete_plan(plan, self.device, self.threads, self.report)
        plan.save(self.out)
        return plan

    def _trained(self, plan: Plan) -> list[Entry]:
        """The runs of the plan; systems in its order, their seeds together."""
        entries = []
        for name, seed, folder in sorted(
            plan.folders, key=lambda run: [*plan.models].index(run[0])
        ):
            (entry,) = open_runs([("", self.out / RUNS / folder)])
            title = f"{name} seed {seed}" if plan.seeds > 1 else name
            entries.append(replace(entry, name=title, system=name, seed=seed))
        return entries

    def _compare(
        self,
        entries: Sequence[Entry],
        data: TestData,
        files: Files,
        plan: Plan | None,
        note: str,
    ) -> Comparison:
        """Measure every run, and put all of it together."""
        request = self.request
        tokenize = _word_tokenizer(entries) if files.images else None
        measured = {
            entry.name: self._measure(entry, data) for entry in entries if entry.is_run
        }
        outputs = {
            e.name: measured[e.name].outputs if e.is_run else e.outputs or ()
            for e in entries
        }
        systems: dict[str, list[Entry]] = {}
        for entry in entries:
            systems.setdefault(entry.system, []).append(entry)
        baseline = request.baseline or next(iter(systems))
        longest = max(
            (len(line.split()) for lines in outputs.values() for line in lines),
            default=0,
        )
        is_slow = tokenize is None and longest > LONG and request.ter
        say(self.report, f"scoring, with paired bootstrap tests{SLOW_TER * is_slow}")
        language = next(
            (
                entry.settings.languages.target
                for entry in entries
                if entry.settings is not None
            ),
            "",
        )
        groups = _test_groups(entries, systems, baseline)
        scores = score_groups(
            data.test, groups, outputs, tokenize, request.ter, bleu_tokenizer(language)
        )
        singles = {
            name: sentence_scores(data.test, lines, tokenize)
            for name, lines in outputs.items()
        }
        firsts = {name: runs[0] for name, runs in systems.items()}
        times, unmeasured = self._times(
            data, [entry for entry in firsts.values() if entry.is_run]
        )
        results = {
            e.name: _result(
                e,
                outputs[e.name],
                scores[e.name],
                singles[e.name],
                measured.get(e.name),
                times,
            )
            for e in entries
        }
        by_system = {
            name: [results[run.name] for run in runs] for name, runs in systems.items()
        }
        training = read_training_words(files)
        return Comparison(
            task="captions" if files.images else "translation",
            test=replace(data.test, note=note),
            baseline=baseline,
            systems=tuple(_system(name, runs) for name, runs in by_system.items()),
            runs=tuple(results.values()),
            breakdowns=breakdowns(
                data.test,
                {
                    name: [run.outputs for run in runs]
                    for name, runs in by_system.items()
                },
                {
                    name: [run.sentence_scores for run in runs]
                    for name, runs in by_system.items()
                    if files.images
                },
                training,
                baseline,
            ),
            examples=self._examples(data, results, entries, firsts),
            budget=str(plan.budget) if plan is not None else "",
            notes=(
                *_notes(entries, plan, training, results, request.ter),
                *(f"{cause}." for cause in unmeasured),
            ),
            facts=self._facts(),
        )

    def _measure(self, entry: Entry, data: TestData) -> Measured:
        items = "images" if data.images else "lines"
        say(
            self.report,
            f"decoding {len(data.test.sources):,} {items} with {entry.name}",
        )
        return measure_run(
            entry, data, self.device, self.request.options, self.out / "cache"
        )

    def _times(
        self, data: TestData, runs: Sequence[Entry]
    ) -> tuple[Mapping[str, Mapping[str, float]], Sequence[str]]:
        """Measure speed and memory of these runs, if that is wanted; also return why some could not
        be measured.
        """
        if not self.request.speed or not runs:
            return {}, ()
        say(self.report, "measuring speed and memory, the models in turns")
        sources = list(map(str, data.images)) or [
            source for source in data.test.sources if source
        ]
        paths = {run.name: run.path for run in runs}
        times, causes = measure_speed(paths, sources, self.device, self.request.options)
        say(self.report, *(f"{cause}; all else is in the report" for cause in causes))
        return times, causes

    def _examples(
        self,
        data: TestData,
        results: Mapping[str, RunResult],
        entries: Sequence[Entry],
        firsts: Mapping[str, Entry],
    ) -> tuple[Example, ...]:
        """Choose the examples by the first run of each system, and show the attention of all runs,
        if they are few.
        """
        chosen = most_different(
            {
                name: results[entry.name].sentence_scores
                for name, entry in firsts.items()
            }
        )
        shown = entries if len(entries) <= MAX_SHOWN else list(firsts.values())
        pipelines = (
            (entry.name, load(entry.path, self.device))
            for entry in shown
            if entry.is_run
        )
        return make_examples(chosen, data, pipelines, self.request.options)

    def _facts(self) -> dict[str, str]:
        options = ", ".join(
            f"{name} {value}" for name, value in self.request.options.items()
        )
        return {
            "regard": __version__,
            "sacrebleu": str(sacrebleu_version),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {self.device}",
            "search": options or "that of each model folder",
        }


def _collect(make: Any, causes: list[str], default: Any) -> tuple[Any, list[str]]:
    """Call `make`; add the causes of its error to those there are, and return the default then."""
    try:
        return make(), causes
    except RegardError as problem:
        return default, [*causes, *problem.causes]


def _wrong_language(entry: Entry, data: TestData) -> list[str]:
    """Say if most of the test set has letters that a run never saw."""
    if (
        data.images
        or entry.settings is None
        or entry.settings.model.encoder.reads != "text"
    ):
        return []
    tokenizer = load_tokenizer(entry.path, entry.settings)
    sides = [(tokenizer.source, data.test.sources, "test_source")]
    sides.append(
        (
            tokenizer.target,
            tuple(texts[0] for texts in data.test.references),
            "test_target",
        )
    )
    causes = []
    for vocabulary, lines, name in sides:
        unknown = sum(
            vocabulary.unknown_share(line) > UNKNOWN for line in lines if line
        )
        if unknown > len(lines) / 2:
            causes.append(
                f"{entry.path}: most characters of most lines of `{name}=` were never seen in its "
                "training; give the test set of its languages, or leave it out"
            )
    return causes


def _word_tokenizer(entries: Sequence[Entry]) -> WordTokenizer:
    """Return the splitter of captions into words for scoring. Raises UsageError if the runs differ
    in that.
    """
    kinds = {
        entry.path: tokenizer_for(entry.settings.tokenizer)
        for entry in entries
        if entry.settings is not None
    }
    if len(set(kinds.values())) > 1:
        first, *others = kinds.items()
        other = next(item for item in others if item[1] is not first[1])
        raise UsageError(
            f"captions of {first[0]} are compared by {first[1].__name__} and those of {other[0]} "
            f"by {other[1].__name__}, as their vocabularies are (tokenizer.kind); compare them "
            "apart"
        )
    return next(iter(kinds.values()), words)


def _result(
    entry: Entry,
    outputs: Sequence[str],
    scores: tuple[RunScore, ...],
    singles: tuple[float, ...],
    measured: Measured | None,
    times: Mapping[str, Mapping[str, float]],
) -> RunResult:
    """Put together the results of a run, or of a file of outputs, which has no measurements."""
    result = RunResult(
        entry.name,
        entry.system,
        entry.seed,
        str(entry.path),
        "",
        scores,
        tuple(outputs),
        singles,
    )
    if measured is None:
        return result
    return replace(
        result,
        status=status_of(entry.path),
        curve=learning_curve(entry.path),
        cost=cost_of(measured, entry.path, times.get(entry.name, {})),
        calibration=measured.calibration,
        alignment=measured.alignment,
    )


def _test_groups(
    entries: Sequence[Entry], systems: Mapping[str, Sequence[Entry]], baseline: str
) -> list[list[str]]:
    """The names of runs that are tested together, a run of the baseline first: those of one seed.

    A run whose seed the baseline has not is tested against the baseline's first run.
    """
    bases = {entry.seed: entry.name for entry in reversed(systems[baseline])}
    first = systems[baseline][0].name
    groups: dict[str, list[str]] = {
        entry.name: [entry.name] for entry in systems[baseline]
    }
    for entry in entries:
        if entry.system != baseline:
            groups[bases.get(entry.seed, first)].append(entry.name)
    return list(groups.values())


def _system(name: str, runs: Sequence[RunResult]) -> System:
    """Return a system with the means of the scores that all of its runs have."""
    groups = [
        [score for run in runs for score in run.scores if score.name == first.name]
        for first in runs[0].scores
    ]
    means = tuple(over_seeds(scores) for scores in groups if len(scores) == len(runs))
    return System(name, tuple(run.name for run in runs), means)


def _notes(
    entries: Sequence[Entry],
    plan: Plan | None,
    training: TrainingWords,
    results: Mapping[str, RunResult],
    ter: bool,
) -> tuple[str, ...]:
    """Sentences that a reader needs to know."""
    notes = [
        f"{name}: {result.status}." for name, result in results.items() if result.status
    ]
    if plan is not None:
        for name, model in plan.models.items():
            notes.append(f"{name}: {model.updates or 0:,} updates for each seed.")
        notes.append(
            "Warm-up and validations are fitted to the budget, and no run was stopped early."
        )
    names = {score.name for result in results.values() for score in result.scores}
    if ter and "BLEU" in names and "TER" not in names:
        notes.append(
            f"TER is left out: a line has more than {MAX_TER_WORDS} words, for which it takes very "
            "long."
        )
    if training.target is None:
        notes.append(
            "Training data were not given, so words are not broken down by their frequency there."
        )
    times = any(
        result.cost is not None and result.cost.latency is not None
        for result in results.values()
    )
    if times and len(entries) > len({entry.system for entry in entries}):
        notes.append("Speed and memory are those of the first run of each system.")
    return tuple(notes)
