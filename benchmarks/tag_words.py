"""Measure whether the tags of a word come back round its translation.

    pip install eflomal
    python benchmarks/tag_words.py MODEL TRAIN_SOURCE TRAIN_TARGET SOURCE [--half 2]

Each word of SOURCE whose translation is known is put into `<b>`, one at a time. It is known if both
directions of eflomal, which knows nothing of attention, link it to the same words of the output, no
other word is linked to these, and they are its translation in 15 % of its training pairs or more.
Printed are the shares of words whose element holds exactly these words, these and more, none at
all, and others. Half 1 of the lines is for choosing rules, half 2 for measuring.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import eflomal
import regard
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import parse_markup
from regard.text.markup.tagged_sentence import split_word

STEM = 4
LEAST_PAIRS = 5
LEAST_SHARE = 0.15
Links = list[tuple[int, int]]


def stems(line: str) -> list[str]:
    """Return the first letters of the words of a line, without punctuation."""
    cores = (split_word(word)[1] or word or "_" for word in line.split(" "))
    return [re.sub(r"\s", "_", core.lower())[:STEM] for core in cores]


def link(pairs: Sequence[tuple[list[str], list[str]]]) -> tuple[list[Links], ...]:
    """Return the links of both directions of eflomal."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/forward", f"{folder}/reverse"]
        eflomal.Aligner().align(
            [" ".join(source) for source, _ in pairs],
            [" ".join(target) for _, target in pairs],
            links_filename_fwd=names[0],
            links_filename_rev=names[1],
            quiet=True,
        )
        texts = [Path(name).read_text(encoding="utf-8") for name in names]
    return tuple(
        [[read_link(item) for item in line.split()] for line in text.splitlines()]
        for text in texts
    )


def read_link(item: str) -> tuple[int, int]:
    """Return a link that is written as 3-4."""
    source, _, target = item.partition("-")
    return int(source), int(target)


def known(forward: Links, reverse: Links) -> Iterator[tuple[int, list[int]]]:
    """Yield the words that both directions link to the same run, which is of no other word."""
    either = {*forward, *reverse}
    for word in {source for source, _ in either}:
        targets = {target for source, target in forward if source == word}
        other = any(source != word and target in targets for source, target in either)
        same = targets == {target for source, target in reverse if source == word}
        if same and not other and max(targets) - min(targets) < len(targets):
            yield word, sorted(targets)


def verdict(
    source: str, word: int, output: str, links: Links, wanted: list[int]
) -> str:
    """Return where the element of a word came to stand; empty if it cannot be judged."""
    words = source.split(" ")
    lead, core, trail = split_word(words[word])
    words[word] = f"{lead}<b>{core}</b>{trail}"
    document = parse_markup(" ".join(words))
    if len(document.sentences) != 1:
        return ""
    markup = document.render([AlignedLine(output, links)])
    start, end = markup.index("<b>"), markup.index("</b>") - len("<b>")
    held = list[int]()
    position = 0
    for number, target in enumerate(output.split(" ")):
        before, inner, _ = split_word(target)
        first = position + len(before)
        if inner and first < end and first + len(inner) > start:
            held.append(number)
        position += len(target) + 1
    if held == wanted:
        return "exactly"
    if not held:
        return "empty"
    return "and more" if {*wanted} <= {*held} else "others"


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "train_source", "train_target", "source"):
        parser.add_argument(name)
    parser.add_argument("--half", type=int, default=2, choices=(1, 2))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sides = [
        [stems(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]
        for name in (options.train_source, options.train_target)
    ]
    lines = Path(options.source).read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not re.search(r"[%&<>\[\]{}]|  ", line)]
    outputs = regard.load(options.model).translate(lines, alignments=True)
    pairs = [*zip(*sides, strict=True)]
    written = [
        (stems(line), stems(output.text))
        for line, output in zip(lines, outputs, strict=True)
    ]
    forward, reverse = link([*pairs, *written])
    counts = Counter[str]()
    both = Counter[tuple[str, str]]()
    for (source, target), one, other in zip(pairs, forward, reverse, strict=False):
        counts.update(source)
        both.update((source[s], target[t]) for s, t in {*one} & {*other})

    half = len(lines) // 2
    rows = range(half) if options.half == 1 else range(half, len(lines))
    verdicts = Counter[str]()
    for row in rows:
        output = outputs[row]
        source, target = written[row]
        for word, wanted in known(forward[len(pairs) + row], reverse[len(pairs) + row]):
            stem = source[word]
            least = max(LEAST_PAIRS, LEAST_SHARE * counts[stem])
            is_word = re.search(r"[^\W\d_]{3}", stem)
            if is_word and all(both[stem, target[one]] >= least for one in wanted):
                links = list(output.alignments or ())
                verdicts[verdict(lines[row], word, output.text, links, wanted)] += 1
    report(verdicts)


def report(verdicts: Mapping[str, int]) -> None:
    """Print the share of each verdict."""
    judged = {name: count for name, count in verdicts.items() if name}
    total = sum(judged.values())
    print(f"{total} words")
    for name in ("exactly", "and more", "empty", "others"):
        print(f"{name}: {judged.get(name, 0) / total:.1%}")


if __name__ == "__main__":
    main()
