"""Matrices and steps as lines of a terminal; wide characters take two columns."""

from __future__ import annotations

from collections.abc import Sequence

from regard.common.bilingual import Language, text_width, words_by
from regard.visualisation.number_boxes import Step, Term, matrices

NARROWEST, WIDEST = 7, 110
"""Columns of the terminal for a number, and for a line of text."""


def format_steps(
    steps: Sequence[Step], is_batch: bool, language: Language
) -> list[str]:
    """Format steps below the headings of their parts; operands that were shown before are not shown
    again.
    """
    lines = list[str]()
    part = None
    for number, step in enumerate(steps, 1):
        if step.part != part:
            part = step.part
            heading = part.by(language)
            lines += ["", heading, "═" * text_width(heading)]
        lines += [
            "",
            f"{number}. {step.title.by(language)}"
            + (f":  {step.formula}" if step.formula else ""),
        ]
        lines += [f"   {line}" for line in _wrap(step.text.by(language), WIDEST - 3)]
        lines += [f"   {step.product}"] if is_batch and bool(step.product) else []
        for term in step.terms:
            if not term.repeated:
                lines += _format_term(term, is_batch, language)
    return lines


def _format_term(term: Term, is_batch: bool, language: Language) -> list[str]:
    lines = list[str]()
    shape = term.shape(is_batch)
    bracketed = shape if shape.startswith("(") else f"({shape})"
    for matrix in matrices(term):
        parts = [
            words_by(term.name, language) + (f" {bracketed}" if shape else ""),
            matrix.label.by(language),
        ]
        parts += [] if matrix.more is None else [matrix.more.by(language)]
        rows, columns = (
            [words_by(label, language) for label in labels]
            for labels in (matrix.rows, matrix.columns)
        )
        more = ["…"] if matrix.more_columns else []
        plain = "{} " if matrix.marked else "{}"  # as wide as a marked number, [0.152]
        cells = [
            [
                *(
                    ("[{}]" if (r, c) in matrix.marked else plain).format(cell)
                    for c, cell in enumerate(row)
                ),
                *more,
            ]
            for r, row in enumerate(matrix.cells)
        ]
        lines += _format_matrix(
            ", ".join(filter(None, parts)),
            rows,
            cells,
            [*columns, *more] if columns else [],
        )
    return lines


def _wrap(text: str, limit: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and text_width(f"{lines[-1]} {word}") > limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _format_matrix(
    title: str,
    rows: Sequence[str],
    cells: Sequence[Sequence[str]],
    columns: Sequence[str],
) -> list[str]:
    """Format a matrix as its title and a line per row, below the labels of its columns."""
    widths = [
        max(NARROWEST, *(text_width(row[c]) for row in cells))
        for c in range(len(cells[0]))
    ]
    if columns:
        widths = [
            max(width, text_width(label))
            for width, label in zip(widths, columns, strict=True)
        ]
    names = rows or ("",) * len(cells)
    left = max(map(text_width, names))
    lines = ([("", columns)] if columns else []) + [*zip(names, cells, strict=True)]
    return [
        "",
        title,
        *(
            "  " + name + " " * (left - text_width(name)) + _line(row, widths)
            for name, row in lines
        ),
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        " " * (width + 1 - text_width(cell)) + cell
        for cell, width in zip(cells, widths, strict=True)
    )
