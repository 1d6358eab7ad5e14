"""Export to CTranslate2, written directly from the weights, and kept only if it translates like the
model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from regard.common.atomic import atomic_folder, write_text
from regard.common.errors import ExportError
from regard.data.vocabulary import Vocabulary
from regard.interchange.ctranslate2_model import CTranslate2, import_ctranslate2
from regard.interchange.parity import (
    BEAM,
    GREEDY,
    Parity,
    best_targets,
    check_new,
    encode,
)
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import CONFIG, ModelFolder, load_folder, model_fingerprint
from regard.models import ModelSettings, ctranslate2_obstacles
from regard.runtime.engine.known_model import own_classes
from regard.search import SearchSettings
from regard.search.forced_decoding import force_decode

Precision = Literal[
    "float32",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
]
PRECISIONS: dict[Precision, tuple[float, float]] = {
    "float32": (1e-4, 0.97),
    "float16": (0.02, 0.8),
    "bfloat16": (0.05, 0.8),
    "int16": (0.1, 0.5),
    "int8": (0.1, 0.5),
    "int8_float32": (0.1, 0.5),
    "int8_float16": (0.1, 0.5),
    "int8_bfloat16": (0.1, 0.5),
}
"""Largest difference of an export from the model: the mean difference of log-probabilities in nats
per token, and the smallest share of sentences with the same tokens.
"""
NOTES = "regard.json"
"""File of an export that records the fingerprint of its weights, its precision, limits and
parity.
"""
BEAM_LEEWAY = 0.1
"""Reduction of the smallest share for beam search, since the two searches prune a little
differently.
"""
POSITIONS = 4096
"""Largest number of tokens in a sentence that an export can read or write."""


def export(
    folder: Path,
    out: Path,
    precision: Precision = "float32",
    source: Path | None = None,
) -> Parity:
    """Write a model folder for CTranslate2, and compare the two on real sentences.

    The sentences are those of `source`, or of the validation data in the folder, or of the sample.
    Raises ExportError, with all causes, and leaves nothing behind, if CTranslate2 does not support
    the model or translates differently.
    """
    import_ctranslate2("an export to CTranslate2")
    # Computed before the weights are read, so that it does not match weights that change meanwhile.
    fingerprint = model_fingerprint(folder) if (folder / CONFIG).is_file() else ""
    model = load_folder(folder)
    ExportError.raise_all(
        [
            *ctranslate2_obstacles(model.settings.model),
            *model.settings.tokenizer.export_obstacles,
            *own_classes(model.model),
        ]
    )
    check_new(out)
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    notes = {
        "fingerprint": fingerprint,
        "precision": precision,
        "max_source": POSITIONS,
    }
    with atomic_folder(out) as folder_beside:
        write(model, folder_beside, precision)
        parity = compare(
            model,
            CTranslate2(folder_beside, POSITIONS, model.model.max_target),
            sentences,
            origin,
        )
        _check(parity, precision)
        notes |= {"max_target": model.model.max_target, "parity": asdict(parity)}
        write_text(
            folder_beside / NOTES,
            json.dumps(notes, ensure_ascii=False, indent=2) + "\n",
        )
    return parity


def write(model: ModelFolder, out: Path, precision: Precision) -> None:
    """Write the folder that `ctranslate2.Translator` loads, with the tokenizer."""
    spec = _spec(model)
    spec.validate()
    spec.optimize(quantization=precision)  # scales in place: the spec holds copies
    spec.save(str(out))
    model.tokenizer.save(out)


def compare(
    model: ModelFolder, exported: CTranslate2, sentences: Sequence[str], origin: str
) -> Parity:
    """Translate with both, greedily and with a beam, and let the export score the model's
    translations.
    """
    sources = encode(model, sentences)
    search = model.settings.search
    kept = {
        name: getattr(search, name)
        for name in ("length_penalty", "max_ratio", "max_extra", "longest_source")
    }
    greedy = SearchSettings(beam=1, **kept)
    wide = SearchSettings(beam=search.beam, **kept)
    mismatches = dict[str, int]()
    targets = list[tuple[int, ...]]()
    for name, settings in ((GREEDY, greedy), (BEAM, wide)):
        original = best_targets(model, sources, settings)
        converted = [
            hypotheses[0].ids for hypotheses in exported.search(sources, settings)
        ]
        mismatches[name] = sum(a != b for a, b in zip(original, converted, strict=True))
        targets = targets or original
    forced = (
        item.log_probs.tolist()
        for item in force_decode(model.model, sources, targets, with_attention=False)
    )
    pairs = zip(forced, exported.score(sources, targets), strict=True)
    differences = [
        abs(a - b)
        for original, converted in pairs
        for a, b in zip(original, converted, strict=True)
    ]
    mean = sum(differences) / len(differences)
    return Parity(
        len(sources),
        origin,
        "mean difference of log-probabilities a token",
        mean,
        mismatches,
    )


def _check(parity: Parity, precision: Precision) -> None:
    """Raise ExportError if the export differs too much from the model."""
    limit, least = PRECISIONS[precision]
    causes = []
    if not parity.difference <= limit:
        causes.append(
            f"log-probabilities differ by {parity.difference:.2g} nats a token, at most {limit:g} "
            "is allowed"
        )
    if parity.agreement(GREEDY) < least or parity.agreement(BEAM) < least - BEAM_LEEWAY:
        causes.append(f"fewer than {least:.0%} of the translations are the same")
    why = (
        "choose another `precision=`"
        if precision != "float32"
        else "this is a bug in Regard: please report it"
    )
    ExportError.raise_all(
        (f"the export does not translate as the model does: {c}" for c in causes),
        f"{parity}; {why}",
    )


def _spec(model: ModelFolder) -> Any:
    """Return the model as a CTranslate2 specification, with copies of its tensors."""
    from ctranslate2.specs import transformer_spec

    settings: ModelSettings = model.settings.model
    parts: Any = model.model
    encoder = transformer_spec.TransformerEncoderSpec(**_shape(settings.encoder))
    decoder = transformer_spec.TransformerDecoderSpec(
        **_shape(settings.decoder), alignment_heads=0
    )
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    _fill_side(parts.encoder, encoder, settings.encoder)
    _fill_side(parts.decoder, decoder, settings.decoder)
    encoder.embeddings[0].weight = _copy(parts.encoder.embedding.weight)
    decoder.embeddings.weight = _copy(parts.decoder.embedding.weight)
    decoder.projection.weight = _copy(parts.decoder.output.weight)
    decoder.projection.bias = _copy(parts.decoder.output.bias)
    spec.register_source_vocabulary(_tokens(model.tokenizer.source))
    spec.register_target_vocabulary(_tokens(model.tokenizer.target))
    spec.config.layer_norm_epsilon = parts.encoder.layers[
        0
    ].self_attention_residual.norm.eps
    return spec


def _shape(settings: Any) -> dict[str, object]:
    from ctranslate2.specs.common_spec import Activation

    activations = {
        "relu": Activation.RELU,
        "gelu": Activation.GELU,
        "silu": Activation.SWISH,
        "swiglu": Activation.SWISH,
    }
    return {
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "pre_norm": settings.norm == "pre",
        "no_final_norm": True,  # `_fill_side` adds it if there is one
        "activation": activations[settings.activation],
        "ffn_glu": settings.activation == "swiglu",
    }


def _fill_side(part: Any, spec: Any, settings: Any) -> None:
    """Fill in the parts that encoder and decoder share: scale, positions, layers, final norm."""
    from ctranslate2.specs.common_spec import LayerNormSpec

    spec.scale_embeddings = settings.scale_embedding
    embedding = part.input_embedding.position_embedding
    spec.position_encodings.encodings = (
        torch.zeros(POSITIONS, settings.size)
        if embedding is None
        else _copy(embedding(torch.arange(POSITIONS)[None])[0])
    )
    if settings.has_final_norm:
        # The specification has a final norm with `pre` only; the runtime applies it wherever there
        # is one.
        vars(spec)["layer_norm"] = LayerNormSpec()
        _norm(spec.layer_norm, part.norm)
    for layer, layer_spec in zip(part.layers, spec.layer, strict=True):
        attention = layer.self_attention
        attention_spec = layer_spec.self_attention
        _norm(attention_spec.layer_norm, layer.self_attention_residual.norm)
        _linears(
            attention_spec.linear[0], attention.query, attention.key, attention.value
        )
        _linears(attention_spec.linear[1], attention.output)
        if hasattr(layer_spec, "attention"):
            _norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.norm)
            _linears(layer_spec.attention.linear[0], layer.cross_attention.query)
            _linears(
                layer_spec.attention.linear[1],
                layer.cross_attention.key,
                layer.cross_attention.value,
            )
            _linears(layer_spec.attention.linear[2], layer.cross_attention.output)
        _norm(layer_spec.ffn.layer_norm, layer.feedforward_residual.norm)
        if settings.activation == "swiglu":
            _halves(
                layer.feedforward.widen,
                layer_spec.ffn.linear_0,
                layer_spec.ffn.linear_0_noact,
            )
        else:
            _linears(layer_spec.ffn.linear_0, layer.feedforward.widen)
        _linears(layer_spec.ffn.linear_1, layer.feedforward.narrow)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma = _copy(norm.weight)
    spec.beta = _copy(norm.bias)


def _linears(spec: Any, *layers: Any) -> None:
    """Write one linear layer, or several with the same input as one."""
    spec.weight = torch.cat([_copy(layer.weight) for layer in layers])
    spec.bias = torch.cat([_copy(layer.bias) for layer in layers])


def _halves(layer: Any, *specs: Any) -> None:
    """Write one linear layer as two: the half with the activation, and its gate."""
    weights = _copy(layer.weight).chunk(2)
    biases = _copy(layer.bias).chunk(2)
    for spec, weight, bias in zip(specs, weights, biases, strict=True):
        spec.weight = weight.clone()
        spec.bias = bias.clone()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().float().cpu().clone()


def _tokens(vocabulary: Vocabulary) -> list[str]:
    """Return the tokens of a vocabulary; a second occurrence is made unique by its id."""
    seen: set[str] = set()
    tokens = []
    for i, token in enumerate(vocabulary.tokens(range(len(vocabulary)))):
        unique = token if token not in seen else f"{token}@{i}"
        seen.add(unique)
        tokens.append(unique)
    return tokens
