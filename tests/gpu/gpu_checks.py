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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
    trainable,
)

import regard
from regard.attention import watch
from regard.learn.samples import korean_english
from regard.models import Batch, Model, ModelSettings
from regard.models.recurrent import NoAttentionDecoder

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
        features = case.reference(case.batch, case.target)
        expected = case.reference.project(features).log_softmax(-1)

    return _distance(case.outputs(case.batch, case.target), expected, case.tolerance)


def alone_as_in_batch(case: Case) -> str:
    """Compute each source alone."""
    together = case.outputs(case.batch, case.target)
    alone = []

    for row in range(len(together)):
        batch = select_rows(case.batch, [row])
        alone.append(case.outputs(batch, case.target[row : row + 1]))

    return _distance(torch.cat(alone), together, case.tolerance)


@torch.no_grad()
def step_by_step(case: Case) -> str:
    """Decode one token after another, with states that follow reordered rows; recurrent states stay
    float32.
    """
    batch = case.on_device(case.batch)
    target = case.target.to(case.device)
    rows = beam_rows(3, 2).to(case.device)
    steps = []

    with case.autocast():
        source = case.model.encode(batch)
        state = case.model.begin(source.select(rows))
        for token in target[rows].split(1, 1):
            features, state = case.model.step(token, state, source)
            steps.append(case.model.project(features).float().log_softmax(-1))

    for tensor in state.tensors.values():
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
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
    if isinstance(case.model.decoder, NoAttentionDecoder):
        return ""  # refused, as tests/laws/test_changed_models.py checks
    batch = case.on_device(case.batch)
    target = case.target.to(case.device)

    with case.autocast():
        plain = case.model(batch, target)
        with watch(case.model) as readings:
            watched = case.model(batch, target)

    if not torch.equal(plain, watched):
        return f"the output changes by {float((plain - watched).abs().max()):.1e}"

    for weights in readings.values():
        sums = weights.float().sum(-1)
        if float((sums - sums.round()).abs().max()) >= 0.02:
            return "weights do not sum to one"

    return ""


def gradients(case: Case) -> str:
    """Compare the gradients of all weights with those of the processor in float32.

    In bfloat16 they may be as far from them as twice those of the processor in bfloat16, at least
    0.3.
    """
    expected = _gradients(case.reference, case.batch, case.target)
    batch = case.on_device(case.batch)
    target = case.target.to(case.device)
    with case.autocast():
        actual = _gradients(case.model, batch, target)
    if case.precision == "float32":
        return _distance(actual, expected, 1e-2)

    with torch.autocast("cpu", torch.bfloat16):
        rounded = _gradients(case.reference, case.batch, case.target)
    rounding = float((rounded - expected).norm() / expected.norm())
    return _distance(actual, expected, max(0.3, 2 * rounding))


def _gradients(model: Model, batch: Batch, target: torch.Tensor) -> torch.Tensor:
    loss = model(batch, target).float().square().sum()
    computed = torch.autograd.grad(loss, trainable(model))
    return torch.cat([gradient.flatten().float().cpu() for gradient in computed])


LAWS: tuple[Callable[[Case], str], ...] = (
    equals_processor,
    alone_as_in_batch,
    step_by_step,
    watching_changes_nothing,
    gradients,
)


def laws(device: str, seconds: float, quick: bool = False) -> Iterator[str]:
    """Check every law on models of every kind, in both precisions; those that show each kind once
    come first.
    """
    began = time.monotonic()
    parameters = sorted(pairs(), key=lambda one: len(one.marks))
    models = [one.values[0] for one in parameters]

    with _full_float32():
        for number, settings in enumerate(models[:3] if quick else models, 1):
            for precision in ("float32", "bfloat16"):
                case = Case.of(settings, device, precision)
                kinds = f"{settings.encoder.kind} + {settings.decoder.kind}"
                for law in LAWS:
                    name = f"{law.__name__}, {kinds} in {precision}"
                    yield from failures_of(name, partial(law, case))

            if time.monotonic() - began > seconds and not quick:
                counts = f"at {number} of {len(models)} models"
                print(f"the laws stop after {seconds:g} seconds, {counts}", flush=True)
                return


def decoding(device: str, work: Path, quick: bool = False) -> Iterator[str]:
    """Translate with every family, caption with every decoder, greedily and with a beam: the text
    of the processor.
    """
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (4, 12, 20, 3), generator=generator).byte()
    images = [_image(each) for each in pixels]
    families = [*itertools.product(ENCODER_KINDS, DECODER_KINDS)]
    captioners = [*SIDES]
    if quick:
        families = families[:2]
        captioners = ["recurrent"]

    with _full_float32():
        for encoder, decoder in families:
            path = folder(work / f"{encoder}-{decoder}", encoder, decoder, end=-2.0)
            name = f"decoding, {encoder} + {decoder}"
            check = partial(_decodes_as_processor, path, device, "translate", SENTENCES)
            yield from failures_of(name, check)

        for decoder in captioners:
            path = captioner_folder(work / f"images-{decoder}", decoder)
            name = f"decoding, resnet + {decoder}"
            check = partial(_decodes_as_processor, path, device, "caption", images)
            yield from failures_of(name, check)


def _decodes_as_processor(
    path: Path, device: str, method: str, given: Sequence[Any]
) -> str:
    reference = regard.load(path)
    model = regard.load(path, device)

    for width in (1, 4):
        wanted = getattr(reference, method)(given, beam=width)
        results = getattr(model, method)(given, beam=width)
        for expected, actual in zip(wanted, results, strict=True):
            is_tie = abs(actual.score - expected.score) <= TIE
            if actual.text != expected.text and not is_tie:
                return f"beam {width}: {actual.text!r}, not {expected.text!r}"

    return ""


def training(device: str, work: Path, quick: bool = False) -> Iterator[str]:
    """Train each family: losses are the processor's, and a resumed run has the weights of one that
    never stopped.
    """
    data = _sample(work / "data")
    kinds = ["transformer", "recurrent", "convolutional", "no_attention"]

    for kind in kinds[:1] if quick else kinds:
        sides = _sides("recurrent" if kind == "no_attention" else kind, kind)
        folder = work / kind
        for precision, tolerance in (("float32", 1e-3), ("bfloat16", 0.05)):
            settings = {**SETTINGS, **sides, "training.precision": precision}
            check = partial(
                _trains, data, folder / precision, settings, device, tolerance
            )
            yield from failures_of(f"training, {kind} in {precision}", check)

        check = partial(_resumes, data, folder, sides, device)
        yield from failures_of(f"resume, {kind}", check)


def _sides(encoder: str, decoder: str) -> dict[str, Any]:
    sides = {f"model.encoder.{name}": SIDES[encoder][name] for name in SIDES[encoder]}

    for name in SIDES[decoder]:
        sides[f"model.decoder.{name}"] = SIDES[decoder][name]

    return sides


def _trains(
    data: dict[str, Path],
    out: Path,
    settings: dict[str, Any],
    device: str,
    tolerance: float,
) -> str:
    exact = {**settings, "training.precision": "float32"}

    with _full_float32():
        expected = _losses(_train(data, out / "cpu", exact, "cpu"))
        actual = _losses(_train(data, out / "device", settings, device))

    return _distance(actual, expected, tolerance)


def _resumes(
    data: dict[str, Path], folder: Path, sides: dict[str, Any], device: str
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
    half = {**settings, "training.updates": 4}
    first = _train(data, folder / "first", settings, device)
    second = _train(data, folder / "second", settings, device)
    stopped = _train(data, folder / "stopped", half, device)

    if not _same_weights(first, second):
        return "two runs that never stopped have different weights already"

    resumed = regard.train(
        out=stopped.folder,
        resume=True,
        settings={"training.updates": 8},
        device=device,
        threads=1,
    )
    if not _same_weights(first, resumed):
        return "the weights differ from those of a run that never stopped"
    return ""


def processes(device: str, work: Path) -> Iterator[str]:
    """Train under torchrun in one process, with weights whole (DDP) and split (FSDP): the losses of
    a plain run.
    """
    settings = {**SETTINGS, **_sides("transformer", "transformer")}
    plain = _train(_sample(work / "data"), work / "plain", settings, device)

    for sharded in ("false", "true", '"layers"'):
        name = f"one process of torchrun, training.sharded={sharded}"
        yield from failures_of(name, partial(_trains_as, plain, sharded, device))


def _trains_as(plain: regard.Run, sharded: str, device: str) -> str:
    out = plain.folder.with_name(f"sharded-{sharded.strip(chr(34))}")
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node=1 -m regard"
    command = [
        sys.executable,
        *torchrun.split(),
        "train",
        str(plain.folder / "train.toml"),
        f"--out={out}",
        f"--device={device}",
        f"--set=training.sharded={sharded}",
    ]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False
    )
    if process.returncode:
        return (process.stderr.strip().splitlines() or ["no message"])[-1]
    losses = _losses_of(regard.run.read(out / "journal.jsonl"))
    return _distance(losses, _losses(plain), 1e-3)


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
    if distance <= tolerance:
        return ""
    return f"relative distance {distance:.1e}, wanted at most {tolerance:.0e}"


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


def _losses(run: regard.Run) -> torch.Tensor:
    return _losses_of(run.journal)


def _losses_of(journal: Iterable[dict[str, Any]]) -> torch.Tensor:
    losses = [event["loss"] for event in journal if event["event"] == "train"]
    return torch.tensor(losses)


def _same_weights(first: regard.Run, second: regard.Run) -> bool:
    from regard.model_folder import load_tensors

    weights = load_tensors(first.folder / "model.safetensors")
    others = load_tensors(second.folder / "model.safetensors")
    return all(torch.equal(weights[name], others[name]) for name in weights)
