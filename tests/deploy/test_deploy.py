"""The files of deploy/: what can be said of them without the platforms that they are for."""

from __future__ import annotations

import configparser
import importlib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prometheus_client.core import Metric

from rota import Rota
from rota.cli.main import COMMANDS
from rota.cli.worker import KILL_AFTER_S
from rota.config import FILE_VARIABLE, PREFIX, SECTIONS, load_settings
from rota.server.asgi import make_asgi

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SHUTDOWN_S = load_settings().jobs.shutdown_timeout_s
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a file of YAML."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def workloads() -> dict[str, dict[str, Any]]:
    """What runs on Kubernetes: each pod's specification by its name."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in documents("kubernetes/rota.yaml")
        if each["kind"] in ("Deployment", "Job")
    }


def services() -> dict[str, dict[str, Any]]:
    """What compose starts of ours."""
    found: dict[str, dict[str, Any]] = documents("compose.yaml")[0]["services"]
    return {name: each for name, each in found.items() if name != "postgres"}


def unit(path: Path) -> configparser.ConfigParser:
    """A unit of systemd."""
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text("utf-8"))
    return parser


UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours that a file starts, without the program's name."""
    for path in UNITS:
        program, *arguments = shlex.split(unit(path)["Service"]["ExecStart"])
        assert program == "/opt/rota/bin/rota"
        yield path.name, arguments
    for name, service in services().items():
        yield f"compose {name}", service["command"]
    for name, pod in workloads().items():
        yield f"kubernetes {name}", pod["containers"][0]["args"]
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    for command in re.findall(r"^CMD (.+)$", text, re.M):
        yield "Dockerfile", json.loads(command)


@pytest.mark.parametrize(
    ("where", "arguments"), list(commands()), ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_commands_exist_with_their_options(where: str, arguments: list[str]) -> None:
    name, *rest = arguments
    assert name in COMMANDS, where
    command: Any = typer.main.get_command(importlib.import_module(f"rota.cli.{name}").app)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {each for each in rest if each.startswith("-")} <= known


def test_settings_exist() -> None:
    known = {f"{PREFIX}{section}_{key}".upper() for section, keys in SECTIONS.items() for key in keys} | {FILE_VARIABLE}
    named = {name: path.name for path in FILES for name in re.findall(r"\bROTA_[A-Z_]+\b", path.read_text("utf-8"))}
    assert {name: file for name, file in named.items() if name not in known} == {}
    assert len(named) > 5


def test_the_examples_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    assert load_settings(DEPLOY / "example" / "rota.toml").app.location == "app:app"
    config = next(each for each in documents("kubernetes/rota.yaml") if each["kind"] == "ConfigMap")["data"]["rota.toml"]
    (tmp_path / "rota.toml").write_text(config)
    assert load_settings(tmp_path / "rota.toml").jobs.shutdown_timeout_s == SHUTDOWN_S
    for line in (DEPLOY / "systemd" / "rota.env").read_text("utf-8").splitlines():
        if line and not line.startswith("#") and not line.startswith(FILE_VARIABLE):
            monkeypatch.setenv(*line.split("=", 1))
    assert load_settings().server.trusted_proxies == ("127.0.0.1",)


def test_the_example_is_an_application() -> None:
    namespace: dict[str, Any] = {}
    exec(compile((DEPLOY / "example" / "app.py").read_text("utf-8"), "app.py", "exec"), namespace)
    assert {"send_welcome", "digest"} <= namespace["app"].tasks.keys()


class TestStopping:
    """Whoever kills a process that does not end must wait longer than running jobs may take to finish."""

    @pytest.mark.parametrize("path", [path for path in UNITS if "migrate" not in path.name], ids=lambda path: path.name)
    def test_systemd(self, path: Path) -> None:
        service = unit(path)["Service"]
        assert float(service["TimeoutStopSec"]) > SHUTDOWN_S + KILL_AFTER_S
        assert (service["KillSignal"], service["KillMode"], service["Restart"]) == ("SIGTERM", "mixed", "always")

    def test_kubernetes(self) -> None:
        for name in ("rota-server", "rota-worker"):
            pod = workloads()[name]
            hook = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
            assert pod["terminationGracePeriodSeconds"] > SHUTDOWN_S + float(hook[1])

    def test_compose(self) -> None:
        assert {int(service["stop_grace_period"].removesuffix("s")) > SHUTDOWN_S for service in services().values()} == {True}


class TestConfined:
    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_systemd(self, path: Path) -> None:
        service = unit(path)["Service"]
        assert service["User"] == "rota"
        wanted = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}
        assert {name: service.get(name) for name in wanted} == wanted

    def test_kubernetes(self) -> None:
        for pod in workloads().values():
            assert pod["securityContext"]["runAsNonRoot"] is True
            [container] = pod["containers"]
            confined = container["securityContext"]
            assert (confined["allowPrivilegeEscalation"], confined["readOnlyRootFilesystem"]) == (False, True)
            assert confined["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]

    def test_image(self) -> None:
        stages = re.split(r"^FROM ", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.M)[1:]
        assert len(stages) == 2
        assert re.search(r"^USER 10001:10001$", stages[-1], re.M)
        assert "pip" not in stages[-1]
        installs = re.findall(r"pip install (.+?)(?: \\)?$", stages[0], re.M)
        assert [("--require-hashes" in each) or ("--no-deps" in each) for each in installs] == [True] * 3


def test_probes_and_health_checks_ask_what_is_there() -> None:
    paths = {"server": {"/healthz", "/readyz"}, "worker": {"/healthz"}}
    for name, pod in workloads().items():
        role = name.removeprefix("rota-")
        [container] = pod["containers"]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        probes = [probe["httpGet"] for kind, probe in container.items() if kind.endswith("Probe")]
        assert {probe["path"] for probe in probes} == paths.get(role, set())
        assert {probe["port"] for probe in probes} <= ports.keys()
    server, worker = services()["server"], services()["worker"]
    assert "localhost:8000/readyz" in server["healthcheck"]["test"][-1]
    assert f"localhost:{worker['command'][-1]}/healthz" in worker["healthcheck"]["test"][-1]
    for service in (server, worker):
        compile(service["healthcheck"]["test"][-1], "health check", "exec")
        assert service["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The series that workers and servers have, each with its labels."""
    found: dict[str, set[str]] = {}
    settings = load_settings(database_url="postgresql://nowhere/", app_env="local", auth_secret="x" * 32)
    for family in make_asgi(Rota(settings=settings)).state.rota.gauges.registry.collect():
        found |= {name: {*family._labelnames} for name in _series(family)}  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module")
def expressions() -> dict[str, str]:
    """Every expression of the dashboard and the alert rules."""
    [rules] = documents("prometheus/alerts.yaml")
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    board = json.loads((DEPLOY / "grafana" / "rota.json").read_text("utf-8"))
    for panel in board["panels"]:
        found |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel.get("targets", ())}
    return found | {each["name"]: each["query"] for each in board["templating"]["list"]}


class TestMetrics:
    def test_every_name_is_exported(self, exported: dict[str, set[str]], expressions: dict[str, str]) -> None:
        used = {name: where for where, text in expressions.items() for name in re.findall(r"\brota_[a-z_]+", text)}
        assert {name: where for name, where in used.items() if name not in exported} == {}
        families = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in exported}
        shown = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in used}
        assert families - shown == set(), "nobody looks at these"

    def test_every_label_is_there(self, exported: dict[str, set[str]], expressions: dict[str, str]) -> None:
        for where, text in expressions.items():
            for name, matchers in re.findall(r"\b(rota_[a-z_]+)\{([^}]*)\}", text):
                asked = set(re.findall(r"([a-z]+)\s*=~?", matchers))
                assert asked <= exported[name], f"{where}: {name}"
            grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", text) for label in labels.split(",")}
            names = re.findall(r"\brota_[a-z_]+", text)
            has = set().union(*(exported[name] for name in names)) | {"le", "instance"}
            assert grouped <= has, where

    def test_parentheses_are_closed(self, expressions: dict[str, str]) -> None:
        for where, text in expressions.items():
            assert [text.count(sign) for sign in "([{"] == [text.count(sign) for sign in ")]}"], where

    def test_alerts_and_scrapes_speak_of_the_same_jobs(self, expressions: dict[str, str]) -> None:
        [scrapes] = documents("prometheus/prometheus.yaml")
        jobs = {each["job_name"] for each in scrapes["scrape_configs"]}
        assert {name for text in expressions.values() for name in re.findall(r'job="([^"]+)"', text)} <= jobs
        assert scrapes["rule_files"] == ["alerts.yaml"]

    def test_alerts_say_what_to_do(self) -> None:
        [rules] = documents("prometheus/alerts.yaml")
        for rule in (rule for group in rules["groups"] for rule in group["rules"]):
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert rule["annotations"].keys() == {"summary", "description"}

    def test_panels_do_not_lie_over_each_other(self) -> None:
        board = json.loads((DEPLOY / "grafana" / "rota.json").read_text("utf-8"))
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in board["panels"])
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells))
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


class TestLocks:
    """What the image installs is what is tested."""

    def pins(self, name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
        found = dict(re.findall(r"^([A-Za-z0-9._-]+(?:\[[a-z,]+\])?)==([^\s;]+)", text, re.M))
        assert text.count("--hash=sha256:") >= len(found)
        return {re.sub(r"\[.*", "", each).lower().replace("_", "-"): version for each, version in found.items()}

    @pytest.mark.parametrize("name", ["server", "build"])
    def test_versions_are_those_of_the_tests(self, name: str) -> None:
        dev, pins = self.pins("dev"), self.pins(name)
        assert {each: version for each, version in pins.items() if dev.get(each) != version} == {}

    def test_nothing_is_missing(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        extras = project["optional-dependencies"]
        needed = [*project["dependencies"], *extras["server"], *extras["secrets"]]
        names = {re.match(r"[A-Za-z0-9._-]+", each)[0].lower() for each in needed} - {"rota-jobs"}  # type: ignore[index]
        assert names - self.pins("server").keys() == set()
        assert "hatchling" in self.pins("build")


def test_no_secret_and_no_registry_is_named() -> None:
    for path in FILES:
        text = path.read_text("utf-8")
        assert not re.search(r"docker\.io|ghcr\.io|quay\.io|gcr\.io|pypi\.org|files\.pythonhosted", text), path.name


def _series(family: Metric) -> list[str]:
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}
    return [family.name + ending for ending in endings[family.type]]
