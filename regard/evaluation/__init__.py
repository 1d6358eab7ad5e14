"""Evaluation: scores of outputs, alignment error rate, faithfulness of attention, and validation.

Scores of outputs: `text_metrics` (translations), `caption_metrics` and `cider` (captions),
`bootstrap` and `significance` (significance of differences), `length_buckets` (by source length).
Attention: `aer` (alignments), `pointing` (captions), `entropy`, `faithfulness`. `validation` makes
the callable with which the trainer validates.
"""
