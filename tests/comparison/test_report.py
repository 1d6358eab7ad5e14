"""The report of a comparison: every number, nothing claimed that the data do not hold, safe, small,
whatever is missing.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from helpers.text_table import rows
from sample import make_comparison, with_gains

from regard.comparison import result
from regard.comparison.report import render_report
from regard.comparison.report_commands import commands
from regard.comparison.report_numbers import number, probability
from regard.comparison.result import Comparison, RunResult, RunScore, SeedScore
from regard.visualisation.colours import SERIES

EVIL = "</script><b>&<!-- {{data}} \u2028\u202e\x00"
MAX_BYTES = 5_000_000


def data_of(document: str) -> dict[str, Any]:
    """Unpack the data of the page's script."""
    _, _, rest = document.partition('<script type="text/plain" id="data">')
    packed, _, _ = rest.partition("</script>")
    data = json.loads(zlib.decompress(base64.b64decode(packed)))

    assert isinstance(data, dict)

    return data


class Page(HTMLParser):
    """Parser that collects the elements, attributes and text of a page, and the tags that are not
    closed in order.
    """

    VOID = ("meta", "img", "input", "br", "wbr")

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.text += data


def without_parts(comparison: Comparison) -> Comparison:
    """Remove all that is not known of systems of which only outputs are known."""
    unknown: dict[str, Any] = {"cost": None, "calibration": None, "alignment": None}
    runs = tuple(replace(run, curve=(), **unknown) for run in comparison.runs)
    comparison = replace(comparison, runs=runs, breakdowns=(), examples=())
    return replace(comparison, notes=(), facts={}, budget="")


def numbers_of(run: RunResult) -> Iterator[str]:
    """Yield the texts of all that is known of a run."""
    yield from (run.name, run.origin, run.status)

    for score in run.scores:
        yield from (number(score.value), score.signature)
        if score.p is not None:
            yield probability(score.p)
        if score.low != score.high:
            yield f"{number(score.low)}–{number(score.high)}"

    if run.cost:
        assert run.cost.latency

        yield f"{run.cost.weights:,}"
        yield f"{run.cost.tokens_per_second:,.1f}"
        yield number(1000 * run.cost.latency, 1)

    for point in run.curve:
        for value in (*point.scores.values(), point.entropy):
            yield number(value, 3)

    if run.calibration:
        yield number(run.calibration.error, 4)
        for part in run.calibration.bins:
            yield from (number(part.probability, 3), number(part.right, 3))

    if run.alignment:
        yield from (number(run.alignment.aer, 3), run.alignment.choice)


@pytest.mark.parametrize("task", ["translation", "captions"])
def test_every_number_is_in_the_page(task: str) -> None:
    comparison = make_comparison(task=task, has_file=True)
    test = comparison.test
    wanted = [*comparison.facts.values(), *comparison.notes, test.digest, test.note]
    for system in comparison.systems:
        wanted += [number(mean.mean) for mean in system.scores]
    for run in comparison.runs:
        wanted += numbers_of(run)

    for part in comparison.breakdowns:
        for buckets in part.systems.values():
            for bucket in buckets:
                wanted += [bucket.label, f"{bucket.items:,}", number(bucket.value)]
                wanted.append(f"{number(bucket.low)}–{number(bucket.high)}")

    for example in comparison.examples:
        wanted += [run.outputs[example.index] for run in comparison.runs]
        wanted += [test.sources[example.index], *test.references[example.index]]

    text = Page(render_report(comparison)).text
    assert [item for item in wanted if item not in text] == []


def test_the_data_hold_each_text_once_and_all_outputs() -> None:
    comparison = make_comparison(sentences=20, has_file=True)
    data = data_of(render_report(comparison))
    texts = data["texts"]

    assert len(texts) == len(set(texts))

    for place, run in enumerate(comparison.runs):
        outputs = [texts[index] for index in data["outputs"][place]]
        assert outputs == list(run.outputs)

        scores = data["scores"][place]
        assert scores == pytest.approx(run.sentence_scores, abs=0.051)

    maps = {}
    for index, shown in data["examples"][0].items():
        maps[data["runs"][int(index)]] = shown["percent"]

    expected = {}
    for name, attention in comparison.examples[0].attention.items():
        expected[name] = [list(row) for row in attention.percent]

    assert maps == expected


@pytest.mark.parametrize("task", ["translation", "captions"])
def test_the_page_fetches_nothing_and_allows_only_its_own_script_and_style(
    task: str,
) -> None:
    document = render_report(make_comparison(task=task))
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []

    policy = ""
    for name, value in Page(document).attributes:
        text = str(value)
        assert name not in ("style", "onclick", "onload"), "the policy forbids them"
        assert name != "href" or text.startswith("#")
        assert name != "src" or text.startswith("data:image/png;base64,")

        if text.startswith("default-src"):
            policy = text

    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy

    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", document, re.DOTALL)
        digest = base64.b64encode(sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_texts_from_outside_are_escaped() -> None:
    plain = make_comparison(sentences=5, systems=1, seeds=1)
    (run,) = plain.runs
    (system,) = plain.systems
    texts = (EVIL,) * 5
    references = ((EVIL,),) * 5
    test = result.TestSet(EVIL, texts, references, EVIL, EVIL)
    named: dict[str, Any] = {"name": EVIL, "origin": EVIL, "status": EVIL}
    run = replace(run, system=EVIL, outputs=texts, **named)
    system_named = replace(system, name=EVIL, runs=(EVIL,))
    breakdowns = []
    for part in plain.breakdowns:
        breakdowns.append(replace(part, systems={EVIL: part.systems[system.name]}))

    image = f'data:image/png;base64,"><b>{EVIL}'
    examples = tuple(
        replace(item, attention={}, image=image) for item in plain.examples
    )
    evil = replace(
        plain,
        test=test,
        baseline=EVIL,
        systems=(system_named,),
        runs=(run,),
        breakdowns=tuple(breakdowns),
        examples=examples,
        budget=EVIL,
        notes=(EVIL,),
        facts={EVIL: EVIL},
    )
    document = render_report(evil)
    for part in ("<b>", "<!--", "\x00"):
        assert part not in document
    page = Page(document)

    assert not {"b", "img"} & {*page.tags}
    assert page.open == []
    assert "</script><b>&<!--" in unescape(document)
    assert data_of(document)["texts"][0].startswith("</script><b>")


def test_commands_have_the_settings_of_the_signatures_and_no_more() -> None:
    comparison = make_comparison()
    plain, paired = commands(comparison)
    assert plain == (
        "SACREBLEU_SEED=12345 sacrebleu texts/reference1.txt -i texts/RUN.txt "
        "-m bleu chrf ter --tokenize 13a --confidence --confidence-n 1000"
    )
    assert paired.endswith("--paired-bs --paired-bs-n 1000")

    (captions,) = commands(make_comparison(task="captions"))
    references = "texts/reference1.txt texts/reference2.txt"
    assert f"{references} -i texts/RUN.txt -m chrf" in captions

    for name, listed, options in rows("""
        BLEU | nrefs:1, tok:13a; rm -rf x, case:lc | bleu --lowercase
        BLEU | smooth:floor                        | bleu --smooth-method floor
        chrF | nc:5, nw:2      | chrf --chrf-char-order 5 --chrf-word-order 2
        chrF | case:lc, space:yes                  | chrf --chrf-whitespace --chrf-lowercase
        TER  | case:mixed, norm:yes                | ter --ter-case-sensitive --ter-normalized
        TER  | punct:no, asian:yes                 | ter --ter-no-punct --ter-asian-support
    """):
        settings = listed.replace(", ", "|")
        score = RunScore(name, 1.0, 0.0, 2.0, f"{settings}|version:2.6.0")
        run = replace(comparison.runs[0], scores=(score,))
        (line,) = commands(replace(comparison, runs=(run,)))

        assert line == f"sacrebleu texts/reference1.txt -i texts/RUN.txt -m {options}"


WITHOUT_PARTS = without_parts(make_comparison())
KINDS = {
    "translation": make_comparison(),
    "captions": make_comparison(task="captions", has_file=True),
    "one run": make_comparison(systems=1, seeds=1, sentences=1),
    "a file": make_comparison(systems=0, seeds=0, has_file=True),
    "without runs": replace(WITHOUT_PARTS, systems=(), runs=()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reports_of_all_kinds_are_well_formed(kind: str) -> None:
    comparison = KINDS[kind]
    document = render_report(comparison)
    page = Page(document)

    assert page.open == []
    assert "{{" not in document
    assert page.tags.count("h1") == 1

    with_caption = page.tags.count("table") - len(comparison.examples)
    assert page.tags.count("caption") == with_caption

    ids = {f"#{value}" for name, value in page.attributes if name == "id"}
    links = {value for name, value in page.attributes if name == "href"}
    assert links <= ids
    assert ("data-ko", "모든 문장") in page.attributes


def test_what_is_not_known_has_no_section_or_a_note() -> None:
    page = Page(render_report(WITHOUT_PARTS))
    names = {str(value).lstrip("#") for _, value in page.attributes}
    unknown = "breakdowns cost training calibration alignment examples"

    assert not names & {*unknown.split()}
    assert {"scores", "sentences", "methods"} <= names

    page = Page(render_report(make_comparison(has_file=True)))
    examples = 12
    without = 3  # two runs of the recurrent model without attention, and the file

    assert page.text.count("no attention to show") == examples * without
    assert "No entropy is known of: rnn-no-attention, online.txt." in page.text
    assert "Cost not known: online.txt." in page.text


def test_figures_show_as_many_systems_as_there_are_colours_and_say_so() -> None:
    document = render_report(make_comparison(systems=SERIES + 2, seeds=1))
    note = f"The figure shows the first {SERIES} systems; the tables also have ninth, tenth."
    assert note in document
    assert f"s{SERIES - 1}-line" in document
    assert f"s{SERIES}-line" not in document
    assert "The figure shows" not in render_report(
        make_comparison(systems=SERIES, seeds=1)
    )


def test_scores_that_are_no_numbers_are_dashes() -> None:
    comparison = make_comparison(systems=1, seeds=1)
    nan = float("nan")
    run = replace(comparison.runs[0], sentence_scores=(nan,) * 60)
    score = SeedScore("BLEU", nan, nan, nan, 1)
    system = replace(comparison.systems[0], scores=(score,))
    document = render_report(replace(comparison, systems=(system,), runs=(run,)))

    assert "nan" not in Page(document).text.split()
    assert data_of(document)["scores"][0][0] is None


# --- the summary


def summary_of(comparison: Comparison) -> str:
    """Return the sentences of the summary, as the page shows them before its script runs."""
    _, _, rest = render_report(comparison).partition('<p id="summary">')
    summary, _, _ = rest.partition("</p>")
    text = Page(f"<p>{summary}</p>").text.replace("\u00a0", " ")
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ([(4.05, 0.001), (4.05, 0.001)], "by 4.05 BLEU (p = 0.001 in each of 2 runs)"),
        ([(4.05, 0.2), (4.05, 0.05)], "may be chance"),
        ([(4.05, 0.001), (4.05, None)], "may be chance"),
        (
            [(4.05, None), (4.05, None)],
            "no p-value says whether that is more than chance",
        ),
        (
            [(-3.0, 0.001), (5.0, 0.001)],
            "may be chance (p < 0.05 this way in 1 of 2 runs)",
        ),
        (
            [(-0.0049, 0.0005)],
            "is less than 0.005 BLEU: too small to call either better",
        ),
        (
            [(0.006, 0.0005)],
            "rnn-attention is better than rnn-no-attention (the baseline) by",
        ),
        (
            [(-4.05, 0.01)],
            "rnn-no-attention (the baseline) is better than rnn-attention by 4.05 BLEU (p = 0.010)",
        ),
    ],
)
def test_a_system_is_called_better_if_each_of_its_runs_certainly_is(
    gains: list[tuple[float, float | None]], sentence: str
) -> None:
    comparison = make_comparison(systems=2, seeds=len(gains))
    summary = summary_of(with_gains(comparison, "rnn-attention", gains))
    assert sentence in summary

    is_better = "chance" not in sentence and "small" not in sentence
    assert ("is better than" in summary) is is_better


def test_the_summary_says_by_what_systems_differ() -> None:
    two = make_comparison(systems=2)
    summary = summary_of(two)
    for sentence in (
        "Of 2 systems, rnn-attention has the highest BLEU: 20.47 (mean of 2 runs, 95 % interval",
        "Over the seeds, rnn-attention minus the baseline is +1.25 (95 % interval −2.50 … +5.00,",
        "; other seeds may change its sign.",
        "most at 31–40: +",
        "Cost of rnn-attention relative to rnn-no-attention: 1.21 × the weights",
    ):
        assert sentence in summary

    of_one = summary_of(make_comparison(systems=1, seeds=1))
    assert "No other system was compared with it." in of_one
    assert "better" not in of_one

    by_ter = [replace(system, scores=system.scores[2:]) for system in two.systems]
    summary = summary_of(replace(two, systems=tuple(by_ter)))
    assert "rnn-attention has the lowest TER" in summary
    assert "better than rnn-no-attention (the baseline) by 9.90 TER" in summary


def test_only_what_is_certain_of_other_systems_is_called_better() -> None:
    comparison = make_comparison(systems=4, seeds=1)
    comparison = with_gains(comparison, "rnn-attention", [(4.0, 0.9)])
    comparison = with_gains(comparison, "transformer", [(8.0, 0.001)])
    comparison = with_gains(comparison, "convolutional", [(12.0, 0.3)])
    summary = summary_of(comparison)
    for sentence in (
        "The difference from rnn-no-attention (the baseline), 12.00 BLEU, may be chance "
        "(p = 0.300).",
        "Better than the baseline: transformer (+8.00, p = 0.001).",
        "No difference from the baseline that could not be chance: rnn-attention (+4.00, "
        "p = 0.900).",
    ):
        assert sentence in summary
