"""Count the documents that are said to be in another language than a model reads; prints a row for
each file.

    python benchmarks/language_notes.py MODEL FILE... [--lines 20] [--step 5]

A document is so many lines of a file in a row; the next one begins so many lines later.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from regard.data.text import read_lines
from regard.model_folder import folder_languages, load_language_id
from regard.text.language_note import language_note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--step", type=int, default=5)
    arguments = parser.parse_args()
    source = folder_languages(arguments.model).source
    language_id = load_language_id(arguments.model)
    for file in arguments.files:
        lines = read_lines(file)
        starts = range(0, len(lines) - arguments.lines + 1, arguments.step)
        documents = [lines[start : start + arguments.lines] for start in starts]
        warned = sum(
            bool(language_note(document, source, lambda: language_id))
            for document in documents
        )
        print(f"{file}\t{len(documents)}\t{warned}")


if __name__ == "__main__":
    main()
