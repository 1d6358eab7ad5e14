"""Targets for a small model to learn from: of a larger one's n-best translations, those nearest to the references.

What people wrote is hard for a small model, what a model wrote is easy: trained on both it learns more in the same time
(sequence-level interpolation, Kim and Rush 2016).

    regard translate TEACHER train.en --beam 5 --nbest 5 --length-penalty 1.6 --format jsonl --output teacher.jsonl
    python benchmarks/distil.py teacher.jsonl --reference train.de --output teacher.de
    cat train.en train.en > student.en; cat train.de teacher.de > student.de
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sacrebleu.metrics import BLEU


def main() -> int:
    """Read what the teacher wrote, line by line, and write down one translation for each."""
    options = _options()
    lines = options.teacher.read_text(encoding="utf-8").split("\n")[:-1]
    references = options.reference.read_text(encoding="utf-8").split("\n")[:-1]
    if len(lines) != len(references):
        sys.exit(f"{options.teacher} has {len(lines)} lines and {options.reference} has {len(references)}")
    bleu = BLEU(tokenize=options.tokenize, effective_order=True, force=True)
    found = [nearest(json.loads(line), reference, bleu) for line, reference in zip(lines, references, strict=True)]
    options.output.write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
    print(f"{len(found):,} translations; BLEU against {options.reference}: {bleu.corpus_score(found, [references])}")
    return 0


def nearest(told: dict[str, object], reference: str, bleu: BLEU) -> str:
    """The hypothesis of a line that has the highest sentence BLEU, the likelier one of two that are equal."""
    some = [str(each["text"]) for each in told["nbest"]] or [str(told["text"])]  # type: ignore[attr-defined]
    return max(some, key=lambda text: bleu.sentence_score(text, [reference]).score)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("teacher", type=Path, help="what regard translate --nbest N --format jsonl wrote")
    parser.add_argument("--reference", type=Path, required=True, help="what people wrote, line by line")
    parser.add_argument("--output", type=Path, required=True, help="the targets to learn from")
    parser.add_argument("--tokenize", default="13a", help="sacreBLEU's tokenizer; none for text that is cut already")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
