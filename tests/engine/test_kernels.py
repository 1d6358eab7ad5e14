"""Programs of the kernels equal PyTorch: every encoder with every decoder, in every precision,
alone and batched.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from broad import broad_beyond_cover
from engine.test_c_search import loaded, requests
from laws.covering import ENCODERS_BY_INPUT, parse
from laws.models import kinds, label, pairs
from limits import seeds
from systems import posix

from regard.data.vocabulary import EOS
from regard.model_folder import ModelFolder
from regard.models import Batch, Model, ModelSettings
from regard.models.recurrent import RecurrentDecoderSettings
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.runtime import native
from regard.runtime.encoded_constraints import library_constraints
from regard.runtime.engine import Engine, pack_model, why_not_packed
from regard.runtime.engine.c_search import LibraryModel, _options
from regard.search import SearchSettings, decode
from regard.search.forced_decoding import force_decode

if (reason := native.why_unavailable()) is not None:
    pytest.skip(f"no native kernels on this machine: {reason}", allow_module_level=True)


def programmed_settings() -> list[Any]:
    """List models with a native program beyond the defaults: every encoder with recurrent decoders,
    and Transformers.
    """
    small = parse(RecurrentDecoderSettings, {})
    encoders = [parse(kind, {}) for kind in ENCODERS_BY_INPUT["text"]]
    choices = [("gru", "scaled_dot", 1), ("lstm", "additive", 2), ("lstm", "scaled_dot", 1)]
    decoders = [
        small.with_values(cell=cell, score=score, layers=layers) for cell, score, layers in choices
    ]
    decoders += [
        small.with_values(gate=True, order=order)
        for order in ("bahdanau", "luong", "luong_input_feeding")
    ]
    combinations = [(encoder, decoder) for encoder in encoders for decoder in decoders]
    base_encoder = parse(TransformerEncoderSettings, {})
    base_decoder = parse(TransformerDecoderSettings, {})
    for norm, activation, positions, layers in (
        ("post", "relu", "none", 1),
        ("post", "silu", "sinusoidal", 2),
        ("pre", "gelu", "learned", 1),
    ):
        options = {"norm": norm, "activation": activation, "positions": positions, "layers": layers}
        combinations.append(
            (base_encoder.with_values(**options), base_decoder.with_values(**options))
        )
    settings = [ModelSettings(encoder=e, decoder=d, share="none") for e, d in combinations]
    features = [
        {f"{side}.{part}" for side in one for part in label(side).split(".")}
        for one in combinations
    ]
    return broad_beyond_cover(
        settings, features, [f"{label(e)}+{label(d)}" for e, d in combinations]
    )


def with_program(parameters: list[Any]) -> list[Any]:
    """Return those of some models of text that the kernels can compute, encoder and decoder."""
    texts = [parameter for parameter in parameters if parameter.values[0].encoder.reads == "text"]
    models = [loaded(parameter.values[0], {}).model for parameter in texts]
    packed = [None if why_not_packed(model) else pack_model(model) for model in models]
    return [
        one
        for one, model in zip(texts, packed, strict=True)
        if model is not None and model.programs.encoder
    ]


ALL = with_program(pairs() + programmed_settings())
KINDS = with_program(kinds())
LENGTHS = (1, 2, 5, 7)


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
    library: LibraryModel, sources: list[list[int]], targets: list[list[int]], threads: int = 1
) -> list[float]:
    """Return the log-probability of each target, end of sentence included, by the library, whose
    search it is forced on.
    """
    results = []
    for length in sorted({len(target) for target in targets}):
        own = [index for index, target in enumerate(targets) if len(target) == length]
        options = replace(
            _options(SearchSettings(beam=1, length_penalty=0.0, max_length=length), threads),
            max_extra=99,
        )
        constraints = [library_constraints(tuple(targets[i]), (), (), length + 1) for i in own]
        lines = library._model.translate([sources[i] for i in own], options, constraints)
        assert [line.hypotheses[0].ids for line in lines] == [tuple(targets[i]) for i in own]
        results += [
            (index, line.hypotheses[0].score) for index, line in zip(own, lines, strict=True)
        ]
    return [score for _, score in sorted(results)]


def pairs_of(folder: ModelFolder) -> tuple[list[list[int]], list[list[int]]]:
    """Return sources and targets of several lengths."""
    draw = torch.Generator().manual_seed(5)

    def ids(size: int, length: int) -> list[int]:
        return torch.randint(EOS + 1, size, (length,), generator=draw).tolist()  # type: ignore[no-any-return]

    sizes = len(folder.tokenizer.source), len(folder.tokenizer.target)
    lengths = [(source, target) for source in (5, 0, 11, 3) for target in LENGTHS]
    return [[*ids(sizes[0], n), EOS] for n, _ in lengths], [ids(sizes[1], n) for _, n in lengths]


def reference(model: Model, sources: list[list[int]], targets: list[list[int]]) -> torch.Tensor:
    results = force_decode(model, sources, targets, with_attention=False)
    return torch.tensor([float(item.log_probs.sum()) for item in results])


@pytest.mark.parametrize("settings", ALL)
def test_log_probabilities_equal_those_of_the_model(settings: ModelSettings) -> None:
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
        rounded = reference(copy.deepcopy(folder.model).bfloat16().float(), sources, targets)
    tolerance = (
        2 * (reference(perturbed(folder.model), sources, targets) - expected).abs().max().item()
    )
    for precision, bound in (("float32", 0.0), ("bfloat16", 0.1), ("int8", 0.4)):
        library = LibraryModel(folder, pack_model(folder.model, precision))  # type: ignore[arg-type]
        actual = forced(library, sources, targets)
        if precision == "float32":
            torch.testing.assert_close(
                torch.tensor(actual), expected, rtol=1e-4, atol=max(1e-4, tolerance)
            )
        else:
            assert 0 < error(torch.tensor(actual)) < bound
        alone = [
            forced(library, [source], [target])[0]
            for source, target in zip(sources, targets, strict=True)
        ]
        assert alone == actual
        assert forced(library, sources, targets, threads=2) == actual


def test_nan_ends_the_search_as_in_the_reference() -> None:
    folder = loaded(KINDS[0].values[0], {"beam": 2})
    with torch.no_grad():
        folder.model.decoder.output.bias[5] = torch.nan
    asked = requests(folder, False)
    settings = folder.settings.search
    with torch.inference_mode():
        source = folder.model.encode(Batch.of([request.source for request in asked]))
    expected = decode(folder.model, source, [request.task for request in asked], settings)
    actual = Engine(folder.model, folder=folder).decode(asked, settings)
    assert [[h.ids for h in ranked] for ranked in actual] == [
        [h.ids for h in ranked] for ranked in expected
    ]


@pytest.mark.system
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"REGARD_KERNELS": "off"}, "REGARD_KERNELS"),
        ({"PATH": "/nowhere"}, "no C compiler"),
        ({"CC": "false"}, "failed"),
    ],
)
def test_missing_kernels_have_a_reason(
    environment: dict[str, str], reason: str, tmp_path: Path
) -> None:
    command = "from regard.runtime import native; print(native.why_unavailable())"
    env = {**os.environ, "REGARD_CACHE": str(tmp_path), "REGARD_KERNELS": "compile", **environment}
    process = subprocess.run(
        [sys.executable, "-c", command], env=env, capture_output=True, text=True, timeout=120
    )
    assert reason in process.stdout, process.stderr
    assert not list(tmp_path.iterdir()), "no partial file is left"


@posix
@pytest.mark.system
def test_world_writable_cache_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    env = {**os.environ, "REGARD_CACHE": str(tmp_path), "REGARD_KERNELS": "compile"}
    command = "from regard.runtime import native; print(native.why_unavailable())"
    process = subprocess.run(
        [sys.executable, "-c", command], env=env, capture_output=True, text=True, timeout=120
    )
    assert "ours alone" in process.stdout, process.stderr
    assert not list(tmp_path.iterdir())
