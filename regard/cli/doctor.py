"""regard doctor: check this machine, or the files of a model."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.common.errors import UsageError
from regard.common.lazy import has_pytorch
from regard.common.reading import is_runtime_file
from regard.common.requests import Option
from regard.common.version import __version__

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@app.command(sets=("threads",))
def doctor(
    run: Annotated[
        Path | None,
        Option(
            "a model folder or runtime file: its files are compared with their checksums",
            is_argument=True,
            is_local=True,
        ),
    ] = None,
    seal: Annotated[
        bool,
        Option("take RUN's files as they are now, after a change on purpose", "--seal"),
    ] = False,
) -> None:
    """Check what works on this machine, or that a model folder is whole, and print remedies.

    Exit status 1 if something necessary is broken.
    """
    if run is not None:
        check_model = _check_file if is_runtime_file(run) else _check_run
        check_model(run, seal)
        return
    if seal:
        raise UsageError(
            "--seal: which folder is to be sealed? Give it: regard doctor RUN --seal"
        )
    has_torch = has_pytorch()
    checks: list[Callable[[], tuple[bool, str]]] = [
        _python,
        *([_torch, _devices] if has_torch else [_no_torch]),
        *([_scheduling] if _is_held_up() else []),
        _kernels,
        _memory,
        _folder,
        *([_font, _extras, _learning] if has_torch else []),
    ]
    failed = False
    for check in checks:
        try:
            works, line = check()
        except Exception as problem:
            works = False
            line = f"{check.__name__.strip('_')}: {type(problem).__name__}: {problem}"
        failed = failed or not works
        typer.echo(f"{'ok ' if works else 'BAD'} {line}")
    if failed:
        raise typer.Exit(1)


def _check_file(file: Path, seal: bool) -> None:
    """Open a runtime file, which verifies its checksum, and print a summary."""
    from regard.runtime.model import RuntimeModel

    if seal:
        raise UsageError(
            "--seal: a runtime file is not changed by hand; export the model again"
        )
    card = RuntimeModel(file).card
    typer.echo(
        f"ok  {file}: {card['parameters']:,} parameters, {card['precision']}, regard "
        f"{card['regard']}"
    )


def _check_run(run: Path, seal: bool) -> None:
    """Check the files of a model folder, and print a line for each.

    `seal`: first write new checksums, so that changed files are accepted.
    """
    from regard.model_folder import (
        check_folder,
        problem_of,
        seal_folder,
        unlisted_files,
    )
    from regard.training.recipe import read_run_recipe, seal_run_recipe

    recipe = run / "train.toml"
    if seal:
        seal_folder(run)
        if recipe.is_file():
            seal_run_recipe(recipe)
    problems = check_folder(run)
    if recipe.is_file():
        problems[recipe.name] = problem_of(lambda: read_run_recipe(recipe))
    for name, problem in problems.items():
        typer.echo(f"BAD {problem}" if problem else f"ok  {run / name}")
    for name in unlisted_files(run):
        typer.echo(f"ok  {run / name}: not listed in config.json, so nothing reads it")
    if any(problems.values()):
        raise typer.Exit(1)


def _python() -> tuple[bool, str]:
    system = f"{platform.system()} {platform.machine()}"
    line = f"Regard {__version__} on Python {platform.python_version()}, {system}"
    works = sys.version_info >= (3, 10)
    if works:
        return True, line
    remedy = "Python 3.10 or newer is needed; install it and make a new environment"
    return False, f"{line}: {remedy}"


def _no_torch() -> tuple[bool, str]:
    return (
        True,
        "no PyTorch: runtime files are translated; for training and all else: pip install "
        "'regard[train]'",
    )


def _torch() -> tuple[bool, str]:
    import torch

    from regard.training.recipe import has_bfloat16

    cores = os.cpu_count() or 1
    precision = "no fast bfloat16: training uses float32"
    if has_bfloat16("cpu"):
        precision = "fast bfloat16 training"
    threads = torch.get_num_threads()
    return (
        True,
        f"PyTorch {torch.__version__}, {threads} threads on {cores} CPU cores; {precision}",
    )


def _devices() -> tuple[bool, str]:
    import torch

    if torch.cuda.is_available():
        return True, f"GPU: {torch.cuda.get_device_name()} (--device cuda)"
    if torch.backends.mps.is_available():
        return True, "GPU: Apple (--device mps)"
    return True, "no GPU that PyTorch can use; everything runs on the CPU"


def _is_held_up() -> bool:
    """Return whether other work takes half of the processor, which Linux schedules by sessions, so
    that `nice` counts only within one.
    """
    try:
        is_on = AUTOGROUP.read_text(encoding="utf-8").strip() != "0"
    except OSError:  # the kernel has no autogroup, or the container hides the file
        return False
    return is_on and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def _scheduling() -> tuple[bool, str]:
    return True, (
        "beside other work, which is running now: autogroup is on, so nice counts only within a "
        "session (a terminal); to make room, write 19 into /proc/PID/autogroup of the other work, "
        "or as root -10 into that of this session"
    )


def _kernels() -> tuple[bool, str]:
    from regard.runtime import native

    reason = native.why_unavailable()
    if reason is not None:
        return (
            True,
            f"no native kernels: {reason}; decoding by PyTorch, in float32, and slower",
        )
    origin = "compiled by this machine"
    if native.is_ready_made():
        origin = "ready-made library"
    speed = "fast decoding in float32, bfloat16 and int8"
    return True, f"native kernels: {speed}; {origin}, level {native.level()}"


def _memory() -> tuple[bool, str]:
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES")
        free_gib = pages * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, AttributeError, OSError):
        return True, "memory: unknown"
    advice = ""
    if free_gib <= 2:
        advice = "; close other programs, or train with --set batching.tokens=1024"
    return True, f"memory: {free_gib:.1f} GiB free{advice}"


def _folder() -> tuple[bool, str]:
    try:
        with tempfile.TemporaryFile(dir=Path.cwd()):
            return True, f"disk: files can be written in {Path.cwd()}"
    except OSError as problem:
        return (
            False,
            f"disk: nothing can be written in {Path.cwd()} ({problem.strerror}); change to a "
            "writable folder",
        )


def _font() -> tuple[bool, str]:
    import numpy as np

    from regard.visualisation import Alignment, draw_png, layout_heatmap

    alignment = Alignment(("나는",), ("I",), np.ones((1, 1)))
    image = draw_png(layout_heatmap(alignment))
    return len(image) > 0, "figures: SVG, HTML and PNG with Hangul"


def _extras() -> tuple[bool, str]:
    extras = {
        "fast": "ctranslate2",
        "hf": "transformers",
        "board": "tensorboard",
        "tables": "python_calamine",
        "vision": "timm",
    }
    installed = [name for name, package in extras.items() if find_spec(package)]
    missing = [
        f"pip install 'regard[{name}]'" for name in extras if name not in installed
    ]
    line = f"extras: {', '.join(installed) or 'none'}"
    if missing:
        line += f"; for more: {', '.join(missing)}"
    return True, line


def _learning() -> tuple[bool, str]:
    """Build a small model, and compute a loss and its gradient."""
    import torch

    from regard.data.batch import Example, collate
    from regard.models import ModelSettings, build
    from regard.training.loss import Objective
    from regard.training.recipe import preset

    torch.manual_seed(0)
    settings = ModelSettings.parse(preset("transformer-tiny")["model"], "preset")
    model = build(settings, 50, 50, joint=True)
    batch = collate([Example([5, 6, 3], [7, 8, 3])])
    loss = Objective(0.1)(model, batch)
    torch.autograd.backward(loss.smoothed)
    is_finite = bool(torch.isfinite(loss.smoothed))
    return is_finite, "training: a model, its loss and gradient can be computed"
