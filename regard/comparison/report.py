"""Self-contained HTML report of a comparison: summary, tables, figures, examples and all sentences.

The page fetches nothing: its content security policy allows only its own script and style, by their hashes. Tables and
figures are static; the script draws attention on demand and shows the table of all sentences from packed data.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from regard.comparison.report_figures import (
    IS_DRAWN,
    draw_breakdown,
    draw_costs,
    draw_curves,
    draw_entropy,
    draw_reliability,
)
from regard.comparison.report_markup import Both, both, details, number, plain, quote
from regard.comparison.report_methods import commands, methods
from regard.comparison.report_summary import summarise
from regard.comparison.report_tables import (
    alignment_table,
    bins_table,
    breakdown_table,
    calibration_table,
    cost_table,
    curve_table,
    run_table,
    score_table,
    system_table,
)
from regard.comparison.result import Breakdown, Comparison, Example
from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.fonts import STACK
from regard.visualisation.html import colour_variables, fill_template, paint_rules, palette
from regard.visualisation.text import clean

IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")
SENTENCE_SCORES = {"translation": "chrF", "captions": "CIDEr-D"}
NUMBERS: Both = ("All numbers", "모든 수치")
BREAKDOWNS: Mapping[str, tuple[Both, Both]] = {
    "length": (
        ("By length", "길이별"),
        (
            "Score by length, with 95 % intervals. Within a bucket the systems stand side by side.",
            "길이별 점수와 95 % 구간. 한 칸 안에서 시스템을 나란히 놓았습니다.",
        ),
    ),
    "frequency": (
        ("By word frequency", "단어 빈도별"),
        (
            "How well words are translated, by how often they occur in the training data, with 95 % intervals.",
            "학습 데이터에 나온 횟수에 따라 단어를 얼마나 잘 옮기는지와 95 % 구간.",
        ),
    ),
    "seen_sources": (("Sentences with words never seen in training", "학습에 없던 단어가 있는 문장"), ("", "")),
    "seen_words": (("Words never seen in training", "학습에 없던 단어"), ("", "")),
}
"""Title of each breakdown, and the caption of its figure."""


def render_report(comparison: Comparison) -> str:
    """Render the report as one HTML page."""
    sections = {
        "scores": _scores(comparison),
        "breakdowns": "".join(_breakdown(comparison, part) for part in comparison.breakdowns),
        "cost": _cost(comparison),
        "training": _training(comparison),
        "calibration": _calibration(comparison),
        "alignment": alignment_table(comparison),
        "examples": _examples(comparison),
    }
    style, script = _style(), _asset("report.js")
    parts = {
        "title": escape(_title(comparison)[0]),
        "heading": both(_title(comparison)),
        "style_hash": _digest(style),
        "script_hash": _digest(script),
        "style": style,
        "script": script,
        "about": _about(comparison),
        "summary": " ".join(both(sentence) for sentence in summarise(comparison)),
        "data": _pack(_data(comparison)),
        "facts": _facts(comparison),
        "commands": _commands(comparison),
        "methods": "".join(both(sentence, "li") for sentence in methods(comparison)),
        **sections,
    }
    return fill_template(_template([name for name, content in sections.items() if not content]), parts)


def _template(missing: Sequence[str]) -> str:
    """Return the template of the page without the sections of which nothing is known."""
    text = _asset("report.html")
    for name in missing:
        text = re.sub(rf'<a href="#{name}".*?</a>\n|<section id="{name}">.*?</section>\n', "", text, flags=re.DOTALL)
    return text


@cache
def _asset(name: str) -> str:
    return files("regard.comparison").joinpath(f"assets/{name}").read_text(encoding="utf-8")


@cache
def _style() -> str:
    parts = {"stack": STACK, "colours": colour_variables(), "paints": paint_rules()}
    return fill_template(_asset("report.css"), parts)


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


def _title(comparison: Comparison) -> Both:
    count, test = len(comparison.systems), plain(comparison.test.name)
    if count == 1:
        name = plain(comparison.systems[0].name)
        return f"{name} on {test}", f"{test}에 대한 {name}"
    return f"{count} systems compared on {test}", f"{test}에서 비교한 {count}개 시스템"


def _about(comparison: Comparison) -> str:
    """Return what was compared on what, the budget and the notes."""
    task = ("captions of images", "이미지 캡션") if _is_captions(comparison) else ("translation", "번역")
    note: Both = ("Note", "참고")
    rows: list[tuple[Both, str]] = [
        (("Task", "과제"), both(task)),
        (("Test set", "테스트 집합"), f"{quote(comparison.test.name)}: {both(_size(comparison))}"),
        (("Systems", "시스템"), ", ".join(quote(system.name) for system in comparison.systems)),
        (("Baseline", "기준"), quote(comparison.baseline)),
    ]
    rows += [(note, quote(comparison.test.note))] if comparison.test.note else []
    rows += [(("Budget", "예산"), quote(comparison.budget))] if comparison.budget else []
    rows += [(note, quote(text)) for text in comparison.notes]
    return "<dl>" + "".join(f"<dt>{both(name)}</dt><dd>{value}</dd>" for name, value in rows) + "</dl>"


def _size(comparison: Comparison) -> Both:
    """Return the number of sentences or images, and of references of each."""
    test, count = comparison.test, len(comparison.test.sources)
    items, items_korean = ("images", "이미지") if _is_captions(comparison) else ("sentences", "문장")
    numbers = sorted({len(texts) for texts in test.references})
    each = "–".join(map(str, dict.fromkeys([*numbers[:1], *numbers[-1:]])))
    references = "reference" if each == "1" else "references"
    return f"{count:,} {items}, {each} {references} each", f"{items_korean} {count:,}개, 각각 참조 {each}개"


def _is_captions(comparison: Comparison) -> bool:
    return comparison.task == "captions"


def _scores(comparison: Comparison) -> str:
    if not comparison.runs:
        return ""
    runs = details(
        ("Each run: origin, intervals, p-values, signatures", "실행별 출처, 구간, p값, 서명"),
        run_table(comparison) + score_table(comparison),
    )
    return system_table(comparison) + runs


def _breakdown(comparison: Comparison, part: Breakdown) -> str:
    """Return a breakdown: a figure with its numbers below it, or a table."""
    title, caption = BREAKDOWNS.get(part.key, ((clean(part.key),) * 2, ("", "")))
    figure = draw_breakdown(comparison, part, caption) if part.key in IS_DRAWN else ""
    numbers = breakdown_table(comparison, part)
    return both(title, "h3") + (figure + details(NUMBERS, numbers) if figure else numbers)


def _cost(comparison: Comparison) -> str:
    caption = (
        "Quality against cost: a marker for each run, on the axes that differ between systems.",
        "비용 대비 품질: 표시 하나가 실행 하나이며, 시스템마다 다른 비용만 그렸습니다.",
    )
    numbers = cost_table(comparison)
    missing = [run.name for run in comparison.runs if run.cost is None]
    return numbers + (draw_costs(comparison, caption) + _without(missing) if numbers else "")


def _without(names: list[str]) -> str:
    """Return a sentence with the runs of which something is not known."""
    listed = ", ".join(map(plain, names))
    return both((f"Cost not known: {listed}.", f"비용을 모르는 실행: {listed}."), "p") if names else ""


def _training(comparison: Comparison) -> str:
    caption = (
        "Validations during training: a line for each run, a colour and a marker for each system.",
        "학습 중 검증: 선 하나가 실행 하나이며, 시스템마다 색과 표시가 다릅니다.",
    )
    curves = draw_curves(comparison, caption)
    if not curves:
        return ""
    entropy = draw_entropy(comparison, ("Entropy of the attention to the source.", "원문에 대한 어텐션의 엔트로피."))
    heading = both(("Attention entropy", "어텐션 엔트로피"), "h3") if entropy else ""
    silent = [
        system.name
        for system in comparison.systems
        if not any(point.entropy is not None for name in system.runs for point in comparison.run(name).curve)
    ]
    listed = ", ".join(map(plain, silent))
    note = both((f"No entropy is known of: {listed}.", f"엔트로피가 없는 시스템: {listed}."), "p") if silent else ""
    return curves + heading + entropy + note + details(NUMBERS, curve_table(comparison), is_printed=False)


def _calibration(comparison: Comparison) -> str:
    caption = (
        "Reliability: if the probability says how often the prediction is right, points lie on the diagonal. Below "
        "it a model is too sure.",
        "신뢰도: 확률이 실제로 맞는 비율과 같으면 점이 대각선에 놓입니다. 대각선 아래면 모델이 지나치게 확신하는 "
        "것입니다.",
    )
    numbers = calibration_table(comparison)
    if not numbers:
        return ""
    return draw_reliability(comparison, caption) + numbers + details(NUMBERS, bins_table(comparison), is_printed=False)


# --- examples and sentences


def _examples(comparison: Comparison) -> str:
    if not comparison.examples:
        return ""
    return "".join(_example(comparison, number, example) for number, example in enumerate(comparison.examples))


def _example(comparison: Comparison, place: int, example: Example) -> str:
    """Return an example: source, references, and each output with its score and the place of its attention."""
    test, index = comparison.test, example.index
    kind = ("Image", "이미지") if _is_captions(comparison) else ("Sentence", "문장")
    spread = number(example.spread, _digits(comparison))
    title = both((f"{kind[0]} {index + 1:,} · spread {spread}", f"{kind[1]} {index + 1:,} · 차이 폭 {spread}"), "h3")
    source = quote(test.sources[index], "p")
    if IMAGE.fullmatch(example.image):
        source = f'<img src="{example.image}" alt="{escape(clean(test.sources[index]))}">' + source
    rows = [_text_row(both(("Source", "원문") if not _is_captions(comparison) else kind), "", source)]
    rows += [_text_row(both(("Reference", "참조")), "", quote(text, "p")) for text in test.references[index]]
    for row, run in enumerate(comparison.runs):
        attention = _attention(place, row) if run.name in example.attention else _NO_ATTENTION
        score = number(run.sentence_scores[index], _digits(comparison))
        rows.append(_text_row(quote(run.name), score, quote(run.outputs[index], "p") + attention))
    return f'<article class="example">{title}<table>{"".join(rows)}</table></article>\n'


_NO_ATTENTION = both(("no attention to show", "보일 어텐션 없음"), "small")


def _text_row(name: str, score: str, content: str) -> str:
    return f'<tr><th scope="row">{name}</th><td class="score">{score}</td><td class="text">{content}</td></tr>'


def _attention(place: int, run: int) -> str:
    summary = both(("Attention", "어텐션"), "summary")
    return f'<details class="attention" data-example="{place}" data-run="{run}">{summary}<div></div></details>'


def _digits(comparison: Comparison) -> int:
    return 2 if _is_captions(comparison) else 1


def _data(comparison: Comparison) -> dict[str, Any]:
    """Return what the script needs: each text once, and numbers of texts for all else."""
    texts: dict[str, int] = {}

    def store(text: str) -> int:
        return texts.setdefault(clean(text), len(texts))

    digits = _digits(comparison)
    places = {run.name: number for number, run in enumerate(comparison.runs)}
    values: dict[str, Any] = {
        "images": _is_captions(comparison),
        "score": SENTENCE_SCORES.get(comparison.task, ""),
        "digits": digits,
        "sources": [store(source) for source in comparison.test.sources],
        "references": [[store(text) for text in several] for several in comparison.test.references],
        "runs": [clean(run.name) for run in comparison.runs],
        "outputs": [[store(output) for output in run.outputs] for run in comparison.runs],
        "scores": [
            [round(score, digits) if math.isfinite(score) else None for score in run.sentence_scores]
            for run in comparison.runs
        ],
        "palette": palette(),
        "veil": [*VEIL, OPACITY],
    }
    values["examples"] = [
        {
            places[name]: {
                "source": [clean(word) for word in weights.source],
                "target": [clean(word) for word in weights.target],
                "percent": weights.percent,
                "grid": weights.grid,
            }
            for name, weights in example.attention.items()
            if name in places
        }
        for example in comparison.examples
    ]
    return {**values, "texts": list(texts)}


def _pack(values: object) -> str:
    """Return JSON, compressed and in base64: a third of its size, and no text can close the script element."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


# --- facts


def _facts(comparison: Comparison) -> str:
    facts = {**comparison.facts, "SHA-256 of the test set": comparison.test.digest}
    rows = "".join(f"<dt>{quote(name)}</dt><dd>{quote(value)}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>"


def _commands(comparison: Comparison) -> str:
    lines = commands(comparison)
    if not lines:
        return ""
    introduction = (
        "sacreBLEU computes these scores again from the texts beside this report (RUN, BASELINE: names of files "
        "there):",
        "보고서 옆의 텍스트로 sacreBLEU가 점수를 다시 계산합니다(RUN, BASELINE: 그곳의 파일 이름):",
    )
    code = "\n".join(map(escape, lines))
    return both(introduction, "p") + f'<pre class="scroll" tabindex="0"><code>{code}</code></pre>'
