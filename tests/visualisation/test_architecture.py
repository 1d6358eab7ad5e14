"""Diagrams of every preset and kind: all weights are in a part, and nothing overlaps."""

from itertools import combinations

import pytest
from small import SIDES

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
from regard.visualisation.figure import Box, Figure, Polyline, Text

MODELS = {name: preset(name)["model"] for name in presets()}
MODELS |= {
    f"{encoder.model_fields['kind'].default}-{decoder.model_fields['kind'].default}": {
        "encoder": {"kind": encoder.model_fields["kind"].default},
        "decoder": {"kind": decoder.model_fields["kind"].default},
    }
    for encoder in ENCODERS
    for decoder in DECODERS
    if encoder.model_fields["kind"].default != "timm"
}
MODELS |= {
    "ablated": {
        "encoder": {**SIDES["transformer"], "norm": "none", "residual": False},
        "decoder": {
            **SIDES["transformer"],
            "norm": "batch",
            "causal": False,
            "positions": "learned",
        },
    }
}


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_is_in_one_part_and_of_one_kind(name: str) -> None:
    settings = ModelSettings.parse(MODELS[name], name)
    joint = settings.encoder.reads == "text"
    architecture = describe_architecture(settings, (500, 500), joint, name)
    total = count_parameters(build(settings, 500, 500, joint))
    assert sum(count for _, count in architecture.kinds) == total
    stacks = (*architecture.encoder, *architecture.decoder)
    assert sum(part.weights for stack in stacks for part in stack.parts) == total
    assert "other" not in dict(architecture.kinds)
    _check(layout_architecture(architecture))


def _check(figure: Figure) -> None:
    """Nothing leaves the slide, no text leaves its part, no two parts or texts overlap."""
    assert (figure.width, figure.height) == (WIDTH, HEIGHT)
    texts = [mark for mark in figure.marks() if isinstance(mark, Text)]
    for text in texts:
        assert all(0 <= x <= figure.width and 0 <= y <= figure.height for x, y in text.corners()), (
            text
        )
    boxes = [
        mark
        for group in figure.groups
        if group.name in ("encoder", "decoder")
        for mark in group.marks
    ]
    parts = [mark for mark in boxes if isinstance(mark, Box) and not mark.outline]
    rectangles = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in parts]
    assert not any(_overlap(one, other) for one, other in combinations(rectangles, 2))
    spans = []
    for text in texts:
        xs, ys = zip(*text.corners(), strict=True)
        # Without the room for accents and descenders.
        spans.append((min(xs), min(ys) + 3, max(xs), max(ys) - 2))
    for (one, first), (other, second) in combinations(zip(spans, texts, strict=True), 2):
        assert not _overlap(one, other), (first.text, second.text)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_the_published_transformer_can_be_read_at_its_own_size() -> None:
    settings = ModelSettings.parse(MODELS["transformer-published"], "model")
    figure = layout_architecture(
        describe_architecture(settings, (8000, 8000), True, "transformer-published")
    )
    texts = [mark for mark in figure.marks() if isinstance(mark, Text)]
    assert min(text.size for text in texts) >= 11
    assert [text.text for text in texts].count("joined, WO") == 2


def test_what_the_encoder_hands_over_is_said() -> None:
    def sources(name: str) -> set[str]:
        settings = ModelSettings.parse(MODELS[name], name)
        architecture = describe_architecture(settings, (500, 500), True, name)
        return {part.source for stack in architecture.decoder for part in stack.parts} - {""}

    assert sources("rnn") == {"last states"}
    assert sources("rnn-bahdanau") == {"last states", "keys, values"}
    assert sources("transformer-base") == {"keys, values"}


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
    settings = ModelSettings.parse(MODELS[name], name)
    architecture = describe_architecture(settings, (500, 500), True, name)
    parts = [
        part
        for side in (architecture.encoder, architecture.decoder)
        for stack in side
        for part in stack.parts
    ]
    assert [part.around for part in parts if part.around] == around
    bends = [
        mark for mark in layout_architecture(architecture).marks() if isinstance(mark, Polyline)
    ]
    assert sum(len(mark.points) == 5 for mark in bends) == len(around)


def test_a_first_state_is_made_of_last_states_or_of_a_mean() -> None:
    for encoder, source in (("recurrent", "last states"), ("transformer", "mean of outputs")):
        name = f"{encoder}-recurrent"
        settings = ModelSettings.parse(MODELS[name], name)
        decoder = describe_architecture(settings, (500, 500), True, name).decoder
        assert [stack.parts[0].source for stack in decoder if stack.parts[0].is_first] == [source]


def test_a_grid_has_a_box_for_each_cell_and_labels_stay_off_other_boxes() -> None:
    cells = Part("7 × 5 cells", "32 × 32 pixels each", cells=(7, 5))
    bridge = Part("bridge", source="mean of outputs", is_first=True)
    long = " · ".join(f"model.encoder.setting{n}={n}" for n in range(5))
    figure = layout_architecture(
        Architecture(long, (Stack((cells,)),), (Stack((bridge,)),), (("linear", 1),))
    )
    marks = [mark for group in figure.groups if group.name == "encoder" for mark in group.marks]
    small = [mark for mark in marks if isinstance(mark, Box) and mark.paint == "w70"]
    assert (len(small), len({box.x for box in small}), len({box.y for box in small})) == (35, 5, 7)
    texts = {mark.text: mark for mark in figure.marks() if isinstance(mark, Text)}
    assert long in texts, "it is set smaller, not cut"
    outer = next(
        mark
        for group in figure.groups
        if group.name == "decoder"
        for mark in group.marks
        if isinstance(mark, Box)
    )
    assert max(x for x, _ in texts["mean of outputs"].corners()) < outer.x


def described(name: str) -> Architecture:
    return describe_architecture(ModelSettings.parse(MODELS[name], name), (500, 500), True, name)


def places(architecture: Architecture) -> dict[Place, str]:
    """Return the name of every box."""
    boxes = {}
    for side in ("encoder", "decoder"):
        for number, part in enumerate(
            part for stack in getattr(architecture, side) for part in stack.parts
        ):
            boxes[Place(side, number)] = part.name
            rows = [(r, c, name) for r, row in enumerate(part.opens) for c, name in enumerate(row)]
            boxes |= {Place(side, number, r, c): name for r, c, name in rows}
    return boxes


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_unconnected(name: str) -> None:
    architecture = described(name)
    boxes = places(architecture)
    arrows = list(connections(architecture))
    ends, starts = (
        {place for each in arrows for place in (each[n],) if each.start != each.end} for n in (1, 0)
    )
    inputs = {Place("encoder", 0), Place("decoder", 0)}
    last = max(place for place in boxes if place.side == "decoder")
    assert boxes.keys() - ends == inputs, "all but the inputs take something in"
    assert boxes.keys() - starts == {Place("decoder", last.part)}, (
        "all but the output give something on"
    )
    assert {place for each in arrows for place in (each.start, each.end)} <= boxes.keys()
    figure = layout_architecture(architecture)
    tips = [mark for group in figure.groups if group.name == "arrows" for mark in group.marks]
    assert sum(isinstance(mark, Polyline) and not mark.width for mark in tips) == len(arrows), (
        "each is drawn"
    )


def test_an_attention_opens_into_values_keys_and_queries() -> None:
    architecture = described("transformer-published")
    boxes = places(architecture)
    arrows = list(connections(architecture))

    def taken(number: int, column: int) -> list[tuple[str, str]]:
        return [
            (boxes[each.start], each.kind)
            for each in arrows
            if each.end == Place("decoder", number, 0, column)
        ]

    self_attention, cross = (
        number
        for (side, number, row, _), name in boxes.items()
        if side == "decoder" and row < 0 and "attention" in name
    )
    assert [boxes[Place("decoder", cross, 0, column)] for column in range(3)] == [
        "V: 8 × 64",
        "K: 8 × 64",
        "Q: 8 × 64",
    ]
    assert [taken(self_attention, column) for column in range(3)] == [[("+ positions", "up")]] * 3
    assert [taken(cross, column) for column in range(3)] == [[("add & norm", "source")]] * 2 + [
        [("add & norm", "up")]
    ]
    heads = Place("decoder", cross, 1)
    assert boxes[heads] == "8 × (Q·K / √64, softmax, Σ·V)"
    assert Connection(heads, Place("decoder", cross), "up") in arrows


def test_bahdanau_asks_with_the_state_before_and_luong_with_the_state() -> None:
    bahdanau, luong = (set(connections(described(name))) for name in ("rnn-bahdanau", "rnn-luong"))
    # embedding, bridge, then attention and GRU, or GRU and attention, readout, output
    assert Connection(Place("decoder", 3), Place("decoder", 2, 0, 2), "before") in bahdanau
    assert Connection(Place("decoder", 2), Place("decoder", 3, 0, 2), "up") in luong
    assert Connection(Place("decoder", 2), Place("decoder", 2), "before") in luong
    assert Connection(Place("decoder", 2), Place("decoder", 4), "also") in luong, (
        "the readout takes in h and c"
    )
    assert {each.start.part for each in bahdanau if each.end == Place("decoder", 4)} == {0, 2, 3}, (
        "y, c and s"
    )
