"""A run: every scenario in rounds, in each of which the systems take turns."""

from rich.console import Console

from bench.processes import SystemFailed
from bench.results import Failure, Results, Sample
from bench.scenario import Bench, Scenario
from bench.system import System
from bench.tables import sheets, show, verdicts

console = Console(stderr=True, soft_wrap=True, highlight=False)
FAILURES = (SystemFailed, TimeoutError, OSError)


class Run:
    """The scenarios, systems and rounds to measure, and what came of them."""

    def __init__(self, bench: Bench, scenarios: list[Scenario], systems: list[System], results: Results) -> None:
        self.bench = bench
        self.scenarios = scenarios
        self.systems = systems
        self.results = results

    def measure(self) -> None:
        """Measure everything, writing the results after each scenario so that a broken run is not lost."""
        for system in self.systems:
            self.bench.install(system)
        self._warm_up()
        for scenario in self.scenarios:
            self._measure(scenario)
            self.results.write()
        for sheet in (*sheets(self.results), verdicts(self.results)):
            show(sheet)
        for failure in self.results.failures:
            console.print(f"[red]{failure.scenario} {failure.system}[/]: {failure.reason}")

    def _measure(self, scenario: Scenario) -> None:
        able = [system for system in self.systems if system.only is None or scenario.name in system.only]
        able = [system for system in able if scenario.applies(system)]
        able = [system for system in able if self._prepare(scenario, system)]
        for number in range(self.results.rounds):
            # Each round begins with another system, so that none always follows the same neighbour.
            turn = number % max(len(able), 1)
            for system in able[turn:] + able[:turn]:
                self._sample(scenario, system, number)
        for system in able:
            self.bench.clear(system)

    def _prepare(self, scenario: Scenario, system: System) -> bool:
        try:
            scenario.prepare(self.bench, system)
        except FAILURES as error:
            self.results.failures.append(Failure(scenario.name, system.name, -1, str(error)))
            return False
        return True

    def _sample(self, scenario: Scenario, system: System, number: int) -> None:
        try:
            figures = scenario.measure(self.bench, system)
        except FAILURES as error:
            self.results.failures.append(Failure(scenario.name, system.name, number, str(error)))
            console.print(f"[red]{scenario.name} {system.name}: failed[/]")
            return
        self.results.samples.append(Sample(scenario.name, system.name, number, figures))
        said = "  ".join(f"{name} {value:,.1f}" for name, value in figures.items())
        console.print(f"[dim]{scenario.name} {number + 1}/{self.results.rounds}[/] {system.name}: {said}")

    def _warm_up(self) -> None:
        """Let the server make its log files and fill its caches before anything is counted."""
        first = self.systems[0]
        self.bench.drain(first, self.bench.fresh(first))
        self.bench.clear(first)
