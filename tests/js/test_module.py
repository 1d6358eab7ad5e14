"""The JavaScript module translates as the native library does: texts, scores, tokens, attention,
alignments and errors.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import SENTENCES

from regard.pipeline import RuntimeTranslator
from regard.runtime.model import Constraints, RuntimeStates

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WRONG = [
    *("beam: wanted 1", "there is none", "got wide", "line 2", "got number", "cross"),
    *(
        "prefix: wanted text",
        "wanted an array of 2",
        "token 3 is none",
        "one line is recorded",
        "is recurrent",
    ),
]
LINES = [
    *SENTENCES,
    "",
    "  나는   집에 간다 ",
    "😀 unseen 文字",
    " ".join(f"{line}." for line in SENTENCES * 4),
]
STREAMED = [*SENTENCES[:2], "OPEN THE FILE", f"{SENTENCES[0]} {{a}} %s", "<b>집</b> {a}"]


def run(node: str, wasm: Path, model: Path, **request: Any) -> dict[str, Any]:
    command = [node, str(HERE / "translate.mjs"), str(wasm), str(model)]
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_example_of_the_page_runs(node: str, wasm: Path, make: Callable[..., Path]) -> None:
    page = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"```js\nimport { load } from \"regard-runtime\";\n(.*?)```", page, re.DOTALL
    )
    begin = f"""
import {{ readFile }} from "node:fs/promises";
import {{ load as loadBoth }} from {json.dumps((ROOT / "regard" / "runtime" / "js" / "regard.js").as_uri())};
const wasm = await readFile({json.dumps(str(wasm))});
const load = (model) => loadBoth({{ wasm, model }});
globalThis.fetch = async () => new Response(await readFile({json.dumps(str(make()))}));
"""
    command = [node, "--input-type=module", "--eval", f"{begin}{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "decoder.layers.0.cross_attention 2 " in done.stdout
    assert "fate: " in done.stdout


def assert_same_states(actual: dict[str, Any] | None, expected: RuntimeStates | None) -> None:
    if expected is None or actual is None:
        assert actual is expected is None
        return
    assert expected.encoder is not None
    assert (actual["directions"], actual["encoderSize"]) == expected.encoder.shape[1:]
    assert (actual["decoderSize"], actual["attendsFirst"]) == (
        expected.decoder.shape[1],
        expected.attends_first,
    )
    np.testing.assert_allclose(actual["encoder"], expected.encoder.ravel(), atol=1e-4)
    np.testing.assert_allclose(actual["decoder"], expected.decoder.ravel(), atol=1e-4)
    assert expected.initial is not None
    np.testing.assert_allclose(actual["initial"], expected.initial, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [("transformer", "transformer"), ("recurrent", "recurrent"), ("recurrent", "no_attention")],
)
def test_it_translates_as_the_native_library(
    node: str, wasm: Path, make: Callable[..., Path], encoder: str, decoder: str, precision: str
) -> None:
    model = make(encoder, decoder, precision)
    native = RuntimeTranslator(model, threads=1)
    attends = decoder != "no_attention"
    options = {
        "beam": 3,
        "nbest": 3,
        "attention": "all",
        "alignments": attends and decoder == "transformer",
    }
    options["states"] = encoder == "recurrent"
    result = run(node, wasm, model, lines=LINES, options=options, streamed=STREAMED)
    chosen = native.model.options()
    chosen.beam = chosen.nbest = 3
    chosen.attention = 2
    chosen.alignments = int(options["alignments"])
    chosen.states = int(options["states"])
    for line, expected, actual in zip(
        LINES, native.model.translate(LINES, chosen), result["answers"], strict=True
    ):
        assert [(part["source"], part["text"]) for part in actual["parts"]] == [
            part[:2] for part in expected.parts
        ]
        assert actual["doubtful"] == any(
            native.doubts.is_doubtful(part.source, part.score, -8.0) for part in expected.parts
        )
        assert actual["notes"][: len(expected.notes)] == list(expected.notes)
        assert actual["sourceTokens"] == native.model.tokens(expected.source, False)
        assert actual["sourceWords"]["ofTokens"] == native.model.word_indices(
            expected.source, False
        )
        for one, other in zip(actual["nbest"], expected.hypotheses, strict=True):
            assert (one["text"], one["ids"]) == (other.text, list(other.ids)), line
            assert one["tokens"] == native.model.tokens(other.ids, True)
            assert one["score"] == pytest.approx(other.score, abs=1e-4)
            assert one["alignments"] == (
                None if other.links is None else [list(link) for link in other.links]
            )
            assert [layer["name"] for layer in one["attention"]] == list(other.weights)
            for layer in one["attention"]:
                weights = np.reshape(
                    layer["weights"], (layer["heads"], layer["rows"], layer["columns"])
                )
                np.testing.assert_allclose(weights, other.weights[layer["name"]], atol=1e-4)
                # None becomes NaN.
                scores = np.array(layer["scores"], np.float32).reshape(weights.shape)
                expected_scores = other.scores[layer["name"]]
                np.testing.assert_allclose(
                    scores,
                    np.where(np.isfinite(expected_scores), expected_scores, np.nan),
                    atol=1e-4,
                )
            assert_same_states(one["states"], other.states)
    translator = RuntimeTranslator(model, threads=1)
    assert result["streams"] == [list(translator.begin_stream(line)) for line in STREAMED]
    assert result["ids"] == [native.encode(line) for line in LINES]
    assert {**native.model.card, **result["card"]} == native.model.card
    assert [layer["role"] for layer in result["layers"]] == [
        layer.role for layer in native.model.layers
    ]
    assert result["recurrent"] == {
        "encoder": encoder == "recurrent",
        "decoder": decoder != "transformer",
    }


@pytest.mark.parametrize(
    ("encoder", "decoder"), [("transformer", "transformer"), ("recurrent", "recurrent")]
)
def test_prefixes_and_traces_are_those_of_the_native_library(
    node: str, wasm: Path, make: Callable[..., Path], encoder: str, decoder: str
) -> None:
    model = make(encoder, decoder)
    prefixes = ["I go", "", [20, 21, 22], "나는 빵을", "", "you"]
    native = RuntimeTranslator(model, threads=1).model
    ids = [
        native.encode_target(prefix) if isinstance(prefix, str) else prefix for prefix in prefixes
    ]
    begun = [Constraints.of_prefix(prefix) for prefix in ids]
    options = native.options()
    options.beam = 4
    expected = native.translate(SENTENCES, options, begun)
    answers = run(node, wasm, model, lines=SENTENCES, options={"beam": 4, "prefixes": prefixes})[
        "answers"
    ]
    for line, answer, prefix in zip(expected, answers, ids, strict=True):
        (best,) = line.hypotheses
        assert answer["ids"] == list(best.ids)
        assert answer["ids"][: len(prefix)] == prefix
        assert answer["logProbs"] == pytest.approx(best.log_probs, abs=1e-4)
        assert answer["steps"] == []
    options.trace = 1
    (line,) = native.translate(SENTENCES[:1], options, begun[:1])
    chosen = {"beam": 4, "trace": True, "prefix": prefixes[0]}
    (answer,) = run(node, wasm, model, lines=SENTENCES[:1], options=chosen)["answers"]
    assert [step["prefixes"] for step in answer["steps"]] == [
        [list(p) for p in step.prefixes] for step in line.steps
    ]
    for step, other in zip(answer["steps"], line.steps, strict=True):
        for one, candidate in zip(step["candidates"], other.candidates, strict=True):
            assert (one["beam"], one["id"], one["fate"]) == (
                candidate.beam,
                candidate.token,
                candidate.fate,
            )
            assert one["token"] == native.tokens([candidate.token], True)[0]
            assert (one["logProb"], one["total"]) == pytest.approx(
                (candidate.log_prob, candidate.total_log_prob), abs=1e-3
            )


def test_words_are_those_of_the_readings(node: str, wasm: Path, make: Callable[..., Path]) -> None:
    (answer,) = run(node, wasm, make(), lines=SENTENCES[:1], options={"attention": "cross"})[
        "answers"
    ]
    (translation,) = RuntimeTranslator(make(), threads=1).translate(SENTENCES[:1], readings=True)
    readings = translation.readings
    assert readings is not None
    assert answer["sourceWords"] == {
        "texts": list(readings.source_text),
        "ofTokens": list(readings.source_words),
    }
    assert answer["targetWords"] == {
        "texts": list(readings.target_text),
        "ofTokens": list(readings.target_words),
    }
    assert {layer["role"] for layer in answer["attention"]} == {"cross"}


def test_errors_are_sentences(
    node: str, wasm: Path, make: Callable[..., Path], tmp_path: Path
) -> None:
    wrong = [
        ["translate", "x", {"beam": 0}],
        ["translate", "x", {"beem": 5}],
        ["translate", "x", {"beam": "wide"}],
        ["translate", ["x", "y" * 30000]],
        ["translate", 5],
        ["stream", "x", {"attention": "some"}],
        ["translate", "x", {"prefix": 5}],
        ["translate", ["x", "y"], {"prefixes": ["x"]}],
        ["translate", "x", {"prefix": [3]}],
        ["translate", ["x", "y"], {"trace": True}],
        ["translate", "x", {"states": True}],
    ]
    result = run(node, wasm, make(), lines=["I go home"], options={}, wrong=wrong)
    for message, part in zip(result["errors"], WRONG, strict=True):
        assert part in message
    assert result["closed"] == "this translator was closed"
    damaged = tmp_path / "damaged.regard"
    damaged.write_bytes(make().read_bytes()[:-100])
    command = [node, str(HERE / "translate.mjs"), str(wasm), str(damaged)]
    done = subprocess.run(
        command, input='{"lines": []}', capture_output=True, text=True, timeout=60, check=False
    )
    assert "Error: the model: damaged" in done.stderr


def test_npm_packs_it(wasm: Path, node: str, tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    for part in ("js", "regard/runtime/js", "regard/runtime/lib/wasm"):
        shutil.copytree(ROOT / part, tmp_path / part)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    command = [npm, "pack", "--json", "--offline"]
    done = subprocess.run(
        command, cwd=tmp_path / "js", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    files = {file["path"] for file in json.loads(done.stdout[done.stdout.index("[") :])[0]["files"]}
    modules = {path.name for path in (ROOT / "regard" / "runtime" / "js").iterdir()}
    assert files == {"LICENSE", "README.md", "package.json", "regard.d.ts", "regard.wasm", *modules}
    assert "regard.js" in modules
