"""`make chaos`: jobs under kills, restarts and cut connections, judged from outside."""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.chaos import sabotage
from tests.chaos.faults import FULL, SHORT
from tests.chaos.scene import Report, play

SHOWN = 12  # findings of a kind


def main() -> int:
    """Play, print, and say by the exit code whether the contract was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="makes the same load and schedule of faults")
    parser.add_argument("--short", action="store_true", help="a minute and a half with a few of each fault")
    parser.add_argument("--sabotage", choices=sabotage.KINDS, help="take this guarantee out: the run must turn red")
    parser.add_argument("--keep", action="store_true", help="keep the history and the logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the server and its data go too
    console = Console(soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    console.print(f"seed {options.seed}, history in {folder}", highlight=False)
    report = play(
        SHORT if options.short else FULL, options.seed, without=options.sabotage, folder=folder,
        say=lambda text: console.print(text, highlight=False),
    )  # fmt: skip
    show(report, console)
    if report.kept and not options.keep:
        shutil.rmtree(folder)
    return 0 if report.kept else 1


def show(report: Report, console: Console) -> None:
    """Print what was done, measured and found."""
    table = Table(title=f"Chaos with seed {report.seed}, {report.took_s:.0f} s", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    for name, count in sorted(report.faults.items()):
        table.add_row(name, str(count))
    table.add_section()
    for name, count in report.counts.items():
        table.add_row(name, str(count))
    table.add_section()
    for name, latencies in report.measured.items():
        table.add_row(name, str(latencies))
    table.add_section()
    for name, findings in report.findings.items():
        table.add_row(name, str(len(findings)), style="red" if findings else "green")
    console.print(table)
    for name, findings in report.findings.items():
        for finding in findings[:SHOWN]:
            console.print(f"{name}: {finding}", markup=False, highlight=False)
        if len(findings) > SHOWN:
            console.print(f"{name}: … and {len(findings) - SHOWN} more")
    verdict = "[green]the contract was kept" if report.kept else "[red]the contract was broken"
    console.print(f"{verdict} (seed {report.seed})")


if __name__ == "__main__":
    sys.exit(main())
