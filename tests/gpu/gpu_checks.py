"""Checks of everything that Regard promises on a GPU, against the processor: laws, decoding,
training, processes.

Each check yields a line for every case, empty if it holds. Laws and their models are those of
tests/laws.
"""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# Behind this folder's own modules.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from helpers.small_models import (
    DECODER_KINDS,
    ENCODER_KINDS,
    SENTENCES,
    SIDES,
    captioner_folder,
    folder,
)
from laws.models import (
    beam_rows,
    make,
    pairs,
    select_rows,
    sources,
    targets,
    tensors_of,
    with_noise_in_padding,
)
from laws.searching import beam

import regard
from regard.attention import watch
from regard.learn.samples import korean_english
from regard.models import Batch, Model, ModelSettings
from regard.search import LengthPenalty

__all__ = ["LAWS", "Case", "decoding", "failures_of", "laws", "processes", "training"]

LENGTHS = (6, 1, 4)
T = 6
TIE = 1e-3
"""Two outputs whose scores differ by less are both right: the order of a sum decides."""

SETTINGS: dict[str, Any] = {
    "tokenizer.size": 560,
    "batching.tokens": 512,
    "batching.micro_batches": 2,
    "schedule.warmup": 10,
    "training.updates": 8,
    "training.validate_every": 4,
    "training.validate_with": 4,
    "training.log_every": 1,
    "training.precision": "float32",
}


@dataclass(frozen=True)
class Case:
    """A small model on the processor and on the device, which computes in `precision`, with data
    for both.
    """

    settings: ModelSettings
    device: str
    precision: str
    reference: Model
    model: Model
    batch: Batch  # on the processor
    target: torch.Tensor

    @classmethod
    def of(cls, settings: ModelSettings, device: str, precision: str) -> Case:
        """Make the model with the weights that the laws use."""
        reference = make(settings)
        model = copy.deepcopy(reference).to(device)
        return cls(
            settings,
            device,
            precision,
            reference,
            model,
            sources(settings, *LENGTHS),
            targets(3, T),
        )

    @property
    def tolerance(self) -> float:
        """The relative distance that rounding explains, as in tests/laws/test_bfloat16.py."""
        return 1e-3 if self.precision == "float32" else 0.1

    def autocast(self) -> torch.autocast:
        """Round matrix products as training does, or not at all."""
        return torch.autocast(
            torch.device(self.device).type,
            torch.bfloat16,
            enabled=self.precision == "bfloat16",
        )

    def on_device(self, batch: Batch) -> Batch:
        """Return the batch on the device."""
        keep = None if batch.keep is None else batch.keep.to(self.device)
        return Batch(batch.data.to(self.device), keep)

    @torch.no_grad()
    def outputs(self, batch: Batch, target: torch.Tensor) -> torch.Tensor:
        """Return what the device computes, as log-probabilities on the processor."""
        with self.autocast():
            logits = self.model.project(
                self.model(self.on_device(batch), target.to(self.device))
            )
        return logits.float().log_softmax(-1).cpu()


def equals_processor(case: Case) -> str:
    """Compare with the processor in float32."""
    with torch.no_grad():
        expected = case.reference.project(
            case.reference(case.batch, case.target)
        ).log_softmax(-1)
    return _distance(case.outputs(case.batch, case.target), expected, case.tolerance)


def ignores_padding(case: Case) -> str:
    """Put other values into the padding."""
    noisy = with_noise_in_padding(case.batch)
    return _distance(
        case.outputs(noisy, case.target),
        case.outputs(case.batch, case.target),
        case.tolerance,
    )


def alone_as_in_batch(case: Case) -> str:
    """Compute each source alone."""
    together = case.outputs(case.batch, case.target)
    alone = [
        case.outputs(select_rows(case.batch, [row]), case.target[row : row + 1])
        for row in range(len(together))
    ]
    return _distance(torch.cat(alone), together, case.tolerance)


@torch.no_grad()
def step_by_step(case: Case) -> str:
    """Decode one token after another, with states that follow reordered rows; recurrent states stay
    float32.
    """
    batch = case.on_device(case.batch)
    target = case.target.to(case.device)
    rows = beam_rows(3, 2).to(case.device)
    with case.autocast():
        source = case.model.encode(batch)
        state = case.model.begin(source.select(rows))
        steps = []
        for token in target[rows].split(1, 1):
            features, state = case.model.step(token, state, source)
            steps.append(case.model.project(features).float().log_softmax(-1))
    if any(
        tensor.is_floating_point() and tensor.dtype != torch.float32
        for tensor in state.tensors.values()
    ):
        return "a recurrent state is not float32"
    if not all(bool(tensor.isfinite().all()) for tensor in tensors_of(state)):
        return "a state is not finite"
    expected = case.outputs(case.batch, case.target)[beam_rows(3, 2)]
    return _distance(torch.cat(steps, 1).cpu(), expected, case.tolerance)


@torch.no_grad()
def watching_changes_nothing(case: Case) -> str:
    """Record attention weights: not a bit of the output changes, and rows of weights sum to one or
    zero.
    """
    batch = case.on_device(case.batch)
    target = case.target.to(case.device)
    with case.autocast():
        plain = case.model(batch, target)
        with watch(case.model) as readings:
            watched = case.model(batch, target)
    if not torch.equal(plain, watched):
        return f"the output changes by {float((plain - watched).abs().max()):.1e}"
    sums = [weights.float().sum(-1) for weights in readings.values()]
    return (
        ""
        if all(float((s - s.round()).abs().max()) < 0.02 for s in sums)
        else "weights do not sum to one"
    )


def gradients(case: Case) -> str:
    """Compare the gradients of all weights with those of the processor in float32.

    In bfloat16 they may be as far from them as twice those of the processor in bfloat16, at least
    0.3.
    """
    expected = _gradients(case.reference, case.batch, case.target)
    with case.autocast():
        actual = _gradients(
            case.model, case.on_device(case.batch), case.target.to(case.device)
        )
    if case.precision == "float32":
        return _distance(actual, expected, 1e-2)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = _gradients(case.reference, case.batch, case.target)
    return _distance(
        actual,
        expected,
        max(0.3, 2 * float((rounded - expected).norm() / expected.norm())),
    )


def _gradients(model: Model, batch: Batch, target: torch.Tensor) -> torch.Tensor:
    weights = [
        p
        for name, p in model.named_parameters()
        if p.requires_grad and "decoder.output" not in name
    ]
    loss = model(batch, target).float().square().sum()
    return torch.cat(
        [
            gradient.flatten().float().cpu()
            for gradient in torch.autograd.grad(loss, weights)
        ]
    )


@torch.no_grad()
def searches_as_processor(case: Case) -> str:
    """Search greedily and with a beam, in float32."""
    if case.precision != "float32":
        return ""
    longest = torch.tensor([9, 7, 8])
    penalty = LengthPenalty(1.0)
    for width in (1, 3):
        best = [
            [
                hypotheses[0]
                for hypotheses in beam(
                    model, model.encode(batch), longest, width, penalty
                )
            ]
            for model, batch in (
                (case.reference, case.batch),
                (case.model, case.on_device(case.batch)),
            )
        ]
        for expected, actual in zip(*best, strict=True):
            if actual.ids != expected.ids and abs(actual.score - expected.score) > TIE:
                return (
                    f"beam {width}: {actual.ids} ({actual.score:.4f}), not {expected.ids} "
                    f"({expected.score:.4f})"
                )
    return ""


LAWS: tuple[Callable[[Case], str], ...] = (
    equals_processor,
    ignores_padding,
    alone_as_in_batch,
    step_by_step,
    watching_changes_nothing,
    gradients,
    searches_as_processor,
)


def laws(device: str, seconds: float, quick: bool = False) -> Iterator[str]:
    """Check every law on models of every kind, in both precisions; those that show each kind once
    come first.
    """
    cases = pairs()
    began = time.monotonic()
    cases = [case.values[0] for case in sorted(cases, key=lambda case: len(case.marks))]
    with _full_float32():
        for number, settings in enumerate(cases[:3] if quick else cases):
            for precision in ("float32", "bfloat16"):
                case = Case.of(settings, device, precision)
                name = (
                    f"{settings.encoder.kind} + {settings.decoder.kind} in {precision}"
                )
                for law in LAWS:
                    yield from failures_of(
                        f"{law.__name__}, {name}", lambda law=law, case=case: law(case)
                    )
            if time.monotonic() - began > seconds and not quick:
                print(
                    f"the laws stop after {seconds:g} seconds, at {number + 1} of {len(cases)} "
                    "models",
                    flush=True,
                )
                return


def decoding(device: str, work: Path, quick: bool = False) -> Iterator[str]:
    """Translate with every family, caption with every decoder, greedily and with a beam: the text
    of the processor.
    """
    images = [
        torch.randint(
            256, (12, 20, 3), generator=torch.Generator().manual_seed(n)
        ).byte()
        for n in range(4)
    ]
    made: list[tuple[str, Path, Callable[[Any, int], list[Any]]]] = []
    families = [*itertools.product(ENCODER_KINDS, DECODER_KINDS)]
    for encoder, decoder in families[:2] if quick else families:
        path = folder(work / f"{encoder}-{decoder}", encoder, decoder, end=-2.0)
        made.append(
            (
                f"{encoder} + {decoder}",
                path,
                lambda model, width: model.translate(SENTENCES, beam=width),
            )
        )
    for decoder in ("recurrent",) if quick else SIDES:
        path = captioner_folder(work / f"images-{decoder}", decoder)

        def caption(model: Any, width: int) -> Any:
            return model.caption([_image(pixels) for pixels in images], beam=width)

        made.append((f"resnet + {decoder}", path, caption))
    with _full_float32():
        for name, path, write in made:

            def check(path: Path = path, write: Any = write) -> str:
                reference = regard.load(path)
                model = regard.load(path, device)
                for width in (1, 4):
                    for expected, actual in zip(
                        write(reference, width), write(model, width), strict=True
                    ):
                        if (
                            actual.text != expected.text
                            and abs(actual.score - expected.score) > TIE
                        ):
                            return (
                                f"beam {width}: {actual.text!r} ({actual.score:.4f}), not "
                                f"{expected.text!r}"
                            )
                return ""

            yield from failures_of(f"decoding, {name}", check)


def training(device: str, work: Path, quick: bool = False) -> Iterator[str]:
    """Train each family: losses are the processor's, and a resumed run has the weights of one that
    never stopped.
    """
    data = _sample(work / "data")
    kinds = (
        ["transformer"]
        if quick
        else ["transformer", "recurrent", "convolutional", "no_attention"]
    )
    for kind in kinds:
        encoder = "recurrent" if kind == "no_attention" else kind
        sides = {f"model.encoder.{k}": v for k, v in SIDES[encoder].items()}
        sides |= {f"model.decoder.{k}": v for k, v in SIDES[kind].items()}
        for precision, tolerance in (("float32", 1e-3), ("bfloat16", 0.05)):

            def check(
                sides: dict[str, Any] = sides,
                precision: str = precision,
                tolerance: float = tolerance,
            ) -> str:
                name = f"{sides['model.decoder.kind']}-{precision}"
                exact = {**SETTINGS, **sides}
                with _full_float32():
                    expected = _train(data, work / f"{name}-cpu", exact, "cpu")
                    actual = _train(
                        data,
                        work / name,
                        {**exact, "training.precision": precision},
                        device,
                    )
                return _distance(
                    torch.tensor(_losses(actual)),
                    torch.tensor(_losses(expected)),
                    tolerance,
                )

            yield from failures_of(f"training, {kind} in {precision}", check)
        yield from failures_of(
            f"resume, {kind}", lambda sides=sides: _resumes(data, work, sides, device)
        )


def _resumes(
    data: dict[str, Path], work: Path, sides: dict[str, Any], device: str
) -> str:
    """Compare three runs with dropout bit by bit: two that never stopped, and one that stopped in
    the middle.
    """
    settings = {
        **SETTINGS,
        **sides,
        "training.precision": "auto",
        "model.decoder.dropout": 0.1,
    }
    name = f"{sides['model.decoder.kind']}-resume"
    runs = [_train(data, work / f"{name}-{n}", settings, device) for n in range(2)]
    if not _same_weights(*runs):
        return "two runs that never stopped have different weights already"
    stopped = _train(
        data, work / f"{name}-stopped", {**settings, "training.updates": 4}, device
    )
    resumed = regard.train(
        out=stopped.folder,
        resume=True,
        settings={"training.updates": 8},
        device=device,
        threads=1,
    )
    return (
        ""
        if _same_weights(runs[0], resumed)
        else "the weights differ from those of a run that never stopped"
    )


def processes(device: str, work: Path) -> Iterator[str]:
    """Train under torchrun in one process, with weights whole (DDP) and split (FSDP): the losses of
    a plain run.
    """
    sides = {
        f"model.{side}.{k}": v
        for side in ("encoder", "decoder")
        for k, v in SIDES["transformer"].items()
    }
    plain = _train(
        _sample(work / "data"), work / "plain", {**SETTINGS, **sides}, device
    )
    for sharded in ("false", "true", '"layers"'):

        def check(sharded: str = sharded) -> str:
            out = work / f"processes-{sharded.strip(chr(34))}"
            command = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node=1",
                "-m",
            ]
            command += [
                "regard",
                "train",
                str(plain.folder / "train.toml"),
                "--out",
                str(out),
                "--device",
                device,
            ]
            command += [f"--set=training.sharded={sharded}"]
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=180, check=False
            )
            if process.returncode:
                return (process.stderr.strip().splitlines() or ["no message"])[-1]
            losses = [
                event["loss"]
                for event in regard.run.read(out / "journal.jsonl")
                if event["event"] == "train"
            ]
            return _distance(torch.tensor(losses), torch.tensor(_losses(plain)), 1e-3)

        yield from failures_of(
            f"one process of torchrun, training.sharded={sharded}", check
        )


def failures_of(name: str, check: Callable[[], str]) -> Iterator[str]:
    """Yield one line: what is wrong, an exception too, or nothing."""
    try:
        problem = check()
    except Exception as error:
        # Any failure on an untried device is a finding, and the rest is still checked.
        problem = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    yield f"{name}: {problem}" if problem else ""


def _distance(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str:
    distance = float((actual - expected).norm() / expected.norm())
    return (
        ""
        if distance <= tolerance
        else f"relative distance {distance:.1e}, wanted at most {tolerance:.0e}"
    )


@contextmanager
def _full_float32() -> Iterator[None]:
    """Compute float32 without TF32, whose 10 bits would hide faults of ours."""
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = False
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.allow_tf32 = value


def _image(pixels: torch.Tensor) -> Any:
    from PIL import Image

    return Image.fromarray(pixels.numpy())


def _sample(path: Path) -> dict[str, Path]:
    sizes = {"train": 200, "valid": 8, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(path, "ko", "en")
    names = {
        "source": "train.ko",
        "target": "train.en",
        "valid_source": "valid.ko",
        "valid_target": "valid.en",
    }
    return {key: path / name for key, name in names.items()}


def _train(
    data: dict[str, Path], out: Path, settings: dict[str, Any], device: str
) -> regard.Run:
    return regard.train(**data, out=out, settings=settings, device=device, threads=1)  # type: ignore[arg-type]


def _losses(run: regard.Run) -> Sequence[float]:
    return [event["loss"] for event in run.journal if event["event"] == "train"]


def _same_weights(first: regard.Run, second: regard.Run) -> bool:
    from regard.model_folder import load_tensors

    weights = [
        load_tensors(run.folder / "model.safetensors") for run in (first, second)
    ]
    return all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
