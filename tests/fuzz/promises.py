"""Ordinary input of kinds that were lost in silence, each judged by what the documentation promises
of it.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.cases import Case, kind
from fuzz.inputs import CALLS, FEW, PROSE, SMALL
from fuzz.material import Material, sets

from regard.model_folder import load_settings, write_settings

GREEDY = ["--beam=1", *FEW]
CAPITALS = {
    "tr": ["IŞIKLARI KAPAT", "KAPIYI KİLİTLE", "İPTAL", "DIŞARI ÇIK"],
    "az": ["İŞIĞI SÖNDÜR", "QAPINI BAĞLA"],
    "el": ["ΑΚΥΡΩΣΗ ΤΩΡΑ", "ΑΠΟΘΗΚΕΥΣΗ ΕΙΚΟΝΑΣ", "ΌΧΙ"],
    "lt": ["IŠJUNGTI ŠVIESĄ", "ĮRAŠYTI"],
    "nl": ["IJSLAND BEKIJKEN", "BIJWERKEN"],
    "de": ["STRASSE SCHLIEẞEN", "GRÖSSE"],
    "hy": ["ԵՎ ՓԱԿԵԼ"],
}
"""Labels in capitals by language, among them those that lower case and upper case of English
spoil.
"""
SENTENCES = {
    "km": ("ខ្ញុំទៅផ្ទះ។", "គាត់កំពុងគេង។"),
    "bo": ("ང་ནང་ལ་འགྲོ།", "ཁོ་འདིར་སྡོད།"),
    "my": ("ငါ အိမ်ပြန်တယ်။", "သူ အိပ်တယ်။"),
    "hi": ("मैं घर जाता हूँ।", "वह सो रही है।"),
    "bn": ("আমি বাড়ি যাই।", "সে ঘুমায়।"),
    "el": ("Εγώ πάω σπίτι;", "Αυτός κοιμάται."),
    "ar": ("أنا أذهب إلى البيت؟", "هو نائم."),
    "ur": ("میں گھر جاتا ہوں۔", "وہ سو رہا ہے۔"),
    "hy": ("Ես տուն եմ գնում։", "Նա քնած է։"),
    "am": ("ወደ ቤት እሄዳለሁ።", "እሱ ተኝቷል።"),
    "zh": ("我回家。", "他在睡觉。"),
    "ko": ("나는 빵을 먹고 있었다.", "그는 왔다."),
}
"""Two sentences of each script, with its own stops; all but Arabic, Greek and Korean are written
without a space, too.
"""
SPACED = ("ar", "el", "ko")
UNMARKED = {"th": ("ฉันกลับบ้าน", "เขากำลังนอนหลับ"), "lo": ("ຂ້ອຍກັບບ້ານ", "ລາວກຳລັງນອນ")}
"""Two sentences of scripts without stops, which a space parts."""
KNOWN = [
    "kor",
    "ko-KR",
    "KO",
    "ko_KR",
    "eng",
    "en-US",
    "en_GB",
    "EN",
    "zh-CN",
    "zh-Hant",
    "iw",
    "fil",
    "nb",
    "sr-Latn",
    "pt-BR",
    "english",
    "한국어",
]
UNKNOWN = ["jp", "cn", "gr", "zz", "xx-YY", "e", "ko-", "--", "12"]
BREAKS = ["<br>", "<br/>", "<br />", "<BR>", "<br clear='all'>"]
ESCAPED = [
    "&lt;b&gt;",
    "&amp;nbsp;",
    "&amp;amp;",
    "&lt;script&gt;",
    "&lt;br/&gt;",
    "&amp;lt;",
]
ODD_SPACES = ["\u00a0", "\u202f", "\u2009", " \u200b ", "\u200b", "\u3000", " \u2060 "]


def _unspaced(text: str) -> str:
    return "".join(text.split())


def _lines(out: bytes) -> list[str]:
    return out.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _with(
    folder: Path, material: Material, languages: tuple[str, str] = ("", "")
) -> None:
    """Copy the translator, whose languages become these if any are given."""
    material.copy(folder, "translator")
    run = folder / "translator"
    if any(languages):
        named = {"source": languages[0], "target": languages[1]}
        write_settings(run, load_settings(run).with_values(languages=named))


def _translation(
    name: str, lines: Sequence[str], material: Material, *options: str, **rest: object
) -> Case:
    """Return the case of translating lines greedily; `rest`: of the case, and `languages` of the
    model.
    """
    languages = rest.pop("languages", ("", ""))
    prepare = functools.partial(_with, material=material, languages=languages)
    arguments = ["translate", "translator", *options, *GREEDY]
    return Case(
        f"{name}: {lines[-1][:40]!r}",
        arguments,
        prepare,
        "\n".join(lines).encode(),
        **rest,
    )  # type: ignore[arg-type]


def _is_cased(out: bytes, count: int) -> bool:
    """Return whether no dot of a Turkish letter was left over, and no letter in capitals has an
    accent of Greek.
    """
    lines = _lines(out)
    capitals = unicodedata.normalize(
        "NFD", "".join(line for line in lines if line.isupper())
    )
    greek = any(
        "\u0370" <= a <= "\u03ff" and b == "\u0301"
        for a, b in itertools.pairwise(capitals)
    )
    return len(lines) == count and "i\u0307" not in "".join(lines) and not greek


@kind(share=3)
def lines_in_capitals(chance: random.Random, material: Material) -> Case:
    """Translate labels in capitals by a model of their language, with text that it knows."""
    language = chance.choice(list(CAPITALS))
    labels = CAPITALS[language]
    count = chance.randrange(1, len(labels) + 1)
    lines = [PROSE[0], *chance.sample(labels, count)]
    languages = chance.choice(
        ((language, "en"), ("ko", language), (language, "el"), (language, "tr"))
    )
    is_right = functools.partial(_is_cased, count=len(lines))
    return _translation(
        f"capitals {languages}", lines, material, languages=languages, is_right=is_right
    )


def _are_parts(out: bytes, between: str, known: int) -> bool:
    """Return whether the last line is the two lines before it, one after the other, `between`
    them.
    """
    lines = _lines(out)[known:]
    if len(lines) != 3:
        return False
    first, second, both = lines
    return _unspaced(both) == _unspaced(first + between + second)


@kind(share=4)
def sentences_of_scripts(chance: random.Random, material: Material) -> Case:
    """Translate two sentences of a script in one line: each as it is translated in a line of its
    own, or it is said.
    """
    script = chance.choice([*SENTENCES, *UNMARKED])
    first, second = (SENTENCES | UNMARKED)[script]
    space = " " if script in SPACED or script in UNMARKED else chance.choice(("", " "))
    are_parts = functools.partial(_are_parts, between="", known=1)
    # Only some ends may be missed.
    judge = {"is_right" if space and script in SENTENCES else "is_kept": are_parts}
    lines = [PROSE[0], first, second, first + space + second]
    return _translation(
        f"sentences of {script}", lines, material, "--split=on", **judge
    )


@kind(share=2)
def breaks_in_lines(chance: random.Random, material: Material) -> Case:
    """Translate a line with a break of HTML: each side as it is in a line of its own, or it is
    said.
    """
    tag = chance.choice(BREAKS)
    first, second = chance.sample(PROSE[:3], 2)
    space = chance.choice(("", " "))
    is_kept = functools.partial(_are_parts, between=tag, known=0)
    return _translation(
        "break",
        [first, second, f"{first}{space}{tag}{space}{second}"],
        material,
        is_kept=is_kept,
    )


@kind(share=2)
def escaped_marks(chance: random.Random, material: Material) -> Case:
    """Translate a page that writes of marks: each is there once, escaped as it was, or it is
    said.
    """
    marks = chance.sample(ESCAPED, chance.choice((1, 2)))
    words = PROSE[0].split()
    page = "".join(
        f"<p>{words[0]} {mark} {' '.join(words[1:])}.</p>\n" for mark in marks
    )

    def is_kept(out: bytes) -> bool:
        text = out.decode("utf-8", "replace")
        return all(text.count(mark) == 1 for mark in marks)

    return _translation(
        "escaped marks", [page], material, "--input=html", is_kept=is_kept
    )


@kind(share=2)
def decomposed_text(chance: random.Random, material: Material) -> Case:
    """Keep a word by --keep, word and line each composed or not: it is there once, or it is
    said.
    """
    word, line = chance.choice(
        (("빵을", PROSE[0]), ("사과를", PROSE[1]), ("café", "나는 café 에 간다"))
    )
    pattern = unicodedata.normalize(chance.choice(("NFC", "NFD")), word)
    line = unicodedata.normalize(chance.choice(("NFC", "NFD")), line)

    def is_kept(out: bytes) -> bool:
        return (
            unicodedata.normalize("NFC", out.decode("utf-8", "replace")).count(word)
            == 1
        )

    return _translation(
        "decomposed", [line], material, f"--keep={pattern}", is_kept=is_kept
    )


def _are_links_of(out: bytes, source: list[str], target: list[str]) -> bool:
    """Return whether there is a line of links for each pair, of words that single spaces part."""
    lines = _lines(out)
    if len(lines) != len(source):
        return False
    for line, first, second in zip(lines, source, target, strict=True):
        for link in line.split():
            word, other = map(int, link.split("-"))
            if word >= len(first.split(" ")) or other >= len(second.split(" ")):
                return False
    return True


@kind(share=3)
def links_of_odd_spaces(chance: random.Random, material: Material) -> Case:
    """Align lines with spaces that part no words of the file, and such that do: by its words, or it
    is said.
    """
    source = ["나는 빵을 먹고 있었다"]
    target = ["I was eating bread"]
    words = ["나는", "사과를", "3", "개를", "샀다"]
    for _ in range(3):
        space = chance.choice(ODD_SPACES)
        chance.shuffle(words)
        source.append(space.join(words))
        target.append(f"I bought 3{space}apples")

    def prepare(folder: Path) -> None:
        _with(folder, material)
        (folder / "a").write_text("\n".join(source), "utf-8")
        (folder / "b").write_text("\n".join(target), "utf-8")

    is_kept = functools.partial(_are_links_of, source=source, target=target)
    arguments = ["align", "translator", "--source=a", "--target=b", "--threads=1"]
    return Case(f"links {source[1][:30]!r}", arguments, prepare, is_kept=is_kept)


@kind(share=2)
def marks_in_prose(chance: random.Random, material: Material) -> Case:
    """Translate prose with & or _ before a capital, which is no label's: no mark is put behind the
    translation.
    """
    mark = chance.choice("&_")
    words = " ".join(chance.choices(PROSE[:3], k=2)).split()
    name = chance.choice(("Mary", "Count", "Open"))
    words.insert(chance.randrange(2, len(words)), f"{mark}{name}")
    line = " ".join(words)
    is_right = lambda out: f"({mark}" not in out.decode("utf-8", "replace")  # noqa: E731
    return _translation("mark in prose", [line], material, is_right=is_right)


@kind(share=2)
def bad_patterns_to_keep(chance: random.Random, material: Material) -> Case:
    """Name a file of patterns that is missing, a folder, a pipe, or no text: it is refused, or
    said.
    """
    made: dict[str, Callable[[Path], object]] = {
        "missing.txt": lambda _: None,
        "patterns/missing.txt": lambda _: None,
        "folder.txt": Path.mkdir,
        "pipe.txt": os.mkfifo,
        "bytes.txt": lambda path: path.write_bytes(b"\xff\xfe\x00a"),
        "pattern.txt": lambda path: path.write_text("(\n"),
    }
    name = chance.choice(list(made))

    def prepare(folder: Path) -> None:
        _with(folder, material)
        made[name](folder / name)

    arguments = ["translate", "translator", f"--keep={name}", *GREEDY]
    return Case(
        f"--keep {name}", arguments, prepare, PROSE[0].encode(), is_kept=lambda _: False
    )


@kind(share=3)
def codes_of_languages(chance: random.Random, material: Material) -> Case:
    """Give training or an export codes of languages: an alias is known, and a code that is none
    refused, or said.
    """
    is_known = chance.random() < 0.5
    code = chance.choice(KNOWN if is_known else UNKNOWN)
    codes = f"--languages={chance.choice((f'xho,{code}', f'{code},xho'))}"
    train = [
        "train",
        *CALLS["train"],
        "--threads=1",
        *sets("tokenizer.size=600", *SMALL),
    ]
    export = ["export", "translator", "out.regard", "--to=runtime"]
    arguments = [*chance.choice((train, export)), codes]
    prepare = functools.partial(_with, material=material)
    name = f"{arguments[0]} {codes}"
    return Case(name, arguments, prepare, is_known=is_known, is_kept=lambda _: is_known)
