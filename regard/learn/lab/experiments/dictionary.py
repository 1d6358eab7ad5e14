"""Dictionary: a hard look-up has no gradient and cannot be learnt, a soft one can; which words are near."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

from regard.common.bilingual import Text
from regard.learn import SoftDictionary
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Curve, Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.models import transformer
from regard.models import Model
from regard.pipeline import load_translator

ANIMALS = {"computer": 9.0, "dog": 2.0, "cat": 3.0}
ALIKE = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
"""The dictionary of note 001, and how alike it calls its keys and "puppy"."""
STEPS, TARGET, RATE = 60, 2.0, 0.5
WORDS = ("나는", "집에", "빵을", "책을", "먹는다")
NEAR = 3


def run(bench: Bench) -> Findings:
    """Learn a query for a hard and for a soft dictionary; then look up words of a trained model."""
    read = SoftDictionary(ANIMALS).look_up("puppy", lambda key, _: ALIKE[key])
    value = sum(ALIKE[key] * ANIMALS[key] for key in ANIMALS) / sum(ALIKE.values())
    hard, soft = learn(hard=True), learn(hard=False)
    words = {**transformer(), "tokenizer": {"size": 3000}}  # so many tokens that common words are whole
    trained = bench.train({"transformer": words}, bench.choose(900, 1600))
    rows = neighbours(trained.runs["transformer"][0])
    learning = Table(
        Text("Learning a query whose answer should be 2 (“dog”)", "답이 2(“dog”)가 되어야 하는 쿼리의 학습"),
        (
            Text("dictionary", "사전"),
            Text("error at first", "처음 오차"),
            Text("error at last", "마지막 오차"),
            Text("gradient at first", "처음 기울기"),
        ),
        (
            (Text("hard", "단단한 사전"), f"{hard[0][0]:.3f}", f"{hard[0][-1]:.3f}", f"{hard[1]:.4f}"),
            (Text("soft", "부드러운 사전"), f"{soft[0][0]:.3f}", f"{soft[0][-1]:.3f}", f"{soft[1]:.4f}"),
        ),
    )
    near = Table(
        Text(
            "A trained model's embeddings as a dictionary: the nearest words by cosine",
            "학습된 모델의 임베딩을 사전으로: 코사인으로 가장 가까운 단어",
        ),
        (Text("word", "단어"), *(Text(f"nearest {n}", f"가까운 순서 {n}") for n in range(1, NEAR + 1))),
        rows,
    )
    learns = hard[1] == 0 and hard[0][0] == hard[0][-1] and soft[0][-1] < 0.1 * soft[0][0]
    outcome: Outcome = "holds" if learns else "contradicted"
    text = Text(
        f"Through the hard look-up the gradient is {hard[1]:g}, and the error stays {hard[0][-1]:.2f}; through the "
        "soft one "
        f"it falls from {soft[0][0]:.2f} to {soft[0][-1]:.3f}. “puppy” reads {value:.4f}.",
        f"단단한 사전을 지나는 기울기는 {hard[1]:g}이어서 오차가 {hard[0][-1]:.2f}에 머물고, 부드러운 사전에서는 "
        f"{soft[0][0]:.2f}에서 {soft[0][-1]:.3f}(으)로 줄어듭니다. “puppy”를 찾으면 {value:.4f}입니다.",
    )
    curves = tuple(
        Curve(name, tuple((float(step), error) for step, error in enumerate(errors)))
        for name, (errors, _) in ((Text("hard", "단단한 사전"), hard), (Text("soft", "부드러운 사전"), soft))
    )
    plot = Plot(Text("error", "오차"), Text("steps of gradient descent", "경사 하강 단계"), curves)
    caption = Text("Error of the answer while the query is learnt.", "쿼리를 학습하는 동안 답의 오차.")
    remark = Text(
        f"Note 001 prints 2.823; the value is {value:.4f}, which rounds to {read.value:.3f}.",
        f"노트 001에는 2.823으로 나오지만 값은 {value:.4f}이고, 반올림하면 {read.value:.3f}입니다.",
    )
    return Findings(Verdict(outcome, text), (learning, near), Graph((plot,), caption), (remark,))


def learn(hard: bool) -> tuple[list[float], float]:
    """Learn a query by gradient descent; return the errors of its answers, and the norm of the first gradient.

    A hard look-up answers with the value of the nearest key, a soft one with the average by softmax.
    """
    generator = torch.Generator().manual_seed(1)
    keys = torch.randn(len(ANIMALS), 8, generator=generator)
    values = torch.tensor(list(ANIMALS.values()))
    query = (0.2 * torch.randn(8, generator=generator) + keys[0]).requires_grad_()
    errors, first = list[float](), 0.0
    for step in range(STEPS + 1):
        scores = keys @ query
        weights = F.one_hot(scores.argmax(), len(keys)).float() if hard else scores.softmax(0)
        error = (weights @ values - TARGET) ** 2
        errors.append(float(error.detach()))
        gradient = torch.autograd.grad(error, query)[0] if error.requires_grad else torch.zeros_like(query)
        first = first if step else float(gradient.norm())
        query = (query - RATE * gradient / max(1.0, float(gradient.norm()))).detach().requires_grad_()
    return errors, first


def neighbours(folder: Path) -> tuple[tuple[str, ...], ...]:
    """Return words with the nearest tokens that are words, by the cosine of their embeddings.

    The vector of a word of several tokens is their mean.
    """
    translator = load_translator(folder)
    vocabulary, model = translator.tokenizer.source, translator.model
    assert isinstance(model, Model), "a run is one model"
    embeddings = model.encoder.embedding.weight.detach()
    vectors = F.normalize(embeddings, dim=-1)
    whole = [i for i in range(len(vocabulary)) if _is_word(vocabulary.decode([i]))]
    rows = []
    for word in WORDS:
        ids = vocabulary.encode(word)
        cosines = vectors @ F.normalize(embeddings[ids].mean(0), dim=0)
        others = [token for token in whole if vocabulary.decode([token]) != word]
        nearest = sorted(others, key=lambda token: -float(cosines[token]))[:NEAR]
        rows.append((word, *(f"{vocabulary.decode([token])} {float(cosines[token]):.2f}" for token in nearest)))
    return tuple(rows)


def _is_word(text: str) -> bool:
    return len(text) > 1 and all("가" <= letter <= "힣" for letter in text)


EXPERIMENT = Experiment(
    "dictionary",
    Text("A hard and a soft dictionary", "단단한 사전과 부드러운 사전"),
    Text(
        "A hard look-up cannot be learnt, since its gradient is zero; a soft one can.",
        "똑같은 키를 찾는 사전은 그래디언트가 0이어서 학습에 쓸 수 없고, 부드러운 사전은 쓸 수 있다.",
    ),
    "001",
    Text(
        "A query is learnt by gradient descent through both; then words of a trained model are looked up by their "
        "vectors.",
        "두 사전에서 쿼리를 경사 하강으로 학습하고, 학습된 모델의 단어를 벡터로 찾아봅니다.",
    ),
    run,
)
