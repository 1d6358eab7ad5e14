"""Two recurrent models, one without attention and one with it: runtime files of whole words, and
sentences to try.
"""

from __future__ import annotations

import gzip
import math
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trainings

import regard
from regard.common.bilingual import Language, Text
from regard.explain.explanation import explain
from regard.interchange.runtime import export
from regard.model_folder import LANGUAGES
from regard.runtime.model import ALL_ATTENTION, RuntimeModel
from regard.visualisation.explanation_data import ExplanationData
from regard.visualisation.figure import MARGIN, Figure, Group, make_figure
from regard.visualisation.figure import Text as Label
from regard.visualisation.fonts import wrap
from regard.visualisation.language import figures_in, words
from regard.visualisation.mechanism import WORD, Diagram, diagram_width
from regard.visualisation.player import moved_down
from regard.visualisation.screen import screen_width
from regard.visualisation.translation_json import step_json

SIDES = {"without": "without-attention", "with": "with-attention"}
"""The recipe of each model."""
NAMES = {
    "without": Text("without attention", "어텐션 없음"),
    "with": Text("with attention", "어텐션 있음"),
}
LENGTHS = (4, 7, 10, 14)
"""Words of the sentences to try, which are the first of such lengths among the test sentences."""
TITLE = Text("Two models write a word", "두 모델이 단어 하나를 쓰는 과정")

DATA = Path(__file__).parent / "data"
SIZE = 15.0
LINE = 20.0
NUMBERS = 16
"""Numbers of a state in the drawing."""
STEP = 2
"""The step of the decoder at which the figure opens, counted from 0."""


def make() -> dict[str, Any]:
    """Return test sentences with their translations."""
    return {
        "longest": trainings.RECIPES["with-attention"][1]["data.max_length"],
        "examples": [_example(length) for length in LENGTHS],
    }


def files() -> dict[str, bytes]:
    """Return both runtime files, packed."""
    return {f"{side}.gz": _runtime_file(recipe) for side, recipe in SIDES.items()}


def _runtime_file(recipe: str) -> bytes:
    folder = trainings.trained(recipe, trainings.SEEDS[0])
    with TemporaryDirectory() as temporary:
        file = Path(temporary) / "model.regard"
        # What recognises the language of a text would be a fifth of what a page loads.
        plain = Path(temporary) / "model"
        shutil.copytree(folder, plain, ignore=shutil.ignore_patterns(LANGUAGES))
        export(plain, file, embeddings="packed")
        return gzip.compress(file.read_bytes(), 9, mtime=0)


def _example(length: int) -> dict[str, str]:
    folder = trainings.sample()
    sources, references = (
        (folder / f"test.{code}").read_text(encoding="utf-8").splitlines()
        for code in ("ko", "en")
    )
    pairs = zip(sources, references, strict=True)
    text, reference = next(pair for pair in pairs if len(pair[0].split()) == length)
    return {"text": text, "reference": reference}


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw how both models read or write a word of a sentence, one above the other, with all that
    they write; on a small screen, the diagram of one of them.
    """
    text = data["examples"][int(state.get("example", 0))]["text"]
    with figures_in(language):
        groups = []
        top = MARGIN
        for side, recipe in SIDES.items():
            folder = trainings.trained(recipe, trainings.SEEDS[0])
            explained = explain(regard.load(folder), text, beam=1, attributions=False)
            shown = in_page(explained.data, side, text)
            diagram = Diagram(shown, NUMBERS, is_still=True)
            marks = diagram.marks(*moment(shown, state))
            if screen_width() and side != state.get("model", "with"):
                marks = iter(())
            output = f"{explained.translation.text} {words('(end)')}"
            title = f"{NAMES[side].by(language)}: {output}"
            texts = [title, product(shown, written(shown, state))]
            room = diagram_width() - 2 * MARGIN
            lines = []
            for line in (line for part in texts for line in wrap(part, SIZE, room)):
                top += LINE
                lines.append(Label(MARGIN, top, line, SIZE))
            top += LINE / 2
            drawn = tuple(moved_down(mark, top) for mark in marks)
            groups.append(Group(side, (*lines, *drawn)))
            top += diagram.height * bool(drawn) + MARGIN
    title = TITLE.by(language)
    return make_figure(diagram_width(), top, groups, title, title)


def product(data: ExplanationData, step: int) -> str:
    """Return the probability of what is written up to a step, as the product of its words."""
    factors = []
    for token, one in zip(data.ids[: step + 1], data.search, strict=False):
        (log_prob,) = {c["logProb"] for c in one["candidates"] if c["id"] == token}
        factors.append(math.exp(log_prob))
    p = math.prod(factors)
    shown = " × ".join(f"{factor:.3f}" for factor in factors)
    equals = f" = {p:.3f}" if step else ""
    return f"p = {shown}{equals}, −ln p = {-math.log(p):.2f}"


def moment(data: ExplanationData, state: dict[str, str]) -> tuple[int, int, int]:
    """Return the step of the encoder, that of the decoder, and the stage that are drawn."""
    return data.encoding_steps - 1, written(data, state), WORD


def written(data: ExplanationData, state: dict[str, str]) -> int:
    """Return the step of the decoder that is drawn: the last one if the figure opens while it
    reads, when there would be little to see.
    """
    if "read" in state:
        return len(data.search) - 1
    return int(state.get("word", STEP))


def in_page(data: ExplanationData, side: str, text: str) -> ExplanationData:
    """Return an explanation with the numbers of the runtime file, which are those in the page: its
    weights have 8 bits.
    """
    packed = (DATA / f"two-models.{side}.gz").read_bytes()
    model = RuntimeModel.from_memory(gzip.decompress(packed))
    options = model.options()
    options.beam = options.nbest = options.trace = options.states = 1
    options.attention = ALL_ATTENTION
    (line,) = model.translate([text], options)
    (output,) = line.hypotheses
    states = output.states
    assert output.ids == data.ids[:-1], "both write the same"
    assert data.states is not None, "the model is recurrent"
    assert states is not None, "the model in the page is so too"
    assert states.encoder is not None, "the encoder is recurrent"
    return replace(
        data,
        attention=tuple(
            replace(layer, weights=weights, scores=scores)
            for layer, weights, scores in zip(
                data.attention,
                output.weights.values(),
                output.scores.values(),
                strict=True,
            )
        ),
        search=tuple(
            step_json(
                step.prefixes,
                step.candidates,
                model.tokens([candidate.token for candidate in step.candidates], True),
            )
            for step in line.steps
        ),
        states=replace(
            data.states,
            encoder=states.encoder,
            decoder=states.decoder,
            initial=states.initial,
        ),
    )
