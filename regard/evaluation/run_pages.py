"""Pages of a run: its card and its report, which tell of the weights that lie in its folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.common.arguments import Report
from regard.common.atomic import write_text
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus import Corpus
from regard.data.prepare import PreparedData
from regard.evaluation.caption_metrics import tokenizer_for
from regard.evaluation.caption_report import make_caption_report
from regard.evaluation.training_report import (
    Course,
    RunReport,
    make_report,
    render_report,
)
from regard.evaluation.validation import Validator
from regard.evaluation.validation_outputs import ValidationOutputs
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
                texts = self.validator.outputs
                lines = range(len(texts))
                self.write_report(ValidationOutputs(lines, texts, "greedy search"))
                model_card.write(self.out, self.recipe)
            elif event == "resume":
                model_card.write(self.out, self.recipe)
            if report is not None:
                report(event, values)

        return hear

    def write_report(
        self, outputs: ValidationOutputs, by_patience: bool = False
    ) -> list[str]:
        """Write the report; return its sentences. `by_patience`: patience has ended the run."""
        record = RunRecord.read(self.out, self.recipe)
        images = self.data.images
        course = Course(self.out, record.events, by_patience, self.enough, images)
        valid = self.data.valid
        report: RunReport
        if isinstance(valid, Corpus):
            pairs = list(valid.pairs)
            report = make_report(
                course,
                [pairs[line].source for line in outputs.lines],
                [pairs[line].target for line in outputs.lines],
                outputs.texts,
                bleu_tokenizer(self.recipe.data.languages.target),
            )
        else:
            report = make_caption_report(
                course,
                outputs.texts,
                [valid.caption_set.references[line] for line in outputs.lines],
                self.data.sample[1],
                tokenizer_for(self.recipe.tokenizer),
                outputs.examples,
            )
        command = report.command
        threads = torch.get_num_threads()
        if command and threads < available_cores():
            command += f" --threads {threads}"
        report = replace(report, command=command, notes=(*report.notes, *outputs.notes))
        page = render_report(
            report,
            self.out.absolute().name,
            record,
            outputs.search,
            self.data.report,
        )
        write_text(self.out / REPORT, page)
        return report.lines()
