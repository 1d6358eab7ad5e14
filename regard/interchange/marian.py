"""Map settings, weight names and vocabulary rows to Marian models as Hugging Face stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.common.errors import ExportError
from regard.common.shapes import Tensor
from regard.data.languages import Languages, named_code
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from regard.layers.positional_encoding import sinusoids
from regard.models import ModelSettings
from regard.search import SearchSettings

POSITIONS = 512
"""Smallest number of positions of an exported Marian model."""
SUPPRESSED = -1000.0
"""Output bias that gives `<pad>` probability 0.

A Marian model begins targets with `<pad>`, so the row of this token holds the embedding of our
`<s>`.
"""
TYPICAL_LENGTH = 20
"""Target length in tokens at which our length penalty and Hugging Face's grow at the same rate."""
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
_FROM_MARIAN = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
"""Activation of each name that Marian configs have."""
_PROJECTIONS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
}
_LAYER = {
    **{
        f"self_attention.{ours}": f"self_attn.{theirs}"
        for ours, theirs in _PROJECTIONS.items()
    },
    "self_attention_residual.norm": "self_attn_layer_norm",
    "feedforward.widen": "fc1",
    "feedforward.narrow": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}
_CROSS = {
    **{
        f"cross_attention.{ours}": f"encoder_attn.{theirs}"
        for ours, theirs in _PROJECTIONS.items()
    },
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
}
_SIZES = {"layers": "layers", "heads": "attention_heads", "feedforward": "ffn_dim"}
_EMBEDDINGS = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
)
_TIED = (*_EMBEDDINGS, "lm_head.weight")
_POSITIONS = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)
_BIAS = "final_logits_bias"


def config_of(
    settings: ModelSettings, tokenizer: Tokenizer, search: SearchSettings
) -> dict[str, object]:
    """Return the `config.json` of a model for which `huggingface_obstacles` finds none.

    Every field is set.
    """
    encoder: Any = settings.encoder
    decoder: Any = settings.decoder
    special = special_ids(tokenizer.target)
    is_shared = settings.resolved_share(tokenizer.settings.joint) == "all"
    sides = {
        f"{name}_{theirs}": getattr(side, ours)
        for name, side in (("encoder", encoder), ("decoder", decoder))
        for ours, theirs in (*_SIZES.items(), ("layer_dropout", "layerdrop"))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "is_decoder": False,
        "dtype": "float32",
        "vocab_size": _row_count(tokenizer.source),
        "decoder_vocab_size": _row_count(tokenizer.target),
        "share_encoder_decoder_embeddings": is_shared,
        "tie_word_embeddings": True,
        "d_model": encoder.size,
        **sides,
        "activation_function": _ACTIVATIONS[encoder.activation],
        "scale_embedding": encoder.scale_embedding,
        "dropout": decoder.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "init_std": 0.02,
        "max_position_embeddings": max(POSITIONS, search.longest_source or 0),
        "use_cache": True,
        "bos_token_id": None,
        "forced_eos_token_id": special["eos_token_id"],
        **special,
    }


def generation_of(tokenizer: Tokenizer, search: SearchSettings) -> dict[str, object]:
    """Return the `generation_config.json` of the same search, up to the form of the length
    penalty.
    """
    special = special_ids(tokenizer.target)
    row_of = rows(tokenizer.target)
    return {
        "num_beams": search.beam,
        "length_penalty": search.length_penalty * TYPICAL_LENGTH / (5 + TYPICAL_LENGTH),
        "early_stopping": True,
        "max_length": POSITIONS,
        "bad_words_ids": [
            [row] for row in sorted({row_of[token] for token in (PAD, UNK, BOS)})
        ],
        "forced_eos_token_id": special["eos_token_id"],
        **special,
    }


def search_settings(
    generation: Mapping[str, object], config: Mapping[str, Any]
) -> SearchSettings:
    """Return the search settings of an imported model."""
    values = {**config, **generation}
    penalty = values.get("length_penalty")
    return SearchSettings(
        beam=int(values.get("num_beams") or SearchSettings().beam),
        length_penalty=float(1.0 if penalty is None else penalty)
        * (5 + TYPICAL_LENGTH)
        / TYPICAL_LENGTH,
        longest_source=int(config.get("max_position_embeddings", POSITIONS)),
    )


def languages(tokenizer_config: Mapping[str, object]) -> Languages:
    """Return the languages in a `tokenizer_config.json`; codes of families, such as ROMANCE, are
    unknown.
    """
    codes = (
        str(tokenizer_config.get(name) or "") for name in ("source_lang", "target_lang")
    )
    source, target = map(named_code, codes)
    return Languages(source=source, target=target)


def model_settings(config: Mapping[str, Any]) -> ModelSettings:
    """Return the model settings of a Marian config. Raises ExportError, with all causes, if it is
    not that of a supported Marian model.
    """
    ExportError.raise_all(_config_problems(config))
    sides = {
        name: {
            "kind": "transformer",
            **{ours: config[f"{name}_{theirs}"] for ours, theirs in _SIZES.items()},
            "size": config["d_model"],
            "dropout": float(
                0.1 if config.get("dropout") is None else config["dropout"]
            ),
            "layer_dropout": float(config.get(f"{name}_layerdrop") or 0.0),
            "norm": "post",
            "activation": _FROM_MARIAN[config.get("activation_function", "gelu")],
            "scale_embedding": config.get("scale_embedding", False),
        }
        for name in ("encoder", "decoder")
    }
    share = "all" if config.get("share_encoder_decoder_embeddings", True) else "target"
    return ModelSettings.parse({**sides, "share": share}, "config.json")


def _config_problems(config: Mapping[str, object]) -> list[str]:
    """Return why a config is not that of a supported Marian model, a sentence for each cause."""
    causes = list[str]()
    if config.get("model_type") != "marian":
        causes.append(
            f"model_type is {config.get('model_type')!r}, only 'marian' can be imported"
        )
    if config.get("activation_function", "gelu") not in _FROM_MARIAN:
        causes.append(
            f"activation_function is {config['activation_function']!r}, known are "
            f"{', '.join(_FROM_MARIAN)}"
        )
    if config.get("tie_word_embeddings", True) is not True:
        causes.append(
            "tie_word_embeddings is off: output projection and target embedding must be tied"
        )
    needed = ["d_model"]
    for side in ("encoder", "decoder"):
        needed += [f"{side}_{size}" for size in _SIZES.values()]
    causes += [
        f"{name} is {config.get(name)!r}, wanted an integer"
        for name in needed
        if type(config.get(name)) is not int
    ]
    unsupported = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
    causes += [
        f"{name} is on: Marian models normalise after each sublayer, and nowhere else"
        for name in unsupported
        if config.get(name)
    ]
    return causes


def to_marian(
    weights: Mapping[str, Tensor], settings: ModelSettings, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """Convert weights to those of a Marian model."""
    converted = {
        theirs: weights[ours].clone()
        for ours, theirs in _weight_names(settings).items()
    }
    for ours, theirs, vocabulary in _embeddings(settings, tokenizer):
        converted[theirs] = _to_rows(weights[ours], vocabulary)
    return {
        **converted,
        _BIAS: _to_rows(weights["decoder.output.bias"], tokenizer.target)[None],
    }


def from_marian(
    tensors: Mapping[str, Tensor], settings: ModelSettings, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """Convert the weights of a Marian model to ours. Raises ExportError for what is missing,
    unknown or different.
    """
    tensors = {name: tensor.float() for name, tensor in tensors.items()}
    names = _weight_names(settings)
    embeddings = _embeddings(settings, tokenizer)
    stored = {theirs: _stored_name(theirs, tensors) for _, theirs, _ in embeddings}
    causes = [
        f"there are no weights called {theirs}"
        for theirs in names.values()
        if theirs not in tensors
    ]
    causes += [
        f"there are no weights called {theirs}"
        for theirs, name in stored.items()
        if name is None
    ]
    known = {*names.values(), *_TIED, *_POSITIONS, _BIAS}
    causes += [
        f"the weights {name} belong to no part of a Marian model"
        for name in tensors
        if name not in known
    ]
    ExportError.raise_all(sorted(causes)[:8])
    _check_positions(tensors)
    converted = {ours: tensors[theirs].clone() for ours, theirs in names.items()}
    for ours, theirs, vocabulary in embeddings:
        converted[ours] = _from_rows(tensors[str(stored[theirs])], vocabulary, theirs)
    bias = tensors.get(_BIAS, torch.zeros(1, _row_count(tokenizer.target)))
    converted["decoder.output.bias"] = _from_rows(
        bias.flatten(), tokenizer.target, _BIAS
    )
    _check_tied(tensors, len(embeddings) == 1)
    if tokenizer.target.table is not None:
        converted["decoder.output.bias"][PAD] = SUPPRESSED
    return converted


def rows(vocabulary: Vocabulary) -> Sequence[int]:
    """Return the row of each of our tokens in Marian's embeddings, which is its id in Marian."""
    return range(len(vocabulary)) if vocabulary.table is None else vocabulary.table.rows


def _row_count(vocabulary: Vocabulary) -> int:
    return max(rows(vocabulary)) + 1


def special_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the ids of special tokens in a Marian model, by their names in its configuration."""
    row_of = rows(vocabulary)
    return {
        "pad_token_id": row_of[PAD],
        "eos_token_id": row_of[EOS],
        "decoder_start_token_id": row_of[BOS],
    }


def _weight_names(settings: ModelSettings) -> dict[str, str]:
    """Map our weight names to Marian's, without embeddings and output bias."""
    names = {}
    for side, part, layer_names in (
        ("encoder", settings.encoder, _LAYER),
        ("decoder", settings.decoder, {**_LAYER, **_CROSS}),
    ):
        for layer in range(part.layers):
            for ours, theirs in layer_names.items():
                for kind in ("weight", "bias"):
                    names[f"{side}.layers.{layer}.{ours}.{kind}"] = (
                        f"model.{side}.layers.{layer}.{theirs}.{kind}"
                    )
    return names


def _embeddings(
    settings: ModelSettings, tokenizer: Tokenizer
) -> list[tuple[str, str, Vocabulary]]:
    """Return each embedding: our name, Marian's, and its vocabulary."""
    source = tokenizer.source
    target = tokenizer.target
    if settings.resolved_share(tokenizer.settings.joint) == "all":
        return [("encoder.input_embedding.embedding.weight", _EMBEDDINGS[0], source)]
    return [
        ("encoder.input_embedding.embedding.weight", _EMBEDDINGS[1], source),
        ("decoder.input_embedding.embedding.weight", _EMBEDDINGS[2], target),
    ]


def _stored_name(name: str, tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name that an embedding is stored under; a tied matrix may have any of its
    names.
    """
    shared = {_EMBEDDINGS[0]: _TIED, _EMBEDDINGS[2]: (name, "lm_head.weight")}
    names: tuple[str, ...] = shared.get(name, (name,))
    return next((candidate for candidate in names if candidate in tensors), None)


def _to_rows(weights: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Reorder rows by Marian's ids.

    PAD is copied first, so that the trained weights of BOS win if both have the same row.
    """
    row_of = rows(vocabulary)
    result = weights.new_empty(_row_count(vocabulary), *weights.shape[1:])
    for i in (PAD, *(i for i in range(len(row_of)) if i != PAD)):
        result[row_of[i]] = weights[i]
    return result


def _from_rows(tensor: Tensor, vocabulary: Vocabulary, name: str) -> Tensor:
    """Reorder rows by our token ids."""
    if len(tensor) != _row_count(vocabulary):
        raise ExportError(
            f"{name} has {len(tensor):,} rows, and the tokenizer {_row_count(vocabulary):,} tokens"
        )
    return tensor[torch.tensor(rows(vocabulary))].clone()


def _check_positions(tensors: Mapping[str, Tensor]) -> None:
    """Raise ExportError if stored positions are not the sinusoids that we compute."""
    for name in _POSITIONS:
        if name in tensors:
            count, size = tensors[name].shape
            if (
                tensors[name] - sinusoids(torch.arange(count)[None], size)[0]
            ).abs().max() > 1e-4:
                raise ExportError(
                    f"{name} holds other positions than the sinusoids of a Marian model"
                )


def _check_tied(tensors: Mapping[str, Tensor], all_shared: bool) -> None:
    """Raise ExportError if matrices that must be tied are stored several times and differ."""
    tied = [name for name in (_TIED if all_shared else _TIED[2:]) if name in tensors]
    different = [
        name for name in tied[1:] if not torch.equal(tensors[name], tensors[tied[0]])
    ]
    ExportError.raise_all(
        f"{tied[0]} and {name} must be one matrix, and differ" for name in different
    )
