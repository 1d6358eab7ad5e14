"""The report of a comparison: every number, nothing claimed that the data do not hold, safe, small,
whatever is missing.
"""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from sample import SETTINGS, make_comparison

from regard.comparison.report import render_report
from regard.comparison.report_commands import commands
from regard.comparison.report_numbers import number, probability
from regard.comparison.result import Comparison, RunScore, SeedScore
from regard.visualisation.colours import SERIES

EVIL = "</script><b>&<!-- {{data}} \u2028\u202e\x00"
MAX_BYTES = 5_000_000


def data_of(document: str) -> dict[str, Any]:
    """Unpack the data of the page's script."""
    match = re.search(r'<script type="text/plain" id="data">([\w+/=]*)</script>', document)
    assert match
    data = json.loads(zlib.decompress(base64.b64decode(match[1])))
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
        self.tags.append(tag)
        self.attributes += attrs
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


def english(comparison: Comparison) -> str:
    """Return the sentences of the summary, as the page shows them before its script runs."""
    (summary,) = re.findall(
        r'<p id="summary"><strong[^>]*>Summary.</strong>(.*?)</p>',
        render_report(comparison),
        re.DOTALL,
    )
    text = unescape(re.sub("<[^>]*>", "", summary)).replace("\u00a0", " ")
    return re.sub("[ \n]+", " ", text).strip()


def without_parts(comparison: Comparison) -> Comparison:
    runs = (
        replace(run, curve=(), cost=None, calibration=None, alignment=None)
        for run in comparison.runs
    )
    return replace(
        comparison, runs=tuple(runs), breakdowns=(), examples=(), notes=(), facts={}, budget=""
    )


def with_p(comparison: Comparison, p: dict[str, float | None]) -> Comparison:
    """Replace the p-values of the runs named."""

    def scores(name: str, old: tuple[RunScore, ...]) -> tuple[RunScore, ...]:
        return tuple(replace(score, p=p[name]) for score in old) if name in p else old

    return replace(
        comparison,
        runs=tuple(replace(run, scores=scores(run.name, run.scores)) for run in comparison.runs),
    )


@pytest.mark.parametrize("task", ["translation", "captions"])
def test_every_number_is_in_the_page(task: str) -> None:
    comparison = make_comparison(task=task, has_file=True)
    text = Page(render_report(comparison)).text
    wanted = [number(mean.mean) for system in comparison.systems for mean in system.scores]
    for run in comparison.runs:
        for score in run.scores:
            wanted += [number(score.value), score.signature.replace("|", "|")]
            wanted += [] if score.p is None else [probability(score.p)]
            wanted += (
                [] if score.low == score.high else [f"{number(score.low)}–{number(score.high)}"]
            )
        if run.cost:
            assert run.cost.latency
            wanted += [
                f"{run.cost.weights:,}",
                f"{run.cost.tokens_per_second:,.1f}",
                number(1000 * run.cost.latency, 1),
            ]
        for point in run.curve:
            wanted += [number(value, 3) for value in (*point.scores.values(), point.entropy)]
        if run.calibration:
            wanted.append(number(run.calibration.error, 4))
            wanted += [
                number(value, 3)
                for part in run.calibration.bins
                for value in (part.probability, part.right)
            ]
        if run.alignment:
            wanted += [number(run.alignment.aer, 3), run.alignment.choice]
        wanted += [run.name, run.origin, run.status]
    for part in comparison.breakdowns:
        for buckets in part.systems.values():
            for bucket in buckets:
                wanted += [bucket.label, f"{bucket.items:,}", number(bucket.value)]
                wanted += [f"{number(bucket.low)}–{number(bucket.high)}"]
    for example in comparison.examples:
        wanted += [run.outputs[example.index] for run in comparison.runs]
        wanted += [
            comparison.test.sources[example.index],
            *comparison.test.references[example.index],
        ]
    wanted += [
        *comparison.facts.values(),
        comparison.test.digest,
        comparison.test.note,
        *comparison.notes,
    ]
    assert [item for item in wanted if item not in text] == []


def test_the_data_hold_each_text_once_and_all_outputs() -> None:
    comparison = make_comparison(sentences=20, has_file=True)
    data = data_of(render_report(comparison))
    assert len(data["texts"]) == len(set(data["texts"]))
    for run, outputs, scores in zip(comparison.runs, data["outputs"], data["scores"], strict=True):
        assert [data["texts"][index] for index in outputs] == list(run.outputs)
        assert scores == pytest.approx(run.sentence_scores, abs=0.051)
    maps = data["examples"][0]
    expected = comparison.examples[0].attention
    assert {data["runs"][int(index)] for index in maps} == set(expected)
    (index, found), *_ = maps.items()
    assert found["percent"] == [list(row) for row in expected[data["runs"][int(index)]].percent]


@pytest.mark.parametrize("task", ["translation", "captions"])
def test_the_page_fetches_nothing_and_allows_only_its_own_script_and_style(task: str) -> None:
    document = render_report(make_comparison(task=task))
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", document) == []
    page = Page(document)
    assert {
        value
        for name, value in page.attributes
        if name in ("href", "src") and value and value[0] != "#"
    } == {value for name, value in page.attributes if name == "src"}
    assert all(
        str(value).startswith("data:image/png;base64,")
        for name, value in page.attributes
        if name == "src"
    )
    assert {name for name, _ in page.attributes} & {"style", "onclick", "onload"} == set(), (
        "the policy forbids them"
    )
    policy = next(
        str(value) for _, value in page.attributes if str(value).startswith("default-src")
    )
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", document, re.DOTALL)
        digest = base64.b64encode(sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_texts_from_outside_are_escaped() -> None:
    plain = make_comparison(sentences=5, systems=2, seeds=1)
    names = {"rnn-no-attention": EVIL, "rnn-attention": EVIL + "2"}
    runs = tuple(
        replace(
            run,
            name=names[run.name],
            system=names[run.system],
            origin=EVIL,
            status=EVIL,
            outputs=(EVIL,) * 5,
        )
        for run in plain.runs
    )
    systems = tuple(
        replace(system, name=names[system.name], runs=(names[system.name],))
        for system in plain.systems
    )
    breakdowns = tuple(
        replace(part, systems={names[name]: found for name, found in part.systems.items()})
        for part in plain.breakdowns
    )
    examples = tuple(
        replace(item, attention={}, image=f'data:image/png;base64,"><b>{EVIL}')
        for item in plain.examples
    )
    test = replace(plain.test, name=EVIL, note=EVIL, sources=(EVIL,) * 5, references=((EVIL,),) * 5)
    evil = replace(
        plain,
        test=test,
        baseline=EVIL,
        systems=systems,
        runs=runs,
        breakdowns=breakdowns,
        examples=examples,
    )
    evil = replace(evil, budget=EVIL, notes=(EVIL,), facts={EVIL: EVIL})
    document = render_report(evil)
    assert "<b>" not in document
    assert "<!--" not in document
    assert "\x00" not in document
    assert "b" not in Page(document).tags
    assert "img" not in Page(document).tags
    assert Page(document).open == []
    assert "</script><b>&<!--" in unescape(document)
    assert data_of(document)["texts"][0].startswith("</script><b>")


def test_a_signature_from_outside_cannot_put_words_into_the_command() -> None:
    comparison = make_comparison(systems=1, seeds=1)
    score = RunScore("BLEU", 1.0, 0.0, 2.0, "nrefs:1|tok:13a; rm -rf x|case:lc|version:2.6.0")
    (line,) = commands(replace(comparison, runs=(replace(comparison.runs[0], scores=(score,)),)))
    assert line == "sacrebleu texts/reference1.txt -i texts/RUN.txt -m bleu --lowercase"


def test_commands_have_the_settings_of_the_signatures() -> None:
    plain, paired = commands(make_comparison())
    assert plain == (
        "SACREBLEU_SEED=12345 sacrebleu texts/reference1.txt -i texts/RUN.txt -m bleu chrf ter --tokenize 13a "
        "--confidence --confidence-n 1000"
    )
    assert paired.endswith("--paired-bs --paired-bs-n 1000")
    (captions,) = commands(make_comparison(task="captions"))
    assert "texts/reference1.txt texts/reference2.txt -i texts/RUN.txt -m chrf" in captions
    assert SETTINGS["chrF"].startswith("nrefs:1")


def _patternless(sentences: int) -> Comparison:
    """Make a comparison of six runs whose texts have no pattern, which packs worst."""
    rng = random.Random(1)
    comparison = make_comparison(sentences=sentences, systems=3, seeds=2)
    letters = [chr(code) for code in range(0xAC00, 0xD7A4)]

    def line() -> str:
        return " ".join("".join(rng.choices(letters, k=3)) for _ in range(15))

    return replace(
        comparison,
        runs=tuple(
            replace(run, outputs=tuple(line() for _ in run.outputs)) for run in comparison.runs
        ),
    )


def _plain(sentences: int) -> Comparison:
    return make_comparison(sentences=sentences, systems=3, seeds=2)


@pytest.mark.parametrize("make", [_patternless, _plain])
def test_sentences_add_so_little_that_three_thousand_and_six_runs_stay_small(
    make: Callable[[int], Comparison],
) -> None:
    fewer, more = (len(render_report(make(count)).encode()) for count in (60, 260))
    assert more + (3000 - 260) * (more - fewer) / 200 < MAX_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("make", [_patternless, _plain])
def test_three_thousand_sentences_and_six_runs_stay_small(
    make: Callable[[int], Comparison],
) -> None:
    assert len(render_report(make(3000)).encode()) < MAX_BYTES


@pytest.mark.parametrize(
    "comparison",
    [
        make_comparison(),
        make_comparison(task="captions", has_file=True),
        make_comparison(systems=1, seeds=1),
        make_comparison(systems=1, seeds=3),
        make_comparison(systems=0, seeds=0, has_file=True),
        make_comparison(systems=8, seeds=2),
        make_comparison(sentences=1),
        without_parts(make_comparison()),
        replace(without_parts(make_comparison(systems=1)), systems=(), runs=()),
    ],
    ids=[
        "translation",
        "captions",
        "one",
        "one, three seeds",
        "a file",
        "eight",
        "one sentence",
        "parts",
        "nothing",
    ],
)
def test_reports_of_all_kinds_are_well_formed(comparison: Comparison) -> None:
    document = render_report(comparison)
    page = Page(document)
    assert page.open == []
    assert "{{" not in document
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == page.tags.count("caption") + len(comparison.examples)
    ids = {value for name, value in page.attributes if name == "id"}
    assert {str(value)[1:] for name, value in page.attributes if name == "href"} <= ids
    assert all(("scope", "col") in page.attributes for _ in page.tags if "thead" in page.tags)
    assert ("data-ko", "모든 문장") in page.attributes


def test_what_is_not_known_has_no_section() -> None:
    document = render_report(without_parts(make_comparison()))
    for name in ("breakdowns", "cost", "training", "calibration", "alignment", "examples"):
        assert f'id="{name}"' not in document
        assert f'href="#{name}"' not in document
    for name in ("scores", "sentences", "methods"):
        assert f'id="{name}"' in document


def test_figures_show_as_many_systems_as_there_are_colours_and_say_so() -> None:
    document = render_report(make_comparison(systems=SERIES + 2, seeds=1))
    assert (
        f"The figure shows the first {SERIES} systems; the tables also have ninth, tenth."
        in document
    )
    assert f"s{SERIES - 1}-line" in document
    assert f"s{SERIES}-line" not in document
    assert "The figure shows" not in render_report(make_comparison(systems=SERIES, seeds=1))


def test_runs_without_attention_say_so() -> None:
    page = Page(render_report(make_comparison(has_file=True)))
    examples, without = 12, 3  # two runs of the recurrent model without attention, and the file
    assert page.text.count("no attention to show") == examples * without
    assert "No entropy is known of: rnn-no-attention, online.txt." in page.text
    assert "Cost not known: online.txt." in page.text


# --- the summary


def test_a_difference_in_every_run_is_called_better() -> None:
    summary = english(make_comparison(systems=2))
    assert summary.startswith(
        "Of 2 systems, rnn-attention has the highest BLEU: 20.47 (mean of 2 runs, 95 % interval"
    )
    assert (
        "rnn-attention is better than rnn-no-attention (the baseline) by 4.05 BLEU (p = 0.001 in each of 2 runs)"
        in summary
    )
    assert "most at 31–40: +" in summary
    assert "1.21 × the weights" in summary


@pytest.mark.parametrize(
    "p",
    [
        {"rnn-attention/1": 0.2},
        {"rnn-attention/1": 0.2, "rnn-attention/2": 0.05},
        {"rnn-attention/2": None},
    ],
)
def test_a_difference_that_may_be_chance_is_not_called_better(p: dict[str, float | None]) -> None:
    summary = english(with_p(make_comparison(systems=2), p))
    assert "better" not in summary
    assert "may be chance" in summary


@pytest.mark.parametrize(
    ("difference", "is_better"), [(0.0049, False), (-0.0049, False), (0.006, True)]
)
def test_a_difference_that_rounds_to_nothing_is_not_called_better(
    difference: float, is_better: bool
) -> None:
    comparison = make_comparison(systems=2)
    base, other = comparison.systems
    names = dict(zip(other.runs, base.runs, strict=True))
    values = {
        run.name: {score.name: score.value for score in run.scores} for run in comparison.runs
    }

    def moved(score: RunScore, run: str) -> RunScore:
        value = values[names[run]][score.name] + difference
        return replace(score, value=value, p=0.0005, against=names[run])

    runs = tuple(
        replace(run, scores=tuple(moved(score, run.name) for score in run.scores))
        if run.name in names
        else run
        for run in comparison.runs
    )
    means = {score.name: score.mean for score in base.scores}
    scores = tuple(replace(score, mean=means[score.name] + difference) for score in other.scores)
    summary = english(replace(comparison, runs=runs, systems=(base, replace(other, scores=scores))))
    assert ("is better than" in summary) is is_better
    assert ("is less than 0.005 BLEU: too small to call either better" in summary) is not is_better


def test_without_p_values_nothing_is_called_better() -> None:
    summary = english(
        with_p(make_comparison(systems=2), {"rnn-attention/1": None, "rnn-attention/2": None})
    )
    assert "better" not in summary
    assert "no p-value says whether that is more than chance" in summary


def test_a_run_below_the_baseline_forbids_better() -> None:
    comparison = make_comparison(systems=2)
    low = tuple(replace(score, value=1.0) for score in comparison.runs[2].scores)
    runs = (*comparison.runs[:2], replace(comparison.runs[2], scores=low), comparison.runs[3])
    summary = english(replace(comparison, runs=runs))
    assert "better" not in summary
    assert "may be chance (p < 0.05 this way in 1 of 2 runs)" in summary


def test_the_baseline_may_be_the_best() -> None:
    comparison = make_comparison(systems=2, seeds=1)
    comparison = replace(comparison, baseline="rnn-attention")
    base = comparison.runs[1]
    other = comparison.runs[0]
    other = replace(
        other, scores=tuple(replace(s, p=0.01, against=base.name) for s in other.scores)
    )
    comparison = replace(
        comparison,
        runs=(other, replace(base, scores=tuple(replace(s, p=None) for s in base.scores))),
    )
    summary = english(comparison)
    assert (
        "rnn-attention (the baseline) is better than rnn-no-attention by 4.05 BLEU (p = 0.010)"
        in summary
    )
    assert "Cost of rnn-attention relative to rnn-no-attention: 1.21 × the weights" in summary


def test_one_system_is_compared_with_nothing() -> None:
    summary = english(make_comparison(systems=1, seeds=1))
    assert "No other system was compared with it." in summary
    assert "better" not in summary


def test_of_a_lower_error_rate_less_is_better() -> None:
    comparison = make_comparison(systems=2, seeds=1)
    systems = tuple(
        replace(s, scores=tuple(m for m in s.scores if m.name == "TER")) for s in comparison.systems
    )
    summary = english(replace(comparison, systems=systems))
    assert "rnn-attention has the lowest TER" in summary
    assert "rnn-attention is better than rnn-no-attention (the baseline) by 9.90 TER" in summary


def test_scores_that_are_no_numbers_are_dashes() -> None:
    comparison = make_comparison(systems=1, seeds=1)
    nan = float("nan")
    run = replace(comparison.runs[0], sentence_scores=(nan,) * 60)
    system = replace(comparison.systems[0], scores=(SeedScore("BLEU", nan, nan, nan, 1),))
    document = render_report(replace(comparison, systems=(system,), runs=(run,)))
    assert "nan" not in Page(document).text.split()
    assert data_of(document)["scores"][0][0] is None


def test_systems_with_the_same_score_differ_by_chance() -> None:
    comparison = make_comparison(systems=2, seeds=1)
    first, second = comparison.systems
    runs = (
        comparison.runs[0],
        replace(
            comparison.runs[1],
            scores=tuple(replace(s, p=1.0, against=first.name) for s in comparison.runs[0].scores),
        ),
    )
    summary = english(
        replace(comparison, systems=(first, replace(second, scores=first.scores)), runs=runs)
    )
    assert "better" not in summary
    assert "The difference from rnn-attention, 0.00 BLEU, may be chance (p = 1.000)." in summary


def test_only_what_is_certain_of_other_systems_is_called_better() -> None:
    comparison = with_p(
        make_comparison(systems=4, seeds=1),
        {"convolutional": 0.3, "transformer": 0.001, "rnn-attention": 0.9},
    )
    summary = english(comparison)
    assert (
        "The difference from rnn-no-attention (the baseline), 12.15 BLEU, may be chance (p = 0.300)."
        in summary
    )
    assert "Better than the baseline: transformer (+8.10, p = 0.001)." in summary
    assert (
        "No difference from the baseline that could not be chance: rnn-attention (+4.05, p = 0.900)."
        in summary
    )
