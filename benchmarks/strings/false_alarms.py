"""Judge the references of parallel corpora: each alarm is a fault of the reference, or a false one.

    python benchmarks/strings/false_alarms.py PAIRS.tsv.gz … [--dialect plain] [--show]

Each line of a file has a source, a tab and its reference. Printed are pairs, those with an alarm,
the faults by kind, and milliseconds of processor time a pair; `--show` prints the pairs with an
alarm.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections import Counter
from pathlib import Path

from regard.contracts.judge import judge


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--dialect", default="plain")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    print("| file | pairs | with an alarm | kinds | ms a pair |\n|---|---|---|---|---|")
    for file in options.files:
        open_text = gzip.open if file.suffix == ".gz" else open
        with open_text(file, "rt", encoding="utf-8") as lines:
            pairs = [line.rstrip("\n").split("\t") for line in lines]
        kinds = Counter[str]()
        alarms = 0
        start = time.process_time()
        for source, target in pairs:
            faults = judge(source, target, options.dialect)
            kinds.update({fault.kind for fault in faults})
            alarms += bool(faults)
            if faults and options.show:
                print(f"{source}\n{target}\n    {faults}\n")
        milliseconds = 1000 * (time.process_time() - start) / len(pairs)
        listed = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        share = f"{alarms} ({alarms / len(pairs):.2%})"
        print(
            f"| {file.name} | {len(pairs)} | {share} | {listed} | {milliseconds:.2f} |"
        )


if __name__ == "__main__":
    main()
