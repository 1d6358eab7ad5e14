"""Programs of the kernels equal PyTorch: every encoder with every decoder, in every precision,
alone and batched.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.test_c_search import loaded, requests
from engine.test_c_search import reference as search_reference
from helpers.time_limits import seeds
from laws.models import kinds, pairs

from regard.data.vocabulary import EOS
from regard.model_folder import ModelFolder
from regard.models import Model, ModelSettings
from regard.runtime import native
from regard.runtime.encoded_constraints import library_constraints
from regard.runtime.engine import Engine, pack_model, why_not_packed
from regard.runtime.engine.c_search import LibraryModel, _options
from regard.search import SearchSettings
from regard.search.forced_decoding import force_decode

if (reason := native.why_unavailable()) is not None:
    pytest.skip(f"no native kernels on this machine: {reason}", allow_module_level=True)


@cache
def has_program(settings: ModelSettings) -> bool:
    """Return whether the kernels can compute a model, encoder and decoder."""
    model = loaded(settings, {}).model
    return why_not_packed(model) is None and bool(pack_model(model).programs.encoder)


def with_program(parameters: list[Any]) -> list[Any]:
    """Return those of some models that the kernels can compute, encoder and decoder."""
    return [parameter for parameter in parameters if has_program(parameter.values[0])]


ALL = with_program(pairs(reads=["text"]))
KINDS = with_program(kinds(reads=["text"]))


def perturbed(model: Model) -> Model:
    """Copy the model with weights changed in the last bits; the change of its output estimates the
    rounding error.
    """
    perturbed_model = copy.deepcopy(model)

    with torch.no_grad():
        for parameter in perturbed_model.parameters():
            parameter.mul_(1 + 2e-7 * torch.randn_like(parameter))

    return perturbed_model


def forced(
    library: LibraryModel,
    sources: list[list[int]],
    targets: list[list[int]],
    threads: int = 1,
) -> list[float]:
    """Return the log-probability of each target, end of sentence included, by the library, whose
    search it is forced on.
    """
    scores = dict[int, float]()

    for length in {len(target) for target in targets}:
        own = [index for index, target in enumerate(targets) if len(target) == length]
        settings = SearchSettings(beam=1, length_penalty=0.0, max_length=length)
        options = replace(_options(settings, threads), max_extra=99)
        constraints = [
            library_constraints(tuple(targets[i]), (), (), length + 1) for i in own
        ]
        lines = library._model.translate(
            [sources[i] for i in own], options, constraints
        )

        for index, line in zip(own, lines, strict=True):
            assert line.hypotheses[0].ids == tuple(targets[index])
            scores[index] = line.hypotheses[0].score

    return [scores[index] for index in range(len(targets))]


def pairs_of(folder: ModelFolder) -> tuple[list[list[int]], list[list[int]]]:
    """Return sources and targets of several lengths."""
    draw = torch.Generator().manual_seed(5)
    sources = []
    targets = []

    for source_length in (5, 0, 11, 3):
        for target_length in (1, 2, 5, 7):
            sizes = (EOS + 1, len(folder.tokenizer.source))
            ids = torch.randint(*sizes, (source_length,), generator=draw)
            sources.append([*ids.tolist(), EOS])
            sizes = (EOS + 1, len(folder.tokenizer.target))
            ids = torch.randint(*sizes, (target_length,), generator=draw)
            targets.append(ids.tolist())

    return sources, targets


def reference(
    model: Model, sources: list[list[int]], targets: list[list[int]]
) -> torch.Tensor:
    results = force_decode(model, sources, targets, with_attention=False)
    return torch.tensor([float(item.log_probs.sum()) for item in results])


@pytest.mark.parametrize("settings", ALL)
def test_log_probabilities_equal_those_of_the_model(
    settings: ModelSettings,
) -> None:
    """In float32 up to rounding, in lower precisions nearly; batched, alone and by two threads the
    same bits.
    """
    sources, targets = pairs_of(loaded(settings, {}))
    lengths = torch.tensor([len(t) + 1 for t in targets])

    def error(scores: torch.Tensor) -> float:
        return float(((scores - expected) / lengths).pow(2).mean().sqrt())

    def is_sharp() -> bool:
        return error(rounded) < 0.03

    for seed in seeds(is_sharp, "weights rounded to bfloat16 hardly change the scores"):
        folder = loaded(settings, {}, seed=seed)
        expected = reference(folder.model, sources, targets)
        rounded = reference(
            copy.deepcopy(folder.model).bfloat16().float(), sources, targets
        )

    rounding = (
        (reference(perturbed(folder.model), sources, targets) - expected).abs().max()
    )
    tolerance = max(1e-4, 2 * float(rounding))

    for precision, bound in (
        ("float32", 0.0),
        ("bfloat16", 0.1),
        ("int8", 0.4),
    ):
        library = LibraryModel(folder, pack_model(folder.model, precision))  # type: ignore[arg-type]
        actual = forced(library, sources, targets)
        if precision == "float32":
            torch.testing.assert_close(
                torch.tensor(actual), expected, rtol=1e-4, atol=tolerance
            )
        else:
            assert 0 < error(torch.tensor(actual)) < bound

        assert forced(library, sources, targets, threads=2) == actual

        for source, target, score in zip(sources, targets, actual, strict=True):
            assert forced(library, [source], [target]) == [score]


def test_nan_ends_the_search_as_in_the_reference() -> None:
    folder = loaded(KINDS[0].values[0], {"beam": 2})
    with torch.no_grad():
        folder.model.decoder.output.bias[5] = torch.nan
    asked = requests(folder)
    engine = Engine(folder.model, folder=folder)
    actual = engine.decode(asked, folder.settings.search)
    expected = search_reference(folder, asked)

    for ranked, others in zip(actual, expected, strict=True):
        assert [one.ids for one in ranked] == [other.ids for other in others]


@pytest.mark.system
def test_missing_kernels_have_a_reason(tmp_path: Path) -> None:
    command = "from regard.runtime import native; print(native.why_unavailable())"
    own = {"REGARD_CACHE": str(tmp_path), "REGARD_KERNELS": "compile"}
    process = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, **own, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert "no C compiler" in process.stdout, process.stderr
    assert not list(tmp_path.iterdir()), "no partial file is left"
