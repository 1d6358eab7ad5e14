"""The plug-ins of `examples/` through the commands, each of which knows only what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from command import TRANSFORMER, Command, CommandResult, lines_of, sets, text_of
from helpers.forgotten_plugins import forgotten_plugins

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


@pytest.fixture(params=SETTINGS)
def name(request: pytest.FixtureRequest, regard: Command, corpus: list[str]) -> str:
    """Train a model with each plug-in into the current folder, and return the plug-in's name."""
    settings = sets(SMALL, SETTINGS[request.param], "training.updates=2")
    options = ["--preset", "rnn-bahdanau", "--out", "run", "--threads", "1"]
    call(regard, request.param, "train", *corpus, *options, *settings)
    return str(request.param)


def call(regard: Command, name: str, *words: object, **options: Any) -> CommandResult:
    """Run a command that names the plug-in."""
    with forgotten_plugins():
        return regard(*words, "--plugin", EXAMPLES / f"{name}.py", **options)


@pytest.mark.system
def test_commands_take_a_plugin(regard: Command, name: str, data: Path) -> None:
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


@pytest.mark.system
def test_what_cannot_take_a_plugin_says_why(regard: Command, name: str) -> None:
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
