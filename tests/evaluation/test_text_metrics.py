"""Corpus scores equal sacreBLEU's, with their signatures."""

from __future__ import annotations

import logging

import pytest
import sacrebleu
from helpers.text_table import rows

from regard.common.errors import DataError, UsageError
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.evaluation.significance import paired_tests
from regard.evaluation.text_metrics import (
    chrf_and_bleu,
    score_notes,
    scores,
    short_lines,
)

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


LABELS = ["Open", "Save all", "Close the door", "Print"]


def test_bleu_of_lines_too_short_for_four_words_is_said_to_mean_nothing() -> None:
    assert sacrebleu.corpus_bleu(LABELS, [LABELS]).score == 0.0, "all are right"
    (note,) = score_notes(LABELS, LABELS)
    assert note.startswith("BLEU means nothing here: ")
    assert "100% of the lines have fewer" in note

    half = [*LABELS, *(f"{label} on the left side" for label in LABELS)]
    assert not list(score_notes(half, half))
    assert short_lines(half, "13a") == 0.5
    assert short_lines(["我明天去学校。"], "zh") == 0.0
    assert short_lines(["我明天去学校。"], "13a") == 1.0


def test_quotation_marks_that_differ_are_counted_and_named() -> None:
    references = [f"He said “good morning” to the man {n}" for n in range(3)]
    outputs = [text.replace("“", '"').replace("”", '"') for text in references]
    outputs[2] = references[2]
    score = sacrebleu.corpus_bleu(outputs, [references]).score
    assert score < 70, "for two quotation marks"
    (note,) = score_notes(outputs, references)
    assert note.startswith(
        '2 lines have other quotation marks than the reference, such as " for “ ”'
    )
    assert not list(score_notes(references, references))
    without = [text.replace("“", "").replace("”", "") for text in references]
    assert not list(score_notes(without, references)), "lost, not other ones"


def test_the_advice_of_sacrebleu_does_not_appear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = list[str]()
    logger = logging.getLogger("sacrebleu")
    monkeypatch.setattr(logger, "warning", lambda text, *_: said.append(text))
    lines = [f"this is the line of number {n} ." for n in range(101)]
    scores(lines, [lines])
    chrf_and_bleu(lines, lines)
    paired_tests([("a", lines), ("b", lines)], [lines])
    assert not said
    sacrebleu.corpus_bleu(lines, [lines])
    assert "`force` parameter" in "".join(said)


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
