"""Corpus scores equal sacreBLEU's, with their signatures."""

from __future__ import annotations

import pytest
import sacrebleu

from regard.errors import DataError
from regard.evaluation.metrics import chrf_and_bleu, scores

OUTPUTS = ["I go home", "I was eating a bread", "the cat sat"]
REFERENCES = ["I go home", "I was eating bread", "a cat sat down"]


def test_scores_are_sacrebleus() -> None:
    by_name = {score.name: score for score in scores(OUTPUTS, [REFERENCES])}
    assert by_name["BLEU"].value == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score)
    assert by_name["chrF"].value == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score)
    assert by_name["TER"].value == pytest.approx(sacrebleu.corpus_ter(OUTPUTS, [REFERENCES]).score)
    assert "tok:13a" in by_name["BLEU"].signature
    assert all("version:" in score.signature for score in by_name.values())


def test_validation_scores_are_the_same() -> None:
    validation = chrf_and_bleu(OUTPUTS, REFERENCES)
    by_name = {score.name: score.value for score in scores(OUTPUTS, [REFERENCES])}
    assert validation == {"chrf": pytest.approx(by_name["chrF"]), "bleu": pytest.approx(by_name["BLEU"])}


def test_more_references_help() -> None:
    single, double = (scores(OUTPUTS, sets)[0].value for sets in ([REFERENCES], [REFERENCES, OUTPUTS]))
    assert double == pytest.approx(100)
    assert single < double


def test_uneven_files_are_refused() -> None:
    with pytest.raises(DataError, match="reference 1 has 2 lines for 3 outputs"):
        scores(OUTPUTS, [REFERENCES[:2]])


def test_long_lines_are_scored_without_the_slow_metric() -> None:
    long = [*OUTPUTS, "word " * 201]
    assert [score.name for score in scores(long, [[*REFERENCES, "short"]])] == ["BLEU", "chrF"]
