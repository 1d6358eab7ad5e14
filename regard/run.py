"""Train a model from a recipe and data files into a run folder.

`train` is the training application; the command `regard train` and the demonstrations call it too.
It reports events to a callback and prints nothing.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast, overload

import sentencepiece
import torch

from regard.common.arguments import Report
from regard.common.atomic import write_text
from regard.common.checksums import json_digest
from regard.common.counting import counted, format_duration
from regard.common.errors import LineWarning, ModelFolderError, UsageError
from regard.common.notebook import data_frame, html_table, progress_bar
from regard.common.plugins import naming_plugins
from regard.common.processes import torch_threads
from regard.common.reading import check_links
from regard.common.requests import takes
from regard.common.settings import read_toml
from regard.common.version import __version__
from regard.data.batch_stream import BatchSource
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus import Corpus
from regard.data.corrections import TRANSLATIONS, write_translations
from regard.data.given_pairs import write_pairs
from regard.data.language_id import LanguageId
from regard.data.languages import Languages
from regard.data.prepare import PreparedData, prepare_data
from regard.data.prepare_captions import CaptionCorpus
from regard.data.provenance import write_corpora
from regard.data.seen_token_pairs import SeenTokenPairs
from regard.data.sentence_ends import count_sentences, usual_clauses
from regard.data.tokenizer import Tokenizer
from regard.evaluation.caption_metrics import score_captions, tokenizer_for
from regard.evaluation.quality_fit import calibrate
from regard.evaluation.run_pages import RunPages
from regard.evaluation.sampling import sample_within
from regard.evaluation.significance import score_with_intervals
from regard.evaluation.text_metrics import MOST, score_notes, short_lines
from regard.evaluation.validation import make_validator
from regard.evaluation.validation_outputs import (
    MAX_OUTPUTS,
    ValidationOutputs,
    caption_validation,
    compare_with_parent,
    describe_sample,
    translate_validation,
)
from regard.model_folder import (
    ALIGNMENT,
    CONFIG,
    LANGUAGES,
    WEIGHTS,
    FolderSettings,
    load_settings,
    load_tokenizer,
    load_weights,
    named_weights,
    save_folder,
    save_language_id,
    save_weights,
    weights_id,
    write_settings,
)
from regard.models import Model, build, count_parameters, load_pretrained, select_device
from regard.pipeline import Captioner, FolderTranslator, Translation
from regard.pipeline.model_loading import Task, load
from regard.requests.train_request import TrainArguments, TrainRequest, is_iterable
from regard.runtime.native import processor_fields
from regard.training import Outcome, Recipe, Trainer, World, model_card
from regard.training.best_weights import REPORT, update_of
from regard.training.budget import BudgetChoice, choose, enough_tokens, trial
from regard.training.callbacks import REPLACED, Extensions
from regard.training.checkpoint import has_checkpoint
from regard.training.compose_recipe import (
    ParentRun,
    RecipeComposer,
    length_setting,
)
from regard.training.distributed import join_processes
from regard.training.early_stopping import is_patience_over
from regard.training.guided import Guide
from regard.training.journal import (
    VALIDATED,
    JournalEvent,
    describe_test,
    of_kind,
    read,
    scores_of,
)
from regard.training.recipe import read_run_recipe
from regard.training.recipe_diff import IMAGE, reconcile
from regard.training.run_lock import lock_run
from regard.training.run_report import report_run
from regard.training.script_check import check_scripts
from regard.training.tensorboard_log import with_tensorboard
from regard.training.trainer import CLOSING_SHARE, NONE

WRITTEN = {"pairs": "pairs.jsonl", "valid_pairs": "valid_pairs.jsonl"}
"""Files of pairs that a program gave, by argument."""
RUN_FILES = [
    CONFIG,
    WEIGHTS,
    ALIGNMENT,
    LANGUAGES,
    "train.toml",
    "journal.jsonl",
    "README.md",
    "data.json",
    "joint.model",
    "valid.tsv",
    "test.tsv",
    *WRITTEN.values(),
    TRANSLATIONS,
    REPORT,
    "source.model",
    "target.model",
    "checkpoints",
    "shards",
    "images",
    "board",
]
"""The files and folders that training reads and writes in a run folder."""
BEAM_TIME_RATIO = 2.0
"""Time of a line in the default search, as a multiple of that in a validation."""
DOUBTFUL_SHARE = 0.03
"""Share of validation lines that count as doubtful."""
_REMEDY = (
    f"copy it again from where the run was trained, or delete it: `resume=True` writes {CONFIG} "
    "anew"
)


@dataclass(frozen=True)
class Run:
    """A run that has ended: its folder, its final recipe, and how it ended."""

    folder: Path
    recipe: Recipe
    outcome: Outcome

    @property
    def journal(self) -> list[JournalEvent]:
        """Events of the run in order, such as "train" with losses and "valid" with scores."""
        return read(self.folder / "journal.jsonl")

    @property
    def best(self) -> dict[str, float]:
        """Loss and scores of the best validation, whose weights are in the folder.

        Empty if there was no validation.
        """
        update = self.outcome.progress.best_update
        validations = [
            event
            for event in of_kind(self.journal, "valid")
            if event["update"] == update
        ]
        return scores_of(validations[-1]) if validations else {}

    @overload
    def load(
        self, device: str = "cpu", *, task: Literal["translation"]
    ) -> FolderTranslator: ...

    @overload
    def load(self, device: str = "cpu", *, task: Literal["captions"]) -> Captioner: ...

    @overload
    def load(self, device: str = "cpu") -> Any: ...

    def load(self, device: str = "cpu", *, task: Task | None = None) -> Any:
        """Load a Translator or a Captioner with the best weights; `task` as in `regard.load`."""
        return load(self.folder, device, task=task)

    def to_frame(self) -> Any:
        """Return losses, validations and what callbacks logged as a data frame of pandas, a row
        for each event.

        Raises UsageError without pandas.
        """
        shown = ("train", "valid", "callback")
        return data_frame(event for event in self.journal if event["event"] in shown)

    def __repr__(self) -> str:
        progress = self.outcome.progress
        score = f", {progress.best_by} {abs(progress.best):.2f}" * bool(
            progress.best_by
        )
        return (
            f"Run({str(self.folder)!r}, {counted(progress.update, 'update')}{score}: "
            f"{self.outcome.reason})"
        )

    def _repr_html_(self) -> str:
        names = ("update", *VALIDATED)
        rows = [
            {name: value for name, value in event.items() if name in names}
            for event in of_kind(self.journal, "valid")
        ]
        return html_table(repr(self), rows)


class Interrupted(Exception):
    """Error: a signal stopped a training that is part of a larger task; its checkpoint is saved."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


@dataclass(frozen=True)
class TrainPlan:
    """Seconds and target tokens of an update, timed on the data of the run."""

    seconds_per_update: float
    tokens_per_update: float


@takes(TrainRequest)
def train(request: TrainRequest) -> Run:
    """Train a model into the folder `out`.

    Training ends when all updates are done, when `patience` validations have brought no better
    score, or at Ctrl-C.

    - `recipe`: a Recipe, or a TOML file with a whole or partial one; data files and settings take
      precedence over it.
    - `source` to `valid_captions`: training and validation files; without validation files some
      pairs are held out. `pairs` and `valid_pairs` may also be iterables of (source, target),
      which are written to the run folder first.
    - `languages`: codes such as "ko,en", or a single one for captions; by default they are the
      endings of the file names.
    - `preset`: the name of a recipe to start from (`regard.presets()`).
    - `parent`: a run whose weights and vocabulary this one starts from (fine-tuning).
    - `settings`: any settings by dotted name: {"training.updates": 500}.
    - `budget`: a time such as "30m", after which training ends; it also chooses the model size,
      unless that is given. With `resume`: the time to train longer.
    - `test`: a file of pairs, or the number of pairs to hold out; they are translated and scored
      once, at the end.
    - `resume`: continue the run in `out` from its last checkpoint.
    - `objective`: a function of the model and a batch (teacher forcing) that returns the `Loss`,
      in place of that of the recipe (`regard.training.loss.Objective`).
    - `callbacks`: objects of classes that inherit from `regard.Callback`. The recipe records
      objective and callbacks by name, and a run is resumed only with them.
    - `report`: called with the name and the values of each event: "message", "train", "valid",
      "end" and others; in a notebook, without one, a bar shows the progress.

    Raises UsageError for wrong arguments or another run in `out`, ConfigurationError for settings,
    DataError for data files, and TrainingError if training cannot continue.
    """
    with (
        torch_threads(request.threads),
        join_processes(select_device(request.device), request.threads) as (
            world,
            local_device,
        ),
    ):
        if world.is_main and not world.restarted:
            _write_pairs(request)
        world.barrier()
        request = _with_written_pairs(request)
        composer = RecipeComposer(request)
        if world.restarted:
            # The folder has the recipe that was composed when the run began.
            composer = RecipeComposer(TrainArguments(resume=True))
        composer.check()
        out = Path(request.out)
        recipe = composer.compose(out)
        extensions = Extensions(request.objective, tuple(request.callbacks))
        extensions.check(recipe.training, is_begun=False)
        recipe = recipe.with_values(
            training={**recipe.training.model_dump(), **extensions.names}
        )
        if extensions.callbacks and world.size > 1:
            raise UsageError(
                f"`callbacks=`: each of {world.size} processes would call them; train in one"
            )
        world = world.split(bool(recipe.training.sharded))
        session = _Session(
            out=out,
            resume=composer.request.resume,
            sizes=composer.sizes(recipe),
            device=local_device,
            world=world,
            report=(request.report or progress_bar()) if world.is_main else None,
            parent=ParentRun.of(recipe),
            more_minutes=composer.more_minutes,
            extensions=extensions,
        )
        session.say(*composer.describe_choices(recipe))
        if extensions.objective is not None:
            session.say(
                f"objective: {recipe.training.objective}; it replaces {REPLACED} of training"
            )
        with _deterministic(local_device, recipe.model.encoder.reads == "text"):
            return session.run(recipe)


def _write_pairs(request: TrainRequest) -> None:
    """Write pairs that a program gives to files of the run folder, which then keeps them.

    Raises UsageError for a folder of another run, and DataError for the pairs.
    """
    given = {
        name: value for name in WRITTEN if is_iterable(value := getattr(request, name))
    }
    out = Path(request.out)
    if given and request.resume:
        raise UsageError(
            f"`{next(iter(given))}=`: a resumed run has its pairs in {out}; leave it out"
        )
    if not given:
        return
    _check_folder(out, resume=False)
    with lock_run(out):
        for name, pairs in given.items():
            write_pairs(pairs, out / WRITTEN[name], f"`{name}=`")


def _with_written_pairs(request: TrainRequest) -> TrainRequest:
    """Return the request with the files of the pairs in place of the iterables."""
    files: dict[str, Any] = {
        name: Path(request.out) / file
        for name, file in WRITTEN.items()
        if is_iterable(getattr(request, name))
    }
    return replace(request, **files)


def dry_run(
    request: TrainArguments, report: Report | None = None, processes: int = 1
) -> list[str]:
    """Return lines that describe a run without training it, and write nothing.

    They tell about model, memory, time and other runtimes. With several `processes`, they also
    forecast training with that many processes of this machine. Raises UsageError for too many.
    """
    composer = RecipeComposer(request)
    composer.check(dry_run=True)
    with _rehearsal(composer, report) as (session, recipe, data):
        timed = None
        choice = session.choose_for_budget(recipe, data)
        if choice is not None:
            recipe = choice.recipe
            timed = choice.trial
        torch.manual_seed(recipe.training.seed)
        model = session.build_model(recipe, data.tokenizer)
        session.say(_describe_batches(data.batches, recipe))
        return list(
            report_run(model, recipe, data.batches, session.device, timed, processes)
        )


@naming_plugins
def plan_training(
    request: TrainArguments, decode: Callable[[Any], object] | None = None
) -> TrainPlan:
    """Read the data of a run and time a few updates, without writing anything.

    `decode` is called with a translator or captioner whose model is new. The state of PyTorch's
    random numbers stays as it is.
    """
    with (
        torch_threads(request.threads),
        _rehearsal(RecipeComposer(request), None) as (session, recipe, data),
    ):
        vocabularies = len(data.tokenizer.source), len(data.tokenizer.target)
        timed = trial(recipe, data.batches, vocabularies, session.device)
        if decode is not None:
            with torch.random.fork_rng(devices=[]):
                model = session.build_model(recipe, data.tokenizer)
            session._make_folder(recipe, data)
            save_weights(session.out, named_weights(model))
            decode(load(session.out, session.device))
        stats = data.batches.epoch_stats
        tokens_per_batch = stats.tokens[1] / max(1, stats.batches)
        return TrainPlan(timed.seconds, tokens_per_batch * data.batches.per_update)


@contextmanager
def _rehearsal(
    composer: RecipeComposer, report: Report | None
) -> Iterator[tuple[_Session, Recipe, PreparedData]]:
    """Compose the recipe and read the data of a run in a temporary folder."""
    recipe = composer.compose()
    sizes = composer.sizes(recipe)
    device = select_device(composer.request.device)
    recipe.model.check(recipe.tokenizer.joint)
    if (parent := ParentRun.of(recipe)) is not None:
        parent.check(recipe)
    recipe = recipe.resolved(device)
    with TemporaryDirectory() as folder:
        session = _Session(
            out=Path(folder),
            resume=False,
            sizes=sizes,
            device=device,
            world=World(),
            report=report,
            parent=parent,
        )
        session.say(*composer.describe_choices(recipe))
        session.say(*_describe_guide(recipe))
        yield session, recipe, session.read_data(recipe, started=False)


@contextmanager
def _deterministic(device: str, strict: bool) -> Iterator[None]:
    """Make a GPU compute deterministically while the block runs.

    A resumed run then has the weights of an uninterrupted one; on a CPU that is always so. If
    `strict`, PyTorch raises RuntimeError for an operation without a deterministic kernel. Otherwise
    it warns, and the gradients of attention depend on the order in which GPU blocks end.
    """
    if not device.startswith("cuda"):
        yield
        return
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    # cuBLAS reads this variable when it is first used.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@dataclass(frozen=True)
class _Session:
    """One call of `train`, with the settings that do not belong to the recipe."""

    out: Path
    resume: bool
    sizes: Mapping[str, Recipe]  # recipes that a time budget chooses from
    device: str
    world: World
    report: Report | None
    parent: ParentRun | None
    more_minutes: float | None = None  # that a resumed run is to train
    extensions: Extensions = NONE
    began: float = field(default_factory=lambda: time.monotonic())

    @property
    def _minutes(self) -> float:
        """The minutes that this call has taken."""
        return (time.monotonic() - self.began) / 60

    def say(self, *lines: str) -> None:
        """Report messages, which are not written to the journal."""
        for line in lines:
            if self.report is not None:
                self.report("message", {"text": line})

    def run(self, recipe: Recipe) -> Run:
        """Train by this recipe.

        Raises UsageError if the folder holds another run, or another process trains in it.
        """
        recipe.model.check(recipe.tokenizer.joint)
        if not self.resume and self.parent is not None:
            self.parent.check(recipe)
            self.say(*self.parent.describe_languages(recipe))
        if self.world.is_main:
            _check_folder(self.out, self.resume)
        with lock_run(self.out) if self.world.is_main else nullcontext():
            if self.world.is_main and not self.resume:
                _begin_anew(self.out)
            self.world.barrier()
            return self._train(recipe)

    def _train(self, recipe: Recipe) -> Run:
        if self.resume:
            path = self.out / "train.toml"
            before = Recipe.parse(read_run_recipe(path), str(path))
            self.extensions.check(before.training, is_begun=True)
            recipe, differences = reconcile(before, recipe)
            self.say(*differences)
        recipe = recipe.resolved(self.device, self.world.size)
        self.say(
            *_describe_guide(recipe),
            *(
                f"an experiment, not for use: {text}"
                for text in recipe.model.ablations()
            ),
        )
        has_weights = self.resume and has_checkpoint(self.out)
        recipe, settings, data = self._prepare(recipe)
        recipe = self._meaningful(recipe, data)
        torch.manual_seed(recipe.training.seed)
        model = self.build_model(recipe, data.tokenizer, has_weights)
        self.say(
            f"model: {count_parameters(model):,} weights · {recipe.training.precision} on "
            f"{self.device}{_describe_processes(self.world)}",
            _describe_batches(data.batches, recipe),
        )

        validate = make_validator(
            data.valid, data.tokenizer, settings, recipe.training.validate_with
        )
        report = with_tensorboard(
            self.report, self.out, recipe.training.tensorboard and self.world.is_main
        )
        epoch_tokens = data.batches.epoch_stats.tokens[1]
        enough = enough_tokens(epoch_tokens, count_parameters(model))
        pages = RunPages(self.out, recipe, validate, data, enough)
        if self.world.is_main:
            report = pages.listen(report)
        closing_ratio = _closing_ratio(data, recipe.training.validate_with)
        trainer = Trainer(
            model,
            data.batches,
            recipe,
            self.out,
            validate,
            report,
            self.world,
            closing_ratio,
            self.extensions,
        )
        if self.resume:
            self._resume(trainer, settings)
        if self.world.is_main:
            write_corpora(self.out, data.facts, data.report)
            # From here on the folder has all that torchrun needs to restart this run.
            self.world.mark_started()
            trainer.journal.write(
                "machine",
                **machine(self.device),
                processes=self.world.size,
                command=model_card.command_line(),
            )

        outcome = trainer.run()
        if self.world.is_main:
            seconds = CLOSING_SHARE * outcome.progress.elapsed
            if data.test is not None and outcome.stopped is None:
                seconds /= 2
                if isinstance(data.test, CaptionCorpus):
                    scores = self._score_captions(data.test, seconds)
                else:
                    scores = self._score_test(data.test, seconds)
                update = update_of(self.out / WEIGHTS)
                trainer.journal.write("test", **scores, update=update)
            self._finish(data, outcome, pages, seconds)
            quality = load_settings(self.out).quality
            model_card.write(self.out, trainer.recipe, quality)
        return Run(self.out, trainer.recipe, outcome)

    def _resume(self, trainer: Trainer, settings: FolderSettings) -> None:
        """Continue from the last checkpoint.

        Raises ModelFolderError for the settings of another run.
        """
        if not trainer.resume():
            self.say("there is no checkpoint yet: starting from the beginning")
        elif weights_id(self.out) not in ("", settings.seal.id):
            raise ModelFolderError(
                f"{self.out / CONFIG}: is of another run than {WEIGHTS}; {_REMEDY}"
            )
        if self.more_minutes is not None:
            trainer.train_longer(self.more_minutes - self._minutes)
        if self.world.is_main:
            trainer.recipe.write(self.out / "train.toml")

    def _finish(
        self, data: PreparedData, outcome: Outcome, pages: RunPages, seconds: float
    ) -> None:
        """Write the report by outputs of the default search, which may take so many seconds.

        From translated validation sources also learn when a translation is doubtful. After a stop
        nothing is translated: nothing is learnt of it, and the report is that of the best
        validation.
        """
        sources: list[str] = []
        translations: list[Translation] = []
        outputs = ValidationOutputs((), (), "")
        if outcome.stopped is None:
            with warnings.catch_warnings():
                # An experiment was named when training began.
                warnings.simplefilter("ignore", UserWarning)
                pipeline = load(self.out, self.device)
            if isinstance(data.valid, CaptionCorpus):
                outputs = caption_validation(pipeline, data.valid, seconds)
            else:
                valid = None if self.parent is None else self.parent.validation_pairs()
                seconds /= 1 if valid is None else 2
                outputs, sources, translations = translate_validation(
                    pipeline, data.valid, seconds
                )
                if self.parent is not None and valid is not None:
                    parent = load(self.parent.path, self.device)
                    notes = compare_with_parent(parent, pipeline, valid, seconds)
                    outputs = replace(outputs, notes=(*outputs.notes, *notes))
        if isinstance(data.valid, Corpus):
            targets = data.valid.targets
            quality = calibrate(translations, [targets[line] for line in outputs.lines])
            if quality is not None:
                settings = load_settings(self.out).with_values(quality=quality)
                write_settings(self.out, settings)
            elif pages.recipe.search.score_threshold is None:
                self._learn_threshold(translations)
            if self.parent is None:  # the parent's training text is not available
                self._learn_seen_token_pairs(data, sources)
        if not outputs.texts:
            return
        by_patience = is_patience_over(
            outcome.progress.validations_since_best, pages.recipe.training.patience
        )
        sentences = pages.write_report(outputs, by_patience)
        self.say(*sentences, f"report: {self.out / REPORT}")

    def _score_test(self, test: Corpus, seconds: float) -> dict[str, object]:
        """Translate test pairs with the best weights for so long; return scores with intervals."""
        translator = load(self.out, self.device)
        with warnings.catch_warnings():
            # Lines without a translation are scored as empty ones.
            warnings.simplefilter("ignore", LineWarning)
            lines, translations = sample_within(
                seconds, test.sources, translator.translate
            )
        outputs = [translation.text for translation in translations]
        tokenizer = bleu_tokenizer(translator.settings.languages.target)
        all_targets = test.targets
        targets = [all_targets[line] for line in lines]
        tested = score_with_intervals(outputs, [targets], tokenizer)
        sources = test.sources
        chosen = [sources[line] for line in lines]
        path = write_translations(self.out, zip(chosen, targets, outputs, strict=True))
        event: JournalEvent = {
            "pairs": len(lines),
            "beam": translator.settings.search.beam,
            "scores": [cast(Any, asdict(score)) for score in tested],
        }
        self.say(
            f"test on {describe_test(event)}",
            *describe_sample(len(lines), len(test), "test pair"),
            *score_notes(outputs, targets, tokenizer),
            f"translations for a reader to correct: {path} (regard evaluate RUN --corrections)",
        )
        return dict(event)

    def _score_captions(self, test: CaptionCorpus, seconds: float) -> dict[str, object]:
        """Caption test images with the best weights for so long; return scores with intervals."""
        captioner = load(self.out, self.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lines, captions = sample_within(seconds, test.images, captioner.caption)
        references = test.caption_set.references
        settings = captioner.settings
        tested = score_captions(
            [caption.text for caption in captions],
            [references[line] for line in lines],
            tokenizer_for(settings.tokenizer),
            bleu_tokenizer(settings.languages.target),
        )
        event: JournalEvent = {
            "pairs": len(lines),
            "unit": "image",
            "beam": settings.search.beam,
            "scores": [cast(Any, asdict(score)) for score in tested],
        }
        self.say(
            f"test on {describe_test(event)}",
            *describe_sample(len(lines), len(test), "test image"),
        )
        return dict(event)

    def _learn_threshold(self, translations: Sequence[Translation]) -> None:
        """Write to a model folder without a quality the score below which `DOUBTFUL_SHARE` of the
        lines are.
        """
        settings = load_settings(self.out)
        lowest = (
            min((part.score for part in translation.parts), default=0.0)
            for translation in translations
        )
        # A copied line has the score 0.
        scores = sorted(score for score in lowest if -math.inf < score < 0)
        threshold = None
        if scores:
            score = scores[int(DOUBTFUL_SHARE * len(scores))]
            threshold = math.floor(1e4 * score) / 1e4
        search = settings.search.with_values(score_threshold=threshold)
        write_settings(self.out, settings.with_values(search=search))

    def _learn_seen_token_pairs(
        self, data: PreparedData, validation_sources: Sequence[str]
    ) -> None:
        """Write the bigrams of the training sources to the model folder, unless there are too
        many.
        """
        encode = data.tokenizer.source.encode
        familiar = SeenTokenPairs.learn(
            map(encode, data.sample[0]), map(encode, validation_sources), DOUBTFUL_SHARE
        )
        if familiar is not None:
            settings = load_settings(self.out).with_values(familiar=familiar)
            write_settings(self.out, settings)

    def _meaningful(self, recipe: Recipe, data: PreparedData) -> Recipe:
        """Return the recipe, with another score to choose by if BLEU means nothing."""
        if recipe.training.best_by != "bleu" or not isinstance(data.valid, Corpus):
            return recipe
        tokenizer = bleu_tokenizer(recipe.data.languages.target)
        if short_lines(data.valid.targets, tokenizer) <= MOST:
            return recipe
        self.say(
            "training.best_by = 'bleu' means nothing for validation lines of fewer than four "
            "words: 'chrf' holds"
        )
        training = {**recipe.training.model_dump(), "best_by": "chrf"}
        return recipe.with_values(training=training)

    def _prepare(self, recipe: Recipe) -> tuple[Recipe, FolderSettings, PreparedData]:
        """Return the final recipe, the settings of the model folder, and the data.

        The main process makes vocabulary, shards and folder; the others wait and then read them.
        """
        started = self.resume and (self.out / CONFIG).exists()
        self.world.barrier()  # all processes look before the main process writes
        if self.world.is_main:
            data = self.read_data(recipe, started)
            choice = self.choose_for_budget(recipe, data)
            if choice is not None:
                recipe = choice.recipe
            if started:
                settings = _settings_of_run(recipe, self.out)
            else:
                # If only config.json was lost, the run keeps its id.
                run_id = weights_id(self.out) if self.resume else ""
                settings = self._make_folder(recipe, data, run_id)
            # A run that was killed when it had only just made its folder has none.
            if not (self.out / LANGUAGES).exists():
                self.say(*_learn_languages(settings.languages, data.sample, self.out))
        self.world.barrier()
        if not self.world.is_main:
            settings = load_settings(self.out)
            if not started:
                path = self.out / "train.toml"
                recipe = Recipe.parse(read_toml(path), str(path))
            data = self.read_data(recipe, started=True)
        return recipe, settings, data

    def read_data(self, recipe: Recipe, started: bool) -> PreparedData:
        """Read the corpora and make batches.

        The vocabulary is that of a run that was `started`, that of the parent, or a new one.
        """
        parent = None if started else self.parent
        tokenizer = None if parent is None else parent.tokenizer
        if started:
            tokenizer = load_tokenizer(self.out, load_settings(self.out))
        elif self.resume and has_checkpoint(self.out):  # only config.json was lost
            tokenizer = Tokenizer.load(self.out, recipe.tokenizer)

        def check_text(sources: Sequence[str], targets: Sequence[str]) -> None:
            if tokenizer is not None and parent is not None:
                check_scripts(sources, tokenizer.source, "the source side")
                check_scripts(targets, tokenizer.target, "the target side")

        batching = recipe.batching
        seed = recipe.training.seed
        settings = (
            recipe.data if recipe.training.guided else recipe.data.without_alignments()
        )
        data = prepare_data(
            settings,
            tokenizer or recipe.tokenizer,
            batching,
            seed,
            self.out,
            variation=recipe.variation,
            log=self.say,
            check_text=check_text,
            resumed=self.resume and (started or has_checkpoint(self.out)),
        )
        self.say(*data.report, *data.changes)
        if not started:
            sizes = f"{len(data.tokenizer.source):,}"
            if not recipe.tokenizer.joint:
                sizes += f" + {len(data.tokenizer.target):,}"
            origin = f" of {parent.path}" if parent else ""
            self.say(f"vocabulary: {sizes} tokens{origin}")
        return data

    def _make_folder(
        self, recipe: Recipe, data: PreparedData, run_id: str = ""
    ) -> FolderSettings:
        """Write the files that do not change during a run; `config.json` is the last one."""
        images = recipe.data.images
        out = self.out
        image_size = None if images is None else images.size_settings
        parts = {
            name: getattr(recipe, name) for name in ("model", "tokenizer", "search")
        }
        settings = FolderSettings(
            **parts, images=image_size, languages=recipe.data.languages
        )
        length_name = length_setting(settings)
        longest = data.longest_source
        if self.parent is not None:
            # The weights have learned the parent's lengths, too.
            of_parent = getattr(self.parent.settings.search, length_name)
            longest = max(longest, of_parent or 0)
        learned = dict[str, float | None]()
        if not getattr(recipe.search, length_name):
            learned[length_name] = longest
        if images is None and recipe.search.line_sentences is None and data.sample[0]:
            sentences = sum(map(count_sentences, data.sample[0]))
            learned["line_sentences"] = round(sentences / len(data.sample[0]), 2)
        if images is None and recipe.search.line_clauses is None:
            learned["line_clauses"] = usual_clauses(data.sample[0])
        settings = settings.with_values(search=recipe.search.with_values(**learned))
        out.mkdir(parents=True, exist_ok=True)
        recipe.write(out / "train.toml")
        held_out_names = recipe.data.holds_out if images is None else ()
        for name in held_out_names:
            lines = [f"{pair.source}\t{pair.target}\n" for pair in getattr(data, name)]
            write_text(out / f"{name}.tsv", "".join(lines))
        if isinstance(data.test, CaptionCorpus):
            rows = [
                f"{image.file}\t{caption}\n"
                for image in data.test.caption_set.images
                for caption in image.captions
            ]
            write_text(out / "test.tsv", "".join(rows))
        # A resumed run may have more updates or minutes, so they are not part of its origin.
        lasting = recipe.model_dump(exclude={"training": {"updates", "minutes"}})
        save_folder(
            out, settings, data.tokenizer, origin=json_digest(lasting), identity=run_id
        )
        return load_settings(out)

    def build_model(
        self, recipe: Recipe, tokenizer: Tokenizer, has_weights: bool = False
    ) -> Model:
        """Return the model with its initial weights; those of a checkpoint are loaded later."""
        model = build(
            recipe.model,
            len(tokenizer.source),
            len(tokenizer.target),
            recipe.tokenizer.joint,
        )
        if self.parent is not None and not has_weights:
            load_weights(model, self.parent.read_weights(), self.parent.path / WEIGHTS)
        elif not has_weights:
            load_pretrained(model, recipe.model)
        return model.to(self.device)

    def choose_for_budget(
        self, recipe: Recipe, data: PreparedData
    ) -> BudgetChoice | None:
        """Choose the size, updates and warm-up that a time budget allows; None without a budget."""
        if not self.sizes:
            return None
        assert recipe.training.minutes is not None, "a budget is a number of minutes"
        processes = self.world.size
        vocabularies = len(data.tokenizer.source), len(data.tokenizer.target)
        resolved = {
            name: size.resolved(self.device, processes)
            for name, size in self.sizes.items()
        }
        minutes = recipe.training.minutes
        left = minutes - self._minutes
        if left <= 0:
            raise UsageError(
                f"`budget=`: reading the data took the whole of {format_duration(60 * minutes)}; "
                "give more"
            )
        choice = choose(
            left, resolved, data.batches, vocabularies, self.device, processes
        )
        self.say(*choice.report)
        training = choice.recipe.training
        # The trials of the sizes took time, too.
        left = max(minutes - self._minutes, left / 10)
        recipe = choice.recipe.with_values(
            training={**training.model_dump(), "minutes": left}
        )
        return replace(choice, recipe=recipe)


def _learn_languages(
    languages: Languages, sample: tuple[Sequence[str], Sequence[str]], out: Path
) -> Iterator[str]:
    """Write the language identification that is learned from a sample, and yield messages."""
    texts = {code: list[str]() for code in languages.codes}
    for code, lines in zip(languages.pair, sample, strict=True):
        if code:
            texts[code] += lines
    language_id = LanguageId.learn(texts)
    if language_id.profiles:
        save_language_id(out, language_id)
        yield (
            f"languages: {languages} (data.source_language, data.target_language), recognised by "
            f"{LANGUAGES}"
        )
    if sample[0] and not all(languages.pair):
        yield (
            f"languages unknown ({languages.source or '?'} → {languages.target or '?'}): name them "
            "with `languages=`, such as `languages=en,hsb` or `languages=English,Upper Sorbian`; "
            "BLEU, sentences and pages depend on them"
        )


def _closing_ratio(data: PreparedData, validation_lines: int) -> float:
    """Return how long the end of a run takes, divided by the time of a validation.

    The end consists of a last validation and of translations with the default beam.
    """
    if not isinstance(data.valid, Corpus):
        return 1.0
    lines = min(MAX_OUTPUTS, len(data.valid))
    if data.test is not None:
        lines += len(data.test)
    return 1 + BEAM_TIME_RATIO * lines / max(1, min(validation_lines, len(data.valid)))


def _settings_of_run(recipe: Recipe, out: Path) -> FolderSettings:
    """Read the settings of a run that was started.

    Raises ModelFolderError if they do not match its recipe.
    """
    settings = load_settings(out)
    images = recipe.data.images
    stored_and_wanted = {
        "model": (settings.model, recipe.model),
        "tokenizer": (settings.tokenizer, recipe.tokenizer),
        "images": tuple(
            None if item is None else item.model_dump(include=set(IMAGE))
            for item in (settings.images, images)
        ),
    }
    different = [
        name for name, (stored, wanted) in stored_and_wanted.items() if stored != wanted
    ]
    if different:
        raise ModelFolderError(
            f"{out / CONFIG}: not as in train.toml: {', '.join(different)}; {_REMEDY}"
        )
    return settings


def _describe_processes(world: World) -> str:
    if world.size == 1:
        return ""
    sharding = ", weights split over them" if world.sharded else ""
    return f" in {counted(world.size, 'process', 'processes')}{sharding}"


def _describe_batches(batches: BatchSource, recipe: Recipe) -> str:
    source, target = batches.padding()
    micro_batches = (
        f" in {batches.per_update} micro-batches each" if batches.per_update > 1 else ""
    )
    updates = math.ceil(batches.epoch_stats.batches / batches.per_update)
    entries = "tokens a side"
    sides = ("the source", "the target")
    if recipe.data.images is not None:
        entries = "image cells or caption tokens"
        sides = ("the images", "the captions")
    return (
        f"updates: {updates:,} an epoch of at most {recipe.batching.tokens:,} "
        f"{entries}{micro_batches}, padding {source:.1%} of {sides[0]} and {target:.1%} of "
        f"{sides[1]}"
    )


def _describe_guide(recipe: Recipe) -> Iterator[str]:
    """Yield messages about the guided head, if there is one.

    Raises ConfigurationError for a head that the model lacks.
    """
    if not recipe.training.guided and recipe.data.alignment_files:
        yield "training.guided = 0: the alignments are not used"
    with torch.device("meta"):  # without memory for the weights
        model = build(recipe.model, 8, 8, recipe.tokenizer.joint)
        guide = Guide.of(model, recipe.training)
    if guide is not None:
        yield (
            f"guided: {guide.layer}, head {guide.head + 1}, weight {guide.weight:g} "
            "(training.guided)"
        )


def machine(device: str) -> dict[str, object]:
    """Return the versions, device, threads and processor, on which the bits of a run depend."""
    versions = {
        "regard": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sentencepiece": sentencepiece.__version__,
    }
    return {
        **versions,
        "device": device,
        "threads": torch.get_num_threads(),
        "processor": " ".join([platform.machine(), *processor_fields("model name")]),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _check_folder(out: Path, resume: bool) -> None:
    """Raise UsageError if this folder cannot be written, or holds files that would be lost."""
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise UsageError(
            f"`out={out}`: nothing can be written in {existing}; choose another folder"
        )
    check_links(out, *RUN_FILES, written=True)
    if resume:
        return
    has_weights = (out / WEIGHTS).exists() and (out / "journal.jsonl").exists()
    if has_weights or has_checkpoint(out):
        raise UsageError(
            f"{out}: there is a run already; add `resume=True` to continue it, or choose another "
            "`out=`"
        )
    others = [name for name in ("README.md", CONFIG, WEIGHTS) if (out / name).exists()]
    if others and not (out / "train.toml").exists():
        raise UsageError(
            f"`out={out}`: its {' and '.join(others)} would be overwritten; choose another folder"
        )


def _begin_anew(out: Path) -> None:
    """Remove what a run without a checkpoint left that would be taken for files of the new one."""
    if (out / "train.toml").exists():
        for name in (CONFIG, LANGUAGES, ALIGNMENT, "journal.jsonl"):
            (out / name).unlink(missing_ok=True)
