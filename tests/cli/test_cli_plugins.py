"""The plug-ins of `examples/` through the commands, each of which knows only what it names."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from command import (
    TRANSFORMER,
    Command,
    CommandResult,
    as_the_shell_does,
    lines_of,
    sets,
    text_of,
)
from helpers.forgotten_plugins import forgotten_plugins

from regard import reproduce, train
from regard.cli import main
from regard.common.plugins import import_named
from tests.serving.running_server import RunningServer

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """
model.encoder.size=16 model.encoder.embedding=16 model.decoder.size=16 model.decoder.embedding=16
model.decoder.attention_size=16 search.max_ratio=1.0 search.max_extra=5
"""
SETTINGS = {
    "sparsemax": "model.decoder.normaliser=sparsemax",
    "coverage": "model.decoder.score=coverage",
    "mingru": "model.encoder.kind=mingru",
    "jamo": "tokenizer.kind=jamo",
}


SLOW = {"coverage", "mingru"}
"""Kinds of parts with which the laws (laws/test_plugins.py) and the examples are tested, too."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in SETTINGS
    ],
)
def trained_run(
    request: pytest.FixtureRequest,
    corpus: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Train a model with each plug-in, and return its folder, which has the plug-in's name."""
    out = tmp_path_factory.mktemp("runs") / request.param
    settings = sets(SMALL, SETTINGS[request.param], "training.updates=2")
    options = ["--preset", "rnn-bahdanau", "--out", str(out), "--threads", "1"]
    plugin = ["--plugin", str(EXAMPLES / f"{request.param}.py"), "--quiet"]
    with forgotten_plugins(), as_the_shell_does(), pytest.raises(SystemExit) as ended:
        main(["train", *corpus, *options, *settings, *plugin])
    assert ended.value.code == 0
    return out


@pytest.fixture
def name(regard: Command, trained_run: Path) -> str:
    """Copy a run into the current folder, and return the name of its plug-in."""
    shutil.copytree(trained_run, "run")
    return trained_run.name


def call(regard: Command, name: str, *words: object, **options: Any) -> CommandResult:
    """Run a command that names the plug-in."""
    with forgotten_plugins():
        return regard(*words, "--plugin", EXAMPLES / f"{name}.py", **options)


@pytest.mark.system
def test_commands_take_a_plugin_or_say_why_not(
    regard: Command, name: str, data: Path
) -> None:
    source, target = data / "test.ko", data / "test.en"
    files = ["--source", source, "--target", target]
    call(
        regard,
        name,
        *["train", "--out", "run", "--resume", "--threads", "1"],
        *sets("training.updates=3"),
    )

    together = call(regard, name, "translate", "run", source, "--beam", 3).lines
    for line, translation in list(zip(lines_of(source), together, strict=True))[:3]:
        alone = call(regard, name, "translate", "run", "--beam", 3, stdin=f"{line}\n")
        assert alone.lines == [translation]
    with forgotten_plugins(str(EXAMPLES / f"{name}.py")):
        named = regard("translate", "run", source, "--beam", 3)
    assert named.lines == together, "the environment names it as the option does"

    words = "run", "--source", source, "--reference", target, "--beam", 3
    scores = call(regard, name, "evaluate", *words).out
    chrf = sacrebleu.corpus_chrf(together, [lines_of(target)]).score
    assert f"{chrf:.2f}" in scores
    assert len(call(regard, name, "align", "run", *files).lines) == len(together)
    line = lines_of(source)[0]
    call(regard, name, "show", "run", line, "--out", "shown.html")
    assert line.split()[0] in text_of("shown.html")
    with forgotten_plugins():
        regard.fails(
            "translate",
            "run",
            because=["there is no ", f"--plugin {name}, or its file"],
        )
    with forgotten_plugins(str(EXAMPLES / f"{name}.py")):
        export = "export", "run", "--to", "runtime", "file.regard"
        because = "tokenizer.kind is 'jamo'" if name == "jamo" else "no program"
        regard.fails(*export, because=because, status=1)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("trained_run", ["sparsemax"], indirect=True)
def test_a_plugin_is_compared_with_its_speed(
    regard: Command, name: str, data: Path, transformer: Path
) -> None:
    test = ["--test-source", data / "test.ko", "--test-target", data / "test.en"]
    options = ["--beam", 1, "--no-ter", "--threads", 1, "--out", "out"]
    runs = [f"plain={transformer}", f"{name}=run"]
    call(regard, name, "compare", *runs, *test, *options)

    results = json.loads(text_of("out/comparison.json"))["runs"]
    assert all(result["cost"]["tokens_per_second"] > 0 for result in results)
    assert [result["name"] for result in results] == ["plain", name]
    scores = {score["name"]: score["value"] for score in results[1]["scores"]}
    words = "translate", "run", data / "test.ko", "--beam", 1
    output = call(regard, name, *words).lines
    chrf = sacrebleu.corpus_chrf(output, [lines_of(data / "test.en")])
    assert scores["chrF"] == chrf.score


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("trained_run", ["coverage"], indirect=True)
def test_a_plugin_is_served(regard: Command, name: str, data: Path) -> None:
    lines = lines_of(data / "test.ko")[:3]
    options = ["--port", "0", "--languages", "ko,en", "--precision", "float32"]
    plugin = ["--plugin", str(EXAMPLES / f"{name}.py")]
    command = [sys.executable, "-m", "regard", "serve", "run", *options, *plugin]
    server = RunningServer(command)
    try:
        answer = server.post(lines, "ko", "en").json()
    finally:
        server.process.terminate()
        server.ended()

    stdin = "".join(f"{line}\n" for line in lines)
    expected = call(regard, name, "translate", "run", stdin=stdin).lines
    assert answer["translatedText"] == expected


@pytest.mark.system
def test_a_model_with_an_auxiliary_loss_is_a_model_like_any(
    regard: Command, data: Path
) -> None:
    small = {
        key: json.loads(value)
        for key, value in (setting.split("=") for setting in SMALL.split())
    }
    with forgotten_plugins(str(EXAMPLES / "supervised_attention.py")):
        import_named()
        supervised = sys.modules[str(EXAMPLES / "supervised_attention.py")]
        objective = {"objective": supervised.SupervisedAttention()}
        run = train(
            source=data / "train.ko",
            target=data / "train.en",
            alignments=data / "train.align",
            preset="rnn-bahdanau",
            settings={**small, "training.updates": 2, "training.log_every": 1},
            out="run",
            threads=1,
            **objective,
        )
        supervised.resume("run")
        assert reproduce("run", **objective).is_identical

    events = [event for event in run.journal if event["event"] == "train"]
    assert all(event["guided"] > 0 for event in events)
    recorded = str(run.recipe.training.objective)
    assert recorded.startswith("supervised_attention:SupervisedAttention==sha256:")
    assert not Path("run/alignment.json").exists()
    resume = "train", "--out", "run", "--resume", *sets("training.updates=3")
    regard.fails(*resume, because="`objective=`: the recipe has supervised_att")
    regard("export", "run", "--to", "runtime", "run.regard", "--threads", "1")
    together = [
        regard("translate", model, data / "test.ko", "--beam", 3).lines
        for model in ("run", "run.regard")
    ]
    assert together[0] == together[1]
    line = lines_of(data / "test.ko")[0]
    regard("show", "run", line, "--out", "shown.html")
    assert line.split()[0] in text_of("shown.html")


BROKEN = """
import regard
import torch
from regard.attention.scores import ScaledDot
from regard.models import ENCODERS
from regard.models.transformer import TransformerEncoderSettings
from typing import Literal

@regard.register_score("broken")
class Broken(ScaledDot):
    def as_dot(self, query):
        return torch.cat([query, 1]), None

class Settings(TransformerEncoderSettings):
    kind: Literal["narrow"] = "narrow"

@regard.register_encoder("narrow", Settings)
class Narrow(ENCODERS[TransformerEncoderSettings]):
    def forward(self, batch):
        encoded = super().forward(batch)
        object.__setattr__(encoded, "outputs", encoded.outputs[..., 1:])
        return encoded
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("setting", "because", "status"),
    [
        ("model.encoder.score=broken", "broken.py); mend it there", 2),
        ("model.encoder.kind=narrow", "take part: check the shapes", 1),
    ],
)
def test_an_exception_names_its_plugin(
    regard: Command, corpus: list[str], setting: str, because: str, status: int
) -> None:
    Path("broken.py").write_text(BROKEN, encoding="utf-8")
    settings = sets(TRANSFORMER, setting, "training.updates=1")
    options = ["--preset", "transformer-tiny", "--out", "run", "--threads", "1"]
    with forgotten_plugins():
        for more in ([], ["--dry-run"]):
            done = regard.ended(
                "train", *corpus, *options, *settings, "--plugin", "./broken.py", *more
            )
            assert done.status == status
            (cause,) = done.causes
            assert "plug-in" in cause
            assert because in cause
            assert "broken==sha256:" in cause
