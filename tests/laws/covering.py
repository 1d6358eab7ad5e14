"""Covering array of models: a table in which every pair of values of the settings occurs that a
model can have.

    python tests/laws/covering.py    # writes the table, covering.jsonl, again

Which pairs: every encoder with every decoder, and within a stack of layers every value of one
switch with every value of another, their number excepted. A Transformer's layers are the same on
both sides, so that a pair may occur on either; each value alone occurs on both. `missing` names
what the table lacks after something was registered.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import typing
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from regard.common.errors import RegardError
from regard.common.plugins import Registry
from regard.common.settings import Settings
from regard.models import DECODERS, ENCODERS, ModelSettings
from regard.models.timm_encoder import TimmEncoderSettings
from regard.models.vision import ResNetEncoderSettings, ViTEncoderSettings

TABLE = Path(__file__).with_name("covering.jsonl")
SMALL: dict[str, Any] = {
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "attention_size": 12,
    "embedding": 16,
    "dropout": 0.0,
    "max_positions": 40,
    "final_norm": "auto",
    "freeze_backbone": False,
    "causal": True,  # without the mask step by step differs, as a test says
}
CHOICES: dict[str, Any] = {
    "layers": (2, 1),
    "activation": ("gelu", "swiglu"),
    "window": (None, 2),
    "bottleneck": (None, 4),
}
OF_KIND: dict[type[Settings], dict[str, Any]] = {
    ResNetEncoderSettings: {
        "width": (8,),
        "depths": ((1, 2),),
        "layers": (0, 1),
        "group_size": (4,),
    },
    ViTEncoderSettings: {"patch_size": (4,)},
}
ENCODERS_BY_INPUT = {
    reads: [kind for kind in ENCODERS if kind.reads == reads]
    for reads in ("text", "images")
}
# timm needs a package, or a stand-in: tests/models/test_timm_encoder.py
ENCODERS_BY_INPUT["images"].remove(TimmEncoderSettings)
UNUSUAL = ("batch", "pre_batch", "none")  # norms that experiments compare
# Of what ("encoder", "recurrent.score", "decoder transformer.norm"), and which.
Value = tuple[str, Any]
Values = frozenset[Value]
# What an encoder and a decoder have beside SMALL, `kind` among it.
Row = tuple[dict[str, Any], dict[str, Any]]


def kinds() -> list[tuple[type[Settings], type[Settings]]]:
    """Return every kind of encoder with every kind of decoder."""
    encoders = [kind for kinds in ENCODERS_BY_INPUT.values() for kind in kinds]
    return list(itertools.product(encoders, DECODERS))


@cache
def switches(kind: type[Settings]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each field in which models of this kind differ, the default first."""
    choices = {**CHOICES, **OF_KIND.get(kind, {})}
    values = {name: choices[name] for name in kind.model_fields if name in choices}

    for name, field in kind.model_fields.items():
        options: tuple[Any, ...] = ()
        if field.annotation is bool:
            options = (True, False)
        elif typing.get_origin(field.annotation) is typing.Literal:
            options = typing.get_args(field.annotation)
        for item in field.metadata:
            if isinstance(item, Registry):
                options = tuple(item.names)

        if len(options) > 1 and name not in {**SMALL, **choices}:
            others = [value for value in options if value != field.default]
            values[name] = (field.default, *others)

    return values


def parse(kind: type[Settings], values: dict[str, Any]) -> Settings:
    """Return small settings of this kind with these values of its switches."""
    small = {name: value for name, value in SMALL.items() if name in kind.model_fields}
    first = {name: options[0] for name, options in switches(kind).items()}
    return kind.parse({**small, **first, **values}, "a law")


def is_possible(kind: type[Settings], values: dict[str, Any]) -> bool:
    """Return whether a kind takes these values together.

    Without residuals the order of tokens is lost if there are no positions, or if cosines make
    weights nearly equal.
    """
    if values.get("residual") is False and {
        "none",
        "cosine_fixed",
        "cosine_plain",
    } & {
        values.get("positions"),
        values.get("score"),
    }:
        return False

    try:
        parse(kind, values)
    except RegardError:
        return False

    return True


def values_of(encoder: Any, decoder: Any) -> Values:
    """Return the values of a model by name."""
    chosen: set[Value] = set()

    for side, settings in (("encoder", encoder), ("decoder", decoder)):
        chosen.add((side, settings.kind))
        for name in switches(type(settings)):
            value = _plain(getattr(settings, name))
            chosen.add((f"{settings.kind}.{name}", value))
            chosen.add((f"{side} {settings.kind}.{name}", value))

    return frozenset(chosen)


def required() -> set[Values]:
    """Return the pairs of values, and single values, that a table has to contain."""
    pairs = set[Values]()

    for encoder, decoder in kinds():
        pairs.add(frozenset({("encoder", _kind(encoder)), ("decoder", _kind(decoder))}))
        for side, kind in (("encoder", encoder), ("decoder", decoder)):
            for name, options in switches(kind).items():
                pairs |= {
                    _single(f"{side} {_kind(kind)}.{name}", value) for value in options
                }

    for kind in {kind for pair in kinds() for kind in pair}:
        own = {
            name: options
            for name, options in switches(kind).items()
            if name != "layers"
        }
        for (a, xs), (b, ys) in itertools.combinations(own.items(), 2):
            for x, y in itertools.product(xs, ys):
                if is_possible(kind, {a: x, b: y}):
                    one = _single(f"{_kind(kind)}.{a}", x)
                    pairs.add(one | _single(f"{_kind(kind)}.{b}", y))

    return pairs


def read() -> list[tuple[Settings, Settings]]:
    """Return the models of the table: the first show every encoder with every decoder."""
    return [
        _parsed(json.loads(line))
        for line in TABLE.read_text(encoding="utf-8").splitlines()
    ]


def missing(models: Sequence[tuple[Settings, Settings]]) -> list[str]:
    """Name the required pairs that no model of a table has."""
    contained = {pair for model in models for pair in _pairs(values_of(*model))}
    return sorted(
        " with ".join(f"{name}={value}" for name, value in sorted(pair))
        for pair in required() - contained
    )


def make(seed: int, start: Sequence[Row] = ()) -> list[Row]:
    """Return a table: models drawn with a seed, each time one of those with most pairs that are
    missing.
    """
    rng = random.Random(seed)
    rows = list[Row](start)
    first = kinds()
    left = required()
    for row in rows:
        left -= _pairs(values_of(*_parsed(row)))

    while left:
        is_first = len(rows) < len(first)
        pairs = [rng.choice(first) for _ in range(300)]
        if is_first:
            pairs = [first[len(rows)]] * 400
        drawn = [
            (_draw(encoder, rng), _draw(decoder, rng)) for encoder, decoder in pairs
        ]
        if is_first:  # what only experiments use comes later
            drawn = [row for row in drawn if all(map(is_usual, row))]
        covered = [_pairs(values_of(*_parsed(row))) & left for row in drawn]
        order = sorted(range(len(drawn)), key=lambda i: -len(covered[i]))[:8]
        lively = (i for i in order if covered[i] and is_lively(*_parsed(drawn[i])))
        best = next(lively, order[0])
        if covered[best] or is_first:
            rows.append(drawn[best])
            left -= covered[best]

    return rows


def is_usual(values: dict[str, Any]) -> bool:
    """Return whether a side has what models outside of experiments have."""
    if values["kind"] == "transformer" and values["norm"] in UNUSUAL:
        return False
    return values.get("residual") is not False


def is_lively(encoder: Settings, decoder: Settings) -> bool:
    """Return whether laws can tell much by a model: its hypotheses differ, none tie, and rounding
    is not amplified.

    Without residuals, or with deep saturated cells, some models of random weights write the same
    for every source, or other tokens for a source that differs by a rounding.
    """
    from laws.models import fitted, make, sources, targets
    from laws.searching import beam
    from regard.search import LengthPenalty

    encoder, decoder = fitted(encoder, decoder)
    settings = ModelSettings(encoder=encoder, decoder=decoder, share="none")
    batch = sources(settings, 7, 1, 5, 3, 6, 4)
    target = targets(6, 8)

    with torch.no_grad():
        model = make(settings)
        beams = beam(
            model,
            model.encode(batch),
            torch.full((6,), 6),
            4,
            LengthPenalty(1.0),
        )
        log_probs = model.project(model(batch, target)).log_softmax(-1)
        for parameter in model.parameters():
            parameter.mul_(1 + 1e-6 * torch.randn_like(parameter))
        nudged = model.project(model(batch, target)).log_softmax(-1)

    outputs = set[tuple[int, ...]]()

    for hypotheses in beams:
        outputs.update(h.ids for h in hypotheses)
        scores = [h.score for h in hypotheses]
        if any(x - y <= 1e-3 for x, y in itertools.pairwise(scores)):
            return False

    return len(outputs) >= 14 and float((nudged - log_probs).abs().max()) < 3e-4


def main() -> None:
    """Write the table again: what it has stays, and what it lacks comes at its end."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = make(seed=0, start=[json.loads(line) for line in lines])
    TABLE.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} models have {len(required())} pairs")


def _draw(kind: type[Settings], rng: random.Random) -> dict[str, Any]:
    while True:
        values = {name: rng.choice(options) for name, options in switches(kind).items()}
        if is_possible(kind, values):
            return {"kind": _kind(kind), **values}


def _parsed(row: Sequence[dict[str, Any]]) -> tuple[Settings, Settings]:
    encoder, decoder = row
    by_name = [
        {_kind(kind): kind for kind in side} for side in zip(*kinds(), strict=True)
    ]
    return parse(by_name[0][encoder["kind"]], encoder), parse(
        by_name[1][decoder["kind"]], decoder
    )


def _pairs(values: Values) -> set[Values]:
    return {
        frozenset(pair) for pair in itertools.combinations_with_replacement(values, 2)
    }


def _single(name: str, value: Any) -> Values:
    return frozenset({(name, _plain(value))})


def _kind(kind: type[Settings]) -> str:
    return str(kind.model_fields["kind"].default)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    main()
