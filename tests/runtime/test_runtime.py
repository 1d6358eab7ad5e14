"""A runtime file translates as the model it was exported from: the same tokens, scores, attention,
parts and warnings.
"""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from helpers.small_models import SENTENCES, pairs
from helpers.system_marks import posix
from helpers.time_limits import wait_until

from regard.attention.alignment import extract_links
from regard.common.errors import UsageError
from regard.runtime import native
from regard.runtime.model import interruptible
from regard.search.forced_decoding import force_decode
from tests.runtime.pairs import Maker, assert_same

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SEVERAL = [
    "나는 간다.나는 온다. 123! 456.",
    "---",
    "Dr. Kim went. I ate.[1] 🙂 You go!",
    "我走。你来！１２",
]
LINES = [
    *SENTENCES,
    "",
    "  나는   집에 간다 ",
    "😀 unseen 文字",
    "\u1112\u1161\u11ab 자모",
    *SEVERAL,
]
LONG = " ".join(f"{sentence}." for sentence in SENTENCES * 4)


@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_attention_is_that_of_forced_decoding(
    make: Maker,
    encoder: str,
    decoder: str,
) -> None:
    expected, actual = (
        translator.translate(SENTENCES, beam=3, readings=True)
        for translator in make(encoder, decoder)
    )
    texts = (
        "source",
        "source_words",
        "source_text",
        "target",
        "target_words",
        "target_text",
        "roles",
    )
    for one, other in zip(actual, expected, strict=True):
        assert one.readings is not None
        assert other.readings is not None

        for name in texts:
            assert getattr(one.readings, name) == getattr(other.readings, name), name

        assert one.readings.weights.keys() == other.readings.weights.keys()

        for layer, weights in other.readings.weights.items():
            np.testing.assert_allclose(one.readings.weights[layer], weights, atol=1e-4)


@pytest.mark.parametrize(
    ("head", "shifted", "symmetry"),
    [
        (None, False, None),
        (1, True, "intersection"),
        (None, True, "grow-diag-final"),
        (None, False, "union"),
    ],
)
def test_alignments_are_those_of_the_translator(
    make: Maker,
    head: int | None,
    shifted: bool,
    symmetry: str | None,
) -> None:
    choice = {
        "layer": "decoder.layers.0.cross_attention",
        "head": head,
        "shifted": shifted,
    }
    pair = make("transformer", "transformer", **choice, symmetry=symmetry)
    lines = [
        *LINES,
        LONG,
        "\U0001d160" * 3,  # a character of four bytes becomes three
        "나는\u00a010\u00a0km 간다",
        "\u200b 나는\t집에 \u200b 간다. 간다.\r",
    ]
    assert_same(
        pair,
        lines,
        alignments=True,
        beam=2,
        nbest=2,
    )


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_without_a_choice_links_are_those_of_the_middle_layer(make: Maker) -> None:
    pair = make("transformer", "transformer")
    assert_same(pair, LINES, alignments=True)
    for result in pair[0].translate(LINES, alignments=True, readings=True):
        if result.readings is None:  # an empty line, or one of several sentences
            continue
        assert result.alignments is not None
        layers = result.readings.layers()
        words = result.readings.words(layers[len(layers) // 2])
        assert [*result.alignments] == extract_links(words.weights, "grow-diag-final")


def test_a_model_without_attention_has_no_alignments(make: Maker) -> None:
    _, runtime = make("recurrent", "no_attention")
    with pytest.raises(UsageError, match="no attention"):
        runtime.translate("I", alignments=True)


def test_sentences_stay_together_if_that_is_asked_for(make: Maker) -> None:
    pair = make("recurrent", "recurrent")
    together = assert_same(pair, SEVERAL, split="off")

    assert [len(result.parts) for result in together] == [1, 1, 1, 1]

    apart = assert_same(pair, SEVERAL, split="auto")

    assert [len(result.parts) for result in apart] == [4, 1, 3, 3]


@posix
def test_ctrl_c_does_not_wait_for_the_library() -> None:
    ends = threading.Event()
    results = list[bool]()

    def call() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        results.append(ends.wait(60))

    with pytest.raises(KeyboardInterrupt):
        interruptible(call)
    assert results == [], "the call goes on"

    ends.set()
    wait_until(lambda: results == [True], "the call ends")

    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_what_is_no_text_is_named(make: Maker) -> None:
    _, runtime = make("transformer", "transformer")
    calls = (
        lambda text: runtime.translate(["a", text]),
        lambda text: list(runtime.stream(text)),
        runtime.trace,
    )
    for call in calls:
        with pytest.raises(
            UsageError, match=r"text [12] is None \(NoneType\); give texts"
        ):
            call(None)


def test_log_probs_of_tokens_are_those_of_forced_decoding(make: Maker) -> None:
    translator, runtime = make("convolutional", "convolutional")
    options = runtime.model.options()
    options.beam = options.nbest = 4
    lines = runtime.model.translate(SENTENCES, options)
    for sentence, line in zip(SENTENCES, lines, strict=True):
        source = translator.encode(sentence)
        for hypothesis in line.hypotheses:
            (forced,) = force_decode(
                translator.model,
                [source],
                [hypothesis.ids],
                with_attention=False,
            )
            assert hypothesis.log_probs == pytest.approx(
                forced.log_probs[:-1], abs=2e-4
            )
