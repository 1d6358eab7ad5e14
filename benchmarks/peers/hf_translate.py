"""Hugging Face transformers, through `generate`, with the weights of a Regard folder.

A pre-norm Transformer is an M2M100 there, except for the table of sinusoidal positions, which is
replaced, and the bias of the output layer, which is added.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from peers.translating import (
    Tokens,
    Translate,
    TranslationOptions,
    by_length,
    measure,
    start,
)
from prepare import BOS, EOS, PAD, UNK

POSITIONS = 512
NAMES = {
    "input_embedding.embedding": "embed_tokens",
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "self_attention_residual.norm": "self_attn_layer_norm",
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
    "feedforward_residual.norm": "final_layer_norm",
    "feedforward.widen": "fc1",
    "feedforward.narrow": "fc2",
    "norm": "layer_norm",
}
"""Names of the modules in Regard and in transformers."""


def main() -> None:
    """Measure in float32."""
    options = start("hf_translate")
    import torch

    torch.set_num_threads(options.threads)
    measure(options, _translator(options))


def _translator(options: TranslationOptions) -> Translate:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    model = _model(options)
    tokens = json.loads((options.folder / "tokens.json").read_text("utf-8"))
    ids = {token: i for i, token in enumerate(tokens)}
    steps = {"max_new_tokens": options.longest} | (
        {"min_new_tokens": options.forced} if options.forced else {}
    )
    ranking = {"length_penalty": 0.0} if options.beam > 1 else {}

    @torch.inference_mode()
    def translate(sentences: Sequence[Tokens]) -> list[Tokens]:
        rows = [
            torch.tensor([*(ids.get(token, UNK) for token in sentence), EOS])
            for sentence in sentences
        ]
        source = pad_sequence(rows, batch_first=True, padding_value=PAD)
        keep = source.ne(PAD).long()
        outputs = model.generate(
            source,
            attention_mask=keep,
            num_beams=options.beam,
            do_sample=False,
            **ranking,
            **steps,
        )
        return [
            [tokens[i] for i in row[1:] if i not in (PAD, EOS)]
            for row in outputs.tolist()
        ]

    return lambda sentences: by_length(sentences, translate)


def _model(options: TranslationOptions) -> Any:
    import torch
    from safetensors.torch import load_file
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    settings = json.loads(
        (options.folder / "regard" / "config.json").read_text("utf-8")
    )["model"]
    tensors = load_file(options.folder / "regard" / "model.safetensors")
    bias = tensors["decoder.output.bias"]
    sides = {side: settings[side] for side in ("encoder", "decoder")}
    if any(side["norm"] != "pre" for side in sides.values()):
        raise SystemExit("an M2M100 is pre-norm, and this model post-norm")
    shape = {f"{name}_layers": side["layers"] for name, side in sides.items()}
    shape |= {f"{name}_attention_heads": side["heads"] for name, side in sides.items()}
    shape |= {f"{name}_ffn_dim": side["feedforward"] for name, side in sides.items()}
    config = M2M100Config(
        vocab_size=len(bias),
        d_model=settings["encoder"]["size"],
        **shape,
        activation_function=settings["encoder"]["activation"],
        max_position_embeddings=POSITIONS,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        scale_embedding=True,
        tie_word_embeddings=True,
    )
    model = M2M100ForConditionalGeneration(config).eval()
    model.lm_head.bias = torch.nn.Parameter(bias)
    _fill(model, tensors)
    return model


def _fill(model: Any, tensors: dict[str, Any]) -> None:
    """Copy our weights to the modules of the same role, and our position table."""
    import torch

    own = dict(model.model.named_parameters(remove_duplicate=False))
    shared = next(
        tensor for name, tensor in tensors.items() if name.endswith("embedding.weight")
    )
    filled = {"shared.weight"}
    with torch.no_grad():
        own["shared.weight"].copy_(shared)
        for name, tensor in tensors.items():
            target = name
            for ours, theirs in NAMES.items():
                if f".{ours}." in f".{target}":
                    target = f".{target}".replace(f".{ours}.", f".{theirs}.")[1:]
                    break
            if target in own:
                own[target].copy_(tensor)
                filled.add(target)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weights.copy_(
                _sinusoids(*side.embed_positions.weights.shape)
            )
    missing = {name for name in own if "embed_tokens" not in name} - filled
    assert not missing, f"no weights for {sorted(missing)}"


def _sinusoids(positions: int, size: int) -> Any:
    """Return sines and cosines (Vaswani et al. 2017, section 3.5); the first position follows that
    of the padding.
    """
    import torch

    steps = torch.exp(
        torch.arange(size // 2) * (-2 * torch.log(torch.tensor(10000.0)) / size)
    )
    angles = (torch.arange(positions)[:, None] - 1 - PAD) * steps
    table = torch.cat([angles.sin(), angles.cos()], 1)
    table[PAD] = 0
    return table


if __name__ == "__main__":
    main()
