"""Methods of the report: how its numbers were computed, in short sentences, and commands that compute them again."""

from __future__ import annotations

from collections.abc import Iterator

from regard.comparison.report_markup import Both
from regard.comparison.result import Comparison, Score

METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter"}
"""Names of scores that sacreBLEU's command line computes, there."""


def commands(comparison: Comparison) -> list[str]:
    """Return the command lines that compute the scores of sacreBLEU again, from the texts beside the report."""
    scores = [score for run in comparison.runs for score in run.scores if _is_sacrebleu(score)]
    firsts = {score.name: _settings(score.signature) for score in reversed(scores)}
    if not firsts:
        return []
    count = max((len(texts) for texts in comparison.test.references), default=1)
    references = " ".join(f"texts/reference{number}.txt" for number in range(1, count + 1))
    names = [name for name in METRICS if name in firsts]
    options = [option for name in names for option in _options(name, firsts[name])]
    metrics = " ".join(["-m", *(METRICS[name] for name in names), *options])
    draws = next((settings["bs"] for settings in firsts.values() if "bs" in settings), "")
    seed = next((settings["seed"] for settings in firsts.values() if "seed" in settings), "")
    start = f"SACREBLEU_SEED={seed} sacrebleu {references} -i" if seed else f"sacrebleu {references} -i"
    confidence = f" --confidence --confidence-n {draws}" if draws else ""
    lines = [f"{start} texts/RUN.txt {metrics}{confidence}"]
    if draws and any(score.p is not None for score in scores):
        lines.append(f"{start} texts/BASELINE.txt texts/RUN.txt {metrics} --paired-bs --paired-bs-n {draws}")
    return lines


def _is_sacrebleu(score: Score) -> bool:
    return score.name in METRICS and "version" in _settings(score.signature)


def _settings(signature: str) -> dict[str, str]:
    """Return the settings of a signature such as `nrefs:1|case:mixed`, as far as they are plain words."""
    parts = (part.partition(":") for part in signature.split("|"))
    return {name: value for name, _, value in parts if value and all(c.isalnum() or c in "+-._" for c in value)}


def _options(name: str, settings: dict[str, str]) -> Iterator[str]:
    """Yield the options of the command line that say what a signature says, if it is not the usual."""
    if name == "BLEU":
        yield from (f"--tokenize {settings['tok']}",) if "tok" in settings else ()
        yield from ("--lowercase",) if settings.get("case") == "lc" else ()
        smooth = settings.get("smooth", "exp")
        yield from (f"--smooth-method {smooth}",) if smooth != "exp" else ()
    elif name == "chrF":
        yield from (f"--chrf-char-order {settings['nc']}",) if settings.get("nc", "6") != "6" else ()
        yield from (f"--chrf-word-order {settings['nw']}",) if settings.get("nw", "0") != "0" else ()
        yield from ("--chrf-whitespace",) if settings.get("space") == "yes" else ()
        yield from ("--chrf-lowercase",) if settings.get("case") == "lc" else ()
    else:
        yield from ("--ter-case-sensitive",) if settings.get("case") == "mixed" else ()
        yield from ("--ter-normalized",) if settings.get("norm") == "yes" else ()
        yield from ("--ter-no-punct",) if settings.get("punct") == "no" else ()
        yield from ("--ter-asian-support",) if settings.get("asian") == "yes" else ()


def methods(comparison: Comparison) -> list[Both]:
    """Return what each kind of number means, for those that the comparison has."""
    return [*_of_scores(comparison), *_of_breakdowns(comparison), *_of_models(comparison)]


def _of_scores(comparison: Comparison) -> Iterator[Both]:
    scores = [score for run in comparison.runs for score in run.scores]
    if any(score.low != score.high for score in scores):
        yield (
            "Interval of a run: the test set is drawn again and again with replacement (bootstrap resampling); 95 % "
            "of "
            "the scores lie in the interval. It says how much the score depends on the choice of sentences, not of "
            "seeds.",
            "실행의 구간: 테스트 집합을 복원 추출로 되풀이해 뽑아(부트스트랩) 점수의 95 %가 들어가는 범위입니다. "
            "점수가 문장 선택에 얼마나 좌우되는지를 말하며, 시드에 대해서는 말하지 않습니다.",
        )
    if any(score.seeds > 1 for system in comparison.systems for score in system.scores):
        yield (
            "Interval of a system with several runs: Student's t interval of the mean over its runs, which differ in "
            "the seed alone. With few runs it is wide. A system with one run has the interval of that run.",
            "실행이 여럿인 시스템의 구간: 시드만 다른 실행들의 평균에 대한 스튜던트 t 구간입니다. "
            "실행이 적으면 넓습니다. 실행이 하나면 그 실행의 구간입니다.",
        )
    if any(score.p is not None for score in scores):
        yield (
            "p: paired bootstrap test against the baseline's run with the same seed (Koehn 2004): how often a "
            "difference "
            "this large would come by chance from equally good systems. We call a system better only if each of its "
            "runs has p < 0.05. p-values are not corrected for the number of systems, and do not say how large a "
            "difference is.",
            "p: 시드가 같은 기준 실행과의 짝지은 부트스트랩 검정(Koehn 2004)으로, 똑같이 좋은 두 시스템에서 "
            "이만한 차이가 우연히 나올 비율입니다. 모든 실행에서 p < 0.05일 때만 더 좋다고 말합니다. "
            "시스템 수에 따른 보정은 하지 않았고, p는 차이의 크기를 말하지 않습니다.",
        )
    if comparison.task == "captions":
        yield (
            "Score of one caption, and spread: CIDEr-D; the spread is the largest minus the smallest score of an "
            "image.",
            "캡션 하나의 점수와 차이 폭: CIDEr-D이며, 차이 폭은 한 이미지의 최고 점수에서 최저 점수를 뺀 것입니다.",
        )
    else:
        yield (
            "Score of one sentence, and spread: chrF; the spread is the largest minus the smallest score of a "
            "sentence. "
            "Scores of single sentences are rough: they serve to find examples, not to rank systems.",
            "문장 하나의 점수와 차이 폭: chrF이며, 차이 폭은 한 문장의 최고 점수에서 최저 점수를 뺀 것입니다. "
            "문장 하나의 점수는 거칠어 예를 찾는 데만 쓰고 시스템의 순위를 매기는 데는 쓰지 않습니다.",
        )


def _of_breakdowns(comparison: Comparison) -> Iterator[Both]:
    keys = {part.key for part in comparison.breakdowns}
    if keys:
        yield (
            "Breakdowns: all runs of a system together. Their intervals come from drawing sentences, and runs if "
            "there "
            "are several, again with replacement. Buckets without sentences or words are left out.",
            "구간별 점수: 시스템의 모든 실행을 합친 것입니다. 구간은 문장을, 실행이 여럿이면 실행도 복원 추출해 "
            "구합니다. "
            "문장이나 단어가 없는 칸은 뺐습니다.",
        )
    if "frequency" in keys:
        yield (
            "Word F1 (as in compare-mt, Neubig et al. 2019): of the words of a frequency, those that stand in the "
            "output "
            "and in the first reference of the same sentence, against all in either. The frequency is counted in "
            "the training data.",
            "단어 F1(compare-mt 방식, Neubig 외 2019): 해당 빈도의 단어 가운데 출력과 같은 문장의 첫 참조에 모두 "
            "있는 것을 "
            "양쪽의 전체와 견준 값입니다. 빈도는 학습 데이터에서 셉니다.",
        )
    if "seen_words" in keys:
        yield (
            "Word recall: the share of the words of the first reference that the output has too.",
            "단어 재현율: 첫 참조의 단어 가운데 출력에도 있는 것의 비율입니다.",
        )


def _of_models(comparison: Comparison) -> Iterator[Both]:
    runs = comparison.runs
    if any(run.cost for run in runs):
        yield (
            "Cost: weights and operations (multiply-adds per target token, encoder included) are counted; times and "
            "memory "
            "are measured on the machine named above and differ on others. Latency is the median time of one "
            "sentence or image "
            "alone; memory is the peak of a process that loads the model and decodes.",
            "비용: 가중치와 연산(목표 토큰당 곱셈·덧셈, 인코더 포함)은 센 값이고, 시간과 메모리는 위에 적은 "
            "기계에서 잰 값이라 "
            "다른 기계에서는 다릅니다. 지연은 문장이나 이미지 하나를 따로 처리한 시간의 중앙값, 메모리는 모델을 "
            "읽고 디코딩하는 "
            "프로세스의 최댓값입니다.",
        )
    if any(point.entropy is not None for run in runs for point in run.curve):
        yield (
            "Attention entropy: of the decoder's attention to the source, in nats, averaged over layers. 0 means "
            "that all "
            "weight is on one entry.",
            "어텐션 엔트로피: 원문에 대한 디코더 어텐션의 엔트로피(nat)를 층에 걸쳐 평균한 것입니다. 0이면 가중치가 "
            "한 곳에 모여 있습니다.",
        )
    if any(run.calibration for run in runs):
        yield (
            "Calibration: the probability of the most probable next token, given the reference so far, against how "
            "often "
            "it is right. The expected calibration error is the mean distance of both over bins, weighted by "
            "predictions.",
            "보정: 참조를 지금까지 준 상태에서 가장 확률이 높은 다음 토큰의 확률과 실제로 맞은 비율을 견줍니다. "
            "기대 보정 오차는 예측 수로 가중한 구간별 차이의 평균입니다.",
        )
    if any(run.alignment for run in runs):
        yield (
            "Alignment error rate (AER, Och and Ney 2003): links read off the attention against gold links.",
            "정렬 오류율(AER, Och와 Ney 2003): 어텐션에서 읽은 단어 연결을 정답 연결과 견준 것입니다.",
        )
