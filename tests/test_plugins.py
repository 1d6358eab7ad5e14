"""Plug-ins: named ones alone are imported, folders record them, and what goes wrong is a sentence."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import torch
from helpers.forgotten_plugins import forgotten_plugins
from helpers.small_models import SENTENCES

import regard
from regard.attention import SCORES, Score, attention
from regard.common import plugins
from regard.common.checksums import tensor_digest
from regard.common.errors import ConfigurationError, PluginError
from regard.common.plugins import VARIABLE, import_named
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.model_folder import (
    FolderSettings,
    load_settings,
    named_weights,
    save_folder,
    save_weights,
)
from regard.models import ENCODERS, Batch, Model, ModelSettings, build
from regard.search import SearchSettings
from regard.testing import check

SCORE = """
import regard
from regard.attention.scores import ScaledDot

@regard.register_score("{name}")
class Own(ScaledDot):
    pass
"""
SIDE = {"kind": "transformer", "layers": 1, "size": 16, "heads": 2, "feedforward": 16}


@pytest.fixture(autouse=True)
def _without_plugins() -> Iterator[None]:
    with forgotten_plugins():
        yield


def write(path: Path, name: str = "own", more: str = "") -> Path:
    path.write_text(SCORE.format(name=name) + more, encoding="utf-8")
    return path


def model(score: str = "own", **values: object) -> ModelSettings:
    side = {**SIDE, "score": score}
    return ModelSettings.parse({"encoder": side, "decoder": side, **values}, "here")


def folder(path: Path, score: str = "own", kind: str = "bpe") -> Path:
    """Write a model folder whose score, or tokenizer, is of the plug-in."""
    given = TokenizerSettings.parse({"kind": kind}, "here")
    tokenizer = Tokenizer.train(SENTENCES, SENTENCES, given)
    settings = FolderSettings(
        model=model(score), tokenizer=given, search=SearchSettings()
    )
    torch.manual_seed(0)
    sizes = len(tokenizer.source), len(tokenizer.target)
    weights = named_weights(build(settings.model, *sizes, joint=True))
    save_folder(path, settings, tokenizer, origin=tensor_digest(weights, {}))
    save_weights(path, weights)
    return path


def refused(made: Path, name: str) -> list[str]:
    """Open a folder whose plug-in nobody named; return what Python imports, runs or opens of it."""
    events = list[str]()
    is_listening = True

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        if is_listening and event in ("import", "exec", "compile", "open"):
            events.append(f"{event} {arguments}")

    sys.addaudithook(listen)
    cause = rf"{name}==sha256:\w{{12}}….*--plugin {name}.*in Python: import it"
    with pytest.raises(ConfigurationError, match=cause):
        regard.load(made)
    is_listening = False
    return [event for event in events if name in event]


def forget(path: Path) -> None:
    """Forget a plug-in, as a new process would."""
    SCORES.pop("own", None)
    sys.modules.pop(str(path), None)
    os.environ[VARIABLE] = ""
    plugins._identity.cache_clear()


def test_a_folder_opens_only_with_the_plugin_that_it_names(tmp_path: Path) -> None:
    path = write(tmp_path / "sparse.py")
    import_named([str(path)])
    made = folder(tmp_path / "made")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    config = json.loads((made / "config.json").read_text())
    assert config["model"]["plugins"] == [f"sparse==sha256:{digest}"]
    forget(path)
    assert not refused(made, "sparse")

    import_named([str(path)])
    assert regard.load(made).model.decoder.layers[0].cross_attention.score


def test_what_a_notebook_registered_is_refused_elsewhere() -> None:
    with pytest.raises(ConfigurationError, match="a notebook or a script registered"):
        model("own", plugins=["__main__==unknown"])


def test_another_version_of_a_plugin_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "sparse.py")
    import_named([str(path)])
    made = folder(tmp_path / "made")
    forget(path)

    write(path, more="# another version")
    import_named([str(path)])
    with pytest.raises(
        ConfigurationError, match=r"made with sparse==sha256.*and this is"
    ):
        load_settings(made)


def test_the_environment_names_plugins_which_are_imported_when_a_recipe_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(write(tmp_path / "sparse.py")))
    assert "own" not in SCORES

    assert model().plugins[0].startswith("sparse==sha256:")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError) as caught:
        model("nothing")
    assert all(name in str(caught.value) for name in SCORES)


def test_models_without_plugins_record_none() -> None:
    assert model("dot").plugins == ()
    assert model("dot", plugins=["gone==1.0"]).plugins == ()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1 / 0", r"plug-in .*bad\.py: .*ZeroDivisionError.*line 1"),
        ("x = (", r"plug-in .*bad\.py: .*SyntaxError.*line 1"),
        ("raise SystemExit", r"plug-in .*bad\.py: .*SystemExit"),
        ("import nothing_of_this_name", r"plug-in .*bad\.py: .*ModuleNotFoundError"),
        (
            SCORE.format(name="dot"),
            r"plug-in .*bad\.py: attention score 'dot': regard\.",
        ),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_a_sentence(
    tmp_path: Path, text: str, cause: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    before = dict(SCORES)

    with pytest.raises(PluginError, match=cause) as caught:
        import_named([str(path)])
    assert len(caught.value.causes) == 1
    assert dict(SCORES) == before


def test_a_missing_plugin_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="no installed module"):
        import_named(["nothing_of_this_name"])
    os.environ[VARIABLE] = ""
    with pytest.raises(PluginError, match="cannot be read"):
        import_named([str(tmp_path / "gone.py")])


def test_two_plugins_cannot_have_one_name(tmp_path: Path) -> None:
    import_named([str(write(tmp_path / "first.py"))])

    with pytest.raises(
        PluginError, match=r"second\.py: attention score 'own': .*first"
    ):
        import_named([str(write(tmp_path / "second.py"))])


def test_settings_of_another_kind_are_refused() -> None:
    settings = next(iter(ENCODERS))

    with pytest.raises(ConfigurationError, match=r"'mine'.*another kind"):
        regard.register_encoder("mine", settings)(object)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return scores[..., 1:]", "wanted weights of the shape"),
        ("return scores * float('nan')", "some of its weights are NaN"),
        (
            "return None",
            r"wanted weights of the shape \(1, 2, 3, 3\), got None \(line 2 of .*bad\.py\); mend",
        ),
    ],
)
def test_unusable_weights_name_their_plugin(
    tmp_path: Path, body: str, cause: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "import regard\n@regard.register_normaliser('bad')\n"
        f"def bad(scores, keep):\n    {body}\n",
        encoding="utf-8",
    )
    import_named([str(path)])
    made = regard.attention.Attention("cross", 8, 8, 8, 2, normaliser="bad")
    x = torch.zeros(1, 3, 8)

    with pytest.raises(
        PluginError, match=rf"plug-in bad==sha256:\w{{12}}…: bad: {cause}"
    ):
        made(x, made.prepare(x, x))


PARTS = """
import regard
from regard.attention import AttentionPositions
from regard.attention.scores import ScaledDot

@regard.register_normaliser("halved")
def halved(scores, keep):
    return scores.softmax(-1) / 2

@regard.register_normaliser("leaking")
def leaking(scores, keep):
    return scores.softmax(-1)

@regard.register_positions("narrow")
class Narrow(AttentionPositions):
    has_bias = True

    def bias(self, queries, entries):
        return entries

@regard.register_positions("rotating")
class Rotating(AttentionPositions):
    def rotate(self, vectors, positions):
        return vectors[..., 1:]

@regard.register_score("gated")
class Gated(ScaledDot):
    def gate(self, query, context):
        return context * float("nan")

@regard.register_score("failing")
class Failing(ScaledDot):
    def as_dot(self, query):
        raise ValueError("no query")
"""


def with_parts(path: Path, **side: object) -> Model:
    path.write_text(PARTS, encoding="utf-8")
    import_named([str(path)])
    both = {**SIDE, **side}
    settings = ModelSettings.parse({"encoder": both, "decoder": both}, "here")
    return build(settings, 12, 12, joint=True)


@pytest.mark.parametrize(
    ("side", "cause"),
    [
        ({"positions": "narrow"}, "Narrow: wanted biases of the shape"),
        ({"positions": "rotating"}, "Rotating: wanted rotated vectors of the shape"),
        ({"score": "gated"}, "Gated: some of its gated sums are NaN"),
        ({"score": "failing"}, r"ValueError: no query \(line 3\d of .*parts\.py"),
    ],
)
def test_what_a_part_of_a_model_computes_names_its_plugin(
    tmp_path: Path, side: dict[str, object], cause: str
) -> None:
    made = with_parts(tmp_path / "parts.py", **side)
    tokens = torch.full((1, 3), 5)

    with pytest.raises(PluginError, match=rf"plug-in parts==sha256:\w{{12}}…: {cause}"):
        made(Batch(tokens), tokens)


@pytest.mark.parametrize("normaliser", ["halved", "leaking"])
@pytest.mark.filterwarnings("always::UserWarning")
def test_a_doubtful_normaliser_is_named_once(tmp_path: Path, normaliser: str) -> None:
    made = with_parts(tmp_path / "parts.py", normaliser=normaliser)
    problem = "its weights do not sum to one over the visible entries"

    sentence = rf"plug-in parts==sha256:\w{{12}}…: {normaliser}: {problem}"
    with pytest.warns(UserWarning, match=sentence) as warned:
        check(made)
    assert len(warned) == 1


def test_threads_that_find_a_problem_at_once_name_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned = []

    def warn(problem: str, **_: object) -> None:
        """Let another thread find the problem while the first has not returned."""
        warned.append(problem)
        if len(warned) == 1:
            other = Thread(target=attention._warn_once, args=("doubtful weights",))
            other.start()
            other.join()

    monkeypatch.setattr(warnings, "warn", warn)
    attention._warn_once("doubtful weights")

    assert warned == ["doubtful weights"]


def test_the_example_of_a_gate_multiplies_each_head_by_a_number(tmp_path: Path) -> None:
    text = inspect.cleandoc(Score.gate.__doc__ or "")
    code = text[text.index("@regard.register_score") :]
    head = "import torch\nimport regard\nfrom regard.attention import SCORES\n"
    path = tmp_path / "gated.py"
    path.write_text(f"{head}{code}\n")
    import_named([str(path)])
    torch.manual_seed(0)
    gated = regard.attention.Attention("cross", 8, 8, 8, 2, "gated")
    plain = regard.attention.Attention("cross", 8, 8, 8, 2)
    plain.load_state_dict(gated.state_dict(), strict=False)
    query, x = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    with torch.no_grad():
        outputs = [made.attend(query, made.prepare(x, x)) for made in (gated, plain)]

    for head_number in range(2):
        part = slice(4 * head_number, 4 * head_number + 4)
        gates = 1 / (1 + torch.exp(-query[..., part].sum(-1, keepdim=True)))
        torch.testing.assert_close(outputs[0][..., part], outputs[1][..., part] * gates)


def test_a_module_that_the_user_imports_is_named_to_child_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "own_module_of_a_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(path.stem)

    assert os.environ[VARIABLE] == str(path)
    assert SCORES["own"] is module.Own
    assert model().plugins[0].startswith("own_module_of_a_test==sha256:")
    del sys.modules[path.stem]
