"""Evaluation: BLEU, chrF and TER, caption metrics, alignment error rate, faithfulness of attention,
validation.

Scores of outputs: `metrics` (translations), `caption_metrics` and `cider` (captions), `bootstrap`
(significance), `length_buckets` (by source length). Attention: `aer` (alignment), `pointing`
(captions), `entropy`, `faithfulness`. `validation` makes the callable that the trainer validates
with.
"""
