"""What pages and figures say of trainings, beside the weights and results that it is taken from."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.common.reading import parse_toml
from regard.learn.samples.writing import write_sample
from regard.pipeline import RuntimeTranslator
from regard.runtime.module_script import bundle

facts = pytest.importorskip("facts", reason="the modules of the site")

import trainings  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "site" / "figures"
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
ROLE = re.compile(r"\{fact\}`([^`]+)`")
ONLY = re.compile(r"\{only\}`([^`]+)`")
EVERY = re.compile(r"\{every\}`([^`]+)`")
BY_NUMBER = re.compile(
    r"(?i)\bheads? \d[^|.:]*attends?\b|헤드 ?\d[^|.:]*주목|헤드 ?\d[^|.:]*봅니다"
)
"""A statement on what the head of a number attends to."""
TOLERANCE = 1e-4
CANVAS = "globalThis.document = { createElement: () => ({ getContext: () => ({}) }) };"
"""Node has no documents; diagrams measure their words."""


def data_of(name: str) -> Any:
    return json.loads((FIGURES / "data" / f"{name}.json").read_text(encoding="utf-8"))


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their dotted names, but for the files of the data."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif not re.search(r"\b(source|target|valid_\w+)$", name):
            yield f"{prefix}{name}", value


@pytest.mark.parametrize("page", ["notes.md", "ko/notes.md"])
def test_the_recipes_of_the_contents_are_those_of_the_figures(page: str) -> None:
    """The files, and the commands that train with them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    files = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    small, words = (dict(flat(parse_toml(file))) for file in files)

    assert small == trainings.SMALL
    assert words == trainings.WORDS

    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if "regard train" in line]
    stated = {}
    for command in commands:
        if command[2] not in ("small.toml", "words.toml"):
            continue
        options = dict(itertools.pairwise(command))
        settings = dict(
            value.split("=")
            for name, value in itertools.pairwise(command)
            if name == "--set" and not value.startswith("data.")
        )
        file = small if command[2] == "small.toml" else words
        changes = {name: int(value) for name, value in settings.items()}
        name = options["--out"].rpartition("/")[2]
        stated[name] = options["--preset"], {**file, **changes}
    shared = stated.keys() & trainings.RECIPES.keys()

    assert shared == {"first", "english", "luong", "bahdanau"}
    assert {name: stated[name] for name in shared} == {
        name: trainings.RECIPES[name] for name in shared
    }


def test_pages_state_what_holds_in_two_of_three_trainings_at_least() -> None:
    stated = {
        name
        for page in PAGES
        for name in ROLE.findall(page.read_text(encoding="utf-8"))
    }
    known = facts.known()

    assert stated, "no page states a fact of trainings"
    assert stated <= known.keys()
    assert [name for name in stated if sum(known[name]["holds"]) < 2] == []


def test_both_languages_state_the_same_facts() -> None:
    for page in PAGES:
        other = ROOT / "docs" / "ko" / page.relative_to(ROOT / "docs")
        if not other.is_file():
            continue
        texts = [path.read_text(encoding="utf-8") for path in (page, other)]
        for role in (ROLE, ONLY, EVERY):
            english, korean = (role.findall(text) for text in texts)

            assert sorted(english) == sorted(korean), page
            assert set(english) <= facts.known().keys(), page


def test_what_pages_state_of_every_training_holds_in_all() -> None:
    stated = {
        name
        for page in PAGES
        for name in EVERY.findall(page.read_text(encoding="utf-8"))
    }
    assert stated, "no page states what holds in all trainings"
    for name in stated:
        assert facts.known()[name]["holds"] == [True, True, True], name

    fact = {"values": [7.0, 2.0, 5.0], "holds": [True] * 3, "digits": 0, "unit": "%"}
    assert facts.span_of(fact, "en") == "2% to 7%"
    assert facts.span_of(fact, "ko") == "2~7%"


def test_what_one_training_alone_shows_is_said_so() -> None:
    fact = {
        "values": [0.1, 0.39, 0.2],
        "holds": [False, True, False],
        "digits": 2,
        "unit": "",
    }

    assert facts.once(fact, "en") == "in one of 3 trainings alone (0.39)"
    assert facts.once(fact, "ko") == "세 번 가운데 한 번에만(0.39)"


def test_no_page_says_what_the_head_of_a_number_attends_to() -> None:
    for page in PAGES:
        if "log" in page.parts or "lesson" in page.name:
            continue  # what one run did; heads of weights that the lesson shows
        stated = BY_NUMBER.findall(page.read_text(encoding="utf-8"))

        assert stated == [], page


def clear_places(weights: np.ndarray, margin: float) -> np.ndarray:
    """Return for each head the place with its largest weight, or -1 if another one is close."""
    first, second = (np.sort(weights, axis=-1)[..., -n] for n in (1, 2))
    return np.where(first - second > margin - 1e-6, weights.argmax(-1), -1)


def chance_by_enumeration(places: np.ndarray, count: int, size: int) -> float:
    """Return how probable it is that a given place is among the draws of so many trainings, or
    more: of all draws of the heads that attend clearly, and of all sets of trainings.
    """
    hits = []
    for heads in places:
        draws = itertools.product(range(size), repeat=int((heads >= 0).sum()))
        hits.append(np.mean([0 in draw for draw in draws]))
    total = 0.0
    for outcome in itertools.product((True, False), repeat=len(hits)):
        if sum(outcome) >= count:
            pairs = zip(hits, outcome, strict=True)
            total += np.prod([p if is_hit else 1 - p for p, is_hit in pairs])
    return total


def test_facts_of_heads_are_those_of_the_figure() -> None:
    """Counted by hand from the weights of `three-trainings`, chance by enumeration of draws."""
    shown = data_of("three-trainings")
    weights_of = {
        sentence["words"][sentence["word"]]: sentence for sentence in shown["sentences"]
    }
    names = [name for name in facts.known() if re.search("-(reads|misses)-", name)]

    assert names
    for name in names:
        word, kind, other = name.split("-")
        sentence = weights_of[word]
        plain = [re.sub(r"[^\w]", "", text) for text in sentence["words"]]
        place = plain.index(other)
        weights = np.array(sentence["weights"])[:, shown["layer"], :, sentence["word"]]
        clear = clear_places(weights, shown["margin"])
        reads = (clear == place).any(axis=1)
        values = [
            rows[own == place if is_read else slice(None), place].max()
            for rows, own, is_read in zip(weights, clear, reads, strict=True)
        ]
        known = facts.known()[name]

        assert known["holds"] == [is_read == (kind == "reads") for is_read in reads]
        assert np.allclose(known["values"], values, atol=0.006), name
        if kind == "reads":
            expected = chance_by_enumeration(
                clear, sum(known["holds"]), weights.shape[-1]
            )
            assert known["chance"] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("holds", "english", "korean"),
    [
        (
            (True, True, True),
            "0.40 % to 0.60 %, in 3 of 3 trainings",
            "0.40~0.60 %, 세 번의 학습 모두",
        ),
        (
            (False, True, True),
            "0.40 % to 0.60 %, in 2 of 3 trainings",
            "0.40~0.60 %, 세 번의 학습 중 두 번",
        ),
    ],
)
def test_a_fact_is_written_with_its_trainings(
    holds: tuple[bool, ...], english: str, korean: str
) -> None:
    fact: dict[str, Any] = {
        "values": [0.5, 0.4, 0.6],
        "holds": holds,
        "digits": 2,
        "unit": " %",
    }

    assert facts.written(fact, "en") == english
    assert facts.written(fact, "ko") == korean

    fact["chance"] = 0.036
    assert facts.written(fact, "en") == f"{english}; by chance 4%"
    assert facts.written(fact, "ko") == f"{korean}, 우연일 확률 4%"


def answers(node: str, folder: Path, name: str, answer: str) -> Any:
    """Return what an expression on the data of a figure is in node."""
    script = folder / f"{name}.cjs"
    data = (FIGURES / "data" / f"{name}.json").read_text(encoding="utf-8")
    code = f"{CANVAS}\n{bundle(FIGURES / f'{name}.js')}\nconst data = {data};\n"
    script.write_text(f"{code}console.log(JSON.stringify({answer}));", "utf-8")
    done = subprocess.run(
        [node, str(script)], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def test_heads_are_counted_and_lined_up_as_by_hand(node: str, tmp_path: Path) -> None:
    expression = """({ totals: totals(data), layers: data.sentences.flatMap(({ weights, words }) => [0, 1].map((layer) => ({
      counts: words.map((_, word) => agreement(weights, layer, word, data.margin)),
      chances: words.map((_, word) => byChance(weights, layer, word, data.margin)),
      order: alike(weights[1][layer], weights[0][layer]),
    }))) })"""
    computed = answers(node, tmp_path, "three-trainings", expression)
    results = iter(computed["layers"])
    shown = data_of("three-trainings")
    in_all, by_chance = [], []
    for sentence in shown["sentences"]:
        weights = np.array(sentence["weights"])  # training, layer, head, word, word
        size = weights.shape[-1]
        for layer in (0, 1):
            result = next(results)
            clear = clear_places(weights[:, layer], shown["margin"])
            for word, counts in enumerate(result["counts"]):
                own = clear[:, :, word]
                expected = [
                    sum(place in training for training in own) for place in range(size)
                ]
                in_all.append(expected.count(len(own)))
                by_chance.append(size * chance_by_enumeration(own, len(own), size))

                assert counts == expected
                assert result["chances"][word] == pytest.approx(by_chance[-1])

            first, second = weights[0, layer], weights[1, layer]
            distances = {
                order: np.abs(first - second[list(order)]).sum()
                for order in itertools.permutations(range(len(first)))
            }
            assert distances[tuple(result["order"])] == pytest.approx(
                min(distances.values()), abs=TOLERANCE
            )
    assert computed["totals"]["queries"] == len(in_all)
    assert computed["totals"]["count"] == sum(in_all)
    assert computed["totals"]["expected"] == pytest.approx(sum(by_chance))


def test_the_board_has_each_run_of_the_lab() -> None:
    path = ROOT / "regard" / "learn" / "lab" / "results" / "failures.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    board = data_of("board")
    shown = {
        (f"{run['norm']}-{run['start']}", run["rate"]): (run["valid"], run["seconds"])
        for run in board["runs"]
    }

    assert len(shown) == len(runs) == 60
    assert shown == {
        (run["arm"], run["rate"]): (run["valid"], run["seconds"]) for run in runs
    }
    assert board["learns"] == max(run["valid"] for run in runs) / 2


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RuntimeTranslator]:
    """Return the two models of the figure."""
    folder = tmp_path_factory.mktemp("models")
    translators = {}
    for name in ("without", "with"):
        packed = FIGURES / "data" / f"two-models.{name}.gz"
        file = folder / f"{name}.regard"
        file.write_bytes(gzip.decompress(packed.read_bytes()))
        translators[name] = RuntimeTranslator(file, threads=1)
    return translators


def test_with_attention_more_words_of_long_sentences_arrive(
    models: dict[str, RuntimeTranslator],
) -> None:
    """That is what the figure is there to show, in its own examples."""
    arrived = dict.fromkeys(models, 0)
    for example in data_of("two-models")["examples"]:
        reference = set(example["reference"].split())
        for name, translator in models.items():
            (translation,) = translator.translate([example["text"]])
            arrived[name] += len(reference & set(translation.text.split()))

    assert arrived["with"] > arrived["without"]


def is_word(text: str, word: str) -> bool:
    """Return whether a text is a word, of which the middle may be left out."""
    start, dots, end = text.partition("…")
    return text == word or (
        bool(dots) and word.startswith(start) and word.endswith(end)
    )


def test_stills_show_the_largest_weights_of_their_step_and_all_that_is_written(
    models: dict[str, RuntimeTranslator],
) -> None:
    examples = data_of("two-models")["examples"]
    for number in (0, 2, 3):
        example = examples[number]
        state = f".example-{number}" if number else ""
        still = FIGURES / "stills" / f"two-models{state}.en.svg"
        drawn = re.search(r'class="with".*', still.read_text("utf-8"), re.DOTALL)
        assert drawn
        texts = re.findall(r"<text[^>]*>([^<]*)", drawn[0])
        (translation,) = models["with"].translate(
            [example["text"]], beam=1, readings=True
        )
        assert translation.readings is not None
        (layer,) = translation.readings.layers("cross")
        weights = translation.readings.words(layer, head=0).weights[2]
        words = example["text"].split()
        largest = np.flatnonzero(weights >= 0.05)

        shown = [
            next(i for i, text in enumerate(texts) if is_word(text, words[place]))
            for place in largest
        ]
        assert shown == sorted(shown), "in reading order"
        assert {f"{weights[place]:.2f}" for place in largest} <= set(texts)
        assert translation.text in " ".join(texts)
        for product in (text for text in texts if text.startswith("p = ")):
            factors, p, loss = re.split(r" = |, −ln p = ", product)[1:]
            assert np.prod(
                [float(one) for one in factors.split(" × ")]
            ) == pytest.approx(float(p), abs=0.002)
            assert -np.log(float(p)) == pytest.approx(float(loss), abs=0.02)

        numbers = [float(text) for text in texts if re.fullmatch(r"[01]\.\d\d", text)]
        others = [float(text[7:]) for text in texts if text.startswith("others ")]
        assert sum(numbers + others) == pytest.approx(1, abs=0.035)


READ = """
import {{ readFileSync }} from "node:fs";
import {{ load }} from {module};
const translator = await load({{ model: readFileSync({model}), wasm: readFileSync({wasm}) }});
const [{{ text, attention: [layer] }}] = translator.translate({text}, {{ beam: 1, attention: "cross" }});
console.log(JSON.stringify({{ text, weights: [...layer.weights] }}));
"""


def test_the_weights_in_the_page_are_those_of_python(
    node: str, wasm: Path, tmp_path: Path, models: dict[str, RuntimeTranslator]
) -> None:
    module = ROOT / "regard" / "runtime" / "js" / "regard.js"
    model = tmp_path / "model.regard"
    packed = FIGURES / "data" / "two-models.with.gz"
    model.write_bytes(gzip.decompress(packed.read_bytes()))
    script = tmp_path / "read.mjs"
    for example in data_of("two-models")["examples"]:
        values = {
            "module": module.as_uri(),
            "model": str(model),
            "wasm": str(wasm),
            "text": example["text"],
        }
        quoted = {name: json.dumps(value) for name, value in values.items()}
        script.write_text(READ.format(**quoted), encoding="utf-8")
        done = subprocess.run(
            [node, str(script)], capture_output=True, text=True, check=True, timeout=120
        )
        shown = json.loads(done.stdout)
        (translation,) = models["with"].translate(
            [example["text"]], beam=1, readings=True
        )
        assert translation.readings is not None
        (weights,) = translation.readings.weights.values()

        assert shown["text"] == translation.text
        assert np.allclose(shown["weights"], weights.ravel(), atol=TOLERANCE)


def test_words_lost_by_their_place_are_those_of_the_shipped_model(
    models: dict[str, RuntimeTranslator], tmp_path: Path
) -> None:
    """The first training is the model of the page: its first words of long test sentences."""
    write_sample(tmp_path)
    texts = [
        (tmp_path / f"test.{kind}").read_text("utf-8") for kind in ("ko", "en", "align")
    ]
    rows = [
        row
        for row in zip(*map(str.splitlines, texts), strict=True)
        if 9 < len(row[0].split()) < 16
    ]
    outputs = models["without"].translate([source for source, _, _ in rows], beam=1)
    shares = {}
    for place, name in ((0, "first-lost"), (-1, "last-lost")):
        lost = []
        for (source, target, links), output in zip(rows, outputs, strict=True):
            number = place % len(source.split())
            words = target.split()
            linked = [
                int(link.split("-")[1])
                for link in links.split()
                if link.startswith(f"{number}-")
            ]
            written = output.text.split()
            if linked:
                lost.append(
                    any(
                        words[: at + 1].count(words[at]) > written.count(words[at])
                        for at in linked
                    )
                )
        shares[name] = 100 * np.mean(lost)

    for name, share in shares.items():
        assert share == pytest.approx(facts.known()[name]["values"][0], abs=3), name


def test_missing_words_are_counted_as_often_as_they_miss(
    node: str, tmp_path: Path
) -> None:
    expression = """[
      missingWords(["a", "b", "a"], ["a", "c"]), missingWords(["a"], ["a", "a"]),
      missingWords(["a", "b"], []), missingWords([], ["a"])]"""

    assert answers(node, tmp_path, "two-models", expression) == [
        ["b", "a"],
        [],
        ["a", "b"],
        [],
    ]
