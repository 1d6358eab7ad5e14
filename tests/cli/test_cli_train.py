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
from unittest.mock import Mock

import pytest
import tomli_w
from command import TRANSFORMER, Command, lines_of, sets, text_of

from regard.common.checksums import sealed
from regard.common.settings import read_toml
from regard.model_folder import load_tensors
from regard.training import budget, journal
from regard.training.recipe import seal_run_recipe

SHORT = sets("training.updates=1 training.validate_with=1")
ONE_UPDATE = [*sets(TRANSFORMER), *SHORT]


def weights(folder: str | Path) -> dict[str, bytes]:
    """Return the weights of a folder, by name."""
    tensors = load_tensors(Path(folder) / "model.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


# A settings file


def test_options_override_the_file(regard: Command, corpus: list[str]) -> None:
    Path("c.toml").write_text(
        """
        preset = "rnn-bahdanau"
        data = {source = "a.ko", target = "a.en"}
        training = {updates = 5000, seed = 8}
        tokenizer.size = 1000
        """
    )
    options = [*corpus, "--preset", "transformer-tiny", *ONE_UPDATE, "--seed", 3]
    quiet = ["--quiet", "--threads", 1]
    done = regard("train", "c.toml", *options, "--out", "run", *quiet)
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


def test_a_failed_start_can_be_repeated(
    regard: Command,
    transformer: Path,
    corpus: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = [*corpus, "--from", transformer, *SHORT]
    full = Mock(side_effect=OSError(28, "No space left on device"))
    for folder in ("died", "removed"):
        with monkeypatch.context() as patched:
            patched.setattr("regard.training.Trainer.run", full)
            done = regard.ended("train", *options, "--out", folder)
        assert done.status == 1
        assert done.causes[0].startswith("No space left on device; check the path")

    done = regard("train --out died --resume")
    assert "there is no checkpoint yet: starting from the beginning" in done.err

    shutil.rmtree("removed/checkpoints", ignore_errors=True)
    Path("removed/journal.jsonl").unlink(missing_ok=True)
    regard("train", *options, "--out", "removed")
    assert weights("died") == weights("removed")


def test_a_finished_run_resumes_if_given_more_updates(
    regard: Command, run: Path
) -> None:
    before = read_toml("run/train.toml")
    resume = "train --out run --resume --set training.minutes=5 --seed 5"
    done = regard(f"{resume} --set schedule.warmup=9")
    ends = "the run ends at training.updates = 120, and that holds"
    for message in (
        f"training.minutes = 5: {ends}",
        "training.seed was 1 and is 5 now: 1 holds",
        "now: 9 holds from here on",
        "training ended after 120 updates",
    ):
        assert message in done.err

    before["schedule"]["warmup"] = 9
    assert read_toml("run/train.toml") == before

    more = "--set training.updates=122 --set training.log_every=1"
    done = regard(f"train --out run --resume {more}")
    assert "resuming from update 120" in done.err
    assert "update 122/122" in done.err
    assert read_toml("run/train.toml")["training"]["updates"] == 122

    events = [event["event"] for event in journal.read(Path("run/journal.jsonl"))]
    assert events.count("resume") == 2


def test_missing_parts_of_a_run_are_named_or_replaced(
    regard: Command, run: Path
) -> None:
    resume = "train --out run --resume"
    shutil.rmtree("run/checkpoints")
    done = regard(f"{resume} --set training.updates=1")
    assert "there is no checkpoint yet: starting from the beginning" in done.err

    for name, because in (
        ("joint.model", "cannot be read (No such file or directory); copy it"),
        ("train.toml", "damaged or changed (it has no SHA-256); put a copy back"),
    ):
        Path("run", name).unlink()
        Path("run/train.toml").touch()
        regard.fails(resume, status=1, because=f"run/{name}: {because}")


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
        out = f"tuned{limit}"
        done = regard("train", *corpus, "--from", "run", *SHORT, "--out", out)
        assert "vocabulary: 1,224 tokens of run" in done.err
        tuned = json.loads(text_of(f"{out}/config.json"))
        assert tuned["search"]["longest_source"] == expected

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
    regard(f"show {run} --view curve --out curve.svg")
    assert ">guided<" in text_of("curve.svg")

    pairs = "--source test.ko --target test.en --gold test.align"
    best, _ = regard(f"align {run} {pairs}").lines
    assert best.endswith("layer 1, head 1, at the step that predicts the word")

    regard(f"align {run} {pairs} --choose")
    regard(f"train --resume --out {run} --set training.updates=2")
    chosen = json.loads(text_of(f"{run}/alignment.json"))
    assert "guided" not in chosen, "chosen by the user"


def test_alignments_guide_unless_their_weight_is_zero(
    regard: Command, corpus: list[str], data: Path
) -> None:
    command = ["train", *corpus, "--out", "run", *ONE_UPDATE]
    command += ["--alignments", data / "train.align"]
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
    sizes = [int(line.split(": ")[1].replace(",", "")) for line in parts]
    assert sum(sizes) == total


def test_the_card_says_whose_the_model_is(regard: Command, corpus: list[str]) -> None:
    owner = ["--licence", "cc-by-4.0", "--author", "A. Author"]
    owner += ["--source-of-data", "strings of\na program"]
    regard("train", *corpus, *owner, *ONE_UPDATE, "--out", "run")
    lines = "- Licence: CC-BY-4.0.\n- Author: A. Author\n- Data from: strings of a program\n"
    assert lines in text_of("run/README.md")
