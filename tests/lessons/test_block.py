"""The walkthrough of a block: every number is that of the model's own forward pass, for every
score, norm and role.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import SIDES, captioner_folder, folder
from torch import Tensor

from regard.attention import SCORES, watch
from regard.common.errors import UsageError
from regard.data.vocabulary import BOS, EOS
from regard.layers.positional_encoding import interleaved, sinusoids
from regard.learn import walkthrough_block
from regard.learn.lessons.random_weights import SmallSettings, WordVocabulary, small_model
from regard.models import Batch, Model
from regard.pipeline import load_translator
from regard.visualisation.number_boxes import LONGEST, Step, Term, equations

SOURCE = "나는 집에 간다"
TARGET = "I go home now"


def close(actual: Any, expected: Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(actual), expected.detach(), rtol=0, atol=1e-5)


def end(block: Any) -> Step:
    """Return the last step of the layers: those of the prediction follow."""
    return [step for step in block.steps if not step.key.startswith("prediction.")][-1]


def small(settings: SmallSettings) -> tuple[Model, Batch, Tensor]:
    """Build the model that a walkthrough of random weights runs, its batch and the input of its
    decoder.
    """
    source = WordVocabulary([SOURCE])
    target = WordVocabulary([TARGET])
    model = small_model(settings, source, target)
    return model, Batch.of([source.encode(SOURCE)]), torch.tensor([[BOS, *target.encode(TARGET)]])


@pytest.mark.parametrize("heads", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_an_encoder_block_equals_the_forward_pass(score: str, norm: str, heads: int) -> None:
    block = walkthrough_block(SOURCE, score=score, norm=norm, heads=heads)
    model, batch, _ = small(SmallSettings(score=score, norm=norm, heads=heads))
    with watch(model) as readings:
        encoded = model.encoder(batch)
    (weights,) = readings.values()
    close(block["self.weights"]["A"], weights)
    close(block["sum"]["x₀"], encoded.embedded)
    close(end(block).terms[-1].values, encoded.outputs)
    layer: Any = model.encoder.layers[0]
    close(
        block["feedforward.add"].terms[-1].values if norm == "pre" else end(block)["x₂"],
        layer(encoded.embedded, None),
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_decoder_block_equals_the_forward_pass(score: str, norm: str) -> None:
    block = walkthrough_block(SOURCE, TARGET, score=score, norm=norm)
    model, batch, target_in = small(SmallSettings(score=score, norm=norm))
    with watch(model) as readings:
        features = model(batch, target_in)
    close(block["self.weights"]["A"], readings["decoder.layers.0.self_attention"])
    close(block["cross.weights"]["A"], readings["decoder.layers.0.cross_attention"])
    close(block["source"]["m"], model.encoder(batch).outputs)
    close(end(block).terms[-1].values, features)
    assert np.triu(block["self.weights"]["A"][0, 0], 1).max() == 0, "no weight of later tokens"
    mask = block["self.mask"].terms[1].values
    assert np.isneginf(mask[0]).tolist() == np.triu(np.ones((5, 5)), 1).astype(bool).tolist()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_causal_block_equals_its_modules(score: str, norm: str) -> None:
    block = walkthrough_block(SOURCE, score=score, norm=norm, causal=True)
    model, batch, _ = small(SmallSettings(score=score, norm=norm))
    layer: Any = model.encoder.layers[0]
    x = model.encoder(batch).embedded
    y = layer.self_attention_residual.before(x)
    with watch(layer) as readings:
        z = layer.self_attention(y, layer.self_attention.prepare(y, y), causal=True)
    close(block["self.weights"]["A"], readings["self_attention"])
    close(block["self.output"]["z"], z)
    x = layer.self_attention_residual.after(x, z)
    x = layer.feedforward_residual.after(x, layer.feedforward(layer.feedforward_residual.before(x)))
    close(end(block).terms[-1].values, model.encoder.norm(x))


@pytest.mark.parametrize("target", [None, TARGET])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_without_projections_a_vector_meets_itself(score: str, target: str | None) -> None:
    block = walkthrough_block(SOURCE, target, score=score, unprojected=True)
    model, batch, target_in = small(SmallSettings(score=score, unprojected=True))
    expected = model.encoder(batch).outputs if target is None else model(batch, target_in)
    close(end(block).terms[-1].values, expected)
    assert np.array_equal(block["self.Q"]["Q"], block["self.norm"]["y"])
    if "dot" in score or "cosine" in score:
        scores = block["self.scores"].terms[-1].values[0, 0]
        assert scores.argmax(1).tolist() == list(range(len(scores)))
        assert (
            f"in {len(scores)} of {len(scores)} rows x·x is the largest"
            in block["self.scores"].text.en
        )


def equalities(step: Step) -> Iterator[tuple[list[Term], Term]]:
    """Yield the operands and the result of each product or sum that a step shows."""
    groups = [list[Term]()]
    for term in step.terms:
        if not term.operator:
            groups.append([])
        groups[-1].append(term)
    for group in groups:
        operands = list(
            itertools.takewhile(lambda term: term.operator in ("", "·", "+", "⊙"), group)
        )
        if (
            len(operands) > 1
            and len(operands) < len(group)
            and group[len(operands)].operator == "="
        ):
            yield operands, group[len(operands)]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("score", SCORES)
def test_each_equation_holds_for_the_numbers_that_it_shows(score: str, norm: str) -> None:
    count = 0
    for step in walkthrough_block(
        SOURCE, TARGET, score=score, norm=norm, batch=["간다 ||| go"]
    ).steps:
        for operands, result in equalities(step):
            total = operands[0].values
            for term in operands[1:]:
                numbers = term.values
                if term.letters == "B T S":
                    numbers = numbers[:, None]
                total = {"·": np.matmul, "⊙": np.multiply, "+": np.add}[term.operator](
                    total, numbers
                )
            np.testing.assert_allclose(
                total, result.values, rtol=0, atol=1e-5, err_msg=f"{step.key}: {result.name}"
            )
            count += 1
    assert count >= 20


def test_layer_norm_shows_mean_and_variance_of_each_row() -> None:
    step = walkthrough_block(SOURCE)["self.norm"]
    before, statistics, normalised, _, scale, shift, after = (term.values for term in step.terms)
    np.testing.assert_allclose(statistics[..., 0], before.mean(-1), atol=1e-6)
    np.testing.assert_allclose(statistics[..., 1], before.var(-1), atol=1e-6)
    np.testing.assert_allclose(normalised.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.var(-1), 1, atol=1e-3)
    np.testing.assert_allclose(scale * normalised + shift, after, atol=1e-6)
    assert not np.allclose(scale, 1), "the affine part is visible"


def test_positions_have_the_columns_of_the_paper() -> None:
    step = walkthrough_block(SOURCE, size=6, heads=1)["positions"]
    angles = [[t / 10000 ** (2 * i / 6) for i in range(3)] for t in range(3)]
    expected = [[wave(angle) for angle in row for wave in (np.sin, np.cos)] for row in angles]
    np.testing.assert_allclose(step["p"], expected, atol=1e-6)
    assert step.terms[0].columns[0] == ["sin", "cos"] * 3


def test_weights_are_tenths_and_words_keep_their_vectors() -> None:
    block = walkthrough_block("I go home", seed=3)
    other = walkthrough_block("home I", seed=3)
    for step in block.steps:
        for term in step.terms:
            if str(term.name)[0] in "Wγβ":
                np.testing.assert_allclose(term.values * 10, (term.values * 10).round(), atol=1e-5)
    assert np.array_equal(block["embeddings"]["e"][0, [2, 0]], other["embeddings"]["e"][0])
    assert not np.array_equal(block["sum"]["x₀"][0, 2], other["sum"]["x₀"][0, 0]), (
        "positions tell the order"
    )
    assert not np.array_equal(
        block["embeddings"]["e"], walkthrough_block("I go home")["embeddings"]["e"]
    )


def test_the_target_is_shifted_right() -> None:
    block = walkthrough_block(SOURCE, "I go home")
    rows = block["tokens"].terms[0].values[0].tolist()
    assert rows == [["0", "1", "2", "3"], ["<s>", "I", "go", "home"], ["I", "go", "home", "</s>"]]
    assert "shifted right" in block["tokens"].text.en
    assert [step.part.en for step in block.steps if step.key.endswith("weights")] == [
        "Masked self-attention",
        "Cross-attention",
    ]


# --- a batch


def test_a_sentence_in_a_batch_has_the_numbers_that_it_has_alone() -> None:
    batch = walkthrough_block("I go home", batch=["I go"])
    alone = walkthrough_block("I go")
    assert batch["self.Q"]["Q"].shape == (2, 2, 3, 2)
    names = [
        ("sum", "x₀"),
        ("self.Q", "Q"),
        ("self.context", "A·V"),
        ("self.output", "z"),
        ("feedforward.norm", "x₂"),
    ]
    for key, name in names:
        np.testing.assert_allclose(
            batch[key][name][1][..., :2, :], alone[key][name][0], atol=1e-5, err_msg=key
        )
    np.testing.assert_allclose(
        batch["self.weights"]["A"][1, :, :2, :2], alone["self.weights"]["A"][0], atol=1e-5
    )


def test_padding_is_shown_and_hidden() -> None:
    block = walkthrough_block(SOURCE, "I go home", batch=["간다 ||| go"])
    assert block["tokens"].terms[0].values[1, 1].tolist() == ["<s>", "go", "<pad>", "<pad>"]
    mask = block["cross.mask"].terms[1]
    assert np.isneginf(mask.values[1]).tolist() == [[False, True, True]] * 4
    assert not np.isneginf(mask.values[0]).any()
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
    assert [step.key for step in block.steps[-3:]] == [
        f"prediction.{key}" for key in ("logits", "probabilities", "loss")
    ]
    for number, (text, translation) in enumerate(pairs):
        ids = torch.tensor([target.encode(translation)])
        logits = model.project(
            model(Batch.of([source.encode(text)]), torch.cat([torch.tensor([[BOS]]), ids], 1))
        )
        wanted = torch.tensor([*ids[0].tolist(), EOS])
        losses = torch.nn.functional.cross_entropy(logits[0], wanted, reduction="none")
        close(block["prediction.loss"]["loss"][number, : len(wanted), 1], losses)
        P = block["prediction.probabilities"]
        names = list(P.terms[-1].columns[0])
        assert names[:7] == [*TARGET.split(), "</s>", "you", "sleep"], "those to predict first"
        assert not block["prediction.loss"]["loss"][number, len(wanted) :, 1].any(), (
            "padding counts nothing"
        )
        order = [target.names.index(name) for name in names]
        close(P["P"][number, : len(wanted)], logits[0].softmax(-1)[:, order])
        if number == 0:
            assert f"{losses.sum():.3f}" in block["prediction.loss"].text.en
            assert f"{torch.exp(-losses.sum()):.3g}" in block["prediction.loss"].text.ko


def test_probabilities_and_losses_name_the_correct_next_token_and_mark_it() -> None:
    block = walkthrough_block(SOURCE, TARGET, batch=[f"{SOURCE} ||| you sleep"])
    P = block["prediction.probabilities"].terms[-1]
    losses = block["prediction.loss"].terms[0]
    T = len(TARGET.split()) + 1
    for number, sentence in enumerate((TARGET, "you sleep")):
        following = [*sentence.split(), "</s>"]
        rows = [
            f"{read} → {token}" for read, token in zip(["<s>", *following], following, strict=False)
        ]
        assert [*P.rows[number]] == [*losses.rows[number]] == rows + ["<pad>"] * (T - len(rows))
        ((_, matrix),) = equations([P])[number].sides
        correct = {(r, matrix.columns.index(token)) for r, token in enumerate(following)}
        assert {(r, c) for r, c in matrix.marked if c >= 0} == correct, (
            "padding has no correct token"
        )
        for r, c in matrix.marked:
            assert c < 0 or losses.values[number, r, 0] == pytest.approx(P.values[number, r, c])
    assert block.page().count(" data-marked>") == T + 3
    text = walkthrough_block(SOURCE, TARGET).text()
    marked = [line.split() for line in text.splitlines() if "[" in line and "→" in line]
    alone = walkthrough_block(SOURCE, TARGET)["prediction.loss"]["loss"][0, :, 0]
    assert [next(cell for cell in line if cell[0] == "[") for line in marked] == [
        f"[{p:.3f}]" for p in alone
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("models") / "run")


@pytest.mark.parametrize("layer", [1, 2])
@torch.no_grad()
def test_a_layer_of_a_model_equals_its_forward_pass(run: Path, layer: int) -> None:
    translator = load_translator(run)
    model: Any = translator.model
    source = translator.encode(SOURCE)
    block = walkthrough_block(SOURCE, model=run, layer=layer)
    with watch(model) as readings:
        encoded = model.encoder(Batch.of([source]))
    close(block["self.weights"]["A"], readings[f"encoder.layers.{layer - 1}.self_attention"])
    assert block["tokens"].terms[0].values[0, 1].tolist() == translator.tokenizer.source.tokens(
        source
    )
    if layer == 2:
        close(end(block).terms[-1].values, encoded.outputs)
        assert block["earlier"].title.en == "Input of layer 2, x₀"
    else:
        assert end(block).key == "feedforward.add", "the final norm follows the last layer"
        x = model.encoder.layers[0](encoded.embedded, None)
        close(end(block).terms[-1].values, x)

    target = translator.tokenizer.target.encode("I go home")
    block = walkthrough_block(SOURCE, "I go home", model=translator, layer=layer)
    with watch(model) as readings:
        features = model(Batch.of([source]), torch.tensor([[BOS, *target]]))
    for key, role in (("self", "self_attention"), ("cross", "cross_attention")):
        close(block[f"{key}.weights"]["A"], readings[f"decoder.layers.{layer - 1}.{role}"])
    if layer == 2:
        close(end(block).terms[-1].values, features)


def test_positions_of_a_model_are_shown_in_both_orders(run: Path) -> None:
    step = walkthrough_block("나는", model=run)["positions"]
    count = len(step["p"])
    halves = sinusoids(torch.arange(count)[None], 16)[0]
    close(step.terms[0].values, halves)
    close(step.terms[1].values, halves[:, interleaved(16)])


SETTINGS: list[dict[str, Any]] = [
    {"norm": "batch"},
    {"norm": "none"},
    {"residual": False},
    {"positions": "learned"},
    {"positions": "none"},
    {"activation": "swiglu"},
    {"window": 1},
    {"norm": "post", "final_norm": "on"},
    {"final_norm": "off", "scale_embedding": False},
]


@pytest.mark.filterwarnings("ignore:.*trained for an experiment")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@torch.no_grad()
def test_a_model_of_any_settings_equals_its_forward_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setitem(SIDES, "transformer", {**SIDES["transformer"], **settings})
    translator = load_translator(folder(tmp_path / "run"))
    model: Any = translator.model
    encoded = model.encoder(Batch.of([translator.encode(SOURCE)]))
    block = walkthrough_block(SOURCE, model=translator, layer=2)
    close(block["sum"]["x₀"], encoded.embedded)
    close(end(block).terms[-1].values, encoded.outputs)
    ids = translator.tokenizer.target.encode(TARGET)
    features = model(Batch.of([translator.encode(SOURCE)]), torch.tensor([[BOS, *ids]]))
    block = walkthrough_block(SOURCE, TARGET, model=translator, layer=2)
    close(end(block).terms[-1].values, features)
    assert len(block.text("ko")) > 5000
    assert block.page()


def test_large_vectors_are_elided_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIDES["transformer"], "size", 2 * LONGEST)
    monkeypatch.setitem(SIDES["transformer"], "heads", 8)
    path = folder(tmp_path / "large")
    text = walkthrough_block("나는", model=path).text()
    assert "the first 8 of 32 numbers" in text
    assert "WQ (32 × 32), the first 8 of 32 rows and 8 of 32 columns" in text
    assert "head 4 of 8" in text
    assert "head 5" not in text


def test_a_page_shows_all_eight_heads() -> None:
    block = walkthrough_block("I go home", size=16, heads=8)
    page = block.page()
    text = block.text()
    for key in ("self.Q", "self.weights"):
        labels = [
            equation.label.en for equation in equations(block[key].terms) if equation.label.en
        ]
        assert labels == [f"head {head} of 8" for head in range(1, 9)]
    assert "head 8 of 8" in page
    assert "head 4 of 8" in text
    assert "head 5" not in text
    assert len(page) < 500_000


@pytest.mark.parametrize("encoder", ["recurrent", "convolutional"])
def test_only_the_transformer_of_a_model_is_walked_through(tmp_path: Path, encoder: str) -> None:
    path = folder(tmp_path / "run", encoder)
    with pytest.raises(
        UsageError, match=f"wanted a Transformer encoder, and this model has a {encoder} encoder"
    ):
        walkthrough_block(SOURCE, model=path)
    block = walkthrough_block(SOURCE, "I go", model=path)
    assert block["cross.weights"]["A"].shape[0] == 1


def test_a_captioner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this model captions images; a walkthrough takes text"):
        walkthrough_block("a", model=captioner_folder(tmp_path / "run"))


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "causes"),
    [
        ({"text": " "}, ["there is an empty text"]),
        ({"text": "a", "target": ""}, ["there is an empty text"]),
        ({"text": "a " * 25}, ["the text has 25 tokens; a walkthrough shows up to 24"]),
        ({"text": "a" * 41}, ["the text has a word of 41 characters; up to 40 are shown"]),
        (
            {"text": "a " * 25, "target": "b " * 30},
            ["the source has 25 tokens", "the target has 30 tokens"],
        ),
        (
            {"text": "a", "size": 5, "heads": 2, "score": "dots", "norm": "batch", "layer": 1},
            [
                "a size of 5 cannot be split into 2",
                "no score 'dots'; wanted one of dot, ",
                "wanted pre or post",
                "`layer`",
            ],
        ),
        (
            {"text": "a", "size": 64, "feedforward": 0},
            ["`size`: wanted 2 to 32, got 64", "`feedforward`: wanted 1 to 64"],
        ),
        ({"text": "a", "heads": 0}, ["a size of 4 cannot be split into 0 equal heads"]),
        (
            {"text": "a", "unprojected": True, "heads": 2},
            ["`unprojected=True` has one head, got 2"],
        ),
        ({"text": "a", "batch": ["b ||| c"]}, ["`batch`: wanted a text, got 'b ||| c'"]),
        (
            {"text": "a", "target": "b", "batch": ["c"]},
            ["wanted a source and a target, SOURCE ||| TARGET, got 'c'"],
        ),
        ({"text": "a", "batch": ["b"] * 4}, ["at most 4 sentences is shown, got 5"]),
        (
            {"text": "a", "model": "run", "size": 4, "causal": True, "seed": 0},
            [
                "`size`: a trained model has its own",
                "`seed`: a trained",
                "`causal=True`: a trained encoder",
            ],
        ),
    ],
)
def test_bad_arguments_are_refused_with_all_causes(
    arguments: dict[str, Any], causes: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        walkthrough_block(**arguments)
    assert len(refused.value.causes) == len(causes), refused.value.causes
    for cause, part in zip(refused.value.causes, causes, strict=True):
        assert part in cause


@pytest.mark.parametrize("layer", [0, 3])
def test_a_layer_that_is_not_there_is_refused(run: Path, layer: int) -> None:
    with pytest.raises(UsageError, match=f"this encoder has layers 1 to 2, got {layer}"):
        walkthrough_block("a", model=run, layer=layer)


# --- text and page


def test_every_step_is_in_the_text_and_on_the_page_in_both_languages() -> None:
    block = walkthrough_block(SOURCE, TARGET)
    for language in ("en", "ko"):
        text, page = block.text(language), block.page(language)  # type: ignore[arg-type]
        for number, step in enumerate(block.steps, 1):
            title = step.title.by(language)  # type: ignore[arg-type]
            assert f"\n{number}. {title}" in text
            assert f">{number}. {escape(title)}</h2>" in page
        assert f'<html lang="{language}">' in page
    assert str(block) == block.text()
    assert repr(block).startswith(
        f"BlockWalkthrough of {len(block.steps)} steps: {SOURCE} → {TARGET}"
    )


class Outline(HTMLParser):
    """Collect the tags of a page, and check that they are closed in order."""

    VOID = ("meta", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self._open = list[str]()
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.mark.parametrize("words", [SOURCE, "<script>alert(1)</script> \"&' a\x00b"])
def test_the_page_is_well_formed_and_fetches_nothing(words: str) -> None:
    page = walkthrough_block(words, batch=["<b>"]).page()
    tags = Outline(page).tags
    names = [tag for tag, _ in tags]
    assert names.count("h1") == names.count("main") == names.count("nav") == 1
    assert names.count("section") == names.count("h2") > 10
    assert names.count("script") == 1
    assert names.count("b") == 0
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in tags:
        assert attributes.get("aria-labelledby") in (None, *ids)
        assert (attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
        if tag == "th":
            assert attributes.get("scope") in ("row", "col", None)
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page


def test_each_equation_of_the_page_is_of_one_sentence_and_head() -> None:
    block = walkthrough_block(SOURCE, batch=["간다"])
    shown = equations(block["self.scores"].terms)
    assert [equation.label.en for equation in shown] == [
        f"sentence {b}, head {h}" for b in (1, 2) for h in (1, 2)
    ]
    assert [len(equation.sides) for equation in shown] == [4] * 4


def test_steps_and_terms_are_named_where_one_is_missing() -> None:
    block = walkthrough_block("I go", "나는 간다")
    assert block["cross.scores"]["scores"].shape == block["cross.scores"]["Q·Kᵀ"].shape
    with pytest.raises(KeyError, match=r"there is no step 'cross'; there are .*cross\.scores"):
        block["cross"]
    with pytest.raises(KeyError, match=r"cross\.scores has no term 'S'; it has .*'scores'"):
        block["cross.scores"]["S"]
