"""Diagrams of every preset and kind: all weights are in a part, and nothing overlaps."""

from itertools import combinations

import pytest
from small import SIDES

from regard.explain.architecture import describe_architecture
from regard.models import DECODERS, ENCODERS, ModelSettings, build, count_parameters
from regard.training import preset, presets
from regard.visualisation.architecture import HEIGHT, WIDTH, layout_architecture
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
        "decoder": {**SIDES["transformer"], "norm": "batch", "causal": False, "positions": "learned"},
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
        assert all(0 <= x <= figure.width and 0 <= y <= figure.height for x, y in text.corners()), text
    boxes = [mark for group in figure.groups if group.name in ("encoder", "decoder") for mark in group.marks]
    parts = [mark for mark in boxes if isinstance(mark, Box) and not mark.outline]
    rectangles = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in parts]
    assert not any(_overlap(one, other) for one, other in combinations(rectangles, 2))
    spans = []
    for text in texts:
        xs, ys = zip(*text.corners(), strict=True)
        spans.append((min(xs), min(ys) + 3, max(xs), max(ys) - 2))  # without the room for accents and descenders
    for (one, first), (other, second) in combinations(zip(spans, texts, strict=True), 2):
        assert not _overlap(one, other), (first.text, second.text)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
    parts = [part for side in (architecture.encoder, architecture.decoder) for stack in side for part in stack.parts]
    assert [part.around for part in parts if part.around] == around
    bends = [mark for mark in layout_architecture(architecture).marks() if isinstance(mark, Polyline)]
    assert sum(len(mark.points) == 5 for mark in bends) == len(around)


def test_a_first_state_is_made_of_last_states_or_of_a_mean() -> None:
    for encoder, source in (("recurrent", "last states"), ("transformer", "mean of outputs")):
        name = f"{encoder}-recurrent"
        settings = ModelSettings.parse(MODELS[name], name)
        decoder = describe_architecture(settings, (500, 500), True, name).decoder
        assert [stack.parts[0].source for stack in decoder if stack.parts[0].is_first] == [source]
