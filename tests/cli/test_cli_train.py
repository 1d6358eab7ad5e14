"""regard train: refused input, messages and written files."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import tomli_w
from command import TRANSFORMER, Command, lines_of, sets, text_of, write_lines

from regard.common.checksums import sealed
from regard.common.settings import read_toml
from regard.model_folder import load_tensors
from regard.training import budget, journal
from regard.training.recipe import seal_run_recipe

SHORT = sets("training.updates=1 training.validate_with=1")
ONE_UPDATE = [*sets(TRANSFORMER), *SHORT]
KO = ["나는 집에 간다", "나는 빵을 먹고 있었다"]
EN = ["I go home", "I was eating bread"]
FILES = "--source a.ko --target a.en"


def weights(folder: str | Path) -> dict[str, bytes]:
    """Return the weights of a folder, by name."""
    tensors = load_tensors(Path(folder) / "model.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


# Invalid data


@pytest.mark.parametrize(
    ("ko", "because"),
    [
        (
            [*KO, "more"],
            "a.ko has 3 lines but a.en has 2; line n of one must translate line n of",
        ),
        ([], "a.ko: the file is empty; give a file with one sentence per line"),
        (
            ["", "가" * 20_000],
            "a.ko and a.en: none of the 2 pairs can be used (1 empty, 1 too lo",
        ),
        ([KO[0], ""], "a.ko and a.en: of 1 pair none is left to train on"),
    ],
)
def test_invalid_training_files_are_refused(
    regard: Command, ko: list[str], because: str
) -> None:
    write_lines("a.ko", ko)
    write_lines("a.en", EN)
    regard.fails(f"train {FILES} --out run", status=1, because=because)


def test_all_problems_are_reported_at_once(regard: Command) -> None:
    Path("a.ko").write_bytes(b"\xff\n")
    Path("folder").mkdir()
    write_lines("v.en", ["one"])
    causes = [
        "a.ko: line 1 is not UTF-8",
        "no.txt: no such file",
        "folder: is a folder; give a text file in it",
    ]
    files = "--source a.ko --target no.txt --valid-source v.en --valid-target folder"
    regard.fails(f"train {files} --out run", status=1, because=causes)

    write_lines("a.jsonl", ['{"source": "x"}', "no"])
    causes = [
        "line lacks a text under the key source or target; give both (line 1)",
        "1 line is not JSON; write one",
    ]
    regard.fails("train --pairs a.jsonl --out run", status=1, because=causes)


# Invalid settings and options


@pytest.mark.parametrize(
    ("setting", "because"),
    [
        ("garbage", "--set garbage: wanted key=value, such as"),
        (
            "training.update=5",
            "unknown setting 'training.update'; did you mean 'training.updates",
        ),
        (
            "training.updates=0",
            "training.updates: input should be greater than or equal to 1, got",
        ),
        (
            "model.encoder.heads=3",
            "model.encoder: size 128 cannot be split into 3 heads; choose a",
        ),
        (
            "tokenizer.size=100000",
            "tokenizer.size: 100,000 tokens are more than the text of both",
        ),
        (
            "tokenizer.size=20",
            "tokenizer.size: 20 tokens are fewer than the characters of both",
        ),
    ],
)
def test_invalid_settings_are_refused(
    regard: Command, corpus: list[str], setting: str, because: str
) -> None:
    regard.fails("train", *corpus, "--set", setting, "--out", "run", because=because)


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ("", "--out: say which folder to write, such as --out runs/first"),
        (
            "--out run --preset rnm",
            "no preset is called 'rnm'; there are transformer-tiny, ",
        ),
        ("--out run --device gpu", "--device gpu: wanted auto, cpu, cuda or mps"),
        ("--out run --sed 1", "no such option: --sed"),
        ("--out run one.toml two.toml", "two.toml"),
        (
            "--out run --budget soon",
            "--budget soon: wanted a time such as 30m, 1h30m or 90s",
        ),
        (
            "--out run --licence free",
            "data.licence: wanted an SPDX licence such as CC-BY-4.0",
        ),
        (
            "--out run --pairs a.tsv",
            "source and target exclude pairs; give one or the other",
        ),
        (
            "--out file",
            "--out file: nothing can be written in file; choose another folder",
        ),
        ("--out file/run", "--out file/run: nothing can be written in "),
        (
            "--out project",
            "--out project: its README.md would be overwritten; choose another",
        ),
        ("--out theirs", "nothing can be written in theirs; choose another folder"),
        (
            "--out empty --resume",
            "--resume: empty/train.toml is missing, so empty is not a run",
        ),
    ],
)
def test_invalid_options_are_refused(
    regard: Command,
    corpus: list[str],
    options: str,
    because: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("file").touch()
    for name in ("project", "theirs", "empty"):
        Path(name).mkdir()
    Path("project/README.md").write_text("mine")
    monkeypatch.setattr(
        "os.access", lambda path, mode: mode != os.W_OK or str(path) != "theirs"
    )
    regard.fails("train", *corpus, *options.split(), because=because)


# A settings file

DATA = '[data]\nsource = "a.ko"\ntarget = "a.en"\n'


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("", "c.toml: data: no training pairs"),
        ("[data\n", "c.toml: not valid TOML: "),
        (
            f"{DATA}[trainning]\n",
            "c.toml: unknown setting 'trainning'; did you mean 'training'?",
        ),
        (
            f"\ufeff{DATA}[training]\nupdates=0\n",
            "c.toml: training.updates: input should be grea",
        ),
        (f"training=3\n{DATA}", "c.toml: training: "),
        ("data=3\n", "c.toml: data: "),
        (f"preset=3\n{DATA}", "no preset is called '3'"),
        (
            f"{DATA}[model.encoder]\nlayers = 0\n",
            "model.encoder.layers: input should be greater",
        ),
        (
            f'preset = "rnn-bahdanau"\n{DATA}[model.decoder]\nsize = 0\n',
            "model.decoder.size: input",
        ),
    ],
)
def test_an_invalid_settings_file_is_refused(
    regard: Command, content: str, because: str
) -> None:
    """A part of a model is completed by a preset."""
    Path("c.toml").write_text(content, encoding="utf-8")
    regard.fails("train c.toml --out run", because=because)


def test_files_in_the_place_of_settings_are_refused(regard: Command) -> None:
    Path("folder").mkdir()
    for name in ("pairs.tsv.gz", "a.CSV"):
        Path(name).write_bytes(b"\x1f\x8b")
        regard.fails(
            f"train {name} --out run", because=f"belongs here; give --pairs {name}"
        )
    because = "folder: cannot be read (Is a directory); give"
    regard.fails("train folder --out run", because=because)


def test_options_override_the_file(regard: Command, corpus: list[str]) -> None:
    settings = [
        "[training]",
        "updates = 5000",
        "seed = 8",
        "[tokenizer]",
        "size = 1000",
    ]
    write_lines("c.toml", ['preset = "rnn-bahdanau"', *DATA.split("\n"), *settings])
    options = [*corpus, "--preset", "transformer-tiny", *ONE_UPDATE, "--seed", 3]
    done = regard(
        "train", "c.toml", *options, "--out", "run", "--quiet", "--threads", 1
    )
    assert (done.out, done.err) == ("", "")
    assert sorted(os.listdir()) == ["c.toml", "run"]
    assert not list(Path("run").rglob("*.part*"))

    recipe = read_toml("run/train.toml")
    assert recipe["training"]["updates"] == 1
    assert recipe["training"]["seed"] == 3
    assert recipe["tokenizer"]["size"] == 1200
    assert recipe["data"]["source"] == corpus[1]
    assert recipe["model"]["encoder"]["kind"] == "transformer"
    assert recipe["model"]["encoder"]["layers"] == 1
    assert regard("train run/train.toml --out again").out == ""
    assert read_toml("again/train.toml") == recipe
    assert weights("again") == weights("run")


# Resuming


def _full(_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_failed_start_can_be_repeated(
    regard: Command,
    transformer: Path,
    corpus: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = [*corpus, "--from", transformer, *SHORT]
    regard("train", *options, "--out", "tuned")
    for folder in ("died", "removed"):
        with monkeypatch.context() as patched:
            patched.setattr("regard.training.Trainer.run", _full)
            done = regard.ended("train", *options, "--out", folder)
        assert done.status == 1
        assert done.causes[0].startswith("No space left on device; check the path")

    done = regard("train --out died --resume")
    assert "there is no checkpoint yet: starting from the beginning" in done.err

    shutil.rmtree("removed/checkpoints", ignore_errors=True)
    Path("removed/journal.jsonl").unlink(missing_ok=True)
    regard("train", *options, "--out", "removed")
    regard("train tuned/train.toml --out again")
    assert weights("tuned") == weights("died") == weights("removed") == weights("again")


def test_a_finished_run_resumes_if_given_more_updates(
    regard: Command, run: Path, corpus: list[str]
) -> None:
    because = "run: there is a run already; add --resume to continue it"
    regard.fails("train", *corpus, "--out", "run", because=because)

    resume = "train --out run --resume"
    done = regard(f"{resume} --set training.minutes=5")
    ends = "the run ends at training.updates = 120, and that holds"
    assert f"training.minutes = 5: {ends}" in done.err
    assert "training ended after 120 updates" in done.err
    assert read_toml("run/train.toml")["training"]["updates"] == 120

    done = regard(f"{resume} --set training.updates=122 --set training.log_every=1")
    assert "resuming from update 120" in done.err
    assert "update 122/122" in done.err
    assert read_toml("run/train.toml")["training"]["updates"] == 122

    events = [event["event"] for event in journal.read(Path("run/journal.jsonl"))]
    assert events.count("resume") == 2


def test_changed_settings_are_reported_with_the_value_that_holds(
    regard: Command, run: Path
) -> None:
    before = read_toml("run/train.toml")
    changes = (
        "model.encoder.layers=2 tokenizer.size=900 search.beam=7 schedule.warmup=9"
    )
    done = regard("train", "--out", "run", "--resume", *sets(changes), "--seed", 5)
    for message in (
        "model.encoder.layers was 1 and is 2 now: 1 holds, the weights have that shape; for the",
        "tokenizer.size was 1200 and is 900 now: 1200 holds",
        "search.beam was 3 and is 7 now: 3 holds",
        "training.seed was 1 and is 5 now: 1 holds",
        "now: 9 holds from here on",
    ):
        assert message in done.err

    before["schedule"]["warmup"] = 9
    assert read_toml("run/train.toml") == before


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (
            "--out run --resume --preset rnn --from run --dry-run",
            [
                "--preset: a resumed run has its recipe already",
                "--from: a resumed run",
                "--dry-run: a resumed run",
                "--preset: with --from the model is that of the parent",
            ],
        ),
        (
            "--out run --resume --budget 5m",
            ["leave --budget or --resume out; to train longer"],
        ),
        (
            "--out new --from run --preset rnn",
            ["--preset: with --from the model is that of the"],
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    regard: Command, run: Path, options: str, because: list[str]
) -> None:
    regard.fails(f"train {options}", because=because)


def test_missing_parts_of_a_run_are_named_or_replaced(
    regard: Command, run: Path
) -> None:
    resume = "train --out run --resume"
    shutil.rmtree("run/checkpoints")
    done = regard(f"{resume} --set training.updates=1")
    assert "there is no checkpoint yet: starting from the beginning" in done.err

    Path("run/joint.model").unlink()
    because = "run/joint.model: cannot be read (No such file or directory); copy it"
    regard.fails(resume, status=1, because=because)

    Path("run/train.toml").write_text("[data]\n")
    because = "run/train.toml: damaged or changed (it has no SHA-256); put a copy back"
    regard.fails(resume, status=1, because=because)


def test_a_changed_recipe_is_refused_by_resume_until_it_is_sealed(
    regard: Command, run: Path
) -> None:
    path = run / "train.toml"
    path.write_text(path.read_text().replace("log_every = ", "log_every = 1"))
    because = (
        "run/train.toml: damaged or changed (its values do not match the SHA-256 in its"
    )
    regard.fails("train --out run --resume", status=1, because=because)
    assert regard.ended("doctor run").lines[-1].startswith(f"BAD {because}")
    assert regard("doctor run --seal").lines[-1] == "ok  run/train.toml"

    with path.open("a") as file:
        file.write("# a note at the end changes no value\n")
    assert regard("doctor run").lines[-1] == "ok  run/train.toml"


# Other starts: fine-tuning, budgets, several processes, alignments


def test_fine_tuning_starts_with_the_weights_of_the_parent(
    regard: Command, run: Path, corpus: list[str]
) -> None:
    """The peak of its learning rate is a fifth, and its longest source may be longer."""
    parent = read_toml("run/train.toml")
    parent["schedule"] = {"kind": "noam", "peak": 2.0, "warmup": 400}
    Path("run/train.toml").write_text(tomli_w.dumps(parent))
    seal_run_recipe(Path("run/train.toml"))
    config = json.loads(text_of("run/config.json"))
    longest = config["search"]["longest_source"]
    for limit, expected in ((3, longest), (3 * longest, 3 * longest)):
        config["search"]["longest_source"] = limit
        Path("run/config.json").write_text(json.dumps(sealed(config)))
        done = regard(
            "train", *corpus, "--from", "run", *SHORT, "--out", f"tuned{limit}"
        )
        assert "vocabulary: 1,224 tokens of run" in done.err
        tuned = json.loads(text_of(f"tuned{limit}/config.json"))
        assert tuned["search"]["longest_source"] == expected
    assert (
        Path("tuned3/joint.model").read_bytes() == Path("run/joint.model").read_bytes()
    )

    before = load_tensors(Path("run/model.safetensors"))
    after = load_tensors(Path("tuned3/model.safetensors"))
    distance = sum(float((before[name] - after[name]).norm()) for name in before)
    length = sum(float(tensor.norm()) for tensor in before.values())
    assert 0 < distance < 0.2 * length, "it started with those weights"

    recipe = read_toml("tuned3/train.toml")
    assert recipe["model"] == parent["model"]
    assert recipe["schedule"]["kind"] == "inverse_square_root"

    size = parent["model"]["decoder"]["size"]
    assert recipe["schedule"]["peak"] == pytest.approx(2.0 * size**-0.5 * 400**-0.5 / 5)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "tokenizer.kind=char",
            "tokenizer.kind = 'char': with --from the vocabulary of",
        ),
        ("tokenizer.size=900", "tokenizer.size = 900: with --from the vocabulary of"),
        (
            "model.encoder.layers=3",
            "leave out what changes the model's shape, or train without",
        ),
    ],
)
def test_settings_that_contradict_the_parent_are_refused(
    regard: Command, transformer: Path, corpus: list[str], setting: str, expected: str
) -> None:
    options = [*corpus, "--from", transformer, "--set", setting]
    regard.fails("train", *options, "--out", "tuned", because=expected)
    assert not Path("tuned").exists()
    regard.fails("train", *options, "--dry-run", because=expected)


def test_a_script_that_the_vocabulary_cannot_spell_is_refused(
    regard: Command, transformer: Path
) -> None:
    write_lines("a.ko", ["Я ем хлеб", "Мы идём домой"] * 20)
    write_lines("a.en", ["I eat bread", "We go home"] * 20)
    because = "the source side: 100% of the letters are Cyrillic"
    command = f"train {FILES} --from {transformer} --out tuned"
    regard.fails(command, status=1, because=because)


@contextmanager
def steady_time() -> Iterator[None]:
    """Let five seconds pass at each look at the clock, and ten in an update of a trial, however
    busy the machine is.
    """
    ticks = count(step=5.0)
    trial = budget.trial

    def steady_trial(*arguments: object) -> object:
        return replace(trial(*arguments), seconds=10.0)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(ticks))
        patched.setattr(budget, "trial", steady_trial)
        yield


def test_a_budget_shortens_the_warm_up_of_a_given_size(
    regard: Command, corpus: list[str]
) -> None:
    settings = TRANSFORMER.replace("schedule.warmup=10", "")
    options = [
        "--preset",
        "transformer-tiny",
        *sets(settings),
        "--budget",
        "3m",
        "--out",
        "run",
    ]
    with steady_time():
        done = regard("train", *corpus, *options)
    assert "chosen: transformer-tiny for " in done.err

    (expected,) = re.findall(r"about ([\d,]+) updates", done.err)
    warmup = read_toml("run/train.toml")["schedule"]["warmup"]
    assert warmup == max(1, int(expected.replace(",", "")) // 4)


ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
    "TORCHELASTIC_RESTART_COUNT": "1",
}
"""Environment that torchrun sets for a single process that it has restarted."""


@pytest.mark.parametrize(
    "options",
    [
        "part.toml --from PARENT --set training.updates=1",
        "--preset transformer-tiny SMALL --set training.updates=1",
        "SMALL --set training.minutes=0.001",
        "SMALL --budget 3m --set schedule.warmup=4000",
    ],
)
def test_workers_restarted_by_torchrun_resume(
    regard: Command,
    transformer: Path,
    corpus: list[str],
    options: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("part.toml").write_text("[batching]\ntokens = 2000\n", encoding="utf-8")
    options = options.replace("PARENT", str(transformer))
    options = options.replace("SMALL", " ".join(sets(TRANSFORMER)))
    command = ["train", *options.split(), *corpus, "--out", "run"]
    command += ["--set", "training.validate_with=1"]
    with steady_time():
        regard(*command)

    recipe = Path("run/train.toml").read_bytes()
    for key, value in ALONE.items():
        monkeypatch.setenv(key, value)

    done = regard(*command)
    assert "resuming from update" in done.err
    assert "holds from here on" not in done.err
    assert Path("run/train.toml").read_bytes() == recipe


def test_search_settings_do_not_change_validation(
    regard: Command, corpus: list[str]
) -> None:
    scores = set()
    for search in ("", "search.mbr=true search.groups=3"):
        regard("train", *corpus, *ONE_UPDATE, *sets(search), "--out", f"run{search}")
        events = journal.read(Path(f"run{search}/journal.jsonl"))
        scores |= {event["chrf"] for event in events if event["event"] == "valid"}
    assert len(scores) == 1, "validation is greedy"


def test_one_head_is_guided_by_alignments(regard: Command, data: Path) -> None:
    """Run the command of docs/training.md, and ask for alignments, which come from that head."""
    page = Path(__file__).parents[2] / "docs" / "training.md"
    commands = [line for line in lines_of(page) if line.startswith("    regard train")]
    (command,) = (line for line in commands if "--alignments" in line)
    shutil.copytree(data, "here")
    os.chdir("here")
    more = sets("model.decoder.layers=2 training.log_every=1")
    done = regard(*command.split()[1:], *ONE_UPDATE, *more)
    assert "word links read from " in done.err

    guided = "decoder.layers.0.cross_attention, head 1, weight 0.05 (training.guided)"
    assert f"guided: {guided}" in done.err
    assert " · guided " in done.err

    run = "runs/aligned"
    recipe = read_toml(f"{run}/train.toml")
    assert recipe["training"]["guided"] == 0.05, "the default is a twentieth"

    regard(f"show {run} --view curve --out curve.svg")
    assert ">guided<" in text_of("curve.svg")

    stored = json.loads(text_of(f"{run}/alignment.json"))
    assert stored["layer"] == "decoder.layers.0.cross_attention"
    assert (stored["head"], stored["shifted"]) == (0, False)

    pairs = "--source test.ko --target test.en --gold test.align"
    best, _ = regard(f"align {run} {pairs}").lines
    assert best.endswith("layer 1, head 1, at the step that predicts the word")
    assert "chosen by gold links" in regard(f"align {run} {pairs} --choose").err

    regard(f"train --resume --out {run} --set training.updates=2")
    assert "guided" not in json.loads(text_of(f"{run}/alignment.json")), (
        "chosen by the user"
    )


def test_alignments_that_cannot_guide_are_refused(
    regard: Command, corpus: list[str], data: Path
) -> None:
    command = ["train", *corpus, "--out", "run", *ONE_UPDATE]
    because = "training.guided = 1 needs word alignments; give data.alignments, or leave it out"
    regard.fails(*command, "--set", "training.guided=1", because=because)

    command += ["--alignments", str(data / "train.align")]
    because = "layer 7 was asked for, and this decoder has 1 with cross-attention; give 1 to 1"
    regard.fails(*command, "--set", "training.guided_layer=7", because=because)
    assert "guided: " in regard(*command, "--dry-run").err

    done = regard(*command, "--set", "training.guided=0")
    assert "training.guided = 0: the alignments are not used" in done.err
    assert not Path("run/alignment.json").exists()


def test_a_dry_run_writes_nothing(regard: Command, corpus: list[str]) -> None:
    done = regard("train", *corpus, "--dry-run", *ONE_UPDATE)
    assert os.listdir() == []

    parts = [line for line in done.lines if line.startswith("  ")]
    model, *others = (line for line in done.lines if line not in parts)
    kinds = [line.split(":")[0] for line in others]
    assert kinds == ["memory", "speed", "time", "elsewhere"]
    assert "can be exported to ctranslate2" in others[-1]
    assert "not to huggingface: model.encoder.norm is 'pre'" in others[-1]

    total = int(model.split(" ")[1].replace(",", ""))
    assert sum(int(line.split(": ")[1].replace(",", "")) for line in parts) == total


def test_the_card_says_whose_the_model_is(regard: Command) -> None:
    write_lines("a.ko", KO * 5)
    write_lines("a.en", EN * 5)
    files = [*FILES.split(), "--valid-source", "a.ko", "--valid-target", "a.en"]
    owner = ["--licence", "cc-by-4.0", "--author", "A. Author"]
    owner += ["--source-of-data", "strings of\na program"]
    settings = [*ONE_UPDATE, "--set", "tokenizer.size=300"]
    regard("train", *files, *owner, *settings, "--out", "run")
    said = "- Licence: CC-BY-4.0.\n- Author: A. Author\n- Data from: strings of a program\n"
    assert said in text_of("run/README.md")
