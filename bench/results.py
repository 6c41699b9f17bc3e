"""The figures of a run: collected, reduced to medians, written and read as JSON."""

import json
import os
import platform
import statistics
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.system import OUT

Figures = dict[str, float]
LATEST = OUT / "latest.json"


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    scenario: str
    system: str
    round: int
    figures: Figures


@dataclass(frozen=True)
class Failure:
    """A measurement that could not be made, and why."""

    scenario: str
    system: str
    round: int
    reason: str


@dataclass
class Results:
    """All that a run measured, with what is needed to read it later."""

    postgres: str
    rounds: int
    quick: bool
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: str = field(default_factory=lambda: f"{os.cpu_count()} cores, {_cpu_model()}, {_memory()}")
    python: str = field(default_factory=platform.python_version)
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def median(self, scenario: str, system: str, figure: str) -> float | None:
        """The median over the rounds, or None where nothing was measured."""
        return self.medians(scenario).get(system, {}).get(figure)

    def medians(self, scenario: str) -> dict[str, Figures]:
        """The medians of every figure, by system, in the order of first measurement."""
        collected: dict[str, dict[str, list[float]]] = {}
        for sample in self.samples:
            if sample.scenario == scenario:
                figures = collected.setdefault(sample.system, defaultdict(list))
                for name, value in sample.figures.items():
                    figures[name].append(value)
        return {
            system: {name: statistics.median(values) for name, values in figures.items()} for system, figures in collected.items()
        }

    def write(self) -> Path:
        """Write a file named after the time of the run, and the same as the latest."""
        OUT.mkdir(parents=True, exist_ok=True)
        path = OUT / f"{self.at.replace(':', '').replace('+0000', 'Z')}.json"
        text = json.dumps(asdict(self), indent=1)
        path.write_text(text)
        LATEST.write_text(text)
        return path


def read(path: Path = LATEST) -> Results:
    """Read what a run wrote."""
    raw = json.loads(path.read_text())
    raw["samples"] = [Sample(**sample) for sample in raw["samples"]]
    raw["failures"] = [Failure(**failure) for failure in raw["failures"]]
    return Results(**raw)


def read_all(paths: list[Path]) -> Results:
    """Read several runs as one: each scenario is of the last run that measured it."""
    first, *others = [read(path) for path in paths]
    for run in others:
        measured = {sample.scenario for sample in run.samples}
        first.samples = [sample for sample in first.samples if sample.scenario not in measured] + run.samples
        first.failures = [failure for failure in first.failures if failure.scenario not in measured] + run.failures
        first.rounds = min(first.rounds, run.rounds)
    return first


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
