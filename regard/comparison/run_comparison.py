"""Compare several models on one test set: quality with significance, breakdowns, cost, and
training.

`compare` trains missing models under an equal budget, decodes, scores, and writes a report, JSON
and CSV. The command `regard compare` calls it.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import torch
from sacrebleu import __version__ as sacrebleu_version

from regard.common.errors import DataError, RegardError, UsageError
from regard.common.requests import takes
from regard.common.version import __version__
from regard.comparison.breakdowns import breakdowns
from regard.comparison.budget import (
    RUNS,
    Budget,
    Environment,
    ModelPlan,
    Plan,
    begin,
    model_plans,
    say,
    train_missing,
)
from regard.comparison.entries import (
    Entry,
    conflicts,
    open_hypotheses,
    open_runs,
)
from regard.comparison.examples import make_examples, most_different
from regard.comparison.files import folder_problems, write_files
from regard.comparison.measuring import Measured, decode_sample, measure_run
from regard.comparison.result import Comparison, Example, RunResult
from regard.comparison.run_results import (
    make_notes,
    make_run_result,
    make_system,
    test_groups,
)
from regard.comparison.scoring import score_groups, sentence_scores
from regard.comparison.summary import summarise
from regard.comparison.test_data import (
    TestData,
    read_test_data,
    read_training_words,
    split_off_test,
)
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.evaluation.caption_metrics import WordTokenizer, tokenizer_for, words
from regard.evaluation.speed import Timing, measure_speed
from regard.evaluation.text_metrics import longest_line
from regard.model_folder import load_tokenizer
from regard.models import select_device
from regard.pipeline import load
from regard.requests.compare_request import (
    CompareRequest,
    ComparisonFiles,
    named_paths,
)
from regard.runtime.engine import EngineName
from regard.search import SearchOptions

T = TypeVar("T")
D = TypeVar("D")
DATA = "data"
"""Folder within a comparison's folder for pairs held out of the training data."""
UNKNOWN_SHARE = 0.5
"""A test line is not in a model's language if a larger share of its characters was never seen in
training.
"""
MAX_SHOWN = 12
"""If there are more runs, attention is shown only for the first seed of each system."""
SLOW_TER_WORDS = 80
"""Words of an output line above which TER is slow."""
SLOW_TER = "; outputs are long, so TER may take minutes"


@takes(CompareRequest)
def compare(request: CompareRequest) -> Comparison:
    """Compare runs, models to be trained, and outputs of other systems; write report, JSON and CSV
    into `out`.

    - `runs`: run or model folders; as a mapping, or as pairs of a name and a folder, by name. Runs
      of one name are one system; without names, those whose recipes differ in the seed alone are
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
    return _Session(request).run()


def _paths(paths: object) -> list[tuple[str, Path]]:
    return [(name, Path(path)) for name, path in named_paths(paths)]


@dataclass
class _Session:
    """One comparison."""

    request: CompareRequest

    @cached_property
    def out(self) -> Path:
        return Path(self.request.out)

    @cached_property
    def device(self) -> str:
        return select_device(self.request.device)

    @cached_property
    def environment(self) -> Environment:
        return Environment(self.device, self.request.threads, self.request.report)

    @cached_property
    def search(self) -> SearchOptions:
        beam = self.request.beam
        return SearchOptions() if beam is None else SearchOptions(beam=beam)

    @cached_property
    def budget(self) -> Budget:
        request = self.request
        return Budget(request.minutes, request.updates, request.tokens)

    def run(self) -> Comparison:
        """Check everything, train missing models, measure, and write."""
        request = self.request
        if self.request.threads is not None:
            torch.set_num_threads(self.request.threads)
        plan, files, note, entries, data = self._check()
        if plan is not None:
            plan = train_missing(plan, self.out, self.environment)
            entries = [*self._trained(plan), *entries]
        UsageError.raise_all(conflicts(entries, bool(request.images)))
        comparison = self._compare(entries, data, files, plan, note)
        write_files(comparison, self.out)
        say(
            self.request.report,
            f"wrote {self.out / 'report.html'}, comparison.json and the tables as .csv",
        )
        return comparison

    def _check(self) -> tuple[Plan | None, ComparisonFiles, str, list[Entry], TestData]:
        """Read and check all inputs before anything is trained. Raises UsageError or DataError with
        all causes.
        """
        request = self.request
        causes = self.request.problems()
        causes += folder_problems(self.out)
        if not (request.runs or request.presets or request.hypotheses):
            causes.append(
                "there is nothing to compare: give runs, `presets=` to train, or `hypotheses=`"
            )
        if request.presets and not request.has_training:
            causes.append(
                "`presets=`: to train needs `source=` and `target=`, `pairs=`, or `images=` and "
                "`captions=`"
            )
        if request.presets:
            causes += self.budget.problems()
        elif self.budget != Budget() or request.seeds != 1 or request.settings:
            causes.append(
                "`minutes=`, `updates=`, `tokens=`, `seeds=` and settings are for `presets=` to "
                "train"
            )
        if not 1 <= request.seeds <= 100:
            causes.append(f"`seeds={request.seeds}`: wanted 1 to 100")
        if not (request.has_test or request.presets):
            causes.append(
                "there is nothing to test on: give `test_source=` and `test_target=`, or "
                "`test_captions=`"
            )
        models = _collect(
            lambda: model_plans(request.presets, request.settings or {}), {}, causes
        )
        runs = _collect(lambda: open_runs(_paths(request.runs)), [], causes)
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
    ) -> tuple[Plan | None, ComparisonFiles, str, list[Entry], TestData]:
        """Read the test set, check all that depends on it, and make the plan of the training, if
        there are models to train.

        Raises UsageError or DataError with all causes.
        """
        request = self.request
        causes = list[str]()
        files, note = _collect(
            lambda: split_off_test(request, self.out / DATA), (None, ""), causes
        )
        data = None
        if files is not None:
            data = _collect(partial(read_test_data, files), None, causes)
        if files is None or data is None:
            raise DataError(*causes, *conflicts(runs, bool(request.images)))
        test_name = f"the test set ({data.test.name})"
        hypotheses = _paths(request.hypotheses or ())
        outputs = _collect(
            lambda: open_hypotheses(hypotheses, len(data.test.sources), test_name),
            [],
            causes,
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
        plan = self._plan(models, files, data) if models else None
        return plan, files, note, entries, data

    def _plan(
        self, models: Mapping[str, ModelPlan], files: ComparisonFiles, data: TestData
    ) -> Plan:
        """Make the plan, or load that of the comparison begun in this folder."""
        training = {
            name: value for name, value in files.training.items() if value is not None
        }
        plan = Plan(
            self.budget,
            self.request.seeds,
            training,
            models,
            1 if self.request.seed is None else self.request.seed,
        )
        decode = partial(decode_sample, data=data, options=self.search)
        return begin(plan, self.out, self.environment, decode)

    def _trained(self, plan: Plan) -> list[Entry]:
        """Open the runs of the plan, in the order of its models, the seeds of a model together."""
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
        files: ComparisonFiles,
        plan: Plan | None,
        note: str,
    ) -> Comparison:
        """Measure and score every run, and collect the results."""
        request = self.request
        systems: dict[str, list[Entry]] = {}
        for entry in entries:
            systems.setdefault(entry.system, []).append(entry)
        baseline = request.baseline or next(iter(systems))
        first_runs = {name: runs[0] for name, runs in systems.items()}
        groups = test_groups(entries, systems, baseline)
        results, unmeasured = self._results(entries, data, groups, first_runs.values())

        by_system = {
            name: [results[run.name] for run in runs] for name, runs in systems.items()
        }
        output_lines = {
            name: [run.outputs for run in runs] for name, runs in by_system.items()
        }
        caption_scores = dict[str, list[tuple[float, ...]]]()
        if files.images:
            for name, results_of_system in by_system.items():
                caption_scores[name] = [
                    run.sentence_scores for run in results_of_system
                ]
        training = read_training_words(files)
        notes = make_notes(entries, plan, training, results, request.ter)
        comparison = Comparison(
            task="captions" if files.images else "translation",
            test=replace(data.test, note=note),
            baseline=baseline,
            systems=tuple(
                make_system(name, runs, () if name == baseline else by_system[baseline])
                for name, runs in by_system.items()
            ),
            runs=tuple(results.values()),
            breakdowns=breakdowns(
                data.test, output_lines, caption_scores, training, baseline
            ),
            examples=self._examples(data, results, entries, first_runs),
            budget=str(plan.budget) if plan is not None else "",
            notes=(*notes, *(f"{cause}." for cause in unmeasured)),
            facts=self._facts(),
        )
        return replace(comparison, summary=summarise(comparison))

    def _results(
        self,
        entries: Sequence[Entry],
        data: TestData,
        groups: Sequence[Sequence[str]],
        timed: Iterable[Entry],
    ) -> tuple[dict[str, RunResult], Sequence[str]]:
        """Measure, score and time; return the result of each entry, and the reasons why runs could
        not be timed.
        """
        tokenize = _word_tokenizer(entries) if data.images else None
        measured = {
            entry.name: self._measure(entry, data) for entry in entries if entry.is_run
        }
        outputs = {
            entry.name: (
                measured[entry.name].outputs if entry.outputs is None else entry.outputs
            )
            for entry in entries
        }
        ter = self.request.ter
        longest = longest_line(outputs.values())
        is_slow = tokenize is None and longest > SLOW_TER_WORDS and ter
        say(
            self.request.report,
            f"scoring, with paired bootstrap tests{SLOW_TER if is_slow else ''}",
        )
        settings = [entry.settings for entry in entries if entry.settings is not None]
        language = settings[0].languages.target if settings else ""
        scores = score_groups(
            data.test, groups, outputs, tokenize, ter, bleu_tokenizer(language)
        )
        line_scores = {
            name: sentence_scores(data.test, lines, tokenize)
            for name, lines in outputs.items()
        }
        timed_runs = [entry for entry in timed if entry.is_run]
        engine = _shared_engine([measured[entry.name].decoding for entry in timed_runs])
        times, unmeasured = self._times(data, timed_runs, engine)
        results = {
            entry.name: make_run_result(
                entry,
                outputs[entry.name],
                scores[entry.name],
                line_scores[entry.name],
                measured.get(entry.name),
                times.get(entry.name),
            )
            for entry in entries
        }
        return results, unmeasured

    def _measure(self, entry: Entry, data: TestData) -> Measured:
        items = "images" if data.images else "lines"
        say(
            self.request.report,
            f"decoding {len(data.test.sources):,} {items} with {entry.name}",
        )
        return measure_run(entry, data, self.device, self.search, self.out / "cache")

    def _times(
        self, data: TestData, runs: Sequence[Entry], engine: EngineName
    ) -> tuple[Mapping[str, Timing], Sequence[str]]:
        """Measure speed and memory of these runs with an engine if the request asks for it; return
        them with the reasons why runs could not be measured.
        """
        if not self.request.speed or not runs:
            return {}, ()
        say(self.request.report, "measuring speed and memory, the models in turns")
        sources = list(map(str, data.images)) or [
            source for source in data.test.sources if source
        ]
        paths = {run.name: run.path for run in runs}
        times, causes = measure_speed(
            paths,
            sources,
            self.device,
            self.search,
            engine,
            partial(say, self.request.report),
        )
        say(
            self.request.report,
            *(f"{cause}; all else is in the report" for cause in causes),
        )
        return times, causes

    def _examples(
        self,
        data: TestData,
        results: Mapping[str, RunResult],
        entries: Sequence[Entry],
        first_runs: Mapping[str, Entry],
    ) -> tuple[Example, ...]:
        """Choose examples by the first run of each system; show the attention of all runs, or only
        of these first runs if there are many.
        """
        scores = {
            name: results[entry.name].sentence_scores
            for name, entry in first_runs.items()
        }
        chosen = most_different(scores)
        shown = entries if len(entries) <= MAX_SHOWN else list(first_runs.values())
        pipelines = (
            (entry.name, load(entry.path, self.device))
            for entry in shown
            if entry.is_run
        )
        return make_examples(chosen, data, pipelines, self.search)

    def _facts(self) -> dict[str, str]:
        options = ", ".join(f"{name} {value}" for name, value in self.search.items())
        return {
            "regard": __version__,
            "sacrebleu": str(sacrebleu_version),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {self.device}",
            "search": options or "that of each model folder",
        }


def _collect(make: Callable[[], T], default: D, causes: list[str]) -> T | D:
    """Return the result of `make`.

    If it raises RegardError, return the default, and add the causes of the error to `causes`.
    """
    try:
        return make()
    except RegardError as problem:
        causes += problem.causes
        return default


def _wrong_language(entry: Entry, data: TestData) -> list[str]:
    """Return a sentence for each side of the test set most of whose characters a run never saw."""
    settings = entry.settings
    if data.images or settings is None or settings.model.encoder.reads != "text":
        return []
    tokenizer = load_tokenizer(entry.path, settings)
    references = tuple(texts[0] for texts in data.test.references)
    sides = [
        (tokenizer.source, data.test.sources, "test_source"),
        (tokenizer.target, references, "test_target"),
    ]
    causes = []
    for vocabulary, lines, name in sides:
        unknown = sum(
            vocabulary.unknown_share(line) > UNKNOWN_SHARE for line in lines if line
        )
        if unknown > len(lines) / 2:
            causes.append(
                f"{entry.path}: most characters of most lines of `{name}=` were never seen in its "
                "training; give the test set of its languages, or leave it out"
            )
    return causes


def _shared_engine(decodings: Iterable[str]) -> EngineName:
    """Return the engine to time all runs with: PyTorch if it alone can decode some of them."""
    engines = {decoding.partition(",")[0] for decoding in decodings}
    return "pytorch" if len(engines) > 1 else "auto"


def _word_tokenizer(entries: Sequence[Entry]) -> WordTokenizer:
    """Return the tokenizer with which captions are scored. Raises UsageError if runs have different
    ones.
    """
    first: tuple[Path, WordTokenizer] | None = None
    for entry in entries:
        if entry.settings is None:
            continue
        tokenize = tokenizer_for(entry.settings.tokenizer)
        if first is None:
            first = (entry.path, tokenize)
        first_path, first_tokenize = first
        if tokenize is not first_tokenize:
            raise UsageError(
                f"captions of {first_path} are compared by {first_tokenize.__name__} and those of "
                f"{entry.path} by {tokenize.__name__}, as their vocabularies are (tokenizer.kind); "
                "compare them apart"
            )
    return words if first is None else first[1]
