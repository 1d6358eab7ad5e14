"""Pages of a run: its card and its report, which tell of the weights that lie in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.common.arguments import Report
from regard.common.atomic import write_text
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus import Corpus
from regard.data.prepare import PreparedData
from regard.evaluation.training_report import (
    Course,
    TrainingReport,
    make_report,
    render_report,
)
from regard.evaluation.validation import Validator
from regard.runtime.model import available_cores
from regard.training import model_card
from regard.training.best_weights import REPORT
from regard.training.recipe import Recipe
from regard.training.run_record import RunRecord


@dataclass(frozen=True)
class RunPages:
    """Writes the card and the report of a run.

    `enough`: target tokens that are enough training.
    """

    out: Path
    recipe: Recipe
    validator: Validator
    data: PreparedData
    enough: float

    def listen(self, report: Report | None) -> Report:
        """Return `report`, which writes both pages too as soon as other weights are in the folder.

        Whatever stops the run then, they tell of these weights.
        """

        def hear(event: str, values: dict[str, object]) -> None:
            if event == "valid" and values["best"]:
                self.write(event, values)
            elif event == "resume":
                model_card.write(self.out, self.recipe)
            if report is not None:
                report(event, values)

        return hear

    def write(self, *_: object) -> None:
        """Write both by the last validation, whose translations are of greedy search."""
        if isinstance(self.data.valid, Corpus):
            outputs = self.validator.outputs
            lines = range(len(outputs))
            self.write_report(lines, outputs, "greedy search")
        model_card.write(self.out, self.recipe)

    def write_report(
        self,
        lines: Sequence[int],
        outputs: Sequence[str],
        search: str,
        by_patience: bool = False,
    ) -> TrainingReport:
        """Write the report by translations of these validation lines, and return it."""
        assert isinstance(self.data.valid, Corpus), "there are sentences to translate"
        pairs = list(self.data.valid.pairs)
        sources = [pairs[line].source for line in lines]
        targets = [pairs[line].target for line in lines]
        record = RunRecord.read(self.out, self.recipe)
        tokenizer = bleu_tokenizer(self.recipe.data.languages.target)
        course = Course(self.out, record.events, by_patience, self.enough, tokenizer)
        made = make_report(course, sources, targets, outputs)
        threads = torch.get_num_threads()
        if made.command and threads < available_cores():
            made = replace(made, command=f"{made.command} --threads {threads}")
        name = self.out.absolute().name
        page = render_report(made, name, record, search, self.data.report)
        write_text(self.out / REPORT, page)
        return made
