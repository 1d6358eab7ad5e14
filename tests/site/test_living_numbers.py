"""The numbers that living figures compute in JavaScript, beside those of Python."""

from __future__ import annotations

import html
import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import SCORES
from regard.data.vocabulary import BOS, EOS
from regard.learn.lessons.random_weights import WordVocabulary, small_model
from regard.models import Batch
from regard.requests.walkthrough_request import SmallSettings
from regard.runtime.module_script import bundle

figures = pytest.importorskip("make_figures", reason="the modules of the site")
from figures import dictionary, numbers_to_loss, scale  # noqa: E402
from figures.training import Recurrent, still  # noqa: E402

FIGURES = Path(numbers_to_loss.__file__).parent
FACE = re.compile(r"@font-face \{[^}]*\}")
TOLERANCE = 1e-4
# Node has no documents; only formulas need one.
START = """
globalThis.DOMParser = class { parseFromString() { return { querySelector: () => ({}) }; } };
"""
END = """
const questions = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(questions.map(answer)));
"""


def data_of(name: str) -> Any:
    return json.loads((FIGURES / "data" / f"{name}.json").read_text(encoding="utf-8"))


def answers(
    node: str, folder: Path, name: str, answer: str, questions: list[Any]
) -> list[Any]:
    """Return what a function of a figure answers in node."""
    script = folder / "figure.cjs"
    code = bundle(FIGURES / f"{name}.js")
    script.write_text(f"{START}{code}\nconst answer = {answer};\n{END}", "utf-8")
    done = subprocess.run(
        [node, str(script)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    results: list[Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("name", ["board", "dictionary", "scale", "numbers-to-loss"])
def test_data_and_stills_are_those_of_the_command(name: str, tmp_path: Path) -> None:
    """Their font aside, which depends on the version of the package that subsets it."""
    command = f"run python site/make_figures.py {name}"
    written = [FIGURES / "data" / f"{name}.json", *FIGURES.glob(f"stills/{name}.*")]
    before = {path: path.read_text(encoding="utf-8") for path in written}
    figures.write(name, tmp_path)
    for path, text in before.items():
        made = (tmp_path / path.relative_to(FIGURES)).read_text(encoding="utf-8")
        assert FACE.sub("", made) == FACE.sub("", text), command


def test_the_stills_of_the_training_show_its_records() -> None:
    """Which are not made anew here: that takes minutes."""
    data = data_of("training")
    for language in figures.LANGUAGES:
        path = FIGURES / "stills" / f"training.{language}.svg"
        drawn = figures.draw_svg(still(data, language, {}))
        assert FACE.sub("", drawn) == FACE.sub("", path.read_text(encoding="utf-8"))


def test_the_dictionary_answers_as_soft_dictionary(node: str, tmp_path: Path) -> None:
    """Weights, answer and gradient, by every rule; and the same refusals."""
    points = [-0.8, -0.6, -0.05, 0.3, 1.0, 1.9]
    keys = data_of("dictionary")["keys"]
    values = torch.tensor(data_of("dictionary")["values"], dtype=torch.float64)
    queries = [*map(list, itertools.product(points, points)), *keys, [0, 0]]
    questions = []
    for query, rule, likeness in itertools.product(
        queries, ("equal", "shares", "softmax"), dictionary.LIKENESS
    ):
        for temperature in (0.05, 1, 20) if rule == "softmax" else (1,):
            questions.append([query, rule, temperature, likeness])
    answer = "(question) => lookUp(DATA, ...question)"
    answer = answer.replace("DATA", json.dumps(data_of("dictionary")))
    refused = 0
    for question, given in zip(
        questions, answers(node, tmp_path, "dictionary", answer, questions), strict=True
    ):
        vector, rule, temperature, likeness = question
        if given.get("problem") in {"negative", "noKey", "nothing"}:
            refused += 1
            products = np.array(keys) @ vector  # of the sign of the cosines
            assert rule != "softmax"
            assert rule == "equal" or likeness == "cosine"
            assert rule == "shares" or vector not in keys
            assert rule == "equal" or products.min() < 0 or vector == [0, 0]
            continue
        query = torch.tensor(vector, dtype=torch.float64, requires_grad=True)
        expected = dictionary.look_up(query, rule, temperature, likeness)
        np.testing.assert_allclose(given["weights"], expected.weights, atol=TOLERANCE)
        value = expected.value.detach().item()
        assert given["answer"] == pytest.approx(value, abs=TOLERANCE)
        if rule != "equal" and (any(vector) or likeness == "distance"):
            expected.value.backward()
            scores = expected.scores.double().requires_grad_()
            weights = scores.softmax(0) if rule == "softmax" else scores / scores.sum()
            (weights @ values).backward()
            assert scores.grad is not None
            np.testing.assert_allclose(
                given["bySimilarity"],
                scores.grad / temperature,
                rtol=TOLERANCE,
                atol=TOLERANCE,
            )
            np.testing.assert_allclose(
                given["gradient"], query.grad, rtol=TOLERANCE, atol=TOLERANCE
            )
    assert 0 < refused < len(questions)


def test_the_scores_are_those_of_the_dot_product(node: str, tmp_path: Path) -> None:
    vectors = data_of("scale")["vectors"]
    sizes = [2, 3, 10, 64, 511, 512]
    draws = range(len(vectors))
    questions = [*map(list, itertools.product(draws, sizes, scale.POWERS))]
    answer = f"([draw, d, divisor]) => attend({json.dumps(vectors)}[draw], d, divisor)"
    for question, given in zip(
        questions, answers(node, tmp_path, "scale", answer, questions), strict=True
    ):
        draw, size, divisor = question
        query, *keys = torch.tensor(vectors[draw], dtype=torch.float64)[:, :size]
        expected = torch.stack(keys) @ query / size ** scale.POWERS[divisor]
        expected.requires_grad_()
        weights = expected.softmax(0)
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(0), expected)
        for name, values in (
            ("scores", expected),
            ("weights", weights),
            ("slopes", jacobian.diagonal()),
        ):
            np.testing.assert_allclose(
                given[name], values.detach(), atol=TOLERANCE, err_msg=f"{question}"
            )


SWITCHES = ("hasMask", "isForced", "isScaled")
SETTINGS = """({ program, columns, state }) => {
  const terms = readProgram(program), { given, read } = settings(terms, DATA, columns, state);
  const values = compute(terms, given);
  const last = (name) => values[terms.findLast((term) => term.name === name).index].numbers;
  return { read, probabilities: last("P"), loss: last("whole sentence") };
}"""


def decoder_answer(norm: str, state: dict[str, bool]) -> tuple[list[str], torch.Tensor]:
    """Run the model itself, changed as the switches say; return the tokens that it reads, and their
    log-probabilities.
    """
    source = WordVocabulary([numbers_to_loss.SOURCE])
    target = WordVocabulary([numbers_to_loss.TARGET])
    settings = SmallSettings(size=numbers_to_loss.SIZE, heads=1, norm=norm)  # type: ignore[arg-type]
    model = small_model(settings, source, target)
    (layer,) = model.decoder.layers
    batch = Batch.of([source.encode(numbers_to_loss.SOURCE)])
    layer.causal = state["hasMask"]
    if not state["isScaled"]:
        for attention in (layer.self_attention, layer.cross_attention):
            attention.score = SCORES["dot"](1, numbers_to_loss.SIZE)
    read = [BOS, *target.encode(numbers_to_loss.TARGET)]
    words = [EOS, *read[1:]]
    for position in range(len(read)):
        logits = model.project(model(batch, torch.tensor([read])))[0]
        if not state["isForced"] and position + 1 < len(read):
            best = max(words, key=lambda word: float(logits[position, word]))
            read[position + 1] = best
    return target.tokens(read), logits.log_softmax(-1)


@torch.no_grad()
def test_the_decoder_computes_what_the_model_does(node: str, tmp_path: Path) -> None:
    """With every setting of the switches."""
    data = figures.filled("numbers-to-loss", "en")
    questions = []
    for norm in numbers_to_loss.NORMS:
        (program,) = re.findall("data-program='([^']*)'", data["norms"][norm]["html"])
        term = numbers_to_loss.block(norm)["prediction.probabilities"].terms[-1]
        for state in itertools.product((True, False), repeat=len(SWITCHES)):
            questions.append(
                {
                    "norm": norm,
                    "program": json.loads(html.unescape(program)),
                    "columns": list(term.columns[0]),
                    "state": dict(zip(SWITCHES, state, strict=True)),
                }
            )
    small = {"read": data["read"], "embeddings": data["embeddings"]}
    answer = SETTINGS.replace("DATA", json.dumps(small))
    results = answers(node, tmp_path, "numbers-to-loss", answer, questions)
    names = WordVocabulary([numbers_to_loss.TARGET]).names
    losses = set()
    for question, given in zip(questions, results, strict=True):
        read, expected = decoder_answer(question["norm"], question["state"])
        assert given["read"] == read
        order = [names.index(name) for name in question["columns"]]
        actual = np.reshape(given["probabilities"], (len(read), -1))
        np.testing.assert_allclose(actual, expected[:, order].exp(), atol=TOLERANCE)
        right = [names.index(name) for name in data["right"]]
        mean = -expected[range(len(read)), right].mean()
        assert given["loss"][2] == pytest.approx(float(mean), abs=TOLERANCE)
        losses.add(round(float(mean), 3))
    assert len(losses) > 8, "the switches change the loss"


TRAINED = """({ seed, updates }) => {
  const random = randomly(seed), weights = begin(DATA.source.length, DATA.target.length, random);
  const copy = (kind) => Object.fromEntries(Object.entries(weights).map(([name, matrix]) => [name, [...matrix[kind]]]));
  const before = copy("numbers"), reads = DATA.examples.map((pair) => read(weights, pair)), update = training(weights);
  const losses = Array.from({ length: updates }, () => update(DATA.examples));
  const outputs = DATA.examples.map(({ source }) => translate(weights, source, DATA.longest));
  return { before, reads, losses, gradients: copy("gradient"), after: copy("numbers"), outputs };
}"""


def test_the_training_in_the_page_is_that_of_pytorch(node: str, tmp_path: Path) -> None:
    """What is read, gradients, updates and translations."""
    data = data_of("training")
    questions = [
        {"seed": seed, "updates": updates} for seed in (1, 2) for updates in (1, 30)
    ]
    small = {name: data[name] for name in ("source", "target", "examples", "longest")}
    answer = TRAINED.replace("DATA", json.dumps(small))
    results = answers(node, tmp_path, "recurrent/model", answer, questions)
    for question, given in zip(questions, results, strict=True):
        model = Recurrent(len(data["source"]), len(data["target"])).double()
        weights = dict(model.weights.items())
        assert weights.keys() == given["before"].keys()
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(torch.tensor(given["before"][name]).view_as(weight))
        for pair, read in zip(data["examples"], given["reads"], strict=True):
            attention, log_probs = model(pair)
            for name, values in (
                ("attention", attention),
                ("probabilities", log_probs.exp()),
                ("loss", -log_probs.mean()),
            ):
                np.testing.assert_allclose(
                    read[name], values.detach(), atol=TOLERANCE, err_msg=name
                )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        for expected in given["losses"]:
            loss = -torch.cat([model(pair)[1] for pair in data["examples"]]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert loss.item() == pytest.approx(expected, abs=TOLERANCE)
        for name, weight in weights.items():
            assert weight.grad is not None
            for kind, values in (
                ("gradients", weight.grad),
                ("after", weight.detach()),
            ):
                np.testing.assert_allclose(
                    given[kind][name], values.flatten(), atol=TOLERANCE, err_msg=name
                )
        translated = [
            model.translate(pair["source"], data["longest"])
            for pair in data["examples"]
        ]
        assert given["outputs"] == translated, question


LEARNT = """(seed) => {
  const data = DATA;
  const random = randomly(seed), weights = begin(data.source.length, data.target.length, random), update = training(weights);
  const draw = () => data.pairs[Math.floor(random() * data.pairs.length)];
  for (let i = 0; i < 150; i += 1) update(Array.from({ length: BATCH }, draw));
  const isRight = ({ source, target }) => String(translate(weights, source, data.longest)) === String(target);
  return { right: data.heldOut.filter(isRight).length, attention: data.examples.map((pair) => read(weights, pair).attention) };
}"""


def test_the_model_in_the_page_learns_what_it_never_read(
    node: str, tmp_path: Path
) -> None:
    """Its first training also attends to the word that it translates."""
    data = data_of("training")
    answer = LEARNT.replace("DATA", json.dumps({**data, "recorded": []}))
    (given,) = answers(node, tmp_path, "recurrent/model", answer, [3])
    assert given["right"] > 0.9 * len(data["heldOut"])
    assert all(pair not in data["pairs"] for pair in data["heldOut"])
    pair, rows = data["examples"][0], given["attention"][0]
    # Words of both languages are listed in one order, after the end of English.
    meant = [pair["source"].index(word - 1) for word in pair["target"]]
    assert [int(np.argmax(row)) for row in rows[:-1]] == meant
