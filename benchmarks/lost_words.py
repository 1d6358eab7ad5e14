"""List the source words that translations probably leave out, for a reader to judge.

    python benchmarks/lost_words.py MODEL SOURCE [--lines 250]

A word is named as on pages: no word of the translation attends to it, and the translation is the
same without it. Each is printed with its line, the translation and its quality; at the end, how
many lines have one.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import regard
from regard.common.errors import LineWarning
from regard.explain.unread_words import unread_words
from regard.pipeline import FolderTranslator, last_layer


def main() -> None:
    """Print the words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--lines", type=int, default=250)
    options = parser.parse_args()
    warnings.simplefilter("ignore", LineWarning)
    translator = regard.load(options.model)
    if not isinstance(translator, FolderTranslator):
        raise SystemExit("a run folder is wanted")
    lines = options.source.read_text(encoding="utf-8").splitlines()[: options.lines]
    words_of_lines = 0
    for line, translation in zip(
        lines, translator.translate(lines, readings=True), strict=True
    ):
        if translation.readings is None:
            continue
        choice = translator.choice or last_layer(translation.readings)
        unread = unread_words(translator, line, translation, choice)
        words_of_lines += bool(unread)
        for index in unread:
            quality = translation.quality
            told = "unknown" if quality is None else f"{quality:.2f}"
            print(line.split()[index], line, translation.text, told, sep="\t")
    print(
        f"{words_of_lines:,} of {len(lines):,} lines have a word that is probably lost"
    )


if __name__ == "__main__":
    main()
