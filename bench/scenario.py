"""What a scenario is: it prepares databases once per system, and measures once per round."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from bench.cluster import Cluster
from bench.drain import Drain, drain
from bench.system import Options, System

Figures = dict[str, float]

LABELS = ("work", "empty", "future", "history", "logs")


@dataclass(frozen=True)
class Sizes:
    """How much work a measurement is: seconds of a system's expected speed, within limits."""

    drain_seconds: float = 3.0
    drain_jobs: int = 200_000
    singles: int = 5_000
    bulk_jobs: int = 100_000
    pickups: int = 200
    pinned_jobs: int = 200_000
    backlog_rows: int = 1_000_000
    writes: int = 12_000
    claims: int = 300
    recurring_rows: int = 1_000_000
    fired_rows: int = 100_000
    runs: int = 5_000_000
    log_lines: int = 1_000_000
    looks: int = 20
    lateness_seconds: float = 90.0
    flood_timeout: float = 900.0
    timeout: float = 15.0
    pinned_timeout: float = 60.0

    def jobs_for(self, system: System, seconds: float, most: int) -> int:
        """As many jobs as this system should take about that long for."""
        return max(20, min(most, int(system.speed * seconds)))


QUICK = Sizes(
    drain_seconds=1.5,
    drain_jobs=100_000,
    singles=2_000,
    bulk_jobs=50_000,
    pickups=60,
    pinned_jobs=100_000,
    backlog_rows=200_000,
    writes=4_000,
    claims=100,
    recurring_rows=100_000,
    fired_rows=20_000,
    runs=200_000,
    log_lines=100_000,
    looks=4,
    lateness_seconds=15.0,
    timeout=8.0,
    pinned_timeout=20.0,
)


@dataclass(frozen=True)
class Bench:
    """The server, the sizes, and empty installations of every system to copy from."""

    cluster: Cluster
    sizes: Sizes

    def install(self, system: System) -> None:
        """Make the database from which this system's are copied."""
        system.call("setup", self.cluster.create(_template(system)))

    def fresh(self, system: System, label: str = LABELS[0]) -> str:
        """Copy the empty installation and return the DSN of the copy."""
        return self.cluster.create(f"{system.name}_{label}", _template(system))

    def clear(self, system: System) -> None:
        """Drop this system's databases but for the empty installation."""
        for label in LABELS:
            self.cluster.drop(f"{system.name}_{label}")

    def load(self, system: System, dsn: str, jobs: int, due_in: float = 0.0, options: Options | None = None) -> None:
        """Enqueue jobs in bulk and level the database."""
        system.call("bulk", dsn, options, jobs=jobs, due_in=due_in)
        self.cluster.settle(dsn)

    def drain(self, system: System, dsn: str, processes: int = 1, options: Options | None = None) -> Drain:
        """Load the usual number of jobs and drain them."""
        sizes = self.sizes
        jobs = sizes.jobs_for(system, sizes.drain_seconds, sizes.drain_jobs)
        self.load(system, dsn, jobs, options=options)
        return drain(self.cluster, system, dsn, jobs, processes=processes, timeout=sizes.timeout, options=options)


class Scenario(ABC):
    """One question asked of every system it applies to."""

    name: str
    title: str

    def applies(self, system: System) -> bool:  # noqa: ARG002 - most ask all
        """Whether the question makes sense for this system."""
        return True

    def prepare(self, bench: Bench, system: System) -> None:  # noqa: B027 - most share nothing
        """Make what the rounds share."""

    @abstractmethod
    def measure(self, bench: Bench, system: System) -> Figures:
        """Measure once."""


def _template(system: System) -> str:
    return f"{system.name}_template"
