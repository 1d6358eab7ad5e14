"""Marian models, as Hugging Face stores them: which of their settings and weights is which of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from regard.errors import ExportError
from regard.layers.positions import sinusoids
from regard.models import ModelSettings
from regard.search import SearchSettings
from regard.shapes import Tensor

__all__ = [
    "POSITIONS",
    "config_of",
    "from_marian",
    "generation_of",
    "model_settings",
    "rows",
    "search_settings",
    "to_marian",
]

POSITIONS = 512
"""Positions that a Marian model has at the least."""
NEVER = -1000.0
"""The output bias of our `<pad>` where a Marian model begins its targets with its own: softmax gives it nothing."""
TYPICAL = 20
"""Pieces of a target at which our length penalty and Hugging Face's grow alike."""
_BENDS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_LAYER = {
    **{f"self_attention.{mine}": f"self_attn.{other}" for mine, other in _PARTS.items()},
    "self_attention_residual.norm": "self_attn_layer_norm",
    "feedforward.widen": "fc1",
    "feedforward.narrow": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
_CROSS = {
    **{f"cross_attention.{mine}": f"encoder_attn.{other}" for mine, other in _PARTS.items()},
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
}
_MATRICES = ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
_TIED = (*_MATRICES, "lm_head.weight")
_WAVES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_BIAS = "final_logits_bias"


def config_of(settings: ModelSettings, tokenizer: Tokenizer, search: SearchSettings) -> dict[str, Any]:
    """The `config.json` of a model that `why_not_huggingface` has nothing against; no field is left to a default."""
    encoder: Any = settings.encoder
    decoder: Any = settings.decoder
    numbers = _special(tokenizer.target)
    sides = {
        f"{name}_{field}": value
        for name, side in (("encoder", encoder), ("decoder", decoder))
        for field, value in (
            ("layers", side.layers),
            ("attention_heads", side.heads),
            ("ffn_dim", side.feedforward),
            ("layerdrop", side.layer_dropout),
        )
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "is_decoder": False,
        "dtype": "float32",
        "vocab_size": _size(tokenizer.source),
        "decoder_vocab_size": _size(tokenizer.target),
        "share_encoder_decoder_embeddings": settings.resolved_share(tokenizer.settings.joint) == "all",
        "tie_word_embeddings": True,
        "d_model": encoder.size,
        **sides,
        "activation_function": _BENDS[encoder.activation],
        "scale_embedding": encoder.scale_embedding,
        "dropout": decoder.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "init_std": 0.02,
        "max_position_embeddings": max(POSITIONS, search.longest_source or 0),
        "use_cache": True,
        "bos_token_id": None,
        "forced_eos_token_id": numbers["eos_token_id"],
        **numbers,
    }


def generation_of(tokenizer: Tokenizer, search: SearchSettings) -> dict[str, Any]:
    """The `generation_config.json` with which Hugging Face searches as we do, up to the shape of the length penalty."""
    numbers, there = _special(tokenizer.target), rows(tokenizer.target)
    return {
        "num_beams": search.beam,
        "length_penalty": search.length_penalty * TYPICAL / (5 + TYPICAL),
        "early_stopping": True,
        "max_length": POSITIONS,
        "bad_words_ids": [[number] for number in sorted({there[piece] for piece in (PAD, UNK, BOS)})],
        "forced_eos_token_id": numbers["eos_token_id"],
        **numbers,
    }


def search_settings(generation: Mapping[str, Any], config: Mapping[str, Any]) -> SearchSettings:
    """How an imported model is searched with."""
    said = {**config, **generation}
    penalty = said.get("length_penalty")
    return SearchSettings(
        beam=int(said.get("num_beams") or SearchSettings().beam),
        length_penalty=float(1.0 if penalty is None else penalty) * (5 + TYPICAL) / TYPICAL,
        longest_source=int(config.get("max_position_embeddings", POSITIONS)),
    )


_SIZES = ("layers", "attention_heads", "ffn_dim")


def model_settings(config: Mapping[str, Any]) -> ModelSettings:
    """Our settings of a Marian model. Raises ExportError with everything in it that is none of ours."""
    bends = {other: mine for mine, other in _BENDS.items()} | {"silu": "silu"}
    causes = [f"model_type is {config.get('model_type')!r}, only 'marian' can be imported"] * (
        config.get("model_type") != "marian"
    )
    if config.get("activation_function", "gelu") not in bends:
        causes.append(f"activation_function is {config['activation_function']!r}, known are {', '.join(bends)}")
    if config.get("tie_word_embeddings", True) is not True:
        causes.append("tie_word_embeddings is off: the output layer has to be the embedding of the target")
    needed = ("d_model", *(f"{side}_{what}" for side in ("encoder", "decoder") for what in _SIZES))
    causes += [
        f"{name} is {config.get(name)!r}, wanted a whole number" for name in needed if type(config.get(name)) is not int
    ]
    strange = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
    causes += [
        f"{name} is on: Marian models normalise after each sublayer, and nowhere else"
        for name in strange
        if config.get(name)
    ]
    if causes:
        raise ExportError(*causes)
    sides = {
        name: {
            "kind": "transformer",
            "layers": config[f"{name}_layers"],
            "size": config["d_model"],
            "heads": config[f"{name}_attention_heads"],
            "feedforward": config[f"{name}_ffn_dim"],
            "dropout": float(0.1 if config.get("dropout") is None else config["dropout"]),
            "layer_dropout": float(config.get(f"{name}_layerdrop") or 0.0),
            "norm": "post",
            "activation": bends[config.get("activation_function", "gelu")],
            "scale_embedding": config.get("scale_embedding", False),
        }
        for name in ("encoder", "decoder")
    }
    share = "all" if config.get("share_encoder_decoder_embeddings", True) else "target"
    return ModelSettings.parse({**sides, "share": share}, "config.json")


def to_marian(weights: Mapping[str, Tensor], settings: ModelSettings, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """The weights of a Marian model from ours."""
    found = {there: weights[here].clone() for here, there in _renamed(settings).items()}
    for here, there, vocabulary in _matrices(settings, tokenizer):
        found[there] = _placed(weights[here], rows(vocabulary), _size(vocabulary))
    bias = _placed(weights["decoder.output.bias"], rows(tokenizer.target), _size(tokenizer.target))
    return {**found, _BIAS: bias[None]}


def from_marian(tensors: Mapping[str, Tensor], settings: ModelSettings, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Our weights from those of a Marian model. Raises ExportError with everything that is missing, too much or
    different from what it has to be.
    """
    tensors = {name: tensor.float() for name, tensor in tensors.items()}
    renamed, matrices = _renamed(settings), _matrices(settings, tokenizer)
    named = {there: _named(there, tensors) for _, there, _ in matrices}
    causes = [f"there are no weights called {there}" for there in renamed.values() if there not in tensors]
    causes += [f"there are no weights called {there}" for there, name in named.items() if name is None]
    known = {*renamed.values(), *_TIED, *_WAVES, _BIAS}
    causes += [f"the weights {name} belong to no part of a Marian model" for name in tensors if name not in known]
    if causes:
        raise ExportError(*sorted(causes)[:8])
    _check_waves(tensors)
    found = {here: tensors[there].clone() for here, there in renamed.items()}
    for here, there, vocabulary in matrices:
        found[here] = _taken(tensors[str(named[there])], vocabulary, there)
    bias = tensors.get(_BIAS, torch.zeros(1, _size(tokenizer.target)))
    found["decoder.output.bias"] = _taken(bias.flatten(), tokenizer.target, _BIAS)
    _check_tied(tensors, matrices)
    if tokenizer.target.table is not None:
        found["decoder.output.bias"][PAD] = NEVER
    return found


def rows(vocabulary: Vocabulary) -> Sequence[int]:
    """The number that each of our pieces has there."""
    return range(len(vocabulary)) if vocabulary.table is None else vocabulary.table.rows


def _size(vocabulary: Vocabulary) -> int:
    """How many pieces there are there."""
    return max(rows(vocabulary)) + 1


def _special(vocabulary: Vocabulary) -> dict[str, int]:
    there = rows(vocabulary)
    return {"pad_token_id": there[PAD], "eos_token_id": there[EOS], "decoder_start_token_id": there[BOS]}


def _renamed(settings: ModelSettings) -> dict[str, str]:
    """What a Marian model calls each of our weights, embeddings and the output bias aside."""
    names = {}
    for side, part, inside in (
        ("encoder", settings.encoder, _LAYER),
        ("decoder", settings.decoder, {**_LAYER, **_CROSS}),
    ):
        for layer in range(part.layers):
            for mine, other in inside.items():
                for kind in ("weight", "bias"):
                    names[f"{side}.layers.{layer}.{mine}.{kind}"] = f"model.{side}.layers.{layer}.{other}.{kind}"
    return names


def _matrices(settings: ModelSettings, tokenizer: Tokenizer) -> list[tuple[str, str, Vocabulary]]:
    """Each embedding: our name, theirs, whose pieces."""
    source, target = tokenizer.source, tokenizer.target
    if settings.resolved_share(tokenizer.settings.joint) == "all":
        return [("encoder.input_embedding.embedding.weight", _MATRICES[0], source)]
    return [
        ("encoder.input_embedding.embedding.weight", _MATRICES[1], source),
        ("decoder.input_embedding.embedding.weight", _MATRICES[2], target),
    ]


def _named(name: str, tensors: Mapping[str, Tensor]) -> str | None:
    """Under which name an embedding is stored: a matrix that is shared may have any of its names."""
    others = _TIED if name == _MATRICES[0] else (name, "lm_head.weight") if name == _MATRICES[2] else (name,)
    return next((other for other in others if other in tensors), None)


def _placed(ours: Tensor, there: Sequence[int], size: int) -> Tensor:
    """Rows in their order; of two of ours that are one there, the one that begins a target (it is read, and learns)."""
    result = ours.new_empty(size, *ours.shape[1:])
    order = torch.tensor([PAD, *(i for i in range(len(there)) if i != PAD)])
    for i in order.tolist():
        result[there[i]] = ours[i]
    return result


def _taken(tensor: Tensor, vocabulary: Vocabulary, name: str) -> Tensor:
    """Rows in our order."""
    if len(tensor) != _size(vocabulary):
        raise ExportError(f"{name} has {len(tensor):,} rows, and the tokenizer {_size(vocabulary):,} pieces")
    return tensor[torch.tensor(rows(vocabulary))].clone()


def _check_waves(tensors: Mapping[str, Tensor]) -> None:
    """Stored positions have to be the sinusoids that we compute."""
    for name in _WAVES:
        if name in tensors:
            count, size = tensors[name].shape
            if (tensors[name] - sinusoids(torch.arange(count)[None], size)[0]).abs().max() > 1e-4:
                raise ExportError(f"{name} holds other positions than the sinusoids of a Marian model")


def _check_tied(tensors: Mapping[str, Tensor], matrices: Sequence[tuple[str, str, Vocabulary]]) -> None:
    """Matrices that are to be one have to be equal where several of them are stored."""
    tied = [name for name in (_TIED if len(matrices) == 1 else _TIED[2:]) if name in tensors]
    causes = [
        f"{tied[0]} and {name} are to be one matrix, and differ"
        for name in tied[1:]
        if not torch.equal(tensors[name], tensors[tied[0]])
    ]
    if causes:
        raise ExportError(*causes)
