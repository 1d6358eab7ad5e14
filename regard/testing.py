"""Laws that every encoder-decoder model should obey, checked on a model of anybody's.

`check(model)` tries them on small drawn inputs, the smallest first, so that a failure comes with
the smallest example.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.attention import record_attention
from regard.common.arguments import describe
from regard.common.errors import RegardError, UsageError
from regard.common.shapes import Int, Tensor
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.model_folder import load_tensors, load_weights, named_weights, save_tensors
from regard.models import Batch, Ensemble, Model, Source, SourceInput
from regard.search import SearchSettings, SuppressTokens, Task, decode

__all__ = [
    "LAWS",
    "Example",
    "Law",
    "LawError",
    "LawReport",
    "LawResult",
    "check",
]
TOLERANCE = 1e-4
"""Largest absolute or relative difference that counts as rounding."""
_LENGTHS = (1, 2, 3, 5, 8)
_SUPPRESSED = (PAD, UNK, BOS)


class LawError(RegardError, AssertionError):
    """A model breaks a law."""


@dataclass(frozen=True)
class Example:
    """Two sources, and the input tokens of a target for each."""

    sources: Sequence[SourceInput]
    target: Int[Tensor, "N T"]

    @property
    def batch(self) -> Batch:
        """The sources as one batch."""
        return Batch.of(self.sources, self.target.device)

    def __str__(self) -> str:
        sources = [
            f"image {list(source.shape)}" if isinstance(source, Tensor) else source
            for source in self.sources
        ]
        return f"sources {sources}, target_in {self.target.tolist()}"


Law = Callable[[Model, Example], str]
"""Function that returns how a model breaks a law on an example, or an empty text."""


@dataclass(frozen=True)
class LawResult:
    """Result of one law: the problem, and the smallest example that has it; empty if it holds."""

    law: str
    problem: str = ""
    example: Example | None = None

    def __str__(self) -> str:
        if not self.problem:
            return f"holds  {self.law}"
        return f"FAILS  {self.law}: {self.problem}\n       {self.example}"


@dataclass(frozen=True, repr=False)
class LawReport:
    """Results of all laws, in order; printed, a line for each, with the examples of failures."""

    results: tuple[LawResult, ...]

    @property
    def failures(self) -> list[LawResult]:
        """The results of the laws that do not hold."""
        return [result for result in self.results if result.problem]

    def raise_for_failures(self) -> None:
        """Raise LawError, with all causes, if a law does not hold."""
        LawError.raise_all(map(str, self.failures))

    def __repr__(self) -> str:
        return "\n".join(map(str, self.results))


def check(
    model: Model | Ensemble, sources: Sequence[SourceInput] = (), seed: int = 0
) -> LawReport:
    """Check the laws on a model, in evaluation mode, and report which hold.

    The inputs are drawn with the seed: random tokens, or images if the encoder has no `embedding`.
    `sources`, at least two and the smallest first, take their place. An error that the model raises
    counts as a failure. The model is left as it was. Raises UsageError for other objects, such as
    an ensemble, of which each model is to be checked.
    """
    if not isinstance(model, Model):
        raise UsageError(
            f"check: wanted a Model of regard.models, got {describe(model)}; give a translator's "
            "`.model`"
        )
    if len(sources) == 1:
        raise UsageError(
            "check: wanted at least two sources, got one; laws compare them"
        )
    examples = _examples(model, sources, seed)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            results = [
                _result(name, law, model, examples) for name, law in LAWS.items()
            ]
    finally:
        model.train(was_training)
    return LawReport(tuple(results))


def _examples(model: Model, sources: Sequence[SourceInput], seed: int) -> list[Example]:
    generator = torch.Generator().manual_seed(seed)

    def draw(length: int, vocabulary: int) -> list[int]:
        drawn = torch.randint(EOS + 1, vocabulary, (length,), generator=generator)
        return drawn.tolist()

    def source(length: int) -> SourceInput:
        embedding = getattr(model.encoder, "embedding", None)
        if embedding is None:
            return torch.rand(3, 8 + length, 8 + 2 * length, generator=generator)
        return [*draw(length - 1, len(embedding.weight)), EOS]

    pairs = list(pairwise(sources))
    if not sources:
        pairs = [(source(length), source(1 + length // 2)) for length in _LENGTHS]
    outputs = len(model.decoder.output.weight)
    longest = (model.max_target or max(_LENGTHS)) - 2  # with BOS and a further token
    return [
        Example(
            pair,
            torch.tensor(
                [[BOS, *draw(min(i, longest), outputs)] for _ in pair],
                device=model.device,
            ),
        )
        for i, pair in enumerate(pairs)
    ]


def _result(
    name: str, law: Law, model: Model, examples: Sequence[Example]
) -> LawResult:
    """Try a law on the examples until one breaks it."""
    for example in examples:
        try:
            problem = law(model, example)
        except Exception as error:  # of anybody's model
            problem = f"raised {type(error).__name__}: {error}"
        if problem:
            return LawResult(name, problem, example)
    return LawResult(name)


def _difference(actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> str:
    """Return how two tensors differ, or an empty text."""
    if torch.allclose(actual, expected, tolerance, tolerance, equal_nan=True):
        return ""
    largest = float((actual - expected).abs().max())
    return f"features differ by up to {largest:.2g}"


def _step_by_step(model: Model, example: Example) -> str:
    source = model.encode(example.batch)
    state = model.begin(source)
    steps = []
    for tokens in torch.split(example.target, 1, 1):
        features, state = model.step(tokens, state, source)
        steps.append(features)
    return _difference(torch.cat(steps, 1), model(example.batch, example.target))


def _alone(model: Model, example: Example) -> str:
    rows = zip(example.sources, torch.split(example.target, 1), strict=True)
    alone = [model(Batch.of([source], model.device), target) for source, target in rows]
    return _difference(model(example.batch, example.target), torch.cat(alone))


def _joined(model: Model, example: Example) -> str:
    """Continue two sentences together after their first tokens were decoded apart."""
    target = example.target
    first = target[:, :1]
    sources = []
    states = []
    for row, source_input in enumerate(example.sources):
        source = model.encode(Batch.of([source_input], model.device))
        _, state = model.step(first[row : row + 1], model.begin(source), source)
        sources.append(source)
        states.append(state)
    source = sources[0].join(sources[1])
    features, _ = model.step(target, states[0].join(states[1]), source)
    expected = model(example.batch, torch.cat([first, target], 1))
    return _difference(features, expected[:, 1:])


def _stepped_again(model: Model, example: Example) -> str:
    source = model.encode(example.batch)
    state = model.begin(source)
    first, _ = model.step(example.target, state, source)
    again, _ = model.step(example.target, state, source)
    return _difference(again, first, 0)


def _hidden(model: Model, example: Example) -> str:
    encoded = model.encoder(example.batch)
    if encoded.keep is None:
        return ""
    # A copy: the summary may be a view of the outputs.
    damaged = encoded.outputs.masked_fill(~encoded.keep[..., None], torch.nan)
    features = []
    for variant in (encoded, replace(encoded, outputs=damaged)):
        source = model.decoder.prepare(variant)
        features.append(model.step(example.target, model.begin(source), source)[0])
    problem = _difference(features[1], features[0], 0)
    return problem and f"with NaN in the hidden rows of Encoded.outputs, {problem}"


def _greedy(model: Model, example: Example) -> str:
    """Compare a beam of one with a greedy search that decodes the whole prefix for each token."""
    batch = example.batch
    longest = example.target.shape[1] + 1
    source = model.encode(batch)
    tasks = [Task(row, longest) for row in range(len(batch.data))]
    settings = SearchSettings(beam=1)
    rules = (SuppressTokens(),)
    beams = decode(model, source, tasks, settings, rules)
    for row, (hypothesis,) in enumerate(beams):
        ids = _plain_greedy(
            model, source.select(torch.tensor([row], device=model.device)), longest
        )
        if hypothesis.ids != ids:
            return f"greedy search finds {ids}, and a beam of one {hypothesis.ids}"
    return ""


def _plain_greedy(model: Model, source: Source, longest: int) -> tuple[int, ...]:
    ids = [BOS]
    while ids[-1] != EOS and len(ids) < longest:
        target = torch.tensor([ids], device=model.device)
        features, _ = model.step(target, model.begin(source), source)
        logits = model.project(features)[0, -1]
        logits[list(_SUPPRESSED)] = -torch.inf
        ids.append(int(logits.argmax()))
    return tuple(token for token in ids[1:] if token != EOS)


def _watched(model: Model, example: Example) -> str:
    expected = model(example.batch, example.target)
    with record_attention(model):
        return _difference(model(example.batch, example.target), expected, 0)


def _loaded(model: Model, example: Example) -> str:
    """Save the weights as a model folder has them, and load them into a copy without any."""
    other = copy.deepcopy(model)
    for tensor in other.state_dict().values():
        tensor.zero_()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_tensors(path, named_weights(model))
        load_weights(other, load_tensors(path), path)
    expected = model(example.batch, example.target)
    return _difference(other(example.batch, example.target), expected, 0)


LAWS: dict[str, Law] = {
    "step by step = all at once": _step_by_step,
    "alone = in a batch": _alone,
    "joined = begun together": _joined,
    "stepped again = stepped once": _stepped_again,
    "hidden entries change nothing": _hidden,
    "greedy = beam of one": _greedy,
    "watched = unwatched": _watched,
    "saved = loaded": _loaded,
}
"""The laws that `check` tries, by their names."""
