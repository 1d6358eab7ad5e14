"""Models for CTranslate2, written straight from our weights, and left there only where they translate as ours do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from regard.atomic import write_bytes
from regard.data.vocabulary import BOS, EOS, Vocabulary
from regard.engine.ctranslate2 import NOTES, CTranslate2, export_folder, fingerprint, import_ctranslate2, up_to_date
from regard.errors import ExportError
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import CONFIG, ModelFolder, load_folder
from regard.models import Batch, ModelSettings, ctranslate2_obstacles
from regard.search import Hypothesis, SearchSettings, search

__all__ = ["PRECISIONS", "Parity", "Precision", "cached_export", "export"]

Precision = Literal["float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
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
"""How far an export may be from the model: nats by which a piece's log-probability may differ, on average, and the
least share of sentences with the same pieces."""
BEAM_LEEWAY = 0.1
"""How much smaller that share may be with a beam, where the two searches prune a little differently."""
POSITIONS = 4096
"""Pieces of the longest sentence that an export can read or write."""


@dataclass(frozen=True)
class Parity:
    """How an export compares with the model it was made from, on real sentences."""

    sentences: int
    source: str
    """Where the sentences are from."""
    same: float
    """The share of them translated with the same pieces, by greedy search."""
    beam: int
    same_by_beam: float
    difference: float
    """Nats by which the log-probability of a piece differs, on average."""

    def __str__(self) -> str:
        return (
            f"{self.sentences} sentences of {self.source}: the same pieces for {self.same:.1%} by greedy search and "
            f"{self.same_by_beam:.1%} with a beam of {self.beam}; log-probabilities differ by {self.difference:.2g} "
            "nats a piece"
        )


def cached_export(folder: Path, precision: Precision = "int8") -> Path:
    """The model folder's own export of this precision, made or made anew where its weights have changed."""
    out = export_folder(folder, precision)
    if not up_to_date(out, folder):
        out.parent.mkdir(exist_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        export(folder, out, precision)
    return out


def export(folder: Path, out: Path, precision: Precision = "float32", source: Path | None = None) -> Parity:
    """Write a model folder for CTranslate2, and compare the two on real sentences: those of `source`, or of the run's
    validation data, or of the sample.

    Raises ExportError, with all reasons, where CTranslate2 cannot hold the model or does not translate as it does; then
    nothing is left behind.
    """
    import_ctranslate2("an export to CTranslate2")
    # Before the weights are read: should they change meanwhile, the export is not of them.
    exported = fingerprint(folder) if (folder / CONFIG).is_file() else ""
    model = load_folder(folder)
    if causes := ctranslate2_obstacles(model.settings.model):
        raise ExportError(*causes)
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"{out}: there is something already; choose a new folder, or remove this one")
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    notes: dict[str, Any] = {"fingerprint": exported, "precision": precision, "max_source": POSITIONS}
    notes["max_target"] = model.model.max_target
    beside = out.with_name(out.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        write(model, beside, precision)
        write_bytes(beside / NOTES, _json(notes))
        parity = compared(model, CTranslate2(beside), sentences, origin)
        _check(parity, precision)
        write_bytes(beside / NOTES, _json({**notes, "parity": asdict(parity)}))
        if out.exists():
            out.rmdir()
        beside.replace(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return parity


def write(model: ModelFolder, out: Path, precision: Precision) -> None:
    """Write the folder that `ctranslate2.Translator` loads, and the tokenizer beside it."""
    spec = _spec(model)
    spec.validate()
    spec.optimize(quantization=precision)  # scales in place: the spec holds copies
    spec.save(str(out))
    model.tokenizer.save(out)


def compared(model: ModelFolder, exported: CTranslate2, sentences: Sequence[str], origin: str) -> Parity:
    """Translate with both, and let the export score what the model says."""
    sources = [[*model.tokenizer.source.encode(text), EOS] for text in sentences]
    search = model.settings.search
    kept = {name: getattr(search, name) for name in ("length_penalty", "max_ratio", "max_extra", "longest_source")}
    greedy, wide = SearchSettings(beam=1, **kept), SearchSettings(beam=search.beam, **kept)
    ours, theirs = _native(model, sources, greedy), exported.search(sources, greedy)
    by_beam = _native(model, sources, wide), exported.search(sources, wide)
    best = [found[0].ids for found in ours]
    scores, wanted = exported.score(sources, best), _likely(model, sources, best)
    differences = [
        abs(a - b) for mine, other in zip(wanted, scores, strict=True) for a, b in zip(mine, other, strict=True)
    ]
    return Parity(
        len(sources), origin, _same(ours, theirs), wide.beam, _same(*by_beam), sum(differences) / len(differences)
    )


def _native(model: ModelFolder, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
    found = []
    for source in sources:
        with torch.inference_mode():
            read = model.model.encode(Batch(torch.tensor([source])))
        found += search(model.model, read, [len(source)], settings)
    return found


@torch.inference_mode()
def _likely(
    model: ModelFolder, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of each piece of given targets, and of the end of sentence."""
    results = []
    for source, target in zip(sources, targets, strict=True):
        features = model.model(Batch(torch.tensor([source])), torch.tensor([[BOS, *target]]))
        likely = model.model.project(features)[0].log_softmax(-1)
        results.append(likely.gather(1, torch.tensor([*target, EOS])[:, None])[:, 0].tolist())
    return results


def _same(ours: Sequence[Sequence[Hypothesis]], theirs: Sequence[Sequence[Hypothesis]]) -> float:
    return sum(a[0].ids == b[0].ids for a, b in zip(ours, theirs, strict=True)) / len(ours)


def _check(parity: Parity, precision: Precision) -> None:
    """Raise ExportError where the export is not the model."""
    most, least = PRECISIONS[precision]
    causes = []
    if not parity.difference <= most:
        causes.append(f"log-probabilities differ by {parity.difference:.2g} nats a piece, at most {most:g} are right")
    if parity.same < least or parity.same_by_beam < least - BEAM_LEEWAY:
        causes.append(f"fewer than {least:.0%} of the translations are the same")
    if causes:
        why = "choose another `precision=`" if precision != "float32" else "this is a fault of Regard: please report it"
        raise ExportError(
            *(f"the export does not translate as the model does: {c}" for c in causes), f"{parity}; {why}"
        )


def _json(values: Any) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=2) + "\n").encode()


def _spec(model: ModelFolder) -> Any:
    """The model as CTranslate2 describes one. Every tensor in it is a copy."""
    from ctranslate2.specs import transformer_spec

    settings: ModelSettings = model.settings.model
    parts: Any = model.model
    encoder = transformer_spec.TransformerEncoderSpec(**_shape(settings.encoder))
    decoder = transformer_spec.TransformerDecoderSpec(**_shape(settings.decoder), alignment_heads=0)
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    for part, other, shape in (
        (parts.encoder, encoder, settings.encoder),
        (parts.decoder, decoder, settings.decoder),
    ):
        _fill_side(part, other, shape)
    encoder.embeddings[0].weight = _copy(parts.encoder.embedding.weight)
    decoder.embeddings.weight = _copy(parts.decoder.embedding.weight)
    decoder.projection.weight = _copy(parts.decoder.output.weight)
    decoder.projection.bias = _copy(parts.decoder.output.bias)
    spec.register_source_vocabulary(_tokens(model.tokenizer.source))
    spec.register_target_vocabulary(_tokens(model.tokenizer.target))
    spec.config.layer_norm_epsilon = parts.encoder.layers[0].self_attention_residual.norm.eps
    return spec


def _shape(settings: Any) -> dict[str, Any]:
    from ctranslate2.specs.common_spec import Activation

    bends = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH, "swiglu": Activation.SWISH}
    return {
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "pre_norm": settings.norm == "pre",
        "no_final_norm": True,  # it is put in where there is one
        "activation": bends[settings.activation],
        "ffn_glu": settings.activation == "swiglu",
    }


def _fill_side(part: Any, spec: Any, settings: Any) -> None:
    """What encoder and decoder have in common: scale, positions, layers, the last norm."""
    from ctranslate2.specs.common_spec import LayerNormSpec

    spec.scale_embeddings = settings.scale_embedding
    places, every = part.input_embedding.position_embedding, torch.arange(POSITIONS)[None]
    spec.position_encodings.encodings = (
        torch.zeros(POSITIONS, settings.size) if places is None else _copy(places(every)[0])
    )
    if settings.has_final_norm:
        vars(spec)["layer_norm"] = (
            LayerNormSpec()
        )  # the description has one beside `pre` only, the runtime wherever it is
        _norm(spec.layer_norm, part.norm)
    for layer, other in zip(part.layers, spec.layer, strict=True):
        _norm(other.self_attention.layer_norm, layer.self_attention_residual.norm)
        _linears(
            other.self_attention.linear[0],
            layer.self_attention.query,
            layer.self_attention.key,
            layer.self_attention.value,
        )
        _linears(other.self_attention.linear[1], layer.self_attention.output)
        if hasattr(other, "attention"):
            _norm(other.attention.layer_norm, layer.cross_attention_residual.norm)
            _linears(other.attention.linear[0], layer.cross_attention.query)
            _linears(other.attention.linear[1], layer.cross_attention.key, layer.cross_attention.value)
            _linears(other.attention.linear[2], layer.cross_attention.output)
        _norm(other.ffn.layer_norm, layer.feedforward_residual.norm)
        if settings.activation == "swiglu":
            _halves(layer.feedforward.widen, other.ffn.linear_0, other.ffn.linear_0_noact)
        else:
            _linears(other.ffn.linear_0, layer.feedforward.widen)
        _linears(other.ffn.linear_1, layer.feedforward.narrow)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _linears(spec: Any, *layers: Any) -> None:
    """One linear layer, or several that read the same, as one."""
    spec.weight = torch.cat([_copy(layer.weight) for layer in layers])
    spec.bias = torch.cat([_copy(layer.bias) for layer in layers])


def _halves(layer: Any, *specs: Any) -> None:
    """One linear layer as two: the half that is bent, and its gate."""
    weights, biases = _copy(layer.weight).chunk(2), _copy(layer.bias).chunk(2)
    for spec, weight, bias in zip(specs, weights, biases, strict=True):
        spec.weight, spec.bias = weight.clone(), bias.clone()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().float().cpu().clone()


def _tokens(vocabulary: Vocabulary) -> list[str]:
    """Its pieces; one that comes twice is told apart by its number."""
    seen: set[str] = set()
    tokens = []
    for i, piece in enumerate(vocabulary.tokens(range(len(vocabulary)))):
        token = piece if piece not in seen else f"{piece}@{i}"
        seen.add(token)
        tokens.append(token)
    return tokens
