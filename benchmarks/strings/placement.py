"""Measure whether spans stand beside the translation of their word, beside proportional placement.

    python benchmarks/strings/placement.py MODEL --target de|ko

A placeholder stands before a noun whose translation is known, or a tag encloses the noun. It is
right if the placeholder stands directly before or after the translated noun, or if the tag encloses
it and at most one word more. Strings whose translation lacks the noun are left out. The baseline
translates the text without the span, and puts it where its share of the words is the same.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from typing import NamedTuple

import regard

NOUNS = {
    "de": "ball=Ball|dog=Hund|guitar=Gitarre|bike=Fahrrad|hat=Hut|book=Buch|bench=Bank|car=Auto|"
    "horse=Pferd|tree=Baum|camera=Kamera|table=Tisch",
    "ko": "file=파일|window=창|tab=탭|page=페이지|bookmark=북마크|folder=폴더|button=버튼|"
    "image=이미지|address=주소|list=목록|message=메시지|menu=메뉴",
}
FRAMES = {
    "de": [
        "A man is standing beside a @ .",
        "A woman with a @ is smiling.",
        "Two boys are looking at a @ in the park.",
        "A girl is sitting near the @ and laughing.",
        "An old man is holding his @ on the street.",
    ],
    "ko": [
        "Open the @ in private mode",
        "Could not save the @.",
        "Do you want to close the @ now?",
        "Remove the @ from your computer",
        "The @ was not found on this server.",
    ],
}
FORMS = {"placeholder": "{name} %s", "tag": "<b>%s</b>"}


class Case(NamedTuple):
    """A string, its text without the span, its form, the place of the noun, and its translation."""

    text: str
    plain: str
    form: str
    share: float
    noun: str


def cases(target: str) -> list[Case]:
    """Return the strings of a target language."""
    made = list[Case]()
    for pair in NOUNS[target].split("|"):
        noun, translated = pair.split("=")
        for frame in FRAMES[target]:
            words = frame.split()
            share = next(i for i, word in enumerate(words) if "@" in word) / len(words)
            plain = frame.replace("@", noun).replace(" .", ".")
            for form, pattern in FORMS.items():
                text = frame.replace("@", pattern % noun).replace(" .", ".")
                made.append(Case(text, plain, form, share, translated))
    return made


def proportional(case: Case, translation: str) -> str:
    """Put the span of a string into the translation of its text."""
    words = translation.split()
    at = min(round(case.share * len(words)), len(words) - 1)
    words[at] = FORMS[case.form] % words[at]
    return " ".join(words)


def is_right(case: Case, translation: str) -> bool | None:
    """Return whether the span stands beside its noun; None if there is no noun."""
    noun = case.noun
    if not re.search(noun, translation, re.IGNORECASE):
        return None
    if case.form == "tag":
        enclosed = re.search(r"<b>(.*)</b>", translation)
        inner = enclosed[1] if enclosed else ""
        return noun.lower() in inner.lower() and len(inner.split()) <= 2
    words = re.sub(r"(\{name\})", r" \1 ", translation).split()
    at = words.index("{name}") if "{name}" in words else -9
    beside = [words[i] for i in (at - 1, at + 1) if 0 <= i < len(words)]
    return any(noun.lower() in word.lower() for word in beside)


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--target", choices=sorted(NOUNS), required=True)
    parser.add_argument("--show", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = regard.load(options.model)
    made = cases(options.target)
    outputs = model.translate([case.text for case in made])
    plain = model.translate([case.plain for case in made])
    right, baseline, counted = Counter[str](), Counter[str](), Counter[str]()
    for case, output, other in zip(made, outputs, plain, strict=True):
        verdict = None if output.broken else is_right(case, output.text)
        other_verdict = is_right(case, proportional(case, other.text))
        if verdict is None or other_verdict is None:
            continue
        counted[case.form] += 1
        right[case.form] += verdict
        baseline[case.form] += other_verdict
        if not verdict and options.show:
            print(f"  {case.text} → {output.text}")
    print(
        "| form | strings with the noun | beside it | proportional |\n|---|---|---|---|"
    )
    for form, count in counted.items():
        shares = [f"{names[form] / count:.1%}" for names in (right, baseline)]
        print(f"| {form} | {count} of {len(made) // 2} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
