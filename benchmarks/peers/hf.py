"""Hugging Face transformers: MarianMTModel in a plain PyTorch loop, in float32 or under bfloat16
autocast.

The loop is ours, as the library has no training command.
"""

from __future__ import annotations

from peers.observe import Options, start
from peers.plain_loop import loop
from prepare import EOS, PAD
from shapes import VOCABULARY


def main() -> None:
    """Train until the recorder ends the process."""
    options, recorder = start("hf")
    import torch

    torch.manual_seed(1)
    model = _model(options)

    def logits(
        source: torch.Tensor, keep: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        return model(
            input_ids=source, attention_mask=keep.long(), decoder_input_ids=target
        ).logits

    loop(options, recorder, model, PAD, logits)


def _model(options: Options):
    from transformers import MarianConfig, MarianMTModel

    shape = options.shape
    layers = {f"{side}_layers": shape.layers for side in ("encoder", "decoder")}
    heads = {f"{side}_attention_heads": shape.heads for side in ("encoder", "decoder")}
    feedforward = {
        f"{side}_ffn_dim": shape.feedforward for side in ("encoder", "decoder")
    }
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=shape.size,
        **layers,
        **heads,
        **feedforward,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=256,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        scale_embedding=True,
        init_std=0.05,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
    )
    return MarianMTModel(config).train()


if __name__ == "__main__":
    main()
