"""`regard compare` as users call it: training under an equal budget, stops, other systems,
captions, bad input.
"""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
import trained
from helpers.cached_folders import FolderCache
from helpers.forgotten_plugins import forgotten_plugins
from helpers.small_models import FRAME, SENTENCES, captioner_folder, folder
from helpers.time_limits import wait_until
from safetensors.torch import load_file
from trained import SMALL

import regard
import regard.comparison.run_comparison
from regard.common.errors import DataError, UsageError
from regard.common.plugins import import_named
from regard.comparison.decisions import timing_engine
from regard.comparison.report_commands import commands
from regard.comparison.test_data import read_test_data, split_off_test
from regard.evaluation.speed import Timing
from regard.learn.samples.images import image_sample
from regard.requests.compare_request import ComparisonFiles

pytestmark = pytest.mark.system
NORMALISER = """
import regard

@regard.register_normaliser("mine")
def mine(scores, keep):
    return (scores if keep is None else scores.masked_fill(~keep, -1e9)).softmax(-1)
"""
MEASURED = {"seconds", "training_seconds", "tokens_per_second", "latency", "memory"}
MEASURED |= {"speeds", "latencies", "summary"}


@pytest.fixture(scope="module")
def made(cached: FolderCache) -> Path:
    """Return a folder with data and with a comparison, made once until a source changes."""
    return cached.in_process("comparison", trained.make)


@pytest.fixture(scope="module")
def data(made: Path) -> Path:
    """Return the folder of pairs: train, valid, test, with gold links of the test pairs."""
    return made / "data"


@pytest.fixture(scope="module")
def undisturbed(made: Path) -> Path:
    """Return the folder of a comparison that nothing interrupted."""
    return made / "out"


def _values(out: Path) -> Any:
    return json.loads((out / "comparison.json").read_text())


def _column(path: Path, name: str) -> list[Any]:
    """Return the cells of a column, as numbers if they are."""
    with path.open(newline="") as file:
        cells = [row[name] for row in csv.DictReader(file)]
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return cells


def _without_times(value: Any) -> Any:
    """Return JSON values without what is measured in seconds, and without paths."""
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    if isinstance(value, dict):
        left_out = {*MEASURED, "origin", "notes"}
        return {key: _without_times(value[key]) for key in value.keys() - left_out}

    return value


def test_all_is_in_the_files(undisturbed: Path) -> None:
    values = _values(undisturbed)
    runs = values["runs"]
    names = ["rnn seed 1", "rnn seed 2", "rnn-luong seed 1", "rnn-luong seed 2"]

    assert [run["name"] for run in runs] == names
    assert values["budget"] == f"{trained.UPDATES} updates each"

    keys = [part["key"] for part in values["breakdowns"]]
    assert keys == ["length", "frequency"], "every word was seen"

    for run in runs:
        assert run["status"] == ""
        assert 0 < run["tested_update"] <= trained.UPDATES
        assert all(0 < count <= 16 for count in run["warned"].values())
        assert run["cost"]["updates"] == trained.UPDATES
        assert run["curve"][-1]["update"] == trained.UPDATES
        assert run["calibration"]["bins"]
        assert len(run["outputs"]) == len(run["sentence_scores"]) == 16

    is_timed = [run["cost"]["latency"] is not None for run in runs]
    assert is_timed == [True, False, True, False]

    plain, _, attending, _ = runs
    assert plain["alignment"] is None
    assert 0 <= attending["alignment"]["aer"] <= 1
    assert plain["curve"][0]["entropy"] is None
    assert attending["curve"][0]["entropy"] > 0

    for example in values["examples"]:
        assert [*example["attention"]] == names[2:]

    before, after = (system["scores"] for system in values["systems"])
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        assert one["lead"] is None
        of_runs = [run["scores"][number]["value"] for run in runs]
        difference = (sum(of_runs[2:]) - sum(of_runs[:2])) / 2
        lead = other["lead"]
        assert lead["value"] == pytest.approx(difference)
        assert lead["low"] + lead["high"] == pytest.approx(2 * difference)
        assert 0 <= lead["p"] <= 1

    scores = [score["value"] for run in runs for score in run["scores"]]
    assert _column(undisturbed / "scores.csv", "value") == scores

    sentences = undisturbed / "sentences.csv"
    assert _column(sentences, "rnn-luong seed 2") == runs[3]["outputs"]
    assert _column(sentences, "score rnn seed 1") == plain["sentence_scores"]

    buckets = []
    for part in values["breakdowns"]:
        for of_system in part["systems"].values():
            buckets += [bucket["value"] for bucket in of_system]

    assert _column(undisturbed / "breakdowns.csv", "value") == buckets

    for page in ("report.html", "figures/length.svg", "figures/frequency.svg"):
        assert "rnn-luong" in (undisturbed / page).read_text()


def test_what_was_not_trained_is_trained_to_the_same_result(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(undisturbed, tmp_path / "out"))
    (out / "comparison.json").unlink()
    shutil.rmtree(out / "runs" / "rnn-luong-seed2")
    messages = []
    options: dict[str, Any] = {"presets": trained.PRESETS, "settings": SMALL}
    comparison = regard.compare(
        out=out,
        updates=trained.UPDATES,
        seeds=2,
        speed=False,
        threads=1,
        report=lambda _, values: messages.append(values.get("text", "")),
        **options,
        **trained.files(data),
    )
    (started,) = [message for message in messages if message.startswith("training ")]
    run = "runs/rnn-luong-seed2"

    assert started == f"training rnn-luong, seed 2 (4 of 4) in {out}/{run}"
    assert json.loads(json.dumps(comparison.as_json())) == _values(out)
    assert regard.Comparison.load(out) == comparison
    assert not [message for message in messages if message.startswith("next: ")]
    assert _without_times(_values(out)) == _without_times(_values(undisturbed))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_comparison_that_was_stopped_goes_on_to_the_same_result(
    made: Path, undisturbed: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "regard", *trained.arguments(made, out)]
    second = out / "runs" / "rnn-luong-seed1" / "journal.jsonl"
    with subprocess.Popen(command) as process:
        wait_until(lambda: second.exists(), "the second training begins", 600)
        process.send_signal(number)

    assert process.returncode == status
    assert not (out / "comparison.json").exists()

    subprocess.run(command, check=True)
    assert _without_times(_values(out)) == _without_times(_values(undisturbed))


def test_outputs_of_other_systems_take_part(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    comparison = regard.compare(
        {"luong": undisturbed / "runs" / "rnn-luong-seed1"},
        out=tmp_path / "out",
        test_source=data / "test.xx",
        test_target=[data / "test.yy", data / "test.yy"],
        hypotheses={"perfect": data / "test.yy"},
        baseline="perfect",
        speed=False,
        ter=False,
    )
    worse = comparison.run("luong")
    perfect = comparison.run("perfect")

    assert [score.name for score in worse.scores] == ["BLEU", "chrF"]
    assert not [note for note in comparison.notes if "TER" in note]
    assert [system.name for system in comparison.systems] == ["luong", "perfect"]
    assert perfect.cost is None

    best = perfect.scores[0]
    assert (best.value, best.p) == (pytest.approx(100), None)

    bleu = worse.scores[0]
    assert bleu.against == "perfect"
    assert "nrefs:2" in bleu.signature

    references = [(data / "test.yy").read_text().splitlines()] * 2
    expected = sacrebleu.corpus_bleu(list(worse.outputs), references)
    assert bleu.value == pytest.approx(expected.score)


def test_names_become_files_that_differ(tmp_path: Path) -> None:
    names = ["a/b", "a b", "A B", "ㄱ=나<b>", ".."]
    hypotheses = {}
    for number, name in enumerate(names):
        hypotheses[name] = tmp_path / f"{number}.ko"
        hypotheses[name].write_text(f"{name}\n")

    test = hypotheses["a b"]
    regard.compare(
        hypotheses=hypotheses, out=tmp_path, test_source=test, test_target=test
    )
    written = {}
    for path in (tmp_path / "texts").iterdir():
        if path.name != "reference1.txt":
            written[path.name.casefold()] = path.read_text().strip()

    assert sorted(written.values()) == sorted(names)


def test_seeds_can_be_added_to_the_same_comparison_of_the_same_data(
    data: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(data, tmp_path / "data"))
    options: dict[str, Any] = {"presets": ["rnn"], "settings": SMALL, "speed": False}
    options |= {"out": tmp_path / "out", "tokens": 600, **trained.files(own)}
    first = regard.compare(seeds=1, **options)
    second = regard.compare(seeds=2, **options)
    names = [(run.name, run.seed) for run in second.runs]

    assert names == [("rnn seed 1", 1), ("rnn seed 2", 2)]
    assert first.runs[0].outputs == second.runs[0].outputs

    for run in second.runs:
        assert run.cost is not None
        assert run.cost.training_tokens == pytest.approx(600, abs=300)

    message = (
        r"begun there \(budget.tokens: 600, and now 1200\).*delete .*out/runs to begin"
    )
    with pytest.raises(UsageError, match=message):
        regard.compare(**{**options, "tokens": 1200})
    with pytest.raises(UsageError, match="first_seed"):
        regard.compare(seed=7, **options)

    (own / "valid.xx").write_text((own / "valid.xx").read_text().swapcase())
    message = "valid.source: .*valid.xx has changed .*; put back .* compare anew in another `out=`"
    with pytest.raises(DataError, match=message):
        regard.compare(seeds=3, **options)


@pytest.mark.slow
def test_minutes_become_updates_that_all_seeds_share(
    data: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"presets": ["rnn"], "settings": SMALL, "speed": False}
    files = trained.files(data)
    comparison = regard.compare(out=tmp_path, minutes=0.05, seeds=2, **options, **files)
    updates = {run.cost.updates for run in comparison.runs if run.cost is not None}
    plan = json.loads((tmp_path / "plan.json").read_text())

    assert updates == {plan["models"]["rnn"]["updates"]}


def test_without_a_test_set_pairs_are_held_out(data: Path, tmp_path: Path) -> None:
    files = {"source": data / "train.xx", "target": data / "train.yy"}
    options: dict[str, Any] = {"presets": ["rnn"], "settings": SMALL, "speed": False}
    comparison = regard.compare(out=tmp_path / "out", updates=2, **files, **options)

    assert "held out" in comparison.test.note

    lines = (tmp_path / "out" / "data" / "train.source").read_text().splitlines()
    assert not {*comparison.test.sources} & {*lines}

    pairs = tmp_path / "mine.ko-en.tsv"
    pairs.write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    split, _ = split_off_test(ComparisonFiles(pairs=str(pairs)), tmp_path / "split")
    paths = (split.source, split.target, split.test_source, *split.references)
    names = [Path(path or "").name for path in paths]

    assert names == ["train.ko", "train.en", "test.ko", "test.en"], (
        "by the languages in its name"
    )

    split, note = split_off_test(
        ComparisonFiles(valid_source="v.ko", valid_target="v.en"), tmp_path
    )

    assert (split.test_source, split.test_target) == ("v.ko", "v.en")
    assert "validation data" in note


def test_columns_of_pairs_are_chosen(tmp_path: Path) -> None:
    table = tmp_path / "words.csv"
    rows = [f"Word {n}.,Wort {n}.,Słowo {n}.\n" for n in range(400)]
    table.write_text("en,de,hsb\n" + "".join(rows), encoding="utf-8")
    files = ComparisonFiles(
        pairs=str(table), test_pairs=str(table), columns="hsb,English"
    )
    assert not files.problems()
    assert files.training["columns"] == "hsb,English"
    test = read_test_data(files).test
    assert (test.sources[0], test.references[0]) == ("Słowo 0.", ("Word 0.",))

    alone = ComparisonFiles(pairs=str(table), columns="hsb,English")
    split, _ = split_off_test(alone, tmp_path / "split")
    assert Path(split.training["source"]).name == "train.hsb"
    assert "columns" not in split.training
    (problem,) = ComparisonFiles(source="a", target="b", columns="1,2").problems()
    assert problem == "`columns=`: only with files of pairs; leave it out"


def test_captioners_are_compared_the_same_way(tmp_path: Path) -> None:
    sample = image_sample(train=8, valid=2, test=6)
    sample.write(tmp_path / "data")
    files = {
        "images": tmp_path / "data" / "images",
        "captions": tmp_path / "data" / "train.en.tsv",
        "test_captions": tmp_path / "data" / "test.en.tsv",
    }
    run = captioner_folder(tmp_path / "run")
    comparison = regard.compare([run], out=tmp_path / "out", speed=False, **files)

    assert comparison.task == "captions"

    names = [score.name for score in comparison.systems[0].scores]
    assert names[-3:] == ["chrF", "CIDEr-D", "exact"]
    assert {part.key for part in comparison.breakdowns} >= {"length", "frequency"}

    grid = (FRAME.height // 4, FRAME.width // 4)
    for example in comparison.examples:
        assert example.image.startswith("data:image/jpeg;base64,")

        for attention in example.attention.values():
            assert attention.grid == grid
            assert {len(row) for row in attention.percent} == {grid[0] * grid[1]}

    (captioner,) = comparison.runs
    assert captioner.cost is not None
    assert captioner.cost.latency is None


def test_the_example_of_the_page_runs(
    undisturbed: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # Measured in the comparison that nothing interrupted; it starts processes.
    monkeypatch.setattr(
        regard.comparison.run_comparison, "measure_speed", lambda *_: ({}, ())
    )
    for name, run in (("first", "rnn-seed1"), ("second", "rnn-luong-seed1")):
        shutil.copytree(undisturbed / "runs" / run, Path("runs", name))
    for name, file in (("test.ko", "test.xx"), ("test.en", "test.yy")):
        shutil.copy(data / file, name)

    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "comparison.md").read_text(encoding="utf-8")
    _, block = page.split("```python\n")
    exec(compile(block.split("```")[0], "docs/comparison.md", "exec"), {})

    printed = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert printed[:2] == [["first", "BLEU"], ["second", "BLEU"]]


def test_one_engine_times_all_if_one_of_them_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measure(runs: Any, *arguments: Any) -> Any:
        asked.append(arguments[-2])
        return dict.fromkeys(runs, Timing((1.0,), (1.0,), 1.0)), []

    monkeypatch.setattr(regard.comparison.run_comparison, "measure_speed", measure)
    lines = "".join(f"{line}\n" for line in SENTENCES[:2])
    (tmp_path / "test.txt").write_text(lines, encoding="utf-8")
    plain = folder(tmp_path / "plain", end=0.5)
    other = folder(tmp_path / "other", end=0.5)
    with forgotten_plugins():
        plugin = tmp_path / "mine.py"
        plugin.write_text(NORMALISER, encoding="utf-8")
        import_named([str(plugin)])
        own = folder(tmp_path / "own", end=0.5, normaliser="mine")
        compared = [
            regard.compare(
                {run.name: run for run in runs},
                test_source=tmp_path / "test.txt",
                test_target=tmp_path / "test.txt",
                out=tmp_path / f"compared-{own in runs}",
                ter=False,
            )
            for runs in ((plain, other), (plain, own))
        ]

    assert asked == ["auto", "pytorch"]
    decoding = [run.cost.decoding for one in compared for run in one.runs if run.cost]
    assert [text.partition(",")[0] for text in decoding] == [
        *["C library"] * 3,
        "PyTorch",
    ]
    assert [timing_engine(one) for one in compared] == ["C library", "PyTorch"]
    page = (tmp_path / "compared-True" / "report.html").read_text()
    assert "speed and latency with PyTorch: median" in page


@pytest.mark.parametrize("paired", [False, True])
def test_the_printed_commands_of_sacrebleu_run_in_a_pipe(
    undisturbed: Path, paired: bool
) -> None:
    comparison = regard.Comparison.load(undisturbed)
    line = commands(comparison)[paired]
    line = line.replace("sacrebleu ", f"{sys.executable} -m sacrebleu ", 1)
    line = line.replace("RUN", "rnn-luong-seed-1").replace("BASELINE", "rnn-seed-1")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} | cat"],
        cwd=undisturbed,
        capture_output=True,
        text=True,
        check=True,
    )
    chrf = comparison.run("rnn-luong seed 1").score("chrF")
    assert chrf is not None
    assert f"{chrf.value:.1f}" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_run_has_the_weights_of_one_that_is_trained_alone(
    undisturbed: Path, tmp_path: Path
) -> None:
    """The trial before the first run costs no draw."""
    run = undisturbed / "runs" / "rnn-seed1"
    alone = regard.train(run / "train.toml", out=tmp_path / "alone", threads=1)
    first, second = (
        load_file(path / "model.safetensors") for path in (run, alone.folder)
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_fault_of_any_system_shows_before_the_first_is_trained(
    data: Path, tmp_path: Path
) -> None:
    """The folder then takes another plan, since no run has begun."""
    out = tmp_path / "out"
    plugin = tmp_path / "mine.py"
    plugin.write_text(NORMALISER.replace(".softmax(", ".softmacks("))
    recipe = tmp_path / "own.toml"
    recipe.write_text('preset = "rnn-luong"\n[model.decoder]\nnormaliser = "mine"\n')
    options: dict[str, Any] = {"settings": SMALL, "speed": False, "ter": False}
    options |= {"updates": 2, "out": out, **trained.files(data)}
    state = torch.get_rng_state()
    with forgotten_plugins():
        import_named([str(plugin)])
        with pytest.raises(UsageError, match=r"own: plug-in mine.*softmacks.*mine.py"):
            regard.compare(presets=["rnn", recipe], **options)
    assert torch.equal(torch.get_rng_state(), state)
    assert not (out / "runs").exists()

    plugin.write_text(
        NORMALISER.replace("    return", "    assert scores.requires_grad\n    return")
    )
    with forgotten_plugins():
        import_named([str(plugin)])
        with pytest.raises(UsageError, match=r"own: plug-in mine.*AssertionError"):
            regard.compare(presets=["rnn", recipe], **options)
    assert not (out / "runs").exists(), "it fails at decoding alone"

    stale = {"budget": {"updates": 9}, "seeds": 1, "data": {}, "models": {}}
    out.mkdir(exist_ok=True)
    (out / "plan.json").write_text(json.dumps(stale))
    comparison = regard.compare(presets=["rnn"], **options)
    assert comparison.budget == "2 updates each"


def test_a_plug_in_that_changed_between_runs_names_them_all(
    data: Path, tmp_path: Path
) -> None:
    """After they are deleted, the same command trains them again."""
    plugin = tmp_path / "mine.py"
    recipe = tmp_path / "own.toml"
    recipe.write_text('preset = "rnn-luong"\n[model.decoder]\nnormaliser = "mine"\n')
    out = tmp_path / "out"
    options: dict[str, Any] = {"settings": SMALL, "speed": False, "ter": False}
    options |= {"updates": 2, "seeds": 2, "out": out, **trained.files(data)}

    def compare(code: str) -> regard.Comparison:
        plugin.write_text(code)
        with forgotten_plugins():
            import_named([str(plugin)])
            return regard.compare(presets=["rnn", recipe], **options)

    compare(NORMALISER)
    kept = (out / "runs" / "rnn-seed1" / "model.safetensors").read_bytes()
    runs = [out / "runs" / f"own-seed{seed}" for seed in (1, 2)]
    named = ", ".join(map(str, runs))
    mended = f"{NORMALISER}\n# mended\n"
    with pytest.raises(
        DataError, match=f"^{named}: trained with mine==sha256:.*delete"
    ):
        compare(mended)
    for run in runs:
        shutil.rmtree(run)
    assert len(compare(mended).runs) == 4
    assert (out / "runs" / "rnn-seed1" / "model.safetensors").read_bytes() == kept


# --- bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no comparison"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"format": 1}', "has format 1, and this version of Regard reads"),
        ('{"format": 3, "task": 3}', r"damaged \(task: "),
    ],
)
def test_a_comparison_that_cannot_be_read_is_refused(
    content: str | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "comparison.json").write_text(content)
    with pytest.raises(DataError, match=message + ".*; compare again with this folder"):
        regard.Comparison.load(tmp_path)


def test_all_that_is_wrong_is_said_before_anything_is_trained(
    data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError) as error:
        regard.compare(
            [tmp_path / "none"],
            out=out,
            source=data / "train.xx",
            presets=["rnn", "rm"],
            updates=0,
            seeds=0,
            test_source=data / "test.xx",
        )

    for part in (
        "`source=` is given without `target=`",
        "`test_source=` is given without `test_target=`",
        "`updates=0`: a budget too small for one update",
        "`seeds=0`",
        "no preset is called 'rm'",
        "none",
    ):
        assert part in str(error.value)

    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minutes": 1, "updates": 3}, "not several"),
        ({}, "a budget for each run is needed"),
        ({"tokens": 1, "test": False}, "too small for one update"),
        ({"updates": 3, "baseline": "other"}, "no system has this name; there are rnn"),
        ({"updates": 3, "settings": {"model.encoder.sise": 3}}, "size"),
    ],
)
def test_budgets_and_names_are_checked(
    data: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """Nothing stays in the folder, held-out pairs neither."""
    files = trained.files(data)
    if not options.pop("test", True):
        files = {name: files[name] for name in ("source", "target")}

    options = {"settings": SMALL, **options, **files}
    with pytest.raises((UsageError, DataError), match=message):
        regard.compare(out=tmp_path / "out", presets=["rnn"], **options)

    assert not (tmp_path / "out").exists()


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    captioner = captioner_folder(tmp_path / "captioner")
    source = tmp_path / "a.ko"
    source.write_text("나는 집에 간다\n" * 4)
    short = tmp_path / "b.en"
    short.write_text("I go home\n" * 3)
    thai = tmp_path / "thai"
    thai.write_text("สวัสดีชาวโลก\n" * 4)

    def assert_refused(message: str, *runs: Path, **options: Any) -> None:
        with pytest.raises((DataError, UsageError), match=message):
            regard.compare(list(runs), **{"out": tmp_path / "out", **options})

    test = {"test_source": source, "test_target": source}
    assert_refused("3", run, test_source=source, test_target=short)

    outputs = {"x": short, "y": tmp_path / "none"}
    message = (
        r"(?s)b.en: has 3 lines, and the test set \(a.ko\) has 4.*none.*captions images"
    )

    assert_refused(message, run, captioner, hypotheses=outputs, **test)
    assert_refused(
        "never seen in its training", run, test_source=thai, test_target=source
    )
    assert_refused("nothing to test on", run)
    assert_refused("nothing to compare", **test)
    assert_refused("is a run or model folder", run, out=run, **test)
    assert not (tmp_path / "out" / "comparison.json").exists()


def test_gold_links_count_the_words_of_the_files(tmp_path: Path) -> None:
    lines = {"source": "10\u00a0km \u200b road", "target": "a  b", "links": "0-0 2-1"}
    paths = []
    for name, line in lines.items():
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
        paths.append(str(tmp_path / name))

    source, target, links = paths
    files = ComparisonFiles(
        test_source=source, test_target=(target,), test_alignments=links
    )
    data = read_test_data(files)

    assert data.gold[0].sure == {(0, 0), (2, 1)}
    assert data.linked == ((lines["source"], lines["target"]),)


def test_damage_to_the_plan_or_the_cache_is_noticed(tmp_path: Path, data: Path) -> None:
    run = folder(tmp_path / "run")
    source = tmp_path / "a.ko"
    source.write_text("\n".join(SENTENCES) + "\n")
    out = tmp_path / "out"
    options: dict[str, Any] = {"test_source": source, "test_target": source}
    options["speed"] = False
    first = regard.compare([run], out=out, **options)
    for path in (out / "cache").iterdir():
        path.write_text(path.read_text()[:-20])

    assert regard.compare([run], out=out, **options) == first

    out = tmp_path / "other"
    out.mkdir()
    (out / "plan.json").write_text('{"budget": 3}')
    files = trained.files(data)

    with pytest.raises(DataError, match=r"plan.json: damaged"):
        regard.compare(out=out, presets=["rnn"], updates=2, settings=SMALL, **files)
