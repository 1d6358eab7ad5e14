"""Diagrams of every preset and kind: all weights are in a part, and nothing overlaps."""

from itertools import combinations, product
from typing import Any

import pytest
import torch
from drawn import assert_inside, boxes_of, lines_of, texts_of, words_of
from helpers.small_models import SIDES

from regard.explain.model_architecture import describe_architecture
from regard.models import DECODERS, ENCODERS, ModelSettings, build, count_parameters
from regard.training import preset, presets
from regard.visualisation.architecture_diagram import (
    HEIGHT,
    WIDTH,
    Architecture,
    Connection,
    Part,
    Place,
    Stack,
    connections,
    layout_architecture,
)
from regard.visualisation.colours import THEMES, colour, contrast
from regard.visualisation.figure import Figure
from regard.visualisation.screen import figures_within

SCREEN = 366.0  # pixels that a phone has for a figure

MODELS: dict[str, Any] = {name: preset(name)["model"] for name in presets()}
for _encoder in ENCODERS:
    for _decoder in DECODERS:
        _kinds = [side.model_fields["kind"].default for side in (_encoder, _decoder)]
        if "timm" not in _kinds:
            MODELS["-".join(_kinds)] = {
                "encoder": {"kind": _kinds[0]},
                "decoder": {"kind": _kinds[1]},
            }


MODELS["ablated"] = {
    "encoder": {**SIDES["transformer"], "norm": "none", "residual": False},
    "decoder": {
        **SIDES["transformer"],
        "norm": "batch",
        "causal": False,
        "positions": "learned",
    },
}


def described(name: str, vocabulary: int = 500) -> Architecture:
    settings = ModelSettings.parse(MODELS[name], name)
    joint = settings.encoder.reads == "text"
    return describe_architecture(settings, (vocabulary, vocabulary), joint, name)


def parts_of(architecture: Architecture, side: str) -> list[Part]:
    return [part for stack in getattr(architecture, side) for part in stack.parts]


def places(architecture: Architecture) -> dict[Place, str]:
    """Return the name of every box."""
    boxes = {}
    for side in ("encoder", "decoder"):
        for number, part in enumerate(parts_of(architecture, side)):
            boxes[Place(side, number)] = part.name
            for row, names in enumerate(part.opens):
                for column, name in enumerate(names):
                    if name:
                        boxes[Place(side, number, row, column)] = name

    return boxes


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_is_in_one_part_and_every_part_is_connected(name: str) -> None:
    settings = ModelSettings.parse(MODELS[name], name)
    architecture = described(name)
    joint = settings.encoder.reads == "text"
    with torch.device("meta"):
        total = count_parameters(build(settings, 500, 500, joint))

    assert sum(count for _, count in architecture.kinds) == total

    decoder = parts_of(architecture, "decoder")
    parts = parts_of(architecture, "encoder") + decoder
    assert sum(part.weights for part in parts) == total
    assert "other" not in dict(architecture.kinds)

    boxes = places(architecture).keys()
    arrows = list(connections(architecture))
    for arrow in arrows:
        assert {arrow.start, arrow.end} <= boxes

    between = [arrow for arrow in arrows if arrow.start != arrow.end]
    without_input = boxes - {arrow.end for arrow in between}
    assert without_input == {Place("encoder", 0), Place("decoder", 0)}

    without_output = boxes - {arrow.start for arrow in between}
    assert without_output == {Place("decoder", len(decoder) - 1)}

    figure = layout_architecture(architecture)
    heads = [line for line in lines_of(figure, "arrows") if not line.width]
    assert len(heads) == len(arrows), "each is drawn"

    assert_well_laid(figure)


def assert_well_laid(figure: Figure) -> None:
    """Nothing leaves the slide, no two parts or texts overlap."""
    assert (figure.width, figure.height) == (WIDTH, HEIGHT)
    assert_apart(figure)


def assert_apart(figure: Figure) -> None:
    """Nothing leaves the figure, no two parts or texts overlap."""
    assert_inside(figure)

    rectangles = []
    for box in boxes_of(figure, "encoder") + boxes_of(figure, "decoder"):
        if not box.outline:
            rectangles.append((box.x, box.y, box.x + box.width, box.y + box.height))

    spans = []
    for text in texts_of(figure):
        xs, ys = zip(*text.corners(), strict=True)
        # Without the room for accents and descenders.
        spans.append((min(xs), min(ys) + 3, max(xs), max(ys) - 2))

    for places in (rectangles, spans):
        for one, other in combinations(places, 2):
            is_beside = one[2] <= other[0] or other[2] <= one[0]
            assert is_beside or one[3] <= other[1] or other[3] <= one[1], (one, other)


@pytest.mark.parametrize(
    "name", ["rnn", "rnn-bahdanau", "transformer-published", "caption-rnn", "conv"]
)
def test_on_a_small_screen_the_decoder_stands_below_the_encoder(name: str) -> None:
    architecture = described(name)
    with figures_within(SCREEN):
        figure = layout_architecture(architecture)
    assert figure.width == SCREEN
    assert_apart(figure)
    assert min(text.size for text in texts_of(figure)) >= 10

    encoder = max(box.y + box.height for box in boxes_of(figure, "encoder"))
    decoder = min(box.y for box in boxes_of(figure, "decoder"))
    assert encoder < decoder

    heads = [line for line in lines_of(figure, "arrows") if not line.width]
    assert len(heads) == len([*connections(architecture)]), "each arrow is drawn"
    sources = {part.source for part in parts_of(architecture, "decoder")} - {""}
    assert sources <= {*words_of(figure)}


def test_the_published_transformer_can_be_read_at_its_own_size() -> None:
    figure = layout_architecture(described("transformer-published", 8000))
    assert min(text.size for text in texts_of(figure)) >= 11
    assert words_of(figure).count("joined, WO") == 2


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("rnn", {"last states"}),
        ("rnn-bahdanau", {"last states", "keys, values"}),
        ("transformer-base", {"keys, values"}),
        ("transformer-recurrent", {"mean of outputs", "keys, values"}),
    ],
)
def test_what_the_encoder_hands_over_is_said(name: str, sources: set[str]) -> None:
    parts = parts_of(described(name), "decoder")
    assert {part.source for part in parts} - {""} == sources

    texts = texts_of(layout_architecture(described(name)))
    paints = {text.paint for text in texts if text.text in sources}
    for theme, paint in product(THEMES, paints):
        assert contrast(colour(paint, theme), colour("paper", theme)) >= 4.5


@pytest.mark.parametrize(
    ("name", "around"),
    [
        ("transformer-published", [1] * 5),
        ("transformer-base", [2] * 5),
        ("rnn-luong", [1]),
        ("rnn-bahdanau", [2]),
        ("conv", [1, 2]),
        ("ablated", [1] * 3),
    ],
)
def test_what_goes_around_parts_is_drawn(name: str, around: list[int]) -> None:
    architecture = described(name)
    parts = parts_of(architecture, "encoder") + parts_of(architecture, "decoder")
    assert [part.around for part in parts if part.around] == around

    lines = lines_of(layout_architecture(architecture))
    bends = [line for line in lines if len(line.points) == 5]
    assert len(bends) == len(around)


def test_a_grid_has_a_box_for_each_cell_and_labels_stay_off_other_boxes() -> None:
    cells = Part("7 × 5 cells", "32 × 32 pixels each", cells=(7, 5))
    bridge = Part("bridge", source="mean of outputs", is_first=True)
    long = " · ".join(f"model.encoder.setting{n}={n}" for n in range(5))
    encoder = (Stack((cells,)),)
    decoder = (Stack((bridge,)),)
    architecture = Architecture(long, encoder, decoder, (("linear", 1),))
    figure = layout_architecture(architecture)
    small = [box for box in boxes_of(figure, "encoder") if box.paint == "w70"]

    assert len(small) == 35
    assert len({box.x for box in small}) == 5

    texts = {text.text: text for text in texts_of(figure)}
    assert long in texts, "it is set smaller, not cut"

    outer, *_ = boxes_of(figure, "decoder")
    right = max(x for x, _ in texts["mean of outputs"].corners())
    assert right < outer.x


def test_an_attention_opens_into_values_keys_and_queries() -> None:
    architecture = described("transformer-published")
    boxes = places(architecture)
    arrows = list(connections(architecture))

    def sources(number: int, column: int) -> list[tuple[str, str]]:
        """Return from where and how a box of the first row of a part is reached."""
        end = Place("decoder", number, 0, column)
        return [(boxes[one.start], one.kind) for one in arrows if one.end == end]

    names = [part.name for part in parts_of(architecture, "decoder")]
    self_attention, cross = (n for n, name in enumerate(names) if "attention" in name)
    opened = [boxes[Place("decoder", cross, 0, column)] for column in range(3)]

    assert opened == ["V: 8 × 64", "K: 8 × 64", "Q: 8 × 64"]

    values, keys, queries = range(3)
    for column in (values, keys, queries):
        assert sources(self_attention, column) == [("+ positions", "up")]

    assert sources(cross, values) == [("add & norm", "source")]
    assert sources(cross, keys) == [("add & norm", "source")]
    assert sources(cross, queries) == [("add & norm", "up")]

    heads = Place("decoder", cross, 1)
    assert boxes[heads] == "8 × (Q·K / √64, softmax, Σ·V)"
    assert Connection(heads, Place("decoder", cross), "up") in arrows


@pytest.mark.parametrize("name", ["rnn-luong", "rnn-bahdanau", "conv", "caption-rnn"])
def test_upwards_is_the_order_of_an_attention(name: str) -> None:
    architecture = described(name)
    names = places(architecture)
    sources: dict[Place, set[Place]] = {}
    for arrow in connections(architecture):
        sources.setdefault(arrow.end, set()).add(arrow.start)

    (attention,) = (place for place in names if names[place] == "attention")
    inside = {place: names[place][:2] for place in sources[attention]}
    assert sorted(inside.values()) == ["V:", "sc"], "values meet the weights in the sum"

    (scores,) = (place for place, start in inside.items() if start == "sc")
    assert {names[place][0] for place in sources[scores]} == {"K", "Q"}
    assert names[scores].endswith(", softmax")

    part = parts_of(architecture, "decoder")[attention.part]
    assert part.detail == "weighted sum Σ"
    layout = layout_architecture(architecture)
    height = {text.text: -text.y for text in texts_of(layout)}
    order = ["K: states", names[scores], "weighted sum Σ"]
    assert sorted(order, key=height.__getitem__) == order


def test_bahdanau_asks_with_the_state_before_and_luong_with_the_state() -> None:
    bahdanau = set(connections(described("rnn-bahdanau")))
    luong = set(connections(described("rnn-luong")))
    # embedding, bridge, then attention and GRU, or GRU and attention, readout, output
    third, fourth, readout = (Place("decoder", number) for number in (2, 3, 4))
    queries_of_third = Place("decoder", 2, 0, 2)
    queries_of_fourth = Place("decoder", 3, 0, 2)

    assert Connection(fourth, queries_of_third, "before") in bahdanau
    assert Connection(third, queries_of_fourth, "up") in luong
    assert Connection(third, third, "before") in luong
    assert Connection(third, readout, "also") in luong, "it takes in h and c"

    taken = {arrow.start.part for arrow in bahdanau if arrow.end == readout}
    assert taken == {0, 2, 3}, "y, c and s"
