"""The command `regard costs`: complexity of each kind of layer, by formula, counted and measured."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Quiet
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.lessons.costs import Cost, Sizes
    from regard.visualisation import Chart

Row = tuple[str, ...]
NOTES = (
    "operations: multiply-adds of a forward pass",
    "in sequence: longest chain of matrix products, each of which needs the one before",
    "longest path: layers until the last output depends on the first input, times the products in sequence of each",
    "time: of a forward pass on this machine, the best of several",
    "memory: saved by a forward pass for the backward pass, without weights",
)


@app.command()
def costs(
    n: Annotated[int, typer.Option(min=64, max=2048, help="Positions of the layer.")] = 512,
    d: Annotated[int, typer.Option(min=16, max=8192, help="Size of the vector at each position.")] = 256,
    format: Annotated[Literal["text", "json"], typer.Option(help="For people or for programs.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Draw time and memory too: .html, .svg or .png.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Processor threads to measure with.")] = 1,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Count and measure one layer of each kind: operations, steps in sequence, the longest path, time and memory.

    This is table 1 of "Attention is all you need", each entry found by running the layers that models are made of,
    beside the formula. Time and memory are measured from a quarter of n and d to four times n and d.
    """
    setup_process(None, quiet, debug)
    from regard.lessons.costs import Sizes, measure
    from regard.visualisation import save
    from regard.visualisation.saving import SUFFIXES

    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--out {out}: a figure is written as {', '.join(SUFFIXES)}")
    sizes = Sizes(n, d).at()
    if sizes.d != d:
        say(f"d is {sizes.d}: attention has four heads, which must divide it")
    measured = measure(sizes, threads=threads, progress=lambda name: say(f"counting and measuring: {name}"))
    if out is not None:
        save(_chart(measured, sizes), out)
        say(f"wrote {out}")
    if format == "json":
        typer.echo(
            json.dumps({"sizes": asdict(sizes), "layers": [asdict(cost) for cost in measured]}, ensure_ascii=False)
        )
        return
    typer.echo(_text(measured, sizes))


def _text(layer_costs: list[Cost], sizes: Sizes) -> str:
    """Two tables: what is counted, and what is measured."""
    counted: list[Row] = [
        ("layer", "operations", "counted", "n^", "d^", "in sequence", "", "n^", "longest path", "", "n^")
    ]
    measured: list[Row] = [("layer", "time", "ms", "n^", "d^", "memory", "MiB", "n^", "d^")]
    for cost in layer_costs:
        formulas = cost.formulas
        counted.append(
            (
                *(cost.name, _order(formulas["operations"]), f"{cost.factor:.2f} {formulas['operations']}"),
                *(_grows(cost, "operations", axis) for axis in "nd"),
                *(_order(formulas["sequential"]), str(cost.sequential), _grows(cost, "sequential", "n")),
                *(_order(formulas["path"]), _path(cost), _grows(cost, "path", "n")),
            )
        )
        measured.append(
            (
                *(cost.name, _order(formulas["time"]), f"{1000 * cost.seconds:.2f}"),
                *(_grows(cost, "time", axis) for axis in "nd"),
                *(_order(formulas["memory"]), f"{cost.memory / 2**20:.2f}"),
                *(_grows(cost, "memory", axis) for axis in "nd"),
            )
        )
    return "\n".join(
        [
            f"one layer over n = {sizes.n} positions of d = {sizes.d} numbers; "
            f"k = {sizes.k} positions in a kernel, r = {sizes.r} neighbours",
            "n^, d^: fitted exponent, and in brackets that of the formula",
            "",
            *_columns(counted, left=(0, 1, 2, 5, 8)),
            "",
            *_columns(measured, left=(0, 1, 5)),
            "",
            *NOTES,
            *[f"{_projections(cost, sizes)} nd² more" for cost in layer_costs if cost.projections][:1],
        ]
    )


def _projections(cost: Cost, sizes: Sizes) -> str:
    return f"attention is counted between its projections, which take {cost.projections / (sizes.n * sizes.d**2):.2f}"


def _order(formula: str) -> str:
    return f"O({formula})"


def _grows(cost: Cost, what: str, axis: str) -> str:
    name = f"{what} {axis}"
    return f"{cost.growth[name] + 0.0:.2f} ({cost.expected[name]:.0f})"


def _path(cost: Cost) -> str:
    return f"{cost.layers} × {cost.sequential} = {cost.path}"


def _columns(rows: list[Row], left: tuple[int, ...]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _chart(layer_costs: list[Cost], sizes: Sizes) -> Chart:
    """Time and memory against n and against d."""
    from regard.visualisation import Chart, Panel, Series

    panels = []
    for what, unit, times in (("time", "ms", 1000.0), ("memory", "MiB", 2.0**-20)):
        for axis, other in (("n", f"d = {sizes.d}"), ("d", f"n = {sizes.n}")):
            series = tuple(
                Series(
                    cost.name,
                    tuple((x, max(y * times, 1e-6)) for x, y in cost.curves[f"{what} {axis}"]),
                    label=f"{cost.growth[f'{what} {axis}']:.2f}",
                )
                for cost in layer_costs
            )
            panels.append(Panel(f"{what}, {unit}", f"{axis}, at {other}", series))
    caption = "Time of a forward pass, and memory it keeps for the backward one. At a line's end its exponent."
    return Chart("Cost of one layer", tuple(panels), caption, scale="log", columns=2, table=_text(layer_costs, sizes))
