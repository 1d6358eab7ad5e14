"""Corpus scores equal sacreBLEU's, with their signatures."""

from __future__ import annotations

import pytest
import sacrebleu
from helpers.text_table import rows

from regard.common.errors import DataError, UsageError
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.evaluation.significance import paired_tests
from regard.evaluation.text_metrics import chrf_and_bleu, scores

OUTPUTS = ["I go home", "I was eating a bread", "the cat sat"]
REFERENCES = ["I go home", "I was eating bread", "a cat sat down"]


def test_scores_are_sacrebleus() -> None:
    for sets in ([REFERENCES], [REFERENCES, OUTPUTS[::-1]]):
        expected = {
            "BLEU": sacrebleu.corpus_bleu(OUTPUTS, sets).score,
            "chrF": sacrebleu.corpus_chrf(OUTPUTS, sets).score,
            "TER": sacrebleu.corpus_ter(OUTPUTS, sets).score,
        }
        by_name = {score.name: score for score in scores(OUTPUTS, sets)}
        values = {name: score.value for name, score in by_name.items()}

        assert values == pytest.approx(expected)
        assert "tok:13a" in by_name["BLEU"].signature
        assert all("version:" in score.signature for score in by_name.values())

    long = [*OUTPUTS, "word " * 201]
    without_ter = scores(long, [[*REFERENCES, "short"]])
    assert [score.name for score in without_ter] == ["BLEU", "chrF"]


def test_validation_scores_are_the_same() -> None:
    validation = chrf_and_bleu(OUTPUTS, REFERENCES)
    by_name = {score.name: score.value for score in scores(OUTPUTS, [REFERENCES])}
    assert validation == {
        "chrf": pytest.approx(by_name["chrF"]),
        "bleu": pytest.approx(by_name["BLEU"]),
    }


CHINESE = ["我明天去学校。", "他昨天在家里看书。", "你喜欢吃苹果吗？"]


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    rows("""
        zh       | zh
        zh-Hant  | zh
        cmn      | zh
        zh_TW    | zh
        yue      | zh
        zho_Hans | zh
        th       | char
        my       | char
        ko       | 13a
        de       | 13a
                 | 13a
    """),
)
def test_bleu_splits_words_as_the_language_needs_it(
    language: str, tokenizer: str
) -> None:
    assert bleu_tokenizer(language) == tokenizer
    assert bleu_tokenizer(language, "char") == "char"


def test_chinese_is_scored_by_its_characters() -> None:
    (bleu, *_) = scores(CHINESE, [CHINESE], "zh")
    systems = [("a", CHINESE), ("b", CHINESE[::-1])]
    ((tested, *_), _) = paired_tests(systems, [CHINESE], tokenizer="zh")
    for score in (bleu, tested):
        assert score.value == pytest.approx(100)
        assert "tok:zh" in score.signature

    assert chrf_and_bleu(CHINESE, CHINESE, "zh")["bleu"] == pytest.approx(100)


def test_japanese_is_split_into_words_if_that_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed: set[str] = set()
    monkeypatch.setattr(
        "regard.data.bleu_tokenizer.find_spec",
        lambda name: name if name in installed else None,
    )

    assert bleu_tokenizer("ja") == "char"

    for chosen, extra in (("ja-mecab", "ja"), ("ko-mecab", "ko")):
        with pytest.raises(UsageError, match=rf"pip install 'sacrebleu\[{extra}\]'"):
            bleu_tokenizer("ja", chosen)  # type: ignore[arg-type]

    installed |= {"MeCab"}

    assert bleu_tokenizer("ja") == "ja-mecab"


def test_uneven_files_are_refused() -> None:
    with pytest.raises(DataError, match="reference 1 has 2 lines for 3 outputs"):
        scores(OUTPUTS, [REFERENCES[:2]])
