"""Small random Marian models in the format of Hugging Face, with tokenizers like those of
OPUS-MT.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from regard.learn.samples import korean_english

SIZES = {"train": 200, "valid": 0, "test": 12, "recombination": 0, "length": 0}
SAMPLE = korean_english(sizes=SIZES, short=1.0)
KOREAN = [pair.source for pair in SAMPLE.splits["train"]]
ENGLISH = [pair.target for pair in SAMPLE.splits["train"]]
LINES = [
    *(pair.source for pair in SAMPLE.splits["test"]),
    "  두  칸 ",
    "ﬁ ① ｗｉｄｅ …",  # normalised by the vocabulary itself
    "never seen: ßøж 漢字",
    ">>eng<< 나는 집에 간다",
    ">>xyz<< 나는 집에 간다",
    "한글",  # decomposed
    "<s> </s> <unk>",
]


def train_sentencepiece(lines: Sequence[str], kind: str = "unigram") -> bytes:
    """Train a vocabulary like those of OPUS-MT: <unk> <s> </s> first, normalised by NFKC."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=320,
        model_type=kind,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=4,
    )
    return model.getvalue()


def number_pieces(*models: bytes, most: int | None = None) -> dict[str, int]:
    """Number pieces in another order: end of sentence first, padding last, some left out, and a
    language code.
    """
    pieces: list[str] = []
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces += [processor.id_to_piece(i) for i in range(3, len(processor)) if i % 29]
    rest = sorted({*pieces, ">>eng<<"})
    random.Random(7).shuffle(rest)
    return {
        piece: number
        for number, piece in enumerate(["</s>", "<unk>", *rest[:most], "<pad>"])
    }


def marian_folder(path: Path, separate: bool = False, **changes: Any) -> Path:
    """Write a Marian model with random weights, large enough that its translations differ."""
    path.mkdir(parents=True)
    models = {
        "source": train_sentencepiece(KOREAN),
        "target": train_sentencepiece(ENGLISH, "bpe" if separate else "unigram"),
    }
    for side, model in models.items():
        (path / f"{side}.spm").write_bytes(model)
    listings = (
        [number_pieces(model, most=240) for model in models.values()]
        if separate
        else [number_pieces(*models.values())]
    )
    files = ["vocab.json", "target_vocab.json"][: len(listings)]
    for name, listing in zip(files, listings, strict=True):
        (path / name).write_text(json.dumps(listing, indent=2), encoding="utf-8")
    pad = len(listings[-1]) - 1
    kwargs: dict[str, Any] = {
        "vocab_size": len(listings[0]),
        "decoder_vocab_size": len(listings[-1]),
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "max_position_embeddings": 512,
        "share_encoder_decoder_embeddings": not separate,
        "init_std": 0.2,
    }
    config = MarianConfig(**{**kwargs, **changes})
    torch.manual_seed(13)
    model = MarianMTModel(config).eval()
    torch.nn.init.normal_(model.final_logits_bias)
    with torch.no_grad():
        # More influence for the source than for the previous token.
        for layer in model.model.decoder.layers:
            layer.encoder_attn.out_proj.weight.mul_(4)
            layer.fc2.weight.mul_(4)
        ids = torch.randint(2, pad, (8, 8))
        logits = model(input_ids=ids, decoder_input_ids=ids.flip(0)).logits
        # end of sentence is the likeliest token at a tenth of the positions
        model.final_logits_bias[0, 0] += (
            logits[..., 1:pad].amax(-1) - logits[..., 0]
        ).quantile(0.1)

    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(path)
    vocabularies = (
        {"target_vocab_file": str(path / "target_vocab.json"), "separate_vocabs": True}
        if separate
        else {}
    )
    names = [str(path / name) for name in ("source.spm", "target.spm", "vocab.json")]
    MarianTokenizer(*names, **vocabularies).save_pretrained(path)
    return path
