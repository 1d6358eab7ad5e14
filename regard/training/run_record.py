"""Record of a run: what the files of its folder tell about its data, training and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from regard.common.reading import check_links, file_bytes, parse_json
from regard.data.corpus_facts import CorpusFacts
from regard.data.corpus_settings import EVALUATION
from regard.data.provenance import DATA_FILE, Fingerprints
from regard.model_folder import WEIGHTS
from regard.training.best_weights import update_of
from regard.training.journal import JournalEvent, of_kind
from regard.training.journal import read as read_journal
from regard.training.recipe import Recipe, read_run_recipe

_CORPORA = TypeAdapter(dict[str, CorpusFacts])
_FILES = TypeAdapter(Fingerprints)
_REPORT = TypeAdapter(tuple[str, ...])


@dataclass(frozen=True)
class RunRecord:
    """Record of a run; a part that was not recorded is empty.

    - `recipe`: None for a model that was not trained here, such as an imported one.
    - `corpora`, `files`: by name, such as "train", and by role, such as "train.source".
    - `report`: lines on how the data were read.
    - `update`: that of the weights in the folder.
    """

    recipe: Recipe | None
    events: Sequence[JournalEvent] = ()
    corpora: Mapping[str, CorpusFacts] = field(default_factory=dict)
    files: Fingerprints = field(default_factory=dict)
    report: tuple[str, ...] = ()
    update: int | None = None

    @classmethod
    def read(cls, folder: Path, recipe: Recipe | None = None) -> RunRecord:
        """Read the record of a run folder; `recipe` is that of its `train.toml` if left out.

        Raises ModelFolderError and ConfigurationError for a recipe that was damaged.
        """
        check_links(folder, "train.toml", "journal.jsonl", DATA_FILE)
        path = folder / "train.toml"
        if recipe is None and path.is_file():
            recipe = Recipe.parse(read_run_recipe(path), str(path))
        corpora = dict[str, CorpusFacts]()
        files: Fingerprints = {}
        report: tuple[str, ...] = ()
        with suppress(OSError, ValueError, LookupError, TypeError):
            data = parse_json(file_bytes(folder / DATA_FILE))
            files = _FILES.validate_python(data["files"])
            corpora = _CORPORA.validate_python(data["corpora"])
            report = _REPORT.validate_python(data["report"])
        events = read_journal(folder / "journal.jsonl")
        update = update_of(folder / WEIGHTS)
        return cls(recipe, events, corpora, files, report, update)

    def last(self, name: str) -> JournalEvent:
        """Return the last event of a name; empty if there is none."""
        return _last(of_kind(self.events, name))

    @property
    def best(self) -> JournalEvent:
        """The validation of the weights in the folder; empty if there was none."""
        return self._of_weights("valid")

    @property
    def test(self) -> JournalEvent:
        """The test of the weights in the folder; empty if there was none."""
        return self._of_weights("test")

    @property
    def earlier_tests(self) -> list[JournalEvent]:
        """The tests of weights that were replaced."""
        tests = of_kind(self.events, "test")
        return [test for test in tests if test["update"] != self.update]

    @property
    def test_is_outdated(self) -> bool:
        """True if better weights replaced those that were tested."""
        return bool(self.last("test")) and not self.test

    @property
    def progress(self) -> JournalEvent:
        """The newest event that tells updates, tokens and seconds: an end, or a validation."""
        names = ("valid", "end")
        return _last([event for event in self.events if event["event"] in names])

    @property
    def commands(self) -> tuple[str, ...]:
        """The different command lines that began and resumed the run; empty: from Python."""
        commands = (event.get("command") for event in of_kind(self.events, "machine"))
        return tuple(dict.fromkeys(text for text in commands if isinstance(text, str)))

    def _of_weights(self, name: str) -> JournalEvent:
        events = of_kind(self.events, name)
        own = [event for event in events if event["update"] == self.update]
        return _last(own)

    def pairs(self, name: str) -> int:
        """Return the number of pairs of a corpus, of all for training if it is "train"; 0 if
        unknown.
        """
        names = {name}
        if name == "train":
            names = self.corpora.keys() - {*EVALUATION}
        return sum(self.corpora[name].pairs for name in names & self.corpora.keys())


def _last(events: Sequence[JournalEvent]) -> JournalEvent:
    """Return the last event; an empty one if there is none."""
    return events[-1] if events else {}
