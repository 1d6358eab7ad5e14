"""Generators of sample data: a Korean–English corpus from a grammar, copy and reverse tasks, and
captioned images.

A sentence is drawn as a `derivation` (`grammar`, `draft`, `tenses` over `lexicon` and `verbs`) and
realised in both languages (`korean`, `english`, `realisation`), so that its word alignment is
known. `images` does the same for images.
"""

from __future__ import annotations

from regard.learn.samples.aligned_pairs import AlignedPair, Sample
from regard.learn.samples.korean_english_corpus import korean_english

__all__ = ["AlignedPair", "Sample", "korean_english"]
