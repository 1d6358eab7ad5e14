"""The table of models that the laws run over contains every pair of values, also of what was
registered last.
"""

from __future__ import annotations

from laws import covering
from regard.models import DECODERS


def test_the_table_has_every_pair() -> None:
    lacking = covering.missing(covering.read())

    assert not lacking, "write the table again: python tests/laws/covering.py"


def test_the_first_models_show_every_encoder_with_every_decoder() -> None:
    models = covering.read()[: len(covering.kinds())]

    assert [
        (type(encoder), type(decoder)) for encoder, decoder in models
    ] == covering.kinds()
    assert {type(decoder) for _, decoder in models} == {*DECODERS}
