"""How good captions are, against one or more that people gave: BLEU-1 to BLEU-4, chrF, CIDEr-D, and exactly right."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import regard
from regard.data.text import clean
from regard.data.tokenizer import TokenizerSettings
from regard.evaluation.cider import LONGEST, SIGMA, cider_d
from regard.evaluation.metrics import Score

__all__ = ["WordTokenizer", "caption_scores", "each_cider", "tokenizer_for", "tokens", "validation_scores", "words"]

WordTokenizer = Callable[[str], list[str]]

NO_WORD = "∅"  # a reference of punctuation alone
_EACH = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m))\b")


def _marks() -> str:
    """What is written on, under or round a letter, and joins it to the next: vowel signs of Hindi and Thai, accents."""
    found = [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code))[0] == "M"]
    return "".join(map(chr, found)) + "\u200c\u200d"


_LETTERS = f"(?:[^\\W_][{_marks()}]*)+"
_WORD = re.compile(rf"'(?:s|re|ve|ll|d|m)\b|{_LETTERS}(?:['.-]{_LETTERS})*")


def words(text: str) -> list[str]:
    """A caption in lower case without its punctuation, as coco-caption compares them: "don't" is do + n't, and
    Chinese and Japanese characters stand alone.
    """
    text = _CLITIC.sub(r" \1", clean(text).lower().replace("’", "'"))
    return _WORD.findall(_EACH.sub(r" \1 ", text))


def tokens(text: str) -> list[str]:
    """What stands between spaces, of formulas."""
    return clean(text).split()


def tokenizer_for(tokenizer: TokenizerSettings) -> WordTokenizer:
    """How what such a vocabulary writes is compared: formulas and other writing by what stands between spaces."""
    return tokens if tokenizer.kind in ("char", "whitespace") else words


def each_cider(outputs: Sequence[str], references: Sequence[Sequence[str]], cut: WordTokenizer = words) -> list[float]:
    """CIDEr-D of each caption; `references` are the captions of each picture."""
    return cider_d([cut(text) for text in outputs], [[cut(text) for text in own] for own in references])


def caption_scores(
    outputs: Sequence[str], references: Sequence[Sequence[str]], cut: WordTokenizer = words
) -> list[Score]:
    """All scores, each with how it was counted; `references` are the captions of each picture, one or more."""
    counts = {len(own) for own in references}
    about = f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|pictures:{len(outputs)}"
    how = f"tok:{cut.__name__}|regard:{regard.__version__}"
    results = [
        Score(f"BLEU-{n}", _bleu(n, outputs, references, cut), f"{about}|smooth:none|{how}") for n in range(1, 5)
    ]
    chrf = CHRF()
    value = float(chrf.corpus_score(list(outputs), _streams(references)).score)
    results.append(Score("chrF", value, str(chrf.get_signature())))
    each = each_cider(outputs, references, cut)
    details = f"{about}|n:{LONGEST}|sigma:{SIGMA:g}|idf:references|{how}"
    results.append(Score("CIDEr-D", sum(each) / max(1, len(each)), details))
    return [*results, Score("exact", _exact(outputs, references), f"{about}|case:mixed|regard:{regard.__version__}")]


def validation_scores(
    outputs: Sequence[str], references: Sequence[Sequence[str]], cut: WordTokenizer = words
) -> dict[str, float]:
    """The scores that training watches."""
    each = each_cider(outputs, references, cut)
    return {
        "chrf": float(CHRF().corpus_score(list(outputs), _streams(references)).score),
        "bleu": _bleu(4, outputs, references, cut),
        "cider": sum(each) / max(1, len(each)),
    }


def _bleu(n: int, outputs: Sequence[str], references: Sequence[Sequence[str]], cut: WordTokenizer) -> float:
    """BLEU of runs of one to n words, as coco-caption counts it: of the whole set, not smoothed."""
    metric = BLEU(tokenize="none", force=True, smooth_method="none", max_ngram_order=n)
    streams = _streams([[" ".join(cut(text)) or NO_WORD for text in own] for own in references])
    return float(metric.corpus_score([" ".join(cut(text)) for text in outputs], streams).score)


def _streams(references: Sequence[Sequence[str]]) -> Any:
    """The first reference of each picture, the second of each, and so on; None where there are fewer, since an empty
    text would count as a reference of no words.
    """
    return [list(stream) for stream in zip_longest(*references, fillvalue=None)]  # sacreBLEU's types know no None


def _exact(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The percentage that is letter for letter one of the references."""
    same = sum(clean(text) in map(clean, own) for text, own in zip(outputs, references, strict=True))
    return 100 * same / max(1, len(outputs))
