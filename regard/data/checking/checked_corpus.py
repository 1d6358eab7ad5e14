"""Put right or leave out the suspect pairs of a corpus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.common.errors import DataError
from regard.data.checking.check import CheckReport, check_pairs
from regard.data.checking.suspects import HARMLESS
from regard.data.corpus import Corpus


def checked(
    corpus: Corpus,
    table: str,
    has_links: bool = False,
) -> tuple[Corpus, CheckReport]:
    """Return a corpus without the pairs that training leaves out, and the others repaired; and the
    report on them, which the corpus has too. Suspect pairs that stay are not held out.

    `table`: the name of the table of suspects in the run folder. `has_links`: word links refer to
    the words of the pairs. Raises DataError if most of the sides do not belong together.
    """
    report = check_pairs(corpus.pairs, corpus.reviewed)
    names = " and ".join(corpus.report.files)
    if 2 * report.shifted > report.pairs:
        raise DataError(
            *(f"{names}: {shift.describe()}" for shift in report.shifts),
            "correct the files (`regard check` shows where), or set data.check = false",
        )
    mask = [not report.is_dropped(pair.line, has_links) for pair in corpus]
    if not any(mask):
        raise DataError(
            f"{names}: no pair is left, since all are suspect; `regard check` shows why, and "
            "data.check = false trains on them"
        )
    notes = corpus.report.notes
    if report.suspects:
        remedy = "write into its last two columns, and train anew with data.corrections"
        notes += (
            *report.lines(examples=0),
            f"all are in {table} of the run folder: {remedy}",
        )
    kept = corpus.keep(np.array(mask, np.bool_)).repaired(report.repairs)
    suspects = frozenset(
        suspect.line for suspect in report.suspects if suspect.kind not in HARMLESS
    )
    corpus_report = replace(kept.report, notes=notes)
    return replace(kept, report=corpus_report, suspects=suspects), report
