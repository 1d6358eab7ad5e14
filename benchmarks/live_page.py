"""Live pages in headless Chromium: size, seconds until the first translation, milliseconds a
sentence, memory; and how soon a sentence is translated that is typed while 2,000 characters without
punctuation are.

    regard export RUN --to page translator.html
    python benchmarks/live_page.py translator.html --text "A sentence."

The page is opened from disk, without a network, `--rounds` times; medians of the browser's own
clock. Each translation has 15 tokens.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

TEXT = "A man in a red shirt is riding his bicycle down a street."
FIRST = """() => new Promise((done) => {
    const look = () => document.querySelector(".line-of-text:not(.pending)")
        ? done(performance.now())
        : setTimeout(look, 2);
    look();
})"""
TIME = """async ([text, beam, rounds]) => {
    const translator = await translatorOf(0);
    const options = { beam, minLength: 15, maxLength: 15 };
    const times = [];
    let tokens = 0;
    for (let round = 0; round < rounds; round++) {
        const start = performance.now();
        tokens = translator.translate(text, options)[0].tokens.length;
        times.push(performance.now() - start);
    }
    return { times, tokens, memory: translator.memory };
}"""
TYPED = """([long, text, wait]) => new Promise((done) => {
    const [input, output] = ["input", "translation"].map((id) => document.getElementById(id));
    const type = (value) => { input.value = value; input.dispatchEvent(new Event("input")); };
    const look = (start) => output.ariaBusy === "false"
        ? done(performance.now() - start)
        : setTimeout(look, 2, start);
    type(long);
    setTimeout(() => { type(text); look(performance.now()); }, wait);
})"""
LONG = 2000
WAITS = (100, 200, 400, 800)
"""Milliseconds after which a sentence follows the long text."""


def measure(browser: Any, file: Path, text: str, rounds: int) -> None:
    """Print what one page needs."""
    opened = []
    typed = []
    results = {}
    for _ in range(rounds):
        page = browser.new_context(offline=True).new_page()
        page.goto(file.resolve().as_uri(), wait_until="commit")
        opened.append(page.evaluate(FIRST) / 1000)
        for beam in (1, 5):
            results[beam] = page.workers[0].evaluate(TIME, [text, beam, 60])
        words = re.sub(r"[^\w\s]", "", text)
        long = f"{words} " * (LONG // len(words) + 1)
        for number, wait in enumerate(WAITS):
            given = [f"{number} {long}"[:LONG], f"{text} {number}.", wait]
            typed.append(page.evaluate(TYPED, given))
        heap = page.evaluate(
            "performance.memory ? performance.memory.usedJSHeapSize : 0"
        )
        page.context.close()
    print(
        f"{file.name}: {file.stat().st_size / 1e6:.1f} MB, first translation after "
        f"{statistics.median(opened):.2f} s"
    )
    for beam, result in results.items():
        warm = sorted(result["times"][20:])
        times = (
            f"{statistics.median(warm):.1f} ms (least {warm[0]:.1f}, first "
            f"{result['times'][0]:.0f})"
        )
        print(f"  beam {beam}: {result['tokens']} tokens in {times}")
    print(
        f"  a sentence after {LONG:,} characters without punctuation: "
        f"{statistics.median(typed):.0f} ms (most {max(typed):.0f})"
    )
    print(
        f"  memory of the model: {results[5]['memory'] / 1e6:.0f} MB; of the page's scripts: "
        f"{heap / 1e6:.0f} MB"
    )


def main() -> None:
    """Measure the pages that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for file in arguments.files:
            measure(browser, file, arguments.text, arguments.rounds)


if __name__ == "__main__":
    main()
