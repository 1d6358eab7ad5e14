"""Format matrices and steps as text for a terminal, where wide characters take two columns."""

from __future__ import annotations

from collections.abc import Sequence

from regard.common.bilingual import Language, text_width, words_by
from regard.visualisation.number_boxes import NumberMatrix, Step, Term, matrices

NARROWEST = 7
"""Smallest width of a column of numbers, in characters."""
WIDEST = 110
"""Largest width of a line of text, in characters."""


def format_steps(
    steps: Sequence[Step], is_batch: bool, language: Language
) -> list[str]:
    """Format steps below the headings of their parts, without operands that were shown before."""
    lines = list[str]()
    part = None
    for number, step in enumerate(steps, 1):
        if step.part != part:
            part = step.part
            heading = part.by(language)
            lines += ["", heading, "═" * text_width(heading)]

        title = f"{number}. {step.title.by(language)}"
        if step.formula:
            title += f":  {step.formula}"
        lines += ["", title]
        lines += [f"   {line}" for line in _wrap(step.text.by(language), WIDEST - 3)]
        if is_batch and step.product:
            lines.append(f"   {step.product}")
        for term in step.terms:
            if not term.repeated:
                lines += _format_term(term, is_batch, language)
    return lines


def _format_term(term: Term, is_batch: bool, language: Language) -> list[str]:
    """Format each matrix of a term below its title."""
    lines = list[str]()
    shape = term.shape(is_batch)
    name = words_by(term.name, language)
    if shape:
        name += f" {shape}" if shape.startswith("(") else f" ({shape})"

    for matrix in matrices(term):
        title_parts = [name, matrix.label.by(language)]
        if matrix.more is not None:
            title_parts.append(matrix.more.by(language))
        title = ", ".join(filter(None, title_parts))
        rows = [words_by(label, language) for label in matrix.rows]
        columns = [words_by(label, language) for label in matrix.columns]
        cells = _format_cells(matrix)
        if matrix.more_columns:
            cells = [[*row, "…"] for row in cells]
            if columns:
                columns.append("…")
        lines += _format_matrix(title, rows, cells, columns)
    return lines


def _format_cells(matrix: NumberMatrix) -> list[list[str]]:
    """Put marked numbers in brackets: [0.152]; the others get a space for alignment."""
    plain = "{} " if matrix.marked else "{}"
    rows = []
    for r, row in enumerate(matrix.cells):
        cells = []
        for c, cell in enumerate(row):
            pattern = "[{}]" if (r, c) in matrix.marked else plain
            cells.append(pattern.format(cell))
        rows.append(cells)
    return rows


def _wrap(text: str, limit: int) -> list[str]:
    """Break a text into lines of at most `limit` columns."""
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
    labelled_rows = list(zip(names, cells, strict=True))
    if columns:
        labelled_rows.insert(0, ("", columns))

    lines = ["", title]
    for name, row in labelled_rows:
        padding = " " * (left - text_width(name))
        lines.append(f"  {name}{padding}{_line(row, widths)}")
    return lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Align cells to the right of their columns."""
    return "".join(
        " " * (width + 1 - text_width(cell)) + cell
        for cell, width in zip(cells, widths, strict=True)
    )
