"""Translate real lines with generated placeholders, addresses and emoji: count what came back,
where, how fast.

    python benchmarks/kept_spans.py MODEL PAIRS.tsv [--lines 10000] [--beam 5] [--timed 500]
    [--repeats 5]

MODEL is a run folder or a runtime file, PAIRS.tsv holds sentence pairs that it was not trained on,
which are repeated with other spans until there are enough lines. Each line has one to six spans
behind words of its own; the draws are seeded. Printed are the lines in which every span came back
once and none was invented; of spans beside a word that has a translation by a lexicon of the pairs,
and whose translation has it, the share that stands beside that; chrF of the output without its
spans, and of the lines without spans; and the time of both, and of lines with a word in the place
of each span, in turns, as the median of the ratios.
"""

from __future__ import annotations

import argparse
import random
import re
import time
import warnings
from collections import Counter
from pathlib import Path
from statistics import median

SPANS = (
    *(
        "%s",
        "%1$S",
        "%(name)s",
        "%d",
        "{name}",
        "{0}",
        "{{user.name}}",
        "{ $count }",
        "{ -brand-name }",
        "${x}",
        "$total",
    ),
    *(
        ":total%",
        "__count__",
        "&nbsp;",
        "[X8X]",
        "###T01###",
        "https://example.com/a?b=1&c=2",
        "me@example.org",
    ),
    *(
        "/etc/hosts",
        "notes.txt",
        "`ls -la`",
        "foo()",
        "--keep",
        "snake_case",
        "👍🏽",
        "👩‍👩‍👧",
        "🎉",
    ),
)
SEED = 3
STEM = 4
"""Letters by which forms of a word are taken for the same."""


def with_spans(
    source: str, rng: random.Random
) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return a line with one to six spans, and each of them with the words that it stands
    between.
    """
    words = source.split(" ")
    chosen = rng.sample(SPANS, rng.randint(1, 6))
    places = sorted(rng.randrange(len(words)) for _ in chosen)
    beside = [
        (span, words[place : place + 2])
        for span, place in zip(chosen, places, strict=True)
    ]
    for span, place in reversed([*zip(chosen, places, strict=True)]):
        words.insert(place + 1, span)
    return " ".join(words), beside


def counted(text: str) -> Counter[str]:
    """Count the spans of a text that are kept."""
    from regard.data.spans import KEPT, find_spans

    return Counter(
        text[start:end] for start, end, kind in find_spans(text) if kind in KEPT
    )


def placed(
    output: str, beside: list[tuple[str, list[str]]], translations: dict[str, str]
) -> list[bool]:
    """Return of each span with a word beside it that is translated as in the lexicon whether it
    stands beside that.
    """
    are_near = []
    for span, words in beside:
        before, _, after = (without(part) for part in output.partition(span))
        before = before.lower()
        after = after.lower()
        others = [
            translations.get(word.strip(".,!?:;()").lower(), "") for word in words
        ]
        around = re.findall(r"\w+", before), re.findall(r"\w+", after)
        stems = [
            other[:STEM]
            for other in others
            if other and any(other in side for side in around)
        ]
        near = [*around[0][-2:], *around[1][:2]]
        are_near += (
            [any(word.startswith(stem) for word in near for stem in stems)]
            if stems
            else []
        )
    return are_near


def main() -> None:
    """Print the counts, the scores and the ratios of time."""
    import regard
    from regard.data.text_augmentation import Lexicon
    from sacrebleu.metrics.chrf import CHRF

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--timed", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    translator = regard.load(options.model)
    rng = random.Random(SEED)
    rows = (
        line.split("\t")[:2]
        for line in options.pairs.read_text(encoding="utf-8").splitlines()
    )
    pairs = [(a, b) for a, b in rows if not counted(a)]
    lexicon = Lexicon(pairs)
    chosen = [pairs[n % len(pairs)] for n in range(options.lines)]
    lines, beside = zip(*(with_spans(source, rng) for source, _ in chosen), strict=True)

    def translate(texts: list[str]) -> list[str]:
        return [one.text for one in translator.translate(texts, beam=options.beam)]

    outputs = translate([*lines])
    kept = [
        counted(line) == counted(output)
        for line, output in zip(lines, outputs, strict=True)
    ]
    near = [
        is_near
        for row in zip(outputs, beside, strict=True)
        for is_near in placed(*row, lexicon.translations)
    ]
    print(f"{sum(kept):,} of {len(kept):,} lines have each span once and no other")
    for line, output, is_kept in [
        row for row in zip(lines, outputs, kept, strict=True) if not row[2]
    ][:5]:
        print(f"  {line!r} → {output!r} ({is_kept})")
    print(
        f"{sum(near) / max(1, len(near)):.1%} of {len(near):,} spans beside the translation of a "
        "word beside them"
    )
    plain = translate([source for source, _ in pairs])
    references = [[target for _, target in chosen]]
    scores = [
        CHRF().corpus_score(texts, references).score
        for texts in (
            [without(text) for text in outputs],
            [plain[n % len(pairs)] for n in range(options.lines)],
        )
    ]
    print(
        f"chrF {scores[0]:.1f} of the rest of each line, {scores[1]:.1f} of the lines without spans"
    )
    timed = (
        [*lines[: options.timed]],
        [in_words(line) for line in lines[: options.timed]],
    )
    ratios = []
    for _ in range(options.repeats):
        seconds = []
        for texts in timed:
            start = time.perf_counter()
            translate(texts)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    print(
        f"time with spans over time with words: {median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f})"
    )


def without(text: str) -> str:
    """Return a text without the spans."""
    for span in sorted(SPANS, key=len, reverse=True):
        text = text.replace(span, " ")
    return " ".join(text.split())


def in_words(text: str) -> str:
    """Return a text with a word in the place of each span."""
    for span in sorted(SPANS, key=len, reverse=True):
        text = text.replace(span, "file")
    return text


if __name__ == "__main__":
    main()
