"""Lines for the law over interfaces: sentences that its model knows, and all that stands in lines
beside sentences.

The model translates Korean, and English into itself, so that its sources have capitals and titles
too.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Sequence
from itertools import cycle, islice

from laws.interface_model import sample
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.learn.samples import AlignedPair
from tests.data.script_lines import TWO_CLAUSES, TWO_SENTENCES
from tests.data.test_spans import SPANS

INVISIBLE = "\u200b\u00ad\ufeff\u2060\u200e\u200d\u00a0\u3000\u2009\t\x01\x7f"
BREAKS = "\u2028\u2029\x85\x0b\x0c\x1c"
"""Characters that some programs end a line at; lines of Regard end at a line feed alone."""
NO_LETTERS = ("…", "---", "12 34", "«»", "😀", "3 < 5", "%s", "→ ©", "1.2.3.")
OTHER_LETTERS = (
    "Ｉ ｇｏ ｈｏｍｅ",
    "ﬁnd a cup",
    "𝐈 go home",
    "나는 ㎏ 집에 간다",
    "ⅳ 나는",
)
TAGGED = (
    "{0} <br/> {1}",
    "{0} &amp; {1}",
    "a < b {0}",
    '<a href="x">{0}</a> {1}',
)
FRAMES = (
    "{0} {span}",
    "{0}({span})",
    "“{span}” {0}",
    "{first} {span} {rest}",
    "{0}: {span}.",
)


class Material:
    """Sentences, and the draws that make lines of them."""

    def __init__(self, pairs: Sequence[AlignedPair], seed: int) -> None:
        self.pairs = pairs
        self.draw = random.Random(seed)
        self.scripts = cycle([*TWO_SENTENCES.values(), *TWO_CLAUSES.values()])

    def korean(self) -> str:
        """Return a Korean sentence."""
        return self.draw.choice(self.pairs).source

    def english(self) -> str:
        """Return an English sentence."""
        return self.draw.choice(self.pairs).target

    def either(self) -> str:
        """Return a sentence."""
        return self.korean() if self.draw.random() < 0.6 else self.english()

    def ended(self) -> str:
        """Return a sentence with a full stop."""
        return self.either().rstrip(".?!") + "."

    def span(self) -> str:
        """Return a span that is not language, of any kind."""
        return self.draw.choice(SPANS[self.draw.choice(list(SPANS))])

    def around(self, span: str) -> str:
        """Return a sentence with a span in it, or beside it."""
        sentence = self.either()
        first, _, rest = sentence.partition(" ")
        return self.draw.choice(FRAMES).format(
            sentence, span=span, first=first, rest=rest
        )

    def with_spans(self, count: int) -> str:
        """Return sentences with so many spans."""
        parts = [self.span() for _ in range(count)] + [
            self.ended() for _ in range(1 + count // 4)
        ]
        self.draw.shuffle(parts)
        return " ".join(parts)

    def label(self) -> str:
        """Return the label of a control, with its mnemonic."""
        words = self.english().rstrip(".?!").split(" ")[-3:]
        at = self.draw.randrange(len(words))
        letter = self.draw.randrange(len(words[at]))
        mark = self.draw.choice("&_~")
        words[at] = words[at][:letter] + mark + words[at][letter:]
        korean = f"{self.korean().rstrip('.?!').split(' ')[-1]}({mark}{words[0].strip('&_~')[0].upper()})"
        label = self.draw.choice(
            [" ".join(words), " ".join(words).capitalize(), korean]
        )
        return label + self.draw.choice(["", "", "…", ":"])

    def with_inserted(self, characters: str) -> str:
        """Return a sentence with some characters in it."""
        letters = list(self.either())

        for _ in range(self.draw.randint(1, 3)):
            letters.insert(
                self.draw.randint(0, len(letters)), self.draw.choice(characters)
            )

        return "".join(letters)

    def of_a_script(self) -> str:
        """Return two sentences of the next script, or one."""
        both = "".join(next(self.scripts))
        return self.draw.choice(
            [both, both, both[: len(both) // 2], f"{self.korean()} {both}"]
        )

    def very_long(self) -> str:
        """Return a line of many sentences, a sentence longer than any of training, or one word
        without an end.
        """
        many = " ".join(self.ended() for _ in range(self.draw.randint(15, 40)))
        words = " ".join(self.either().rstrip(".?!") for _ in range(15))
        return self.draw.choice(
            [
                many,
                words,
                "가" * 300,
                words.replace(" ", "")[:400],
                f"{many} {self.span()}",
            ]
        )

    def shuffled(self) -> str:
        """Return the words of two sentences in any order, which is unlike the text of training."""
        words = f"{self.korean()} {self.either()}".split(" ")
        self.draw.shuffle(words)
        return " ".join(words)

    def private(self) -> str:
        """Return a sentence with characters that stand for spans within a model, or other private
        ones.
        """
        return self.around(
            self.draw.choice(
                [
                    COPY_CHARACTERS[0],
                    COPY_CHARACTERS[5:7],
                    "\ue000",
                    "\U00100000",
                ]
            )
        )


MAKERS: dict[str, Callable[[Material], str]] = {
    "plain": Material.korean,
    "English": Material.english,
    "sentences": lambda m: " ".join(m.ended() for _ in range(m.draw.randint(2, 4))),
    "glued sentences": lambda m: f"{m.ended()}{m.ended()}",
    **{
        f"span: {kind}": (lambda m, kind=kind: m.around(m.draw.choice(SPANS[kind])))
        for kind in SPANS
    },
    "some spans": lambda m: m.with_spans(m.draw.randint(3, 6)),
    "many spans": lambda m: m.with_spans(m.draw.randint(20, 30)),
    "spans alone": lambda m: " ".join(m.span() for _ in range(m.draw.randint(1, 3))),
    "label": Material.label,
    "capitals": lambda m: m.english().upper(),
    "title": lambda m: m.english().title(),
    "decomposed": lambda m: unicodedata.normalize("NFD", m.korean()),
    "accents": lambda m: unicodedata.normalize(
        m.draw.choice(["NFC", "NFD"]), f"{m.english()} café naïve Ångström."
    ),
    "invisible": lambda m: m.with_inserted(INVISIBLE),
    "breaks": lambda m: m.with_inserted(BREAKS),
    "carriage return": lambda m: f"{m.ended()}\r{m.ended()}",
    "spaces": lambda m: f"  {m.either().replace(' ', '   ')} ",
    "script": Material.of_a_script,
    "empty": lambda m: m.draw.choice(["", " ", "\t", "\u3000", "\u200b", "\u00a0 "]),
    "letterless": lambda m: m.draw.choice(NO_LETTERS),
    "very long": Material.very_long,
    "other letters": lambda m: m.draw.choice(OTHER_LETTERS),
    "quoted": lambda m: m.draw.choice(
        ["“{}” {}", "({}) {}", "{} – {}", "'{}', {}"]
    ).format(m.ended(), m.either()),
    "tagged": lambda m: m.draw.choice(TAGGED).format(m.either(), m.either()),
    "language code": lambda m: f"<2en> {m.either()}",
    "shuffled": Material.shuffled,
    "private": Material.private,
}
"""What makes a line of each kind."""


def interface_lines(count: int = 2000, seed: int = 1) -> list[tuple[str, str]]:
    """Return lines with their kinds, which take turns."""
    material = Material(sample().splits["test"], seed)
    return [(kind, MAKERS[kind](material)) for kind in islice(cycle(MAKERS), count)]
