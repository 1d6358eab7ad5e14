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
from sample import make_comparison, summarised, with_gains

from regard.comparison import result
from regard.comparison.report import render_report
from regard.comparison.report_commands import commands
from regard.comparison.report_numbers import number, probability, signed
from regard.comparison.result import (
    MIN_ITEMS,
    Comparison,
    Cost,
    Lead,
    RunResult,
    RunScore,
    SeedScore,
)
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


def costs_of(cost: Cost) -> Iterator[str]:
    """Yield the texts of the cost of a run."""
    assert cost.latency

    yield f"{cost.weights:,}"
    yield f"{cost.tokens_per_second:,.1f}"
    yield number(1000 * cost.latency, 1)
    ends = min(cost.speeds), max(cost.speeds)
    yield " to ".join(number(end, 1) for end in ends)


def numbers_of(run: RunResult) -> Iterator[str]:
    """Yield the texts of all that is known of a run."""
    yield from (run.name, run.origin, run.status, number(run.mean_length, 1))
    yield number(run.tested_update, 0)
    yield from (f"{n} {kind}" for kind, n in (run.warned or {}).items())

    for score in run.scores:
        yield from (number(score.value), score.signature)
        if score.lead is not None:
            yield from (probability(score.lead.p), signed(score.lead.value))
            yield f"{number(score.lead.low)} to {number(score.lead.high)}"
        if score.low != score.high:
            yield f"{number(score.low)} to {number(score.high)}"

    if run.cost:
        yield from costs_of(run.cost)

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
                wanted.append(f"{number(bucket.low)} to {number(bucket.high)}")

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
    changed = replace(
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
    document = render_report(summarised(changed))
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
        "-m bleu chrf ter --tokenize 13a --confidence --confidence-n 1000 --format text"
    )
    assert paired.endswith("--paired-bs --paired-bs-n 1000 --format text")

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

        assert line == (
            f"sacrebleu texts/reference1.txt -i texts/RUN.txt -m {options} --format text"
        )


WITHOUT_PARTS = summarised(without_parts(make_comparison()))
KINDS = {
    "translation": make_comparison(),
    "captions": make_comparison(task="captions", has_file=True),
    "one run": make_comparison(systems=1, seeds=1, sentences=1),
    "a file": make_comparison(systems=0, seeds=0, has_file=True),
    "without runs": summarised(replace(WITHOUT_PARTS, systems=(), runs=())),
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
    changed = replace(comparison, systems=(system,), runs=(run,))
    document = render_report(summarised(changed))

    assert "nan" not in Page(document).text.split()
    assert data_of(document)["scores"][0][0] is None


# --- the summary


def summary_of(comparison: Comparison) -> str:
    """Return the sentences of the summary, as the page shows them before its script runs."""
    _, _, rest = render_report(comparison).partition('<p id="summary">')
    summary, _, _ = rest.partition("</p>")
    text = Page(f"<p>{summary}</p>").text.replace("\u00a0", " ")
    return " ".join(text.split())


WELCH, PAIRED = "Welch", "paired bootstrap"
PLUS, MINUS = "rnn-attention", "rnn-no-attention (the baseline)"
PAIR = "rnn-attention − rnn-no-attention"


@pytest.mark.parametrize(
    ("gains", "lead", "sentence"),
    [
        # Each run certainly better, and the methods not: seeds may differ by as much.
        (
            [(8.05, 0.001), (0.05, 0.001)],
            (4.05, -2.0, 10.1, 0.187, WELCH),
            f"The difference between {PLUS} and {MINUS}, 4.05 BLEU, may be chance ({PAIR}: 95 % interval −2.00 to 10.10, "
            "Welch's p 0.187).",
        ),
        # No run for itself, and the methods certainly.
        (
            [(4.05, 0.2), (4.05, 0.09)],
            (4.05, 3.5, 4.6, 0.0004, WELCH),
            f"{PLUS} is better than {MINUS} by 4.05 BLEU ({PAIR}: 95 % interval 3.50 to 4.60, Welch's p < 0.001).",
        ),
        ([(4.05, 0.01)], (4.05, 3.0, 5.1, 0.01, PAIRED), "paired bootstrap p 0.010"),
        # The two signs of certainty disagree.
        ([(4.05, 0.03)], (4.05, -0.1, 8.2, 0.03, PAIRED), "may be chance"),
        ([(4.05, 0.06)], (4.05, 0.1, 8.0, 0.06, PAIRED), "may be chance"),
        (
            [(4.05, 0.001), (4.05, 0.001)],
            None,
            "by 4.05 BLEU (no interval: give both one run, or both several)",
        ),
        (
            [(-0.0049, 0.0005)],
            (-0.0049, -0.005, -0.004, 0.0005, PAIRED),
            "is less than 0.005 BLEU: too small to call either better",
        ),
        (
            [(-4.05, 0.01)],
            (-4.05, -5.0, -3.0, 0.01, PAIRED),
            f"{MINUS} is better than {PLUS} by 4.05 BLEU ({PAIR}: 95 % interval −5.00 to −3.00, ",
        ),
    ],
)
def test_the_interval_and_p_of_the_difference_decide(
    gains: list[tuple[float, float]], lead: Any, sentence: str
) -> None:
    comparison = make_comparison(systems=2, seeds=len(gains))
    test = None if lead is None else Lead(*lead)
    summary = summary_of(with_gains(comparison, "rnn-attention", gains, test))
    assert sentence in summary

    is_better = test is not None and test.p < 0.05 and test.low * test.high > 0
    is_better = is_better and abs(test.value) >= 0.005 if test else False
    assert ("is better than" in summary) is is_better
    is_of_models = test is not None and test.test == PAIRED
    assert ("This speaks of these two models" in summary) is is_of_models


@pytest.mark.parametrize("gain", [-4.0, 4.0])
def test_differences_by_range_are_minus_the_baseline_whoever_leads(gain: float) -> None:
    changed = with_gains(
        make_comparison(systems=2), "rnn-attention", [(gain, 0.5)] * 2, None
    )
    assert "chrF of rnn-attention minus that of rnn-no-attention" in summary_of(changed)


def test_an_interval_without_variance_is_written() -> None:
    """Equal outputs of all runs have no variance between them."""
    lead = Lead(0.0, -0.0, 0.0, 1.0, "Welch")
    assert lead.evidence().en == "0.00 to 0.00, Welch's p 1.000"


def test_the_summary_says_by_what_systems_differ() -> None:
    two = make_comparison(systems=2)
    summary = summary_of(two)
    for sentence in (
        "Of 2 systems, rnn-attention has the highest BLEU: 20.47 (mean of 2 runs, 95 % interval",
        "(rnn-attention − rnn-no-attention: 95 % interval −2.50 to 5.00, Welch's p 0.062)",
        "chrF of rnn-attention minus that of rnn-no-attention was looked at in 6 ranges of source",
        "Cost of rnn-attention relative to rnn-no-attention: 1.21 × the weights",
        "0.91 × the tokens per second when decoding with native (0.86 to 0.96 over the rounds)",
        f"have {two.runs[2].mean_length:.1f} words on average (rnn-attention) and "
        f"{two.runs[0].mean_length:.1f} (rnn-no-attention); time depends on that too.",
    ):
        assert sentence in summary

    of_one = summary_of(make_comparison(systems=1, seeds=1))
    assert "No other system was compared with it." in of_one
    assert "better" not in of_one

    by_ter = [replace(system, scores=system.scores[2:]) for system in two.systems]
    summary = summary_of(summarised(replace(two, systems=tuple(by_ter))))
    assert "rnn-attention has the lowest TER" in summary


def test_only_what_is_significant_of_other_systems_is_called_better() -> None:
    comparison = make_comparison(systems=4, seeds=1)
    for name, gain, p in (
        ("rnn-attention", 4.0, 0.9),
        ("transformer", 8.0, 0.001),
        ("convolutional", 12.0, 0.3),
    ):
        lead = Lead(gain, gain - 1, gain + 1, p, "paired bootstrap")
        comparison = with_gains(comparison, name, [(gain, p)], lead)
    summary = summary_of(comparison)
    for sentence in (
        "12.00 BLEU, may be chance (convolutional − rnn-no-attention: 95 % interval 11.00 to 13.00, "
        "paired bootstrap p 0.300).",
        "Better than the baseline: transformer (+8.00; 7.00 to 9.00, paired bootstrap p 0.001).",
        "No difference from the baseline that could not be chance: rnn-attention (+4.00; 3.00 to "
        "5.00, paired bootstrap p 0.900).",
    ):
        assert sentence in summary


def with_items(comparison: Comparison, counts: list[int]) -> Comparison:
    """Give the ranges of length these numbers of sentences."""
    length, *others = comparison.breakdowns
    systems = {
        name: tuple(
            replace(bucket, items=items)
            for bucket, items in zip(buckets, counts, strict=True)
        )
        for name, buckets in length.systems.items()
    }
    length = replace(length, systems=systems)
    return summarised(replace(comparison, breakdowns=(length, *others)))


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ([30, 29, 40, 29, 29, 5], ["1–5 (30 sentences)", "11–15 (40 sentences)"]),
        ([5, 29, 40, 29, 29, 5], ["One is left: 11–15 (40 sentences)"]),
        ([5, 29, 29, 29, 29, 5], []),
    ],
)
def test_small_ranges_are_marked_and_never_named(
    counts: list[int], named: list[str]
) -> None:
    """In the samples the lead rises or falls from range to range, so the ends are extreme."""
    comparison = with_items(make_comparison(systems=2), counts)
    document = render_report(comparison)
    summary = summary_of(comparison)
    labels = ("1–5", "6–10", "11–15", "16–20", "21–30", "31–40")

    assert "in 6 ranges of source words; those with fewer than 30 sentences" in summary
    assert all(name in summary for name in named)
    for label, count in zip(labels, counts, strict=True):
        is_small = count < MIN_ITEMS
        assert (f"{label} ({count} sentences)" in summary) <= (not is_small)
        assert f"{label} ({count}{'*' if is_small else ''})" in document, "the figure"
    assert document.count('<tr class="few">') >= sum(count < 30 for count in counts)


def test_the_floor_unfinished_training_and_warnings_are_said() -> None:
    two = make_comparison(systems=2)
    summary = summary_of(two)
    assert "of no use for drafts" not in summary
    assert "still falling when training ended, by 0.05" in summary
    assert "rnn-no-attention (2 of 2 runs), rnn-attention (2 of 2 runs)" in summary
    assert (
        "of 60 in each run: repetition (rnn-no-attention 0, 0; rnn-attention 1, 1)."
        in summary
    )

    weak = []
    for system in two.systems:
        scores = [replace(score, mean=24.9) for score in system.scores]
        weak.append(replace(system, scores=tuple(scores)))
    flat = tuple(
        replace(run, curve=(*run.curve, *[replace(run.curve[-1], update=9000)] * 2))
        for run in two.runs
    )
    summary = summary_of(summarised(replace(two, systems=tuple(weak), runs=flat)))
    assert (
        "Of no use for drafts yet, with a mean chrF below 25: rnn-no-attention (24.9), "
        "rnn-attention (24.9)."
    ) in summary
    assert "still falling" not in summary


@pytest.mark.parametrize(
    ("speeds", "latencies", "is_said"),
    [
        ((110.0, 120.0, 130.0), (0.1, 0.11, 0.12), True),
        ((90.0, 120.0, 130.0), (0.1, 0.11, 0.12), False),  # rounds overlap
        ((110.0, 120.0, 130.0), (0.3, 0.31, 0.32), False),  # faster, and later
        ((110.0, 120.0, 130.0), (0.1, 0.2, 0.3), False),  # latencies overlap
    ],
)
def test_speed_has_a_ratio_only_if_all_rounds_and_both_measures_agree(
    speeds: tuple[float, ...], latencies: tuple[float, ...], is_said: bool
) -> None:
    comparison = make_comparison(systems=2, seeds=1)
    times = ((80.0, 100.0, 105.0), (0.2, 0.21, 0.22)), (speeds, latencies)
    runs = []
    for run, (of_run, alone) in zip(comparison.runs, times, strict=True):
        assert run.cost is not None
        cost = replace(run.cost, speeds=of_run, latencies=alone)
        runs.append(replace(run, cost=cost))
    summary = summary_of(summarised(replace(comparison, runs=tuple(runs))))

    ratio = "1.20 × the tokens per second when decoding with native (1.05 to 1.62 over the rounds)"
    assert (ratio in summary) is is_said
    assert ("Decoding speed with native has no ratio here" in summary) is not is_said
    assert "the training time" not in summary, "one run each has no spread"
