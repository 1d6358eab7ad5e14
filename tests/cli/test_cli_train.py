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
from command import TRANSFORMER, Command, sets

from regard.common.checksums import sealed
from regard.common.settings import read_toml
from regard.model_folder import load_tensors
from regard.training import budget, journal
from regard.training.recipe import seal_run_recipe

ONE_UPDATE = sets([*TRANSFORMER, "training.updates=1", "training.validate_with=1"])
KO = "나는 집에 간다\n나는 빵을 먹고 있었다\n"
EN = "I go home\nI was eating bread\n"


def write(**contents: str | bytes) -> None:
    """Write files into the current folder; `_` in a name stands for a full stop."""
    for name, content in contents.items():
        Path(name.replace("_", ".")).write_bytes(
            content.encode() if isinstance(content, str) else content
        )


# Invalid data


@pytest.mark.parametrize(
    ("ko", "en", "because"),
    [
        (
            KO,
            EN + "more\n",
            "a.ko has 2 lines but a.en has 3; line n of one must translate line n of the other",
        ),
        (
            b"\xb3\xaa\n",
            EN,
            "a.ko: line 1 is not UTF-8 (byte 0xB3, the line's byte number 1); save the file as UTF-8",
        ),
        (KO, "I go\nI \0\n", "a.en: line 2 holds a NUL character; remove it"),
        ("", EN, "a.ko: the file is empty; give a file with one sentence per line"),
        ("\n\n", EN, "a.ko and a.en: none of the 2 pairs can be used (2 empty)"),
        ("가" * 20_000 + "\n", "x\n", "a.ko and a.en: none of the 1 pair can be used (1 too long)"),
        (None, EN, "a.ko: no such file; did you mean a.en?"),
        ("나는\n", "I\n", "a.ko and a.en: of 1 pair none is left to train on"),
    ],
    ids=["unequal", "not UTF-8", "NUL", "empty", "empty lines", "too long", "missing", "one pair"],
)
def test_invalid_training_files_are_refused(
    regard: Command, ko: str | bytes | None, en: str, because: str
) -> None:
    write(a_en=en, **({} if ko is None else {"a_ko": ko}))
    regard.fails(
        "train", "--source", "a.ko", "--target", "a.en", "--out", "run", status=1, because=because
    )


def test_all_problems_are_reported_at_once(regard: Command) -> None:
    write(a_ko=b"\xff\n", v_en="one\n")
    files = [
        "--source",
        "a.ko",
        "--target",
        "no.txt",
        "--valid-source",
        "v.en",
        "--valid-target",
        "folder",
    ]
    Path("folder").mkdir()
    regard.fails(
        *("train", *files, "--out", "run"),
        status=1,
        because=[
            "a.ko: line 1 is not UTF-8",
            "no.txt: no such file",
            "folder: is a folder; give a text file in it",
        ],
    )


@pytest.mark.parametrize(
    ("name", "content", "because"),
    [
        (
            "a.tsv",
            "x\ty\nz\nu\tv\tw\n",
            ["a.tsv: 2 lines do not hold exactly one tab between source and target"],
        ),
        (
            "a.jsonl",
            '{"source": "x"}\nno\n',
            [
                "line lacks a text under the key source or target; give both (line 1)",
                "1 line is not JSON; write one",
            ],
        ),
    ],
)
def test_invalid_files_of_pairs_are_refused(
    regard: Command, name: str, content: str, because: list[str]
) -> None:
    Path(name).write_text(content)
    regard.fails("train", "--pairs", name, "--out", "run", status=1, because=because)


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--source", "a.ko"], "source is given without target; give source and target"),
        (
            ["--source", "a.ko", "--target", "a.en", "--pairs", "a.tsv"],
            "source and target exclude pairs; give one or the other",
        ),
        (
            ["--source", "a.ko", "--target", "a.en", "--valid-target", "a.en"],
            "valid_target is given without valid_source",
        ),
        ([], "no training pairs; give source and target, or pairs"),
    ],
)
def test_incompatible_files_are_refused(regard: Command, options: list[str], because: str) -> None:
    regard.fails("train", *options, "--out", "run", status=2, because=because)


def test_corrections_and_dropped_pairs_are_reported(regard: Command, data: Path) -> None:
    ko, en = (
        (data / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("ko", "en")
    )
    broken = [*ko[:60], "", "가" * 20_000, "   "]
    write(plain_ko="\n".join(ko[:60]), plain_en="\n".join(en[:60]))
    write(
        other_ko="\ufeff" + "\r\n".join(broken) + "\r\n",
        other_en="\n".join([*en[:60], "one", "two", "three"]) + "\n",
    )
    valid = ["--valid-source", data / "valid.ko", "--valid-target", data / "valid.en"]
    tiny = [*ONE_UPDATE, "--set", "tokenizer.size=600", "--threads", 1]
    done = {
        name: regard(
            "train",
            "--source",
            f"{name}.ko",
            "--target",
            f"{name}.en",
            *valid,
            "--out",
            name,
            *tiny,
        )
        for name in ("plain", "other")
    }
    messages = done["other"].err
    assert "train: 63 pairs read from other.ko and other.en, 60 kept" in messages
    assert "dropped, empty: 2 (lines 61, 63)" in messages
    assert "dropped, too long: 1 (line 62)" in messages
    assert "other.ko: the byte-order mark before line 1 was removed" in messages
    assert "other.ko: 63 lines end in CR LF; the CR was removed" in messages
    assert done["other"].out == ""
    weights = [load_tensors(Path(name) / "model.safetensors") for name in ("plain", "other")]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0]), (
        "the corrected text equals the plain text"
    )


# Invalid settings


@pytest.mark.parametrize(
    ("setting", "because"),
    [
        ("garbage", "--set garbage: wanted key=value, such as"),
        ("=3", "--set =3: wanted key=value"),
        (
            "training.update=5",
            "unknown setting 'training.update'; did you mean 'training.updates'?",
        ),
        ("modle.encoder.layers=2", "unknown setting 'modle"),
        ("training.updates=many", "training.updates: input should be a valid integer, got 'many'"),
        ("training.updates=1.5", "training.updates: input should be a valid integer"),
        (
            "training.updates=0",
            "training.updates: input should be greater than or equal to 1, got 0",
        ),
        (
            "training.precision=float16",
            "training.precision: input should be 'auto', 'float32' or 'bfloat16', got 'float16'",
        ),
        (
            "model.encoder.heads=3",
            "model.encoder: size 128 cannot be split into 3 heads; choose a multiple",
        ),
        ("model.encoder.layerz=3", "layerz'; did you mean 'model.encoder.layers'?"),
        (
            "tokenizer.size=100000",
            "tokenizer.size: 100,000 tokens are more than the text of both sides together can fill; the largest possible size is",
        ),
        (
            "tokenizer.size=20",
            "tokenizer.size: 20 tokens are fewer than the characters of both sides together need; the smallest possible size is",
        ),
    ],
)
def test_invalid_settings_are_refused(
    regard: Command, corpus: list[str], setting: str, because: str
) -> None:
    regard.fails("train", *corpus, "--set", setting, "--out", "run", status=2, because=because)


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ([], "--out: say which folder to write, such as --out runs/first"),
        (
            ["--out", "run", "--preset", "transformer-tinny"],
            "no preset is called 'transformer-tinny'; there are transformer-tiny, ",
        ),
        (["--out", "run", "--device", "gpu"], "--device gpu: wanted auto, cpu, cuda or mps"),
        (["--out", "run", "--threads", "0"], "--threads"),
        (["--out", "run", "--seed", "-1"], "--seed"),
        (["--out", "run", "--seed", "9" * 20], "--seed"),
        (["--out", "run", "--sed", "1"], "no such option: --sed"),
        (["--out", "run", "one.toml", "two.toml"], "two.toml"),
        (["--out", "run", "--set"], "--set"),
    ],
)
def test_invalid_options_are_refused(
    regard: Command, corpus: list[str], options: list[str], because: str
) -> None:
    regard.fails("train", *corpus, *options, status=2, because=because)


# A settings file

DATA = '[data]\nsource = "a.ko"\ntarget = "a.en"\n'


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("", "c.toml: data: no training pairs"),
        ("[data\n", "c.toml: not valid TOML: "),
        ('{"data": 1}', "c.toml: not valid TOML: "),
        (DATA + "[trainning]\n", "c.toml: unknown setting 'trainning'; did you mean 'training'?"),
        (
            DATA + "[training]\nupdatez=1\nsed=1",
            [
                "'training.updatez'; did you mean 'training.updates'?",
                "did you mean 'training.seed'?",
            ],
        ),
        (
            DATA + '[training]\nupdates="3"\nseed=1.5\n',
            ["training.seed: input should be a valid integer, got 1.5", "training.updates: input"],
        ),
        (
            "\ufeff" + DATA + "[training]\nupdates=0\n",
            "c.toml: training.updates: input should be greater than or equal to 1",
        ),
        (DATA.encode("utf-16"), "c.toml: not UTF-8 at byte 0; save the file as UTF-8"),
        (DATA.encode() + b'licence = "\xff"\n', "c.toml: not UTF-8 at byte"),
        ("training=3\n" + DATA, "c.toml: training: "),
        ("model=3\n" + DATA, "c.toml: model: "),
        ("data=3\n", "c.toml: data: "),
        ('preset="rnm"\n' + DATA, "no preset is called 'rnm'"),
        ("preset=3\n" + DATA, "no preset is called '3'"),
    ],
)
def test_an_invalid_settings_file_is_refused(
    regard: Command, content: str | bytes, because: str | list[str]
) -> None:
    write(c_toml=content)
    regard.fails("train", "c.toml", "--out", "run", status=2, because=because)


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "a.jsonl", "a.CSV"])
def test_pairs_in_the_place_of_settings_are_refused_with_the_right_option(
    regard: Command, name: str
) -> None:
    Path(name).write_bytes(b"\x1f\x8b")
    regard.fails(
        "train", name, "--out", "run", status=2, because=f"belongs here; give --pairs {name}"
    )


def test_unreadable_settings_files_are_refused(regard: Command) -> None:
    Path("folder").mkdir()
    regard.fails(
        "train",
        "no.toml",
        "--out",
        "run",
        status=2,
        because="no.toml: cannot be read (No such file or directory); give",
    )
    regard.fails(
        "train",
        "folder",
        "--out",
        "run",
        status=2,
        because="folder: cannot be read (Is a directory); give",
    )


PARTS = {
    "a part of the model": (
        "[model.encoder]\nlayers = 0\n",
        "model.encoder.layers: input should be greater",
        "transformer",
    ),
    "a preset and a part of the model": (
        'preset = "rnn-bahdanau"\n[model.decoder]\nsize = 0\n',
        "model.decoder.size: input",
        "recurrent",
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_partial_recipe_is_completed_by_a_preset(regard: Command, part: str) -> None:
    content, because, _ = PARTS[part]
    preset, _, rest = content.rpartition("[model")
    write(c_toml=f"{preset}{DATA}[model{rest}")
    regard.fails("train", "c.toml", "--out", "run", status=2, because=because)


def test_the_preset_option_replaces_that_of_the_file(regard: Command, corpus: list[str]) -> None:
    write(c_toml='preset = "rnn-bahdanau"\n')
    regard("train", "c.toml", *corpus, "--preset", "transformer-tiny", *ONE_UPDATE, "--out", "run")
    assert read_toml("run/train.toml")["model"]["encoder"]["kind"] == "transformer"


def test_options_override_the_file(regard: Command, corpus: list[str]) -> None:
    write(
        c_toml=DATA
        + "[training]\nupdates = 5000\nseed = 8\n[tokenizer]\nsize = 1000\n[model.encoder]\nlayers = 2\n"
    )
    regard("train", "c.toml", *corpus, *ONE_UPDATE, "--seed", 3, "--out", "run", "--quiet")
    recipe = read_toml("run/train.toml")
    assert (
        recipe["training"]["updates"],
        recipe["training"]["seed"],
        recipe["tokenizer"]["size"],
    ) == (1, 3, 1200)
    assert recipe["data"]["source"] == corpus[1]
    assert recipe["model"]["encoder"]["layers"] == 1
    repeated = regard("train", "run/train.toml", "--out", "again")
    assert read_toml("again/train.toml") == recipe
    weights = [load_tensors(Path(name) / "model.safetensors") for name in ("run", "again")]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert repeated.out == ""


# Folders


@pytest.mark.parametrize(
    ("out", "because"),
    [
        ("file", "--out file: nothing can be written in file; choose another folder"),
        ("file/run", "--out file/run: nothing can be written in "),
        ("project", "--out project: its README.md would be overwritten; choose another folder"),
    ],
)
def test_unwritable_folders_are_refused(
    regard: Command, corpus: list[str], out: str, because: str
) -> None:
    Path("file").touch()
    Path("project").mkdir()
    Path("project/README.md").write_text("mine")
    regard.fails("train", *corpus, "--out", out, status=2, because=because)


def test_a_read_only_folder_is_refused(
    regard: Command, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("theirs").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK or str(path) != "theirs")
    regard.fails(
        "train",
        *corpus,
        "--out",
        "theirs",
        status=2,
        because="nothing can be written in theirs; choose another folder",
    )


def test_a_run_is_not_overwritten(regard: Command, corpus: list[str], transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    regard.fails(
        "train",
        *corpus,
        "--out",
        "run",
        status=2,
        because="run: there is a run already; add --resume to continue it",
    )


def test_a_failed_start_can_be_repeated(
    regard: Command, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("regard.training.Trainer.run", _full)
        done = regard.ended("train", *corpus, *ONE_UPDATE, "--out", "run")
    assert done.causes == [
        "No space left on device; check the path, its permissions and the free disk space"
    ]
    assert done.status == 1
    shutil.rmtree("run/checkpoints", ignore_errors=True)
    Path("run/journal.jsonl").unlink(missing_ok=True)
    regard("train", *corpus, *ONE_UPDATE, "--out", "run")


def _full(_: object) -> None:
    raise OSError(28, "No space left on device")


# Resuming


def test_a_finished_run_resumes_if_given_more_updates(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    assert "training ended after 120 updates" in regard("train", "--out", "run", "--resume").err
    done = regard(
        "train",
        "--out",
        "run",
        "--resume",
        "--set",
        "training.updates=122",
        "--set",
        "training.log_every=1",
    )
    assert "resuming from update 120" in done.err
    assert "update 122/122" in done.err
    assert read_toml("run/train.toml")["training"]["updates"] == 122
    events = [
        json.loads(line)["event"] for line in Path("run/journal.jsonl").read_text().splitlines()
    ]
    assert events.count("resume") == 2
    assert "training ended after 122 updates" in regard("train", "--out", "run", "--resume").err


def test_minutes_that_became_updates_may_be_given_again(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    done = regard("train", "--out", "run", "--resume", "--set", "training.minutes=5")
    assert (
        "training.minutes = 5: the run ends at training.updates = 120, and that holds" in done.err
    )
    assert read_toml("run/train.toml")["training"]["updates"] == 120


def test_changed_settings_are_reported_with_the_value_that_holds(
    regard: Command, transformer: Path
) -> None:
    shutil.copytree(transformer, "run")
    before = read_toml("run/train.toml")
    changes = sets(
        ["model.encoder.layers=2", "tokenizer.size=900", "search.beam=7", "schedule.warmup=9"]
    )
    done = regard("train", "--out", "run", "--resume", *changes, "--seed", 5)
    for message in (
        "model.encoder.layers was 1 and is 2 now: 1 holds, the weights have that shape; for the other value train anew",
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
            ["--resume", "--preset", "rnn-bahdanau"],
            ["--preset: a resumed run has its recipe already"],
        ),
        (
            ["--resume", "--budget", "5m"],
            ["leave --budget or --resume out; to train longer, set training.updates"],
        ),
        (
            ["--resume", "--budget", "30m", "--from", "run", "--dry-run"],
            ["--from: a resumed run", "--budget: a resumed run", "--dry-run: a resumed run"],
        ),
        (
            ["--from", "run", "--preset", "rnn-bahdanau"],
            ["--preset: with --from the model is that of the parent run"],
        ),
        (["--budget", "soon"], ["--budget soon: wanted a time such as 30m, 1h30m or 90s"]),
        (["--from", "nowhere"], ["nowhere: no such folder"]),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    regard: Command, transformer: Path, options: list[str], because: list[str]
) -> None:
    shutil.copytree(transformer, "run")
    status = 1 if "nowhere" in options else 2
    regard.fails(
        "train",
        "--out",
        "run" if "--resume" in options else "new",
        *options,
        status=status,
        because=because,
    )


# Other starts: fine-tuning, budgets, several processes, alignments


def test_fine_tuning_starts_with_the_weights_of_the_parent(
    regard: Command, transformer: Path, corpus: list[str]
) -> None:
    done = regard(
        "train", *corpus, "--from", transformer, *sets(["training.updates=2"]), "--out", "tuned"
    )
    assert f"vocabulary: 1,224 tokens of {transformer}" in done.err
    assert Path("tuned/joint.model").read_bytes() == (transformer / "joint.model").read_bytes()
    before, after = (
        load_tensors(folder / "model.safetensors") for folder in (transformer, Path("tuned"))
    )
    distance = sum(float((before[name] - after[name]).norm()) for name in before)
    assert 0 < distance < 0.2 * sum(float(tensor.norm()) for tensor in before.values()), (
        "it started with those weights"
    )
    assert read_toml("tuned/train.toml")["model"] == read_toml(transformer / "train.toml")["model"]


def test_a_fine_tuned_run_that_died_early_restarts_with_the_same_weights(
    regard: Command, transformer: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*corpus, "--from", transformer, *sets(["training.updates=2"])]
    regard("train", *options, "--out", "tuned")
    with monkeypatch.context() as patched:
        patched.setattr("regard.training.Trainer.run", _full)
        regard.ended("train", *options, "--out", "died")
    done = regard("train", "--out", "died", "--resume")
    assert "there is no checkpoint yet: starting from the beginning" in done.err
    regard("train", "tuned/train.toml", "--out", "again")
    whole, *repeated = (
        load_tensors(Path(name) / "model.safetensors") for name in ("tuned", "died", "again")
    )
    for weights in repeated:
        assert all(whole[name].equal(weights[name]) for name in whole)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("tokenizer.kind=unigram", "tokenizer.kind = 'unigram': with --from the vocabulary of"),
        ("tokenizer.kind=char", "tokenizer.kind = 'char': with --from the vocabulary of"),
        ("tokenizer.size=900", "tokenizer.size = 900: with --from the vocabulary of"),
        (
            "model.encoder.layers=3",
            "leave out what changes the model's shape, or train without --from",
        ),
    ],
)
def test_settings_that_contradict_the_parent_are_refused(
    regard: Command, transformer: Path, corpus: list[str], setting: str, expected: str
) -> None:
    done = regard.ended("train", *corpus, "--from", transformer, "--set", setting, "--out", "tuned")
    assert [expected in cause for cause in done.causes] == [True]
    assert done.status == 2
    assert not Path("tuned").exists()
    dry = regard.ended("train", *corpus, "--from", transformer, "--set", setting, "--dry-run")
    assert (dry.causes, dry.status) == (done.causes, 2)


@contextmanager
def steady_time() -> Iterator[None]:
    """Let five seconds pass at each look at the clock, and ten in an update of a trial, however
    busy the machine is.
    """
    ticks = count(step=5.0)
    trial = budget.trial
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(ticks))
        patched.setattr(
            budget, "trial", lambda *arguments: replace(trial(*arguments), seconds=10.0)
        )
        yield


def test_a_budget_shortens_the_warm_up_of_a_given_size(regard: Command, corpus: list[str]) -> None:
    options = [
        "--preset",
        "transformer-tiny",
        *sets(["batching.tokens=512", "training.validate_with=1"]),
    ]
    with steady_time():
        done = regard("train", *corpus, *options, "--budget", "3m", "--out", "run")
    assert "chosen: transformer-tiny for " in done.err
    recipe = read_toml("run/train.toml")
    (expected,) = re.findall(r"about ([\d,]+) updates", done.err)
    assert recipe["schedule"]["warmup"] == max(1, int(expected.replace(",", "")) // 4)


ALONE = {
    "RANK": 0,
    "WORLD_SIZE": 1,
    "LOCAL_RANK": 0,
    "LOCAL_WORLD_SIZE": 1,
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": 0,
}
"""Environment that torchrun sets for a single process."""


def test_workers_restarted_by_torchrun_resume(
    regard: Command, transformer: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {
        "from": [*corpus, "--from", transformer, *sets(["training.updates=1"])],
        "preset": [*corpus, "--preset", "transformer-tiny", *ONE_UPDATE],
        "file": ["part.toml", *corpus, "--from", transformer, *sets(["training.updates=1"])],
        "minutes": [*corpus, *sets([*TRANSFORMER, "training.minutes=0.001"])],
        "budget": [*corpus, *sets(TRANSFORMER), "--budget", "3m", *sets(["schedule.warmup=4000"])],
    }
    Path("part.toml").write_text("[batching]\ntokens = 2000\n", encoding="utf-8")
    for name, options in runs.items():
        with steady_time():
            regard("train", *options, *sets(["training.validate_with=1"]), "--out", name)
        recipe = Path(name, "train.toml").read_bytes()
        with monkeypatch.context() as patched:
            for key, value in {**ALONE, "TORCHELASTIC_RESTART_COUNT": 1}.items():
                patched.setenv(key, str(value))
            done = regard("train", *options, *sets(["training.validate_with=1"]), "--out", name)
        assert "resuming from update" in done.err
        assert "holds from here on" not in done.err
        assert Path(name, "train.toml").read_bytes() == recipe


def test_fine_tuning_takes_a_fifth_of_the_peak_learning_rate(
    regard: Command, transformer: Path, corpus: list[str]
) -> None:
    shutil.copytree(transformer, "parent")
    before = read_toml("parent/train.toml")
    size = before["model"]["decoder"]["size"]
    before["schedule"] = {"kind": "noam", "peak": 2.0, "warmup": 400}
    Path("parent/train.toml").write_text(tomli_w.dumps(before))
    seal_run_recipe(Path("parent/train.toml"))
    regard(
        "train",
        *corpus,
        "--from",
        "parent",
        *sets(["training.updates=1", "training.validate_with=1"]),
        "--out",
        "a",
    )
    schedule = read_toml("a/train.toml")["schedule"]
    assert schedule["kind"] == "inverse_square_root"
    assert schedule["peak"] == pytest.approx(2.0 * size**-0.5 * 400**-0.5 / 5)


def test_fine_tuning_on_longer_sources_raises_the_longest_source(
    regard: Command, transformer: Path, corpus: list[str]
) -> None:
    shutil.copytree(transformer, "parent")
    config = json.loads(Path("parent/config.json").read_text())
    longest = config["search"]["longest_source"]
    small = sets(["training.updates=1", "training.validate_with=1"])
    for limit, expected in ((3, longest), (3 * longest, 3 * longest)):
        config["search"]["longest_source"] = limit
        Path("parent/config.json").write_text(json.dumps(sealed(config)))
        regard("train", *corpus, "--from", "parent", *small, "--out", f"tuned{limit}")
        assert (
            json.loads(Path(f"tuned{limit}/config.json").read_text())["search"]["longest_source"]
            == expected
        )


@pytest.mark.parametrize(
    "search", [["search.mbr=true"], ["search.beam=4", "search.groups=2"], ["search.sample=true"]]
)
def test_search_settings_do_not_change_validation(
    regard: Command, corpus: list[str], search: list[str]
) -> None:
    for name, more in (("greedy", []), ("run", search)):
        regard("train", *corpus, *ONE_UPDATE, *sets(more), "--out", name)
    scores = [
        [
            line["chrf"]
            for line in journal.read(Path(name) / "journal.jsonl")
            if line["event"] == "valid"
        ]
        for name in ("greedy", "run")
    ]
    assert scores[0] == scores[1], "validation is greedy"


def test_a_script_that_the_vocabulary_cannot_spell_is_refused(
    regard: Command, transformer: Path
) -> None:
    Path("ru").write_text("Я ем хлеб\nМы идём домой\n" * 20, encoding="utf-8")
    Path("en").write_text("I eat bread\nWe go home\n" * 20, encoding="utf-8")
    because = "the source side: 100% of the letters are Cyrillic"
    files = ["--source", "ru", "--target", "en"]
    regard.fails(
        "train", *files, "--from", transformer, "--out", "tuned", status=1, because=because
    )
    assert not Path("tuned").exists()


def test_one_head_is_guided_by_alignments(regard: Command, corpus: list[str], data: Path) -> None:
    """Train with links as a user does, then ask for alignments, which come from the guided head."""
    links = ["--alignments", data / "train.align"]
    more = sets(
        [
            "training.updates=60",
            "training.log_every=20",
            "model.decoder.layers=2",
            "training.guided=1",
        ]
    )
    done = regard("train", *corpus, *links, *ONE_UPDATE, *more, "--out", "run", "--threads", 1)
    assert f"word links read from {data / 'train.align'}" in done.err
    assert (
        "guided: decoder.layers.0.cross_attention, head 1, weight 1 (training.guided)" in done.err
    )
    assert " · guided " in done.err
    regard("show", "run", "--view", "curve", "--out", "curve.svg")
    assert ">guided<" in Path("curve.svg").read_text(encoding="utf-8")
    recipe = read_toml("run/train.toml")
    assert (recipe["data"]["alignments"], recipe["training"]["guided"]) == (
        str(data / "train.align"),
        1.0,
    )
    stored = json.loads(Path("run/alignment.json").read_text(encoding="utf-8"))
    assert (stored["layer"], stored["head"], stored["shifted"]) == (
        "decoder.layers.0.cross_attention",
        0,
        False,
    )
    pairs = [
        "--source",
        data / "test.ko",
        "--target",
        data / "test.en",
        "--gold",
        data / "test.align",
    ]
    best, last = regard("align", "run", *pairs).lines
    assert best.endswith("layer 1, head 1, at the step that predicts the word")
    assert float(best.split()[1].rstrip("%")) < float(last.split()[1].rstrip("%")) - 10
    shutil.copytree("run", "other")
    chosen = regard("align", "other", *pairs, "--choose").err
    assert "chosen by gold links" in chosen
    assert regard("translate", "run", data / "test.ko", "--alignments").lines
    regard("train", "--resume", "--out", "other", "--set", "training.updates=61")
    assert "guided" not in json.loads(Path("other/alignment.json").read_text(encoding="utf-8")), (
        "chosen by the user"
    )


def test_the_guided_example_of_the_docs_runs(regard: Command, data: Path) -> None:
    """Run the command of docs/training.md."""
    page = (Path(__file__).parent.parent.parent / "docs" / "training.md").read_text(
        encoding="utf-8"
    )
    (line,) = [
        line
        for line in page.splitlines()
        if line.startswith("    regard train") and "--alignments" in line
    ]
    shutil.copytree(data, "here")
    os.chdir("here")
    assert "guided: " in regard(*line.split()[1:], *ONE_UPDATE).err
    assert Path("runs/aligned/alignment.json").is_file()


def test_the_default_weight_of_alignments_is_a_twentieth(
    regard: Command, corpus: list[str], data: Path
) -> None:
    links = ["--alignments", data / "train.align"]
    done = regard("train", *corpus, *links, *ONE_UPDATE, "--out", "run")
    assert "weight 0.05 (training.guided)" in done.err
    assert read_toml("run/train.toml")["training"]["guided"] == 0.05
    done = regard(
        "train", *corpus, *links, *ONE_UPDATE, *sets(["training.guided=0"]), "--out", "free"
    )
    assert "training.guided = 0: the alignments are not used" in done.err
    assert not Path("free/alignment.json").exists()
    assert "guided: " in regard("train", *corpus, *links, *ONE_UPDATE, "--dry-run").err


def test_alignments_that_cannot_guide_are_refused(
    regard: Command, corpus: list[str], data: Path
) -> None:
    lines = (data / "train.align").read_text(encoding="utf-8").splitlines()
    write(bad_align="\n".join(["0-0 1_1", "99-0", *lines[2:-1]]) + "\n")
    because = [
        "bad.align, line 1: wanted pairs such as 0-0, or 0p0 for a merely possible link; got '1_1'",
        "bad.align, line 2: 99-0 names source word 99, and the source has ",
        "bad.align has 299 lines but train has 300 pairs; line n must link the words of pair n",
    ]
    links = ["--alignments", "bad.align"]
    regard.fails("train", *corpus, *links, *ONE_UPDATE, "--out", "run", status=1, because=because)
    regard.fails(
        *("train", *corpus, *ONE_UPDATE, *sets(["training.guided=1"]), "--out", "run"),
        status=2,
        because="training.guided = 1 needs word alignments; give data.alignments, or leave it out",
    )
    for setting, because_of in (
        (
            "training.guided_layer=7",
            "layer 7 was asked for, and this decoder has 1 with cross-attention; give 1 to 1, or auto",
        ),
        ("training.guided_head=3", "head 3 was asked for, and layer 1 has 2; give 1 to 2"),
    ):
        more = ["--alignments", data / "train.align", *ONE_UPDATE, *sets([setting]), "--out", "run"]
        regard.fails("train", *corpus, *more, status=2, because=because_of)
    plain = sets(["training.updates=1"])
    because_plain = "training.guided: this decoder has no attention to guide (model.decoder.kind = no_attention)"
    more = ["--alignments", data / "train.align", "--preset", "rnn", *plain, "--out", "run"]
    regard.fails("train", *corpus, *more, status=2, because=because_plain)


@pytest.mark.slow
def test_a_budget_chooses_a_size(regard: Command, corpus: list[str]) -> None:
    small = sets(["batching.tokens=64", "training.validate_with=2"])
    with steady_time():
        done = regard("train", *corpus, "--budget", "3m", *small, "--out", "run")
    assert "transformer-base: " in done.err
    assert "chosen: transformer-tiny for " in done.err
    training = read_toml("run/train.toml")["training"]
    assert "minutes" not in training
    assert f"training ended after {training['updates']:,} updates" in done.err.replace(",", "")


def test_a_dry_run_writes_nothing(regard: Command, corpus: list[str]) -> None:
    done = regard("train", *corpus, "--dry-run", *ONE_UPDATE)
    assert os.listdir() == []
    kinds = [line.split(":")[0] for line in done.lines if not line.startswith("  ")]
    assert kinds == ["model", "memory", "speed", "time", "elsewhere"]
    assert "can be exported to ctranslate2" in done.lines[-1]
    assert "not to huggingface: model.encoder.norm is 'pre'" in done.lines[-1]
    parts = [line for line in done.lines if line.startswith("  ")]
    weights = int(done.lines[0].split(" ")[1].replace(",", ""))
    assert sum(int(line.split(": ")[1].replace(",", "")) for line in parts) == weights


def test_resuming_needs_a_run(regard: Command, corpus: list[str]) -> None:
    Path("empty").mkdir()
    for out in ("empty", "no"):
        because = (
            f"--resume: {out}/train.toml is missing, so {out} is not a run; train without --resume"
        )
        for files in ([], corpus):
            regard.fails("train", *files, "--out", out, "--resume", status=2, because=because)


def test_missing_parts_of_a_run_are_named_or_replaced(regard: Command, transformer: Path) -> None:
    shutil.copytree(transformer, "run")
    shutil.rmtree("run/checkpoints")
    done = regard("train", "--out", "run", "--resume", "--set", "training.updates=1")
    assert "there is no checkpoint yet: starting from the beginning" in done.err
    Path("run/joint.model").unlink()
    regard.fails(
        "train",
        "--out",
        "run",
        "--resume",
        status=1,
        because="run/joint.model: cannot be read (No such file or directory); copy it",
    )
    Path("run/train.toml").write_text("[data]\n")
    because = "run/train.toml: damaged or changed (it has no SHA-256); put a copy back"
    regard.fails("train", "--out", "run", "--resume", status=1, because=because)


def test_a_changed_recipe_is_refused_by_resume_until_it_is_sealed(
    regard: Command, transformer: Path
) -> None:
    shutil.copytree(transformer, "run")
    path = Path("run/train.toml")
    path.write_text(path.read_text().replace("log_every = ", "log_every = 1"))
    because = (
        "run/train.toml: damaged or changed (its values do not match the SHA-256 in its first line)"
    )
    regard.fails("train", "--out", "run", "--resume", status=1, because=because)
    assert regard.ended("doctor", "run").lines[-1].startswith(f"BAD {because}")
    assert regard("doctor", "run", "--seal").lines[-1] == "ok  run/train.toml"
    before = path.read_text()
    path.write_text(before + "# a note at the end changes no value\n")
    assert regard("doctor", "run").lines[-1] == "ok  run/train.toml"


def test_quiet_training_prints_nothing(regard: Command, corpus: list[str]) -> None:
    done = regard("train", *corpus, *ONE_UPDATE, "--out", "run", "--quiet", "--threads", 1)
    assert (done.out, done.err) == ("", "")
    assert sorted(os.listdir()) == ["run"]
    assert not [path for path in Path("run").rglob("*") if path.suffix in (".part", ".partial")]


def test_the_card_says_whose_the_model_is(regard: Command) -> None:
    write(a_ko=KO * 5, a_en=EN * 5)
    corpus = [
        "--source",
        "a.ko",
        "--target",
        "a.en",
        "--valid-source",
        "a.ko",
        "--valid-target",
        "a.en",
    ]
    options = [
        "--licence",
        "cc-by-4.0",
        "--author",
        "A. Author",
        "--source-of-data",
        "strings of\na program",
    ]
    regard("train", *corpus, *options, *ONE_UPDATE, "--set", "tokenizer.size=300", "--out", "run")
    card = Path("run/README.md").read_text(encoding="utf-8")
    assert "- Licence: CC-BY-4.0.\n- Author: A. Author\n- Data from: strings of a program\n" in card
    done = regard.ended("train", *corpus, "--licence", "free", "--out", "other")
    assert done.status == 2
    assert "data.licence: wanted an SPDX licence such as CC-BY-4.0" in done.err
    assert not Path("other").exists()
