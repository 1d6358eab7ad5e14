"""The JavaScript module translates as the native library does: texts, scores, tokens, attention,
alignments and errors.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_models import SENTENCES

from regard.common.errors import LineWarning
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.text.quality import Trust

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LINES = [
    *SENTENCES,
    "",
    "  나는   집에 간다 ",
    "😀 unseen 文字",
    " ".join(f"{line}." for line in SENTENCES * 4),
]
STREAMED = [*SENTENCES[:2], "OPEN THE FILE", "나는 {a} %s", "<b>집</b> {a}"]


@cache
def _started(node: str, wasm: Path) -> subprocess.Popen[str]:
    """Start the process that answers all requests, until the tests end."""
    command = [node, str(HERE / "translate.mjs"), str(wasm)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def run(node: str, wasm: Path, model: Path, **request: Any) -> dict[str, Any]:
    """Return the answer of the JavaScript module to a request."""
    process = _started(node, wasm)
    assert process.stdin
    assert process.stdout
    print(json.dumps({**request, "model": str(model)}), file=process.stdin, flush=True)
    line = process.stdout.readline()
    assert line, "node has ended; stderr says why"

    result: dict[str, Any] = json.loads(line)
    assert "failure" not in result, result["failure"]
    return result


def test_the_example_of_the_page_runs(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    page = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"```js\nimport { load } from \"regard-runtime\";\n(.*?)```",
        page,
        re.DOTALL,
    )
    begin = f"""
import {{ readFile }} from "node:fs/promises";
import {{ load as loadBoth }} from {json.dumps((ROOT / "regard" / "runtime" / "js" / "regard.js").as_uri())};
const wasm = await readFile({json.dumps(str(wasm))});
const load = (model) => loadBoth({{ wasm, model }});
globalThis.fetch = async () => new Response(await readFile({json.dumps(str(make()))}));
"""
    command = [node, "--input-type=module", "--eval", f"{begin}{code}"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "decoder.layers.0.cross_attention 2 " in done.stdout
    assert "fate: " in done.stdout


def assert_close(actual: Any, expected: Any) -> None:
    """Compare arrays; what is not finite is null in JavaScript."""
    expected = np.where(np.isfinite(expected), expected, np.nan).ravel()
    np.testing.assert_allclose(np.array(actual, np.float32), expected, atol=1e-4)


def assert_same_hypothesis(actual: dict[str, Any], expected: Any, model: Any) -> None:
    assert actual["text"] == expected.text
    assert actual["ids"] == list(expected.ids)
    assert actual["tokens"] == model.tokens(expected.ids, True)
    assert actual["score"] == pytest.approx(expected.score, abs=1e-4)
    assert actual["logProbs"] == pytest.approx(expected.log_probs, abs=1e-4)

    links = None if expected.links is None else [list(link) for link in expected.links]

    assert actual["alignments"] == links
    assert [layer["name"] for layer in actual["attention"]] == list(expected.weights)

    for layer in actual["attention"]:
        weights = expected.weights[layer["name"]]

        assert (layer["heads"], layer["rows"], layer["columns"]) == weights.shape

        assert_close(layer["weights"], weights)
        assert_close(layer["scores"], expected.scores[layer["name"]])


@pytest.mark.parametrize(
    ("encoder", "decoder", "precision"),
    [
        ("transformer", "transformer", "int8"),
        ("recurrent", "recurrent", "float32"),
        ("recurrent", "no_attention", "float32"),
    ],
)
def test_it_translates_as_the_native_library(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
    encoder: str,
    decoder: str,
    precision: str,
) -> None:
    path = make(encoder, decoder, precision)
    native = RuntimeTranslator(path, threads=1)
    model = native.model
    has_links = decoder == "transformer"
    options = {"beam": 3, "nbest": 3, "attention": "all", "alignments": has_links}
    result = run(
        node,
        wasm,
        path,
        lines=LINES,
        options=options,
        streamed=STREAMED,
    )
    chosen = model.options()
    chosen.beam = chosen.nbest = 3
    chosen.attention = 2
    chosen.alignments = int(has_links)
    lines = model.translate(LINES, chosen)

    for expected, actual in zip(lines, result["answers"], strict=True):
        parts = [(part["source"], part["text"]) for part in actual["parts"]]

        assert parts == [part[:2] for part in expected.parts]

        judged = [
            native.doubts.judge(*part[:3], Trust(-8.0)) for part in expected.parts
        ]

        assert actual["doubtful"] == any(doubtful for doubtful, _ in judged)
        assert actual["notes"][: len(expected.notes)] == list(expected.notes)
        assert actual["sourceTokens"] == model.tokens(expected.source, False)
        assert actual["sourceWords"]["ofTokens"] == model.word_indices(
            expected.source, False
        )

        for hypothesis, other in zip(actual["nbest"], expected.hypotheses, strict=True):
            assert_same_hypothesis(hypothesis, other, model)

    assert result["streams"] == [list(native.begin_stream(line)) for line in STREAMED]
    assert result["ids"] == [native.encode(line) for line in LINES]
    assert {**model.card, **result["card"]} == model.card
    assert [layer["role"] for layer in result["layers"]] == [
        layer.role for layer in model.layers
    ]
    assert result["recurrent"] == {
        "encoder": encoder == "recurrent",
        "decoder": decoder != "transformer",
    }


WRONG: list[tuple[list[Any], str]] = [
    (["translate", "x", {"beam": 0}], "beam: wanted 1"),
    (["translate", "x", {"beem": 5}], "there is none"),
    (["translate", ["x", "y" * 30000]], "line 2"),
    (["translate", 5], "got number"),
    (["stream", "x", {"attention": "some"}], "cross"),
    (["translate", "x", {"prefix": 5}], "prefix: wanted text"),
    (["translate", ["x", "y"], {"prefixes": ["x"]}], "wanted an array of 2"),
    (["translate", "x", {"prefix": [3]}], "token 3 is none"),
    (["translate", ["x", "y"], {"trace": True}], "one line is recorded"),
    (["translate", "x", {"states": True}], "is recurrent"),
]


def test_errors_are_sentences(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
    tmp_path: Path,
) -> None:
    wrong = [call for call, _ in WRONG]
    result = run(
        node,
        wasm,
        make(),
        lines=["I go home"],
        options={},
        wrong=wrong,
    )
    for message, (_, part) in zip(result["errors"], WRONG, strict=True):
        assert part in message

    assert result["closed"] == "this translator was closed"

    damaged = tmp_path / "damaged.regard"
    damaged.write_bytes(make().read_bytes()[:-100])

    with pytest.raises(AssertionError, match="Error: the model: damaged"):
        run(node, wasm, damaged, lines=[])

    model = load_folder(make().with_suffix(""))
    card = {"search": {"beam": "wide"}}
    damaged.write_bytes(runtime_file(model, pack_model(model.model), None, card))
    message = "load: the card of the runtime file, search.beam: wanted a whole number"

    with pytest.raises(AssertionError, match=message):
        run(node, wasm, damaged, lines=[])


IN_STEPS = """
const [file, wasm] = await Promise.all(PATHS.map((path) => readFile(path)));
const translator = await load({ model: file, wasm });
const giveUp = () => { const steps = translator.translateInSteps(TEXT); steps.next(); steps.next(); steps.return(); };
const counts = [], steps = translator.translateInSteps(TEXT);
let step;
while (!(step = steps.next()).done) counts.push(step.value);
const { memory } = translator;
for (let i = 0; i < 100; i++) giveUp();
const [{ text, tokens, parts }] = step.value;
console.log(JSON.stringify({ counts, text, tokens: tokens.length, parts: parts.length, grown: translator.memory - memory }));
"""


def test_a_text_without_punctuation_is_translated_in_steps_and_given_up(
    node: str,
    wasm: Path,
    make: Callable[..., Path],
) -> None:
    model = make()
    text = " ".join(["you read a book", "나는 집에 간다"] * 60)
    translator = RuntimeTranslator(model, threads=1)
    with pytest.warns(LineWarning):
        (expected,) = translator.translate([text], nbest=1)

    given = f"""
import {{ readFile }} from "node:fs/promises";
import {{ load }} from {json.dumps((ROOT / "regard" / "runtime" / "js" / "regard.js").as_uri())};
const PATHS = {json.dumps([str(model), str(wasm)])}, TEXT = {json.dumps(text)};
"""
    done = subprocess.run(
        [node, "--input-type=module", "--eval", f"{given}{IN_STEPS}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    result = json.loads(done.stdout)
    counts = result["counts"]

    assert result["text"] == expected.text
    assert counts[0] == result["parts"] == len(expected.parts) > 10
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] > 0
    assert len(counts) >= result["tokens"] / len(expected.parts), "one of each part"
    assert result["grown"] == 0, "what was given up has left the memory"


@pytest.mark.slow
def test_npm_packs_it(wasm: Path, node: str, tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    for part in ("js", "regard/runtime/js", "regard/runtime/lib/wasm"):
        shutil.copytree(ROOT / part, tmp_path / part)

    shutil.copy(ROOT / "LICENSE", tmp_path)
    command = [npm, "pack", "--json", "--offline"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "js",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    (packed,) = json.loads(done.stdout[done.stdout.index("[") :])
    files = {file["path"] for file in packed["files"]}
    modules = {path.name for path in (ROOT / "regard" / "runtime" / "js").iterdir()}
    others = {"LICENSE", "README.md", "package.json", "regard.d.ts", "regard.wasm"}

    assert files == others | modules
    assert "regard.js" in modules
