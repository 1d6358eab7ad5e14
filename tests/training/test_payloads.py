"""Nothing is ever unpickled: payloads in the files of every kind of folder, and a look at the
source itself.
"""

from __future__ import annotations

import ast
import itertools
import json
import marshal
import pickle
import re
import runpy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.payloads import ALL_FORMS, FORMS, MARKER, Payload
from runs import SIDES

import regard
from regard.common.atomic import file_sha256
from regard.common.checksums import json_digest
from regard.common.errors import RegardError, TrainingError
from regard.learn.samples import korean_english
from regard.models.pretrained import read_tensors

PACKAGE = Path(regard.__file__).parent
UNPICKLERS = {
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "cloudpickle",
    "torch.distributed.checkpoint",
    "torch.hub",
}
CALLS = {"pickle.load", "pickle.loads", "pickle.Unpickler", "np.load", "torch.jit.load"}
SUSPICIOUS = re.compile(
    r"pickle|marshal|shelve|dill|joblib|torch\.hub|\.checkpoint\b"
    r"|(np|torch|jit)\.load|_object\b|from_pretrained"
)
"""Words without which a file need not be parsed."""

# Of a model that has learnt nothing.
pytestmark = pytest.mark.filterwarnings("ignore:the translation")


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """The folder that a payload creates, which nothing may have done at the end of the test."""
    path = tmp_path / MARKER
    yield path

    assert not path.exists(), "a payload was executed"


@pytest.mark.parametrize("form", FORMS)
def test_the_payloads_work(tmp_path: Path, form: str) -> None:
    """They are executed by whoever unpickles, imports or executes them: otherwise the tests would
    prove nothing.
    """
    path = tmp_path / "payload"
    path.write_bytes(FORMS[form](Payload(tmp_path / MARKER)))
    execute: dict[str, Callable[[], object]] = {
        "pickle": lambda: pickle.loads(path.read_bytes()),
        "numpy": lambda: np.load(path, allow_pickle=True),
        "zip": lambda: runpy.run_path(str(path)),
        "marshal": lambda: exec(marshal.loads(path.read_bytes()), {}),
        "source": lambda: exec(path.read_bytes(), {}),
    }
    execute.get(form, lambda: torch.load(path, weights_only=False))()

    assert (tmp_path / MARKER).is_dir()


SETTINGS: dict[str, object] = {
    "tokenizer.size": 560,
    "batching.tokens": 256,
    "batching.micro_batches": 1,
    "data.shards": True,
    "search.no_repeat_ngram": 1,
    "training.updates": 2,
    "training.validate_every": 1,
    "training.validate_with": 2,
    "training.sharded": True,
}
for side in ("encoder", "decoder"):
    SETTINGS |= {
        f"model.{side}.{key}": value for key, value in SIDES["transformer"].items()
    }
PROCESS = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


def _as_torchrun(patch: pytest.MonkeyPatch) -> None:
    """Make this process one that torchrun started, alone, so that its weights are sharded."""
    for name, value in PROCESS.items():
        patch.setenv(name, value)


@pytest.fixture(scope="module")
def sharded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with sharded checkpoints and with shards of its data."""
    data = tmp_path_factory.mktemp("data")
    run = tmp_path_factory.mktemp("sharded") / "run"
    sizes = {"train": 60, "valid": 3, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(data, "ko", "en")
    with pytest.MonkeyPatch.context() as patch:
        _as_torchrun(patch)
        regard.train(
            source=data / "train.ko",
            target=data / "train.en",
            valid_source=data / "valid.ko",
            valid_target=data / "valid.en",
            out=run,
            settings=SETTINGS,
            threads=1,
            device="cpu",
        )

    newest = run / "checkpoints" / "update-00000002"

    assert "model-00001-of-00001.safetensors" in {
        path.name for path in newest.iterdir()
    }

    return run


UNLISTED = [
    ".metadata",
    "sharded/.metadata",
    "__0_0.distcp",
    "data.pkl",
    "more.safetensors",
    "model.safetensors",
]
FEW = {
    "model.safetensors",
    "model-00001-of-00001.safetensors",
    "state.json",
    ".metadata",
}
FEW |= {"00000.source_tokens.npy", "data.pkl"}
NEWEST = "checkpoints/update-00000002"


def _resume(run: Path, expected: Path) -> bool:
    """Resume a run; return whether it could be, and check the weights if so. Another end is an
    error.
    """
    try:
        regard.train(out=run, resume=True, threads=1, device="cpu")
    except RegardError:
        return False

    checkpoint = (expected / NEWEST).glob("*.safetensors")
    for path in (expected / "model.safetensors", *checkpoint):
        actual = (run / path.relative_to(expected)).read_bytes()
        assert actual == path.read_bytes(), path.name

    return True


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*damaged and left out")  # of the journal
@pytest.mark.parametrize("forms", ALL_FORMS)
def test_resuming_executes_no_file_of_a_sharded_run(
    sharded_run: Path,
    tmp_path: Path,
    marker: Path,
    monkeypatch: pytest.MonkeyPatch,
    forms: list[str],
) -> None:
    """Each file in turn holds the payload, those that training did not write too; none of them
    changes the weights.

    All files are tried in the slow tests, with a pickle; with other forms those that weights, or
    data, are read from.
    """
    _as_torchrun(monkeypatch)
    payloads = itertools.cycle(FORMS[form](Payload(marker)) for form in forms)
    files = [path for path in sharded_run.rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(sharded_run)) for path in files)
    names += [f"{NEWEST}/{name}" for name in UNLISTED]
    if forms != ["pickle"]:  # where a reader of this form could be
        names = [name for name in names if Path(name).name in FEW]
    resumed = 0
    for name in names:
        run = shutil.copytree(sharded_run, tmp_path / "run")
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(next(payloads))
        resumed += _resume(run, sharded_run)

        assert not marker.exists(), name

        shutil.rmtree(run)

    in_newest = [name for name in names if name.startswith(NEWEST)]

    assert resumed >= len(in_newest), "an earlier checkpoint is read"


@pytest.mark.system
def test_resuming_in_one_process_executes_no_sealed_payload(
    sharded_run: Path, tmp_path: Path, marker: Path
) -> None:
    """Files of an attacker who writes the checksums anew; without torchrun the run is no longer
    sharded.
    """
    for form in (FORMS["pickle"], FORMS["torch"]):
        run = shutil.copytree(sharded_run, tmp_path / "run")
        for state in run.glob("checkpoints/*/state.json"):
            contents = json.loads(state.read_text())
            contents.pop("checksum")
            for name in [*contents["files"], "sharded.safetensors"]:
                (state.parent / name).write_bytes(form(Payload(marker)))
                contents["files"][name] = file_sha256(state.parent / name)

            (state.parent / ".metadata").write_bytes(form(Payload(marker)))
            state.write_text(
                json.dumps({**contents, "checksum": json_digest(contents)})
            )

        with pytest.raises(TrainingError, match="no checkpoint can be read"):
            regard.train(out=run, resume=True, threads=1, device="cpu")

        shutil.rmtree(run)


@pytest.mark.system
@pytest.mark.parametrize("forms", ALL_FORMS)
def test_loading_executes_no_file_of_a_model_folder(
    sharded_run: Path, tmp_path: Path, marker: Path, forms: list[str]
) -> None:
    payloads = itertools.cycle(FORMS[form](Payload(marker)) for form in forms)
    loaded = 0
    problems = dict[str, str]()
    for path in [path for path in sharded_run.iterdir() if path.is_file()]:
        folder = tmp_path / path.name
        shutil.copytree(
            sharded_run, folder, ignore=shutil.ignore_patterns("checkpoints", "shards")
        )
        (folder / path.name).write_bytes(next(payloads))
        try:
            regard.load(folder).translate("나는 집에 간다")
            loaded += 1
        except RegardError as problem:
            problems[path.name] = str(problem)

        assert not marker.exists(), path.name

    assert all(name in problem for name, problem in problems.items())
    assert loaded >= 3, "journal, recipe and model card are not read"


@pytest.mark.parametrize("name", ["weights.pth", "weights.bin", "weights.safetensors"])
def test_published_weights_are_not_executed(
    tmp_path: Path, marker: Path, name: str
) -> None:
    for form in FORMS.values():
        (tmp_path / name).write_bytes(form(Payload(marker)))
        with pytest.raises(TrainingError, match=name):
            read_tensors(tmp_path / name)


@pytest.mark.system
def test_the_source_calls_no_unpickler() -> None:
    problems = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not SUSPICIOUS.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            for problem in _unpickles(node):
                problems.append(f"{path.name}:{node.lineno}: {problem}")

    assert problems == []


@pytest.mark.parametrize(
    "source",
    [
        "import joblib",
        "from torch.distributed.checkpoint.state_dict_loader import load",
        "from pickle import loads",
        "pickle.load(file)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=False)",
        "dist.all_gather_object(a, b)",
        "Model.from_pretrained(folder)",
    ],
)
def test_the_look_at_the_source_sees_unpicklers(source: str) -> None:
    assert any(list(_unpickles(node)) for node in ast.walk(ast.parse(source)))


def _unpickles(node: ast.AST) -> Iterator[str]:
    """Describe an import or a call by which something could be unpickled."""
    modules = []
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        modules = [node.module]
        if node.module == "pickle":
            yield "imports from pickle"
    for module in modules:
        if any(f"{module}.".startswith(f"{name}.") for name in UNPICKLERS):
            yield f"imports {module}"

    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    call = ast.unparse(node.func)
    options = {option.arg: ast.unparse(option.value) for option in node.keywords}
    if call.endswith("_object") or call in CALLS:
        yield f"calls {call}"
    if call == "torch.load" and options.get("weights_only") != "True":
        yield f"calls {call} without weights_only"
    if node.func.attr == "from_pretrained" and None not in options:
        yield f"calls {call} without the options that make it safe"
