"""Generate sample data: a Korean–English corpus from a grammar, and captioned images.

A sentence is first drawn as a `derivation` (`grammar`, `draft` and `tenses` draw from `lexicon` and
`verbs`). It is then realised in both languages (`korean`, `english`, `realisation`), so that its
word alignment is known. `images` generates images and their captions in the same way.
"""

from __future__ import annotations

from regard.learn.samples.aligned_pairs import AlignedPair, Sample
from regard.learn.samples.korean_english_corpus import korean_english

__all__ = ["AlignedPair", "Sample", "korean_english"]
