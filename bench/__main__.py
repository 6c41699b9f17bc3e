"""The command line: `python -m bench [run|setup|publish]`."""

import argparse
import signal
import sys
from pathlib import Path

from bench import against, documents, peers, results
from bench.cluster import running_cluster
from bench.picture import draw_drains
from bench.runner import Run, console
from bench.scenario import QUICK, Bench, Sizes
from bench.scenarios import SCENARIOS
from bench.system import OUT, System
from bench.systems import BY_NAME, SYSTEMS
from bench.tables import show


def main() -> None:
    """Carry out one command."""
    arguments = parse()
    signal.signal(signal.SIGTERM, stop)
    match arguments.command:
        case "setup":
            peers.install(system.runtime for system in SYSTEMS)
        case "publish":
            for path in documents.publish(results.read_all(arguments.results)):
                console.print(f"wrote {path}")
        case _:
            run(arguments)


def stop(*_: object) -> None:
    """Leave by the way on which workers, server and temporary folder are cleared away, once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def run(arguments: argparse.Namespace) -> None:
    """Measure, print the tables, and write the figures and the picture to bench/out."""
    systems = choose(arguments.systems, SYSTEMS)
    if arguments.against:
        systems = [each for each in systems if each.module == "rota"]
        systems += against.earlier(arguments.against, systems)
    scenarios = [each for each in SCENARIOS if not arguments.only or each.name in arguments.only]
    peers.install(system.runtime for system in systems)
    with running_cluster(arguments.postgres) as cluster:
        found = results.Results(postgres=cluster.version, rounds=arguments.rounds, quick=arguments.quick)
        console.print(f"PostgreSQL {found.postgres}, {found.machine}, {found.rounds} rounds")
        try:
            Run(Bench(cluster, QUICK if arguments.quick else Sizes()), scenarios, systems, found).measure()
            if arguments.against:
                show(against.ratios(found, arguments.against))
        finally:  # what was measured before an interruption is worth keeping
            written = found.write()
            picture = OUT / "drains.svg"
            picture.write_text(draw_drains(found))
            console.print(f"wrote {written} and {picture}; `python -m bench publish` puts them into the documentation")


def choose(names: list[str], systems: list[System]) -> list[System]:
    """Pick systems by name, all of them by default."""
    return [BY_NAME[name] for name in names] if names else systems


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Rota, a bare SQL loop and peers.")
    parser.add_argument("command", nargs="?", choices=["run", "setup", "publish"], default="run")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: for a first look")
    parser.add_argument("--only", action="append", choices=[each.name for each in SCENARIOS], help="this scenario")
    parser.add_argument("--systems", type=names_of_systems, default=[], help=f"of {', '.join(BY_NAME)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", metavar="MAJOR|BIN", help="a major version, or a directory with its programs")
    parser.add_argument("--against", metavar="REVISION", help="an earlier revision of Rota, measured in turn with this one")
    parser.add_argument("--results", type=Path, nargs="+", default=[results.LATEST], help="the runs to publish as one")
    return parser.parse_args()


def names_of_systems(text: str) -> list[str]:
    """Split a list of names and refuse unknown ones."""
    names = text.split(",")
    if unknown := sorted(set(names) - set(BY_NAME)):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(BY_NAME)}")
    return names


if __name__ == "__main__":
    main()
