"""Compare translations in Chromium with those of the native library, on the same runtime files:
shares, scores, BLEU.

    regard export RUN --to runtime FILE.regard --precision float32
    python benchmarks/browser_parity.py FILE.regard... --lines val.en --references val.de
    [--sentences 1000]

The module regard.js and the library as WebAssembly run in a page without a network. For each file
and beam: the share of sentences with the same tokens, how far apart the scores of the others are
(of a tie, in the last bits), and BLEU of both.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import sacrebleu
from playwright.sync_api import sync_playwright
from regard.runtime import native
from regard.runtime.model import RuntimeModel
from regard.runtime.module_script import module_script

BEAMS = (1, 5)
OPEN = """async ([wasm, model]) => {
    const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    window.translator = await load({ wasm: bytes(wasm), model: bytes(model) });
}"""
TRANSLATE = """([lines, options]) => lines.map((line) => {
    const [{ ids, text, score }] = translator.translate(line, options);
    return [ids, text, score];
})"""
TOGETHER = 50  # sentences of one call


def compare(
    browser: Any, file: Path, lines: list[str], references: list[str], min_length: int
) -> None:
    """Print what one runtime file gives in the browser, beside the native library."""
    model = RuntimeModel(file)
    page = browser.new_context(offline=True).new_page()
    page.set_content("<!DOCTYPE html><title>parity</title>")
    page.add_script_tag(content=module_script())
    files = (native.wasm_file().read_bytes(), file.read_bytes())
    page.evaluate(OPEN, [base64.b64encode(content).decode() for content in files])
    for beam in BEAMS:
        start = time.perf_counter()
        found = list[Any]()
        chosen = {"beam": beam, "minLength": min_length, "keep": False}
        for first in range(0, len(lines), TOGETHER):
            found += page.evaluate(TRANSLATE, [lines[first : first + TOGETHER], chosen])
        seconds = time.perf_counter() - start
        options = model.options()
        options.beam = beam
        options.min_length = min_length
        expected = [line.hypotheses[0] for line in model.translate(lines, options)]
        report(
            f"{file.name} {model.card['precision']} beam {beam}",
            found,
            expected,
            references,
            seconds,
        )
    page.context.close()


def report(
    name: str,
    found: list[Any],
    expected: list[Any],
    references: list[str],
    seconds: float,
) -> None:
    """Print one line."""
    pairs = list(zip(found, expected, strict=True))
    same = [
        abs(one[2] - other.score) for one, other in pairs if tuple(one[0]) == other.ids
    ]
    others = [
        abs(one[2] - other.score) for one, other in pairs if tuple(one[0]) != other.ids
    ]
    texts = [[one[1] for one, _ in pairs], [other.text for _, other in pairs]]
    bleu = [sacrebleu.corpus_bleu(side, [references]).score for side in texts]
    print(
        f"{name}: {len(same) / len(pairs):.1%} of {len(pairs)} equal, their scores within "
        f"{max(same):.1e}; those of the others by {max(others, default=0):.1e} at most; BLEU "
        f"{bleu[0]:.2f} in the browser, {bleu[1]:.2f} native; {1000 * seconds / len(pairs):.1f} "
        "ms a sentence in the browser",
        flush=True,
    )


def main() -> None:
    """Compare the files that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument(
        "--min-length",
        type=int,
        default=0,
        help="tokens: more, for a model that says too little",
    )
    arguments = parser.parse_args()
    sides = (arguments.lines, arguments.references)
    lines, references = (
        path.read_text("utf-8").split("\n")[: arguments.sentences] for path in sides
    )
    warnings.simplefilter("ignore")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for file in arguments.files:
            compare(browser, file, lines, references, arguments.min_length)


if __name__ == "__main__":
    main()
