"""Sequence-level distillation: select from a teacher's n-best translations those nearest to the
references.

Human translations are hard for a small model to learn, those of a model are easier: trained on both
it learns more in the same time (sequence-level interpolation, Kim and Rush 2016).

    regard translate TEACHER train.en --beam 5 --nbest 5 --length-penalty 1.6 --format jsonl
    --output teacher.jsonl
    python benchmarks/distil.py teacher.jsonl --reference train.de --output teacher.de
    cat train.en train.en > student.en; cat train.de teacher.de > student.de
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU


def main() -> int:
    """Select one of the teacher's hypotheses for each line and write them."""
    options = _options()
    lines = options.teacher.read_text(encoding="utf-8").split("\n")[:-1]
    references = options.reference.read_text(encoding="utf-8").split("\n")[:-1]
    if len(lines) != len(references):
        sys.exit(
            f"{options.teacher} has {len(lines)} lines and {options.reference} has "
            f"{len(references)}"
        )
    bleu = BLEU(tokenize=options.tokenize, effective_order=True, force=True)
    targets = [
        nearest(json.loads(line), reference, bleu)
        for line, reference in zip(lines, references, strict=True)
    ]
    options.output.write_text(
        "".join(f"{text}\n" for text in targets), encoding="utf-8"
    )
    print(
        f"{len(targets):,} translations; BLEU against {options.reference}: "
        f"{bleu.corpus_score(targets, [references])}"
    )
    return 0


def nearest(translation: dict[str, Any], reference: str, bleu: BLEU) -> str:
    """Return the hypothesis with the highest sentence BLEU; of equal ones the most probable."""
    texts: list[str] = [hypothesis["text"] for hypothesis in translation["nbest"]] or [
        translation["text"]
    ]
    return max(texts, key=lambda text: bleu.sentence_score(text, [reference]).score)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "teacher", type=Path, help="output of regard translate --nbest N --format jsonl"
    )
    parser.add_argument(
        "--reference", type=Path, required=True, help="human translations, line by line"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="file for the selected targets"
    )
    parser.add_argument(
        "--tokenize",
        default="13a",
        help="sacreBLEU's tokenizer; none for tokenised text",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
