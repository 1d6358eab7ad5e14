"""`regard compare` as users call it: training under an equal budget, stops, other systems,
captions, bad input.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from cached import PACKAGE, FolderCache
from limits import wait_until
from small import FRAME, SENTENCES, captioner_folder, folder

import regard
from regard.common.errors import DataError, UsageError
from regard.common.reading import parse_toml
from regard.comparison import Comparison
from regard.comparison.test_data import Files, read_test_data, split_off_test
from regard.learn.samples.images import image_sample

pytestmark = pytest.mark.system
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(regard.__file__).parent.parent),
}
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
SMALL = {
    "model.encoder.size": 16,
    "model.decoder.size": 16,
    "model.encoder.embedding": 16,
    "model.decoder.embedding": 16,
    "tokenizer.kind": "whitespace",
    "batching.tokens": 256,
    "training.validate_with": 8,
    "schedule.peak": 0.02,
}
SACREBLEU = """
import json, runpy
json.JSONEncoder.default = lambda self, value: float(value)  # its own writer knows no numpy.float32
runpy.run_module("sacrebleu", run_name="__main__")
"""
TIMES = {"seconds", "training_seconds", "tokens_per_second", "latency", "memory"}


@pytest.fixture(scope="module")
def made(cached: FolderCache) -> Path:
    """Return a folder with data and with a comparison, made once until a source changes."""
    return cached("comparison", _make, PACKAGE, Path(__file__))


@pytest.fixture(scope="module")
def data(made: Path) -> Path:
    """Return the folder of pairs to copy: train, valid, test, with gold links of the test pairs."""
    return made / "data"


@pytest.fixture(scope="module")
def undisturbed(made: Path) -> Path:
    """Return the folder of a comparison that nothing interrupted."""
    return made / "out"


def _make(folder: Path) -> None:
    """Write the data, and compare."""
    path = folder / "data"
    rng = random.Random(1)
    path.mkdir()
    for name, count in (("train", 300), ("valid", 12), ("test", 30)):
        lines = [rng.choices(WORDS, k=rng.randint(1, 9)) for _ in range(count)]
        (path / f"{name}.xx").write_text("".join(" ".join(line) + "\n" for line in lines))
        (path / f"{name}.yy").write_text("".join(" ".join(line).upper() + "\n" for line in lines))
        links = (" ".join(f"{i}-{i}" for i in range(len(line))) for line in lines)
        (path / f"{name}.align").write_text("".join(line + "\n" for line in links))
    with _start(_arguments(_files(path), folder / "out")) as command:
        stdout, stderr = command.communicate()
    assert command.returncode == 0, stderr
    assert stdout.splitlines()[0].split()[0] == "BLEU"
    assert [line.split()[0] for line in stdout.splitlines()[1:]] == ["rnn", "rnn-luong"]


def _files(data: Path) -> dict[str, Path]:
    names = {
        "source": "train.xx",
        "target": "train.yy",
        "valid_source": "valid.xx",
        "valid_target": "valid.yy",
    }
    names |= {"test_source": "test.xx", "test_target": "test.yy", "test_alignments": "test.align"}
    return {name: data / file for name, file in names.items()}


def _arguments(files: dict[str, Path], out: Path, *more: object) -> list[str]:
    arguments: list[object] = [
        "compare",
        "--presets",
        "rnn,rnn-luong",
        "--updates",
        40,
        "--seeds",
        2,
        "--out",
        out,
    ]
    for name, file in files.items():
        arguments += [f"--{name.replace('_', '-')}", file]
    for key, value in SMALL.items():
        arguments += ["--set", f"{key}={value}"]
    return [str(argument) for argument in (*arguments, "--threads", 1, *more)]


def _start(arguments: list[str]) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "regard", *arguments]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def _without_times(value: Any) -> Any:
    """Return JSON values without what is measured in seconds, and without paths."""
    if isinstance(value, dict):
        return {
            key: _without_times(item)
            for key, item in value.items()
            if key not in {*TIMES, "origin"}
        }
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _values(out: Path) -> Any:
    return json.loads((out / "comparison.json").read_text())


def test_all_is_in_the_json(undisturbed: Path) -> None:
    values = _values(undisturbed)
    assert [run["name"] for run in values["runs"]] == [
        "rnn seed 1",
        "rnn seed 2",
        "rnn-luong seed 1",
        "rnn-luong seed 2",
    ]
    assert values["budget"] == "40 updates each"
    assert [part["key"] for part in values["breakdowns"]] == [
        "length",
        "seen_sources",
        "frequency",
        "seen_words",
    ]
    for run in values["runs"]:
        assert run["status"] == ""
        assert run["cost"]["updates"] == 40
        assert run["curve"][-1]["update"] == 40
        assert run["calibration"]["bins"]
        assert len(run["outputs"]) == len(run["sentence_scores"]) == 30
    timed = [run["cost"]["latency"] for run in values["runs"]]
    assert [value is not None for value in timed] == [True, False, True, False]
    plain = values["runs"][0]
    attending = values["runs"][2]
    assert plain["alignment"] is None
    assert 0 <= attending["alignment"]["aer"] <= 1
    assert plain["curve"][0]["entropy"] is None
    assert attending["curve"][0]["entropy"] > 0
    with_attention = ["rnn-luong seed 1", "rnn-luong seed 2"]
    assert all([*example["attention"]] == with_attention for example in values["examples"])


def test_scores_are_those_of_the_command_line_of_sacrebleu(undisturbed: Path) -> None:
    values = _values(undisturbed)
    texts = undisturbed / "texts"
    for seed in (1, 2):
        files = [texts / f"{name}-seed-{seed}.txt" for name in ("rnn", "rnn-luong")]
        line = [sys.executable, "-c", SACREBLEU, texts / "reference1.txt", "-i", *files]
        line += ["-m", "bleu", "chrf", "ter", "--paired-bs", "-f", "json", "-w", "6"]
        environment = {**ENVIRONMENT, "SACREBLEU_SEED": "12345"}
        rows = json.loads(
            subprocess.run(
                list(map(str, line)), capture_output=True, check=True, env=environment
            ).stdout
        )
        for row, name in zip(rows, ("rnn", "rnn-luong"), strict=True):
            run = next(run for run in values["runs"] if run["name"] == f"{name} seed {seed}")
            for score in run["scores"]:
                theirs = row["chrF2" if score["name"] == "chrF" else score["name"]]
                assert theirs["score"] == pytest.approx(score["value"], abs=1e-6)
                assert theirs["mean"] == pytest.approx(score["mean"], abs=1e-6)
                assert theirs["ci"] == pytest.approx(score["ci"], abs=1e-6)
                if score["p"] != 1:  # equal scores
                    assert theirs["p_value"] == (score["p"] and pytest.approx(score["p"], abs=1e-6))


def test_tables_hold_the_same_numbers(undisturbed: Path) -> None:
    values = _values(undisturbed)
    with (undisturbed / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [score for run in values["runs"] for score in run["scores"]]
    assert [float(row["value"]) for row in rows] == [score["value"] for score in scores]
    with (undisturbed / "sentences.csv").open(newline="") as file:
        sentences = list(csv.DictReader(file))
    assert [row["rnn-luong seed 2"] for row in sentences] == values["runs"][3]["outputs"]
    assert len((undisturbed / "breakdowns.csv").read_text().splitlines()) > 10
    for page in ("report.html", "figures/length.svg", "figures/frequency.svg"):
        assert "rnn-luong" in (undisturbed / page).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_comparison_that_was_stopped_goes_on_to_the_same_result(
    data: Path, undisturbed: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    arguments = _arguments(_files(data), out)
    second = out / "runs" / "rnn-luong-seed1" / "journal.jsonl"
    with _start(arguments) as command:
        wait_until(
            lambda: command.poll() is not None or second.exists(), "the second training begins", 600
        )
        command.send_signal(number)
        _, stderr = command.communicate()
    assert command.returncode == (-9 if number == signal.SIGKILL else 143), stderr
    assert not (out / "comparison.json").exists()
    if number == signal.SIGTERM:
        assert "to continue: the same command" in stderr
    with _start(arguments) as command:
        _, stderr = command.communicate()
    assert command.returncode == 0, stderr
    assert "training rnn, seed 1" not in stderr
    assert _without_times(_values(out)) == _without_times(_values(undisturbed))


def test_python_returns_what_the_json_holds(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    runs = [
        undisturbed / "runs" / f"{name}-seed{seed}"
        for name in ("rnn", "rnn-luong")
        for seed in (1, 2)
    ]
    comparison = regard.compare(runs, out=tmp_path / "again", speed=False, **_files(data))
    assert isinstance(comparison, Comparison)
    assert [run.name for run in comparison.runs] == [
        run["name"] for run in _values(undisturbed)["runs"]
    ]
    returned = json.loads(json.dumps(comparison.as_json()))
    before = _values(undisturbed)
    for name in ("systems", "breakdowns", "examples", "baseline", "test"):
        assert returned[name] == before[name], name
    assert _values(tmp_path / "again") == returned


def test_outputs_of_other_systems_take_part(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    perfect = tmp_path / "perfect.txt"
    perfect.write_bytes((data / "test.yy").read_bytes())
    run = undisturbed / "runs" / "rnn-luong-seed1"
    comparison = regard.compare(
        {"luong": run},
        out=tmp_path / "out",
        test_source=data / "test.xx",
        test_target=[data / "test.yy", data / "test.yy"],
        hypotheses={"perfect": perfect},
        baseline="perfect",
        speed=False,
        ter=False,
    )
    assert [score.name for score in comparison.run("luong").scores] == ["BLEU", "chrF"]
    assert not [note for note in comparison.notes if "TER" in note]
    assert [system.name for system in comparison.systems] == ["luong", "perfect"]
    bleu = comparison.run("perfect").score("BLEU")
    assert bleu is not None
    assert (bleu.value, bleu.p) == (pytest.approx(100), None)
    worse = comparison.run("luong").score("BLEU")
    assert worse is not None
    assert worse.against == "perfect"
    references = [(data / "test.yy").read_text().splitlines()] * 2
    assert worse.value == pytest.approx(
        sacrebleu.corpus_bleu(list(comparison.run("luong").outputs), references).score
    )
    assert "nrefs:2" in worse.signature
    assert comparison.run("perfect").cost is None


def test_names_become_files_that_differ(tmp_path: Path) -> None:
    source = tmp_path / "a.ko"
    source.write_text("나는 집에 간다\n")
    texts = {"a/b": "one", "a b": "two", "A B": "three", "ㄱ=나<b>": "four", "..": "five"}
    for text in texts.values():
        (tmp_path / text).write_text(f"{text}\n")
    hypotheses = {name: tmp_path / text for name, text in texts.items()}
    regard.compare(
        hypotheses=hypotheses, out=tmp_path / "out", test_source=source, test_target=source
    )
    files = {path.name: path.read_text().strip() for path in (tmp_path / "out" / "texts").iterdir()}
    files.pop("reference1.txt")
    assert sorted(files.values()) == sorted(texts.values())
    assert len({name.casefold() for name in files}) == 5


def test_more_seeds_can_be_added(data: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "presets": ["rnn"],
        "tokens": 1500,
        "settings": SMALL,
        "speed": False,
        **_files(data),
    }
    first = regard.compare(out=tmp_path / "out", seeds=1, **options)
    second = regard.compare(out=tmp_path / "out", seeds=2, **options)
    assert [(run.name, run.seed) for run in second.runs] == [("rnn seed 1", 1), ("rnn seed 2", 2)]
    assert first.runs[0].outputs == second.runs[0].outputs
    tokens = [run.cost.training_tokens for run in second.runs if run.cost is not None]
    assert all(abs((count or 0) - 1500) < 300 for count in tokens)
    with pytest.raises(UsageError, match="another comparison was begun there"):
        regard.compare(out=tmp_path / "out", **{**options, "tokens": 3000})
    with pytest.raises(UsageError, match="first_seed"):
        regard.compare(out=tmp_path / "out", seed=7, **options)


def test_a_comparison_does_not_go_on_with_changed_data(data: Path, tmp_path: Path) -> None:
    """Models that are trained are not compared with others that learn from something else."""
    own = Path(shutil.copytree(data, tmp_path / "data"))
    options: dict[str, Any] = {
        "presets": ["rnn"],
        "updates": 2,
        "settings": SMALL,
        "speed": False,
        **_files(own),
    }
    regard.compare(out=tmp_path / "out", seeds=1, **options)
    for name, role in (("train.yy", "train.target"), ("valid.xx", "valid.source")):
        content = (own / name).read_text()
        (own / name).write_text(content.swapcase())
        with pytest.raises(
            DataError,
            match=rf"{role}: .*{name} has changed .*; put back .* compare anew in another `out=",
        ):
            regard.compare(out=tmp_path / "out", seeds=2, **options)
        (own / name).write_text(content)
    assert len(regard.compare(out=tmp_path / "out", seeds=2, **options).runs) == 2


@pytest.mark.slow
def test_minutes_become_updates_that_all_seeds_share(data: Path, tmp_path: Path) -> None:
    comparison = regard.compare(
        out=tmp_path / "out",
        presets=["rnn"],
        minutes=0.05,
        seeds=2,
        settings=SMALL,
        speed=False,
        **_files(data),
    )
    updates = {run.cost.updates for run in comparison.runs if run.cost is not None}
    assert len(updates) == 1
    recipes = [
        parse_toml((tmp_path / "out" / "runs" / f"rnn-seed{n}" / "train.toml").read_text())
        for n in (1, 2)
    ]
    assert [recipe["training"].pop("seed") for recipe in recipes] == [1, 2]
    assert recipes[0] == recipes[1]
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["models"]["rnn"]["updates"] in updates


def test_without_a_test_set_pairs_are_held_out(data: Path, tmp_path: Path) -> None:
    comparison = regard.compare(
        out=tmp_path / "out",
        source=data / "train.xx",
        target=data / "train.yy",
        presets=["rnn"],
        updates=2,
        settings=SMALL,
        speed=False,
    )
    assert "held out" in comparison.test.note
    trained = (tmp_path / "out" / "data" / "train.source").read_text().splitlines()
    assert not {*comparison.test.sources} & {*trained}
    pairs = tmp_path / "mine.ko-en.tsv"
    lines = zip(
        *((data / f"train.{end}").read_text().splitlines() for end in ("xx", "yy")), strict=True
    )
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in lines))
    split, _ = split_off_test(Files(pairs=str(pairs)), tmp_path / "split")
    names = [
        Path(path or "").name
        for path in (split.source, split.target, split.test_source, *split.test_target)
    ]
    assert names == ["train.ko", "train.en", "test.ko", "test.en"], (
        "languages are known by the names of files"
    )
    files = {name: path for name, path in _files(data).items() if "test" not in name}
    comparison = regard.compare(
        out=tmp_path / "valid", presets=["rnn"], updates=2, settings=SMALL, speed=False, **files
    )
    assert "validation data" in comparison.test.note


@pytest.mark.parametrize("speed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_captioners_are_compared_the_same_way(tmp_path: Path, speed: bool) -> None:
    sample = image_sample(train=20, valid=2, test=12)
    sample.write(tmp_path / "data")
    runs = {name: captioner_folder(tmp_path / name, name) for name in ("recurrent", "transformer")}
    comparison = regard.compare(
        runs,
        out=tmp_path / "out",
        images=tmp_path / "data" / "images",
        captions=tmp_path / "data" / "train.en.tsv",
        test_captions=tmp_path / "data" / "test.en.tsv",
        speed=speed,
    )
    assert comparison.task == "captions"
    assert [score.name for score in comparison.systems[0].scores][-3:] == [
        "chrF",
        "CIDEr-D",
        "exact",
    ]
    assert {part.key for part in comparison.breakdowns} >= {"length", "seen_words"}
    rows = FRAME.height // 4
    columns = FRAME.width // 4
    for example in comparison.examples:
        assert example.image.startswith("data:image/jpeg;base64,")
        for attention in example.attention.values():
            assert attention.grid == (rows, columns)
            assert all(len(row) == rows * columns for row in attention.percent)
    assert all(run.cost is not None and bool(run.cost.latency) == speed for run in comparison.runs)


def test_the_example_of_the_page_runs(
    undisturbed: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    for name, run in (("first", "rnn-seed1"), ("second", "rnn-luong-seed1")):
        shutil.copytree(undisturbed / "runs" / run, Path("runs", name))
    for name, file in (("test.ko", "test.xx"), ("test.en", "test.yy")):
        shutil.copy(data / file, name)
    page = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text(encoding="utf-8")
    (example,) = (block.split("```")[0] for block in page.split("```python\n")[1:])
    exec(compile(example, "docs/comparison.md", "exec"), {})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[:2]] == [
        ["first", "BLEU"],
        ["second", "BLEU"],
    ]


# Bad input


def test_held_out_pairs_do_not_stay_of_a_comparison_that_is_refused(
    data: Path, tmp_path: Path
) -> None:
    files = {"source": data / "train.xx", "target": data / "train.yy"}
    with pytest.raises(UsageError, match="too small"):
        regard.compare(out=tmp_path / "out", presets=["rnn"], tokens=1, settings=SMALL, **files)
    assert not (tmp_path / "out").exists()


def _lines(path: Path, count: int) -> Path:
    path.write_text("나는 집에 간다\n" * count)
    return path


def test_all_that_is_wrong_is_said_before_anything_is_trained(data: Path, tmp_path: Path) -> None:
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
    text = str(error.value)
    for part in (
        "`source=` is given without `target=`",
        "`test_source=` is given without `test_target=`",
        "`updates=0`: a budget too small for one update",
        "`seeds=0`",
        "no preset is called 'rm'",
        "none",
    ):
        assert part in text, part
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minutes": 1, "updates": 3}, "not several"),
        ({}, "a budget for each run is needed"),
        ({"minutes": 1e-9}, "too small for one update"),
        ({"tokens": 1}, "too small for one update"),
        ({"updates": 3, "baseline": "other"}, "no system has this name; there are rnn"),
        ({"updates": 3, "settings": {"model.encoder.sise": 3}}, "size"),
    ],
)
def test_budgets_and_names_are_checked(
    data: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        regard.compare(
            out=tmp_path / "out", presets=["rnn"], **{"settings": SMALL, **options}, **_files(data)
        )
    assert not (tmp_path / "out" / "runs").exists()
    assert not (tmp_path / "out" / "plan.json").exists()


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    captioner = captioner_folder(tmp_path / "captioner")
    source = _lines(tmp_path / "a.ko", 4)
    short = _lines(tmp_path / "b.en", 3)

    def compare(*runs: Any, **options: Any) -> Any:
        return regard.compare(list(runs), out=tmp_path / "out", **options)

    with pytest.raises(DataError, match="3"):
        compare(run, test_source=source, test_target=short)
    with pytest.raises(DataError) as error:
        compare(
            run,
            captioner,
            test_source=source,
            test_target=source,
            hypotheses={"x": short, "y": tmp_path / "none"},
        )
    assert "captions images" in str(error.value)
    assert "b.en: has 3 lines, and the test set (a.ko) has 4" in str(error.value)
    assert "none" in str(error.value)
    thai = tmp_path / "thai"
    thai.write_text("สวัสดีชาวโลก\n" * 4)
    with pytest.raises(DataError, match="never seen in its training"):
        compare(run, test_source=thai, test_target=source)
    with pytest.raises(UsageError, match="nothing to test on"):
        compare(run)
    with pytest.raises(UsageError, match="nothing to compare"):
        compare(test_source=source, test_target=source)
    with pytest.raises(UsageError, match="is a run or model folder"):
        regard.compare([run], out=run, test_source=source, test_target=source)
    assert not (tmp_path / "out" / "comparison.json").exists()


def test_gold_links_count_the_words_of_the_files(tmp_path: Path) -> None:
    for name, line in (("s", "10\u00a0km \u200b road"), ("t", "a  b"), ("links", "0-0 2-1")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    files = Files(
        test_source=str(tmp_path / "s"),
        test_target=(str(tmp_path / "t"),),
        test_alignments=str(tmp_path / "links"),
    )
    data = read_test_data(files)
    assert data.gold[0].sure == {(0, 0), (2, 1)}
    assert data.linked == (("10\u00a0km \u200b road", "a  b"),)
    (tmp_path / "links").write_text("3-0\n", encoding="utf-8")
    with pytest.raises(
        DataError, match="3-0 names source word 3, and the source has 3 words, 0 to 2"
    ):
        read_test_data(files)


def test_damage_to_the_plan_or_the_cache_is_noticed(tmp_path: Path, data: Path) -> None:
    run = folder(tmp_path / "run")
    source = tmp_path / "a.ko"
    source.write_text("".join(f"{line}\n" for line in SENTENCES))
    compare: Callable[[], Comparison] = lambda: regard.compare(  # noqa: E731
        [run], out=tmp_path / "out", test_source=source, test_target=source, speed=False
    )
    first = compare()
    for path in (tmp_path / "out" / "cache").iterdir():
        path.write_text(path.read_text()[:-20])
    assert compare() == first
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "plan.json").write_text('{"budget": 3}')
    with pytest.raises(DataError, match=r"plan.json: damaged"):
        regard.compare(
            out=tmp_path / "other", presets=["rnn"], updates=2, settings=SMALL, **_files(data)
        )
