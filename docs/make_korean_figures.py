"""Write docs/images/ko: figures of the documentation with Korean labels and the data of the English
ones; and the caption in two columns, for narrow screens, in both languages.
"""

from __future__ import annotations

import re
from pathlib import Path

from regard.visualisation.fonts import face

IMAGES = Path(__file__).parent / "images"
TEXTS: dict[str, dict[str, str]] = {
    "attention": {
        "Word alignment": "단어 정렬",
        r"Attention weights of (\d+) target words \(rows\) over (\d+) source words \(columns\)\. Strongest: (.*)": (
            r"번역문 단어 \1개(행)가 원문 단어 \2개(열)에 둔 어텐션 가중치. 가장 강한 곳: \3"
        ),
        r"layer (\d+), mean of heads": r"\1층, 헤드 평균",
        "source →": "원문 →",
        "target ↓": "번역문 ↓",
        "attention weight": "어텐션 가중치",
        r"\(end\)": "(끝)",
        r"(.*) ← end of sentence ([\d.]+)": r"\1 ← 문장의 끝 \2",
    },
    "length": {
        r"Quality by sentence length, without attention \(rnn\) and with it \(rnn-luong\)": (
            "문장 길이에 따른 품질: 어텐션이 없을 때(rnn)와 있을 때(rnn-luong)"
        ),
        r"chrF by source words: rnn from ([\d.]+) to ([\d.]+); rnn-luong from ([\d.]+) to ([\d.]+)\.": (
            r"원문 단어 수에 따른 chrF: rnn은 \1에서 \2까지, rnn-luong은 \3에서 \4까지."
        ),
        "source words": "원문 단어 수",
        r"(rnn|rnn-luong): ([\d.]+) at (\d+–\d+), ([\d.]+) to ([\d.]+)": r"\1: 단어 \3개에서 \2(\4~\5)",
    },
    "caption": {
        r"Attention of (\d+) words over an image of (\d+) rows and (\d+) columns of cells\. Largest: (.*)": (
            r"\2행 \3열의 칸으로 나눈 이미지에 대한 단어 \1개의 어텐션. 가장 강한 곳: \4"
        ),
        r"layer (\d+), head (\d+)": r"\1층, \2번 헤드",
        "no weight": "가중치 없음",
        "largest weight": "가장 큰 가중치",
        "cell with the largest weight, which is given beside the word": "가장 강한 칸. 가중치는 "
        "단어 옆에 있습니다",
    },
}
"""Patterns of the texts of each figure, and what takes their place."""
TEXT = re.compile(r"(<(?:title|desc|text)\b[^>]*>)([^<]*)(?=</)")
FACE = re.compile(r"@font-face\{[^}]*\}")


def translate(name: str, text: str) -> str:
    """Return a text of a figure in Korean; data, such as words and numbers, stay."""
    for pattern, korean in TEXTS[name].items():
        if match := re.fullmatch(pattern, text):
            return re.sub(
                r"row (\d+), column (\d+),", r"\1행 \2열", match.expand(korean)
            )
    return text


def relabel(name: str) -> str:
    """Return the SVG of a figure with Korean labels, and a font that has their letters."""
    svg = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    svg = TEXT.sub(lambda match: match[1] + translate(name, match[2]), svg)
    letters = {letter for _, text in TEXT.findall(svg) for letter in text}
    return FACE.sub(lambda _: face("".join(sorted(letters))), svg)


PANEL = re.compile(r'<g class="(?:image|word-(\d+))".*?</g>', re.DOTALL)
LEGEND = re.compile(
    r'(<g class="legend"[^>]*>.*?)(<rect class="link-line"[^>]*/>)(.*)(<text .*?</text>)\s*</g>',
    re.DOTALL,
)
EXTENT = re.compile(r'width="678" height="648" viewBox="0 0 678 648"')
PANEL_WIDTH, PANEL_HEIGHT = 164.0, 182.9  # pixels from one panel to the next
COLUMNS, NARROW_COLUMNS = 4, 2
LINE = 22.0  # pixels that the legend's second line is below its first


def narrowed(svg: str) -> str:
    """Return the caption's SVG with its panels in two columns and its legend in two lines."""

    def moved(panel: re.Match[str]) -> str:
        number = int(panel[1] or 0)
        row, column = divmod(number, COLUMNS)
        new_row, new_column = divmod(number, NARROW_COLUMNS)
        right = (new_column - column) * PANEL_WIDTH
        return shifted(panel[0], right, (new_row - row) * PANEL_HEIGHT)

    panels = len(PANEL.findall(svg))
    further = (panels / NARROW_COLUMNS - panels / COLUMNS) * PANEL_HEIGHT
    first = re.search(r'<rect class="link-line" x="([\d.]+)"[^/]*/>\s*<text', svg)
    assert first is not None, "the legend has an outline"
    left = 18 - float(first[1])
    svg = PANEL.sub(moved, svg)
    svg = LEGEND.sub(
        lambda legend: (
            shifted(f"{legend[1]}{legend[3]}</g>", 0, further)
            + shifted(f"<g>{legend[2]}{legend[4]}</g>", left, further + LINE)
        ),
        svg,
    )
    size = f"350 {648 + further + LINE:g}"
    width, height = size.split()
    svg = EXTENT.sub(f'width="{width}" height="{height}" viewBox="0 0 {size}"', svg)
    svg = svg.replace('width="678" height="648"', f'width="{width}" height="{height}"')
    return svg.replace('font-size="16"', 'font-size="12.5"')


def shifted(part: str, right: float, down: float) -> str:
    """Return a part of an SVG further to the right and further down."""
    return f'<g transform="translate({right:g} {down:g})">{part}</g>'


if __name__ == "__main__":
    (IMAGES / "ko").mkdir(exist_ok=True)
    for name in TEXTS:
        (IMAGES / "ko" / f"{name}.svg").write_text(relabel(name), encoding="utf-8")
    for folder in (IMAGES, IMAGES / "ko"):
        svg = narrowed((folder / "caption.svg").read_text(encoding="utf-8"))
        (folder / "caption-narrow.svg").write_text(svg, encoding="utf-8")
