"""The walkthrough of a block: every number is that of the model's own forward pass, for every
score, norm and role.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import SIDES, captioner_folder, folder
from torch import Tensor

from regard.attention import SCORES, watch
from regard.common.bilingual import Language
from regard.common.errors import UsageError
from regard.data.vocabulary import BOS, EOS
from regard.layers.positional_encoding import interleaved, sinusoids
from regard.learn import walkthrough_block
from regard.learn.lessons.random_weights import (
    WordVocabulary,
    small_model,
)
from regard.models import Batch
from regard.pipeline import load_translator
from regard.requests.walkthrough_request import SmallSettings
from regard.visualisation.number_boxes import LONGEST, equations

SOURCE = "나는 집에 간다"
TARGET = "I go home now"


def close(actual: Any, expected: Tensor) -> None:
    torch.testing.assert_close(
        torch.as_tensor(actual), expected.detach(), rtol=0, atol=1e-5
    )


def end(block: Any) -> Any:
    """Return the numbers that come out of the layers; the steps of the prediction follow."""
    steps = [step for step in block.steps if not step.key.startswith("prediction.")]
    return steps[-1].terms[-1].values


def small(settings: SmallSettings) -> tuple[Any, Batch, Tensor]:
    """Build the model that a walkthrough of random weights runs, its batch and the input of its
    decoder.
    """
    source = WordVocabulary([SOURCE])
    target = WordVocabulary([TARGET])
    model = small_model(settings, source, target)
    batch = Batch.of([source.encode(SOURCE)])

    return model, batch, torch.tensor([[BOS, *target.encode(TARGET)]])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_block_equals_the_forward_pass(score: str, norm: str) -> None:
    model, batch, target_in = small(SmallSettings(score=score, norm=norm))

    block = walkthrough_block(SOURCE, score=score, norm=norm)
    with watch(model) as readings:
        encoded = model.encoder(batch)

    (weights,) = readings.values()
    close(block["self.weights"]["A"], weights)
    close(block["sum"]["x₀"], encoded.embedded)
    close(end(block), encoded.outputs)

    block = walkthrough_block(SOURCE, TARGET, score=score, norm=norm)
    with watch(model) as readings:
        features = model(batch, target_in)

    close(block["self.weights"]["A"], readings["decoder.layers.0.self_attention"])
    close(block["cross.weights"]["A"], readings["decoder.layers.0.cross_attention"])
    close(block["source"]["m"], encoded.outputs)
    close(end(block), features)

    hidden = np.isneginf(block["self.mask"].terms[1].values[0])
    assert np.array_equal(hidden, np.triu(np.ones((5, 5)), 1))

    block = walkthrough_block(SOURCE, score=score, norm=norm, causal=True)
    layer = model.encoder.layers[0]
    x = encoded.embedded
    y = layer.self_attention_residual.before(x)
    z = layer.self_attention(y, layer.self_attention.prepare(y, y), causal=True)

    close(block["self.output"]["z"], z)

    x = layer.self_attention_residual.after(x, z)
    z = layer.feedforward(layer.feedforward_residual.before(x))
    x = layer.feedforward_residual.after(x, z)

    close(end(block), model.encoder.norm(x))


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_without_projections_a_vector_meets_itself(score: str) -> None:
    model, batch, target_in = small(SmallSettings(score=score, unprojected=True))
    block = walkthrough_block(SOURCE, TARGET, score=score, unprojected=True)
    close(end(block), model(batch, target_in))

    block = walkthrough_block(SOURCE, score=score, unprojected=True)
    close(end(block), model.encoder(batch).outputs)

    assert np.array_equal(block["self.Q"]["Q"], block["self.norm"]["y"])

    if "dot" in score or "cosine" in score:
        scores = block["self.scores"].terms[-1].values[0, 0]
        assert scores.argmax(1).tolist() == [0, 1, 2]

        sentence = "in 3 of 3 rows x·x is the largest"
        assert sentence in block["self.scores"].text.en


def test_weights_are_tenths_and_words_keep_their_vectors() -> None:
    block = walkthrough_block("I go home", seed=3)
    other = walkthrough_block("home I", seed=3)
    another_seed = walkthrough_block("I go home")
    vectors = block["embeddings"]["e"]
    tenths = vectors * 10

    np.testing.assert_allclose(tenths, tenths.round(), atol=1e-5)
    assert np.array_equal(vectors[0, [2, 0]], other["embeddings"]["e"][0])
    assert not np.array_equal(vectors, another_seed["embeddings"]["e"])

    home = block["sum"]["x₀"][0, 2]
    assert not np.array_equal(home, other["sum"]["x₀"][0, 0]), "positions tell"


def test_the_target_is_shifted_right() -> None:
    block = walkthrough_block(SOURCE, "I go home")
    rows = block["tokens"].terms[0].values[0].tolist()
    assert rows[1:] == [["<s>", "I", "go", "home"], ["I", "go", "home", "</s>"]]
    assert "shifted right" in block["tokens"].text.en
    assert block["positions"].terms[0].columns[0] == ["sin", "cos"] * 2

    parts = [step.part.en for step in block.steps if step.key.endswith("weights")]
    assert parts == ["Masked self-attention", "Cross-attention"]


# --- a batch


def test_padding_is_shown_and_hidden() -> None:
    block = walkthrough_block(SOURCE, "I go home", batch=["간다 ||| go"])
    second = block["tokens"].terms[0].values[1, 1]
    assert second.tolist() == ["<s>", "go", "<pad>", "<pad>"]

    mask = block["cross.mask"].terms[1].values
    assert np.isneginf(mask[1]).tolist() == [[False, True, True]] * 4
    assert not np.isneginf(mask[0]).any()
    assert "padding" in block["cross.mask"].text.en
    assert (block["cross.weights"]["A"][1, :, :, 1:] == 0).all()


def test_shapes_of_a_batch_are_those_of_bmm() -> None:
    text = walkthrough_block(SOURCE, "I go home", batch=["간다 ||| go"]).text()
    assert (
        "torch.bmm: (B·H, T, E) × (B·H, E, S) → (B·H, T, S) = (4, 4, 2) × (4, 2, 3) → (4, 4, 3)"
        in text
    )
    assert "torch.matmul: (2, 4, 4) × (4, 4) → (2, 4, 4)" in text
    assert "Q (B, H, T, E) = (2, 2, 4, 2), sentence 2, head 1" in text
    assert "torch.bmm" not in walkthrough_block("I go home").text()


# --- one's own model


@torch.no_grad()
def test_the_walkthrough_ends_with_the_loss_that_training_lowers() -> None:
    pairs = [(SOURCE, TARGET), (SOURCE, "you sleep")]
    block = walkthrough_block(*pairs[0], batch=[f"{SOURCE} ||| you sleep"])
    source, target = (WordVocabulary([pair[side] for pair in pairs]) for side in (0, 1))
    model = small_model(SmallSettings(), source, target)
    keys = [step.key for step in block.steps[-3:]]

    assert keys == ["prediction.logits", "prediction.probabilities", "prediction.loss"]

    probabilities = block["prediction.probabilities"]
    names = list(probabilities.terms[-1].columns[0])
    first = [*TARGET.split(), "</s>", "you", "sleep"]

    assert names[:7] == first, "those to predict first"

    order = [target.names.index(name) for name in names]
    loss = block["prediction.loss"]
    for number, (text, translation) in enumerate(pairs):
        ids = target.encode(translation)
        features = model(Batch.of([source.encode(text)]), torch.tensor([[BOS, *ids]]))
        logits = model.project(features)[0]
        wanted = torch.tensor([*ids, EOS])
        losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
        length = len(wanted)
        shown = loss["loss"][number, :, 1]

        close(shown[:length], losses)
        assert not shown[length:].any(), "padding counts nothing"

        expected = logits.softmax(-1)[:, order]
        close(probabilities["P"][number, :length], expected)

        if number == 0:
            assert f"{losses.sum():.3f}" in loss.text.en
            assert f"{torch.exp(-losses.sum()):.3g}" in loss.text.ko


@pytest.mark.system
def test_probabilities_and_losses_name_the_correct_next_token_and_mark_it() -> None:
    block = walkthrough_block(SOURCE, TARGET, batch=[f"{SOURCE} ||| you sleep"])
    probabilities = block["prediction.probabilities"].terms[-1]
    losses = block["prediction.loss"].terms[0]
    for number, sentence in enumerate((TARGET, "you sleep")):
        following = [*sentence.split(), "</s>"]
        rows = []
        for before, after in zip(["<s>", *following], following, strict=False):
            rows.append(f"{before} → {after}")

        rows += ["<pad>"] * (5 - len(rows))
        assert [*probabilities.rows[number]] == rows
        assert [*losses.rows[number]] == rows

        ((_, matrix),) = equations([probabilities])[number].sides
        marked = {(row, column) for row, column in matrix.marked if column >= 0}
        correct = {
            (row, matrix.columns.index(token)) for row, token in enumerate(following)
        }

        assert marked == correct, "padding has no correct token"

    assert block.page().count(" data-marked>") == 5 + 3

    alone = walkthrough_block(SOURCE, TARGET)
    cells = re.findall(r"→.* (\[0\.\d{3}\])", alone.text())
    shown = alone["prediction.loss"]["loss"][0, :, 0]

    assert cells == [f"[{probability:.3f}]" for probability in shown]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("models") / "run")


@torch.no_grad()
def test_a_layer_of_a_model_equals_its_forward_pass(run: Path) -> None:
    translator = load_translator(run)
    model: Any = translator.model
    source = translator.encode(SOURCE)
    encoded = model.encoder(Batch.of([source]))

    block = walkthrough_block(SOURCE, model=run, layer=1)
    tokens = block["tokens"].terms[0].values[0, 1]
    assert tokens.tolist() == translator.tokenizer.source.tokens(source)

    keys = [step.key for step in block.steps]
    assert keys[-1] == "feedforward.add", "the final norm follows the last layer"
    close(end(block), model.encoder.layers[0](encoded.embedded, None))

    halves = sinusoids(torch.arange(len(source))[None], 16)[0]
    in_halves, in_turn, *_ = block["positions"].terms
    close(in_halves.values, halves)
    close(in_turn.values, halves[:, interleaved(16)])

    block = walkthrough_block(SOURCE, "I go home", model=translator, layer=2)
    assert block["earlier"].title.en == "Input of layer 2, x₀"


SETTINGS: list[dict[str, Any]] = [
    {"norm": "batch", "positions": "learned", "activation": "swiglu"},
    {"norm": "none", "residual": False, "positions": "none"},
    {"window": 1, "norm": "post", "final_norm": "on"},
    {"final_norm": "off", "scale_embedding": False},
]


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*trained for an experiment")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@torch.no_grad()
def test_a_model_of_any_settings_equals_its_forward_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setitem(SIDES, "transformer", {**SIDES["transformer"], **settings})
    translator = load_translator(folder(tmp_path / "run"))
    model: Any = translator.model
    batch = Batch.of([translator.encode(SOURCE)])
    encoded = model.encoder(batch)
    block = walkthrough_block(SOURCE, model=translator, layer=2)

    close(block["sum"]["x₀"], encoded.embedded)
    close(end(block), encoded.outputs)

    ids = translator.tokenizer.target.encode(TARGET)
    features = model(batch, torch.tensor([[BOS, *ids]]))
    block = walkthrough_block(SOURCE, TARGET, model=translator, layer=2)

    close(end(block), features)

    assert len(block.text("ko")) > 5000


def test_a_page_shows_all_eight_heads_and_a_text_four() -> None:
    block = walkthrough_block("I", size=2 * LONGEST, heads=8)
    labels = [equation.label.en for equation in equations(block["self.Q"].terms)]
    assert labels[-8:] == [f"head {head} of 8" for head in range(1, 9)]

    page = block.page()
    assert "head 8 of 8" in page

    text = block.text()
    assert "head 4 of 8" in text
    assert "head 5" not in text
    assert "the first 8 of 32 numbers" in text
    assert "WQ (32 × 32), the first 8 of 32 rows and 8 of 32 columns" in text


def test_only_the_transformer_of_a_translator_is_walked_through(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", "convolutional")
    message = "wanted a Transformer encoder, and this model has a convolutional encoder"
    with pytest.raises(UsageError, match=message):
        walkthrough_block(SOURCE, model=path)

    block = walkthrough_block(SOURCE, "I go", model=path)
    assert block["cross.weights"]["A"].shape[0] == 1

    captioner = captioner_folder(tmp_path / "captioner")
    message = "this model captions images; a walkthrough takes text"
    with pytest.raises(UsageError, match=message):
        walkthrough_block("a", model=captioner)


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "causes"),
    [
        ({"target": ""}, ["there is an empty text"]),
        ({"text": "a" * 41}, ["the text has a word of 41 characters; up to 40"]),
        (
            {"text": "a " * 25, "target": "b " * 30},
            ["the source has 25 tokens", "the target has 30 tokens"],
        ),
        (
            {"size": 5, "heads": 2, "score": "dots", "norm": "batch", "layer": 1},
            [
                "a size of 5 cannot be split into 2",
                "no score 'dots'; wanted one of dot, ",
                "wanted pre or post",
                "`layer`",
            ],
        ),
        (
            {"size": 64, "feedforward": 0},
            ["`size`: wanted 2 to 32, got 64", "`feedforward`: wanted 1 to 64"],
        ),
        ({"unprojected": True, "heads": 2}, ["`unprojected=True` has one head, got 2"]),
        ({"batch": ["b ||| c"]}, ["`batch`: wanted a text, got 'b ||| c'"]),
        (
            {"target": "b", "batch": ["c"]},
            ["wanted a source and a target, SOURCE ||| TARGET, got 'c'"],
        ),
        ({"batch": ["b"] * 4}, ["at most 4 sentences is shown, got 5"]),
        (
            {"model": "run", "size": 4, "causal": True},
            [
                "`size`: a trained model has its own",
                "`causal=True`: a trained encoder",
            ],
        ),
    ],
)
def test_bad_arguments_are_refused_with_all_causes(
    arguments: dict[str, Any], causes: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        walkthrough_block(**{"text": "a", **arguments})
    assert len(refused.value.causes) == len(causes), refused.value.causes

    for cause, part in zip(refused.value.causes, causes, strict=True):
        assert part in cause


@pytest.mark.parametrize("layer", [0, 3])
def test_a_layer_that_is_not_there_is_refused(run: Path, layer: int) -> None:
    message = f"this encoder has layers 1 to 2, got {layer}"
    with pytest.raises(UsageError, match=message):
        walkthrough_block("a", model=run, layer=layer)


# --- text and page


@pytest.mark.system
def test_every_step_is_in_the_text_and_on_the_page_in_both_languages() -> None:
    block = walkthrough_block(SOURCE, TARGET)
    languages: tuple[Language, ...] = ("en", "ko")
    for language in languages:
        text = block.text(language)
        page = block.page(language)
        assert f'<html lang="{language}">' in page

        for number, step in enumerate(block.steps, 1):
            title = step.title.by(language)
            assert f"\n{number}. {title}" in text
            assert f">{number}. {escape(title)}</h2>" in page

    assert str(block) == block.text()

    summary = f"BlockWalkthrough of {len(block.steps)} steps: {SOURCE} → {TARGET}"
    assert repr(block).startswith(summary)


def test_the_page_has_no_tags_of_its_words_and_fetches_nothing() -> None:
    words = "<script>alert(1)</script> \"&' a\x00b"
    page = walkthrough_block(words, batch=["<b>"]).page()
    tags = re.findall("<([a-z][a-z0-9]*)", page)
    for once in ("h1", "main", "nav", "script"):
        assert tags.count(once) == 1

    assert tags.count("section") == tags.count("h2") > 10
    assert tags.count("b") == 0

    for tag in ("section", "div", "table", "td", "th", "h2", "span"):
        assert tags.count(tag) == page.count(f"</{tag}>"), tag

    assert "default-src 'none'" in page
    assert not re.search(r"https?://| src=", page)


def test_steps_and_terms_are_named_where_one_is_missing() -> None:
    block = walkthrough_block("I go", "나는 간다")
    message = r"there is no step 'cross'; there are .*cross\.scores"
    with pytest.raises(KeyError, match=message):
        block["cross"]

    message = r"cross\.scores has no term 'S'; it has .*'scores'"
    with pytest.raises(KeyError, match=message):
        block["cross.scores"]["S"]
