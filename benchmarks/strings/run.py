"""Judge translations of strings.jsonl, and print what is right, broken and marked, by dialect.

    python benchmarks/strings/run.py --outputs OUT.jsonl
    python benchmarks/strings/run.py --model MODEL [--placement plain|append|proportional]
    python benchmarks/strings/run.py --libretranslate URL | --deepl URL | --openai URL --name NAME
                                     [--source en] [--target de] [--key KEY] [--save OUT.jsonl]

OUT.jsonl has a line for each string, in order: `translation`, and `marks`, the notes of the
translator about it, if there are any; `--save` writes such a file. MODEL is a run folder or a
runtime file. The addresses are bases, such as http://127.0.0.1:5000; `--openai` asks
/v1/chat/completions. `--model words` changes each word by a rule, which tries the script out.

Baselines that need nothing from the translator: `append` translates the text without its spans and
appends them, `proportional` puts each where it stood, by the share of the text before it. `--codes`
leaves out the faults of words (untranslated, repeated, left out, spaces, brackets, length), which
weak models have everywhere.
"""

from __future__ import annotations

import argparse
import json
import re
import urllib.request
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINES = Path(__file__).parent / "strings.jsonl"
PROSE = {"untranslated", "repeated", "segment", "space", "bracket", "length"}
TIMEOUT = 120
AT_ONCE = 32
PROMPT = (
    "Translate this string of a program from {source} into {target}. Keep placeholders, tags and "
    "other codes as they are. Answer with the translation alone."
)
Output = tuple[str, list[str]]
"""A translation and its marks."""
Translate = Callable[[list[str]], list[Output]]


def post(address: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return the answer to a request with a body of JSON."""
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        contents: dict[str, Any] = json.load(answer)
    return contents


def ask_model(options: argparse.Namespace) -> Translate:
    """Return the translator of a model folder or a runtime file."""
    import regard

    warnings.simplefilter(
        "ignore", regard.common.errors.LineWarning
    )  # they are notes, too
    model = regard.load(options.model)

    def translate(texts: list[str]) -> list[Output]:
        outputs = model.translate(texts)
        doubts = (["doubtful"] if output.doubtful else [] for output in outputs)
        return [(o.text, [*o.notes, *d]) for o, d in zip(outputs, doubts, strict=True)]

    return translate


def ask_words(_options: argparse.Namespace) -> Translate:
    """Return a translator that writes each word from its second letter on."""

    def change(text: str) -> Output:
        return re.sub(r"[a-z]{3,}", lambda m: m[0][1:] + m[0][0], text), []

    return lambda texts: [change(text) for text in texts]


def ask_libretranslate(options: argparse.Namespace) -> Translate:
    """Return the translator at an address of LibreTranslate's interface."""

    def translate(texts: list[str]) -> list[Output]:
        body = {"q": texts, "source": options.source, "target": options.target}
        body |= {"api_key": options.key} if options.key else {}
        answer = post(f"{options.libretranslate}/translate", body, {})
        return [(text, []) for text in answer["translatedText"]]

    return translate


def ask_deepl(options: argparse.Namespace) -> Translate:
    """Return the translator at an address of DeepL's interface."""

    def translate(texts: list[str]) -> list[Output]:
        languages = {
            "source_lang": options.source.upper(),
            "target_lang": options.target.upper(),
        }
        headers = {"Authorization": f"DeepL-Auth-Key {options.key}"}
        body = {"text": texts, **languages}
        answer = post(f"{options.deepl}/v2/translate", body, headers)
        return [(entry["text"], []) for entry in answer["translations"]]

    return translate


def ask_openai(options: argparse.Namespace) -> Translate:
    """Return the translator of a chat at an address of OpenAI's interface."""
    prompt = PROMPT.format(source=options.source, target=options.target)
    headers = {"Authorization": f"Bearer {options.key}"}

    def ask(text: str) -> Output:
        messages = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": text},
        ]
        body = {"model": options.name, "messages": messages, "temperature": 0}
        answer = post(f"{options.openai}/v1/chat/completions", body, headers)
        return answer["choices"][0]["message"]["content"], []

    return lambda texts: [ask(text) for text in texts]


def places(line: dict[str, Any]) -> list[tuple[int, str]]:
    """Return where the spans of a line stand, one behind the other."""
    text = line["text"]
    taken = []
    start = 0
    for span in line["spans"]:
        span = span[1:] if re.match("~[0-9]", span) else span
        place = text.find(span, start)
        if place >= 0:
            taken.append((place, span))
            start = place + len(span)
    return taken


def without_spans(line: dict[str, Any]) -> str:
    """Return the text of a line without its spans."""
    text = line["text"]
    for place, span in reversed(places(line)):
        text = text[:place] + text[place + len(span) :]
    return " ".join(text.split()) or "."


def append(line: dict[str, Any], translation: str) -> str:
    """Return a translation with the spans of its line behind it."""
    return " ".join([translation, *(span for _, span in places(line))])


def proportional(line: dict[str, Any], translation: str) -> str:
    """Return a translation with each span between two words, as far in it as in the source."""
    words = translation.split(" ")
    size = len(line["text"])
    for place, span in reversed(places(line)):
        words.insert(round(place / size * len(words)), span)
    return " ".join(words)


PLACEMENTS = {"append": append, "proportional": proportional}


def translate_all(
    lines: list[dict[str, Any]], translate: Translate, placement: str
) -> list[Output]:
    """Return the translations of all lines."""
    place = PLACEMENTS.get(placement)
    texts = [without_spans(line) if place else line["text"] for line in lines]
    outputs: list[Output] = []
    for start in range(0, len(texts), AT_ONCE):
        outputs += translate(texts[start : start + AT_ONCE])
    if place:
        pairs = zip(lines, outputs, strict=True)
        return [(place(line, text), marks) for line, (text, marks) in pairs]
    return outputs


def read_outputs(path: str) -> list[Output]:
    """Return the translations of a file."""
    entries = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    return [(entry["translation"], entry.get("marks", [])) for entry in entries]


def print_table(
    lines: list[dict[str, Any]], outputs: list[Output], codes_only: bool
) -> None:
    """Print how many strings of each dialect are right, broken with a mark, and broken without."""
    from regard.contracts.judge import judge

    rows = defaultdict[str, Counter[str]](Counter)
    kinds = Counter[str]()
    for line, (text, marks) in zip(lines, outputs, strict=True):
        faults = {fault.kind for fault in judge(line["text"], text, line["dialect"])}
        faults -= PROSE if codes_only else set()
        kinds.update(faults)
        result = "broken" if faults else "right"
        for row in (line["dialect"], "**all**"):
            rows[row][f"{result}, marked" if marks else result] += 1
    columns = ("right", "right, marked", "broken, marked", "broken")
    print(f"| dialect | strings | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 2) + "|")
    for name in sorted(rows, key=lambda row: (row == "**all**", row)):
        counts = rows[name]
        cells = " | ".join(str(counts[column]) for column in columns)
        print(f"| {name} | {sum(counts.values())} | {cells} |")
    print(
        "\nfaults:", ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    )


def main() -> None:
    """Translate or read, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sources = parser.add_mutually_exclusive_group(required=True)
    for name in ("outputs", "model", "libretranslate", "deepl", "openai"):
        sources.add_argument(f"--{name}")
    parser.add_argument("--placement", choices=["plain", *PLACEMENTS], default="plain")
    for name, default in (
        ("source", "en"),
        ("target", "de"),
        ("key", ""),
        ("name", ""),
    ):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--save")
    parser.add_argument("--codes", action="store_true")
    options = parser.parse_args()
    lines = [
        json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()
    ]
    if options.outputs:
        outputs = read_outputs(options.outputs)
        if len(outputs) != len(lines):
            parser.error(
                f"{options.outputs} has {len(outputs)} lines; {LINES.name} has {len(lines)}: "
                "give one translation for each"
            )
    else:
        asks = {
            "model": ask_words if options.model == "words" else ask_model,
            "libretranslate": ask_libretranslate,
            "deepl": ask_deepl,
            "openai": ask_openai,
        }
        translate = next(ask for name, ask in asks.items() if getattr(options, name))
        outputs = translate_all(lines, translate(options), options.placement)
    if options.save:
        entries = ({"translation": text, "marks": marks} for text, marks in outputs)
        saved = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        Path(options.save).write_text("".join(saved), encoding="utf-8")
    print_table(lines, outputs, options.codes)


if __name__ == "__main__":
    main()
