"""`rota overview`: system health."""

from __future__ import annotations

from typing import Any

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, format_cell, print_json, print_table
from rota.control.overview import Overview

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def overview(as_json: JsonOption = False) -> None:
    """Show system health: open alerts and the worst problems first, then counts of everything."""
    found = run(lambda control: control.overview())
    if as_json:
        print_json(found)
        return
    print(format_cell(found.sentence), end="\n\n")
    print_table(["what", "now"], [*([each.severity, each.sentence] for each in found.problems), *_figures(found)])


def _figures(found: Overview) -> list[list[Any]]:
    oldest, workers, alerts, soon = found.oldest, found.workers, found.alerts, found.next_run
    rows: list[list[Any]] = [
        ["queued", f"{found.queued}, of which {found.delayed} not due yet"],
        ["running", found.running],
        ["waiting for parents", found.waiting],
        ["oldest wait", f"{format_cell(oldest.age)}, in {oldest.queue}" if oldest else None],
        ["failed in the last hour", found.failed_1h],
    ]
    if workers is not None:
        died = f"; {workers.dead} died in the last day" if workers.dead else ""
        rows.append(["workers", f"{workers.live} live, {workers.busy} of {workers.slots} slots busy{died}"])
    if alerts is not None:
        rows.append(["open alerts", alerts.open])
    if soon is not None:
        rows.append(["next run", f"{format_cell(soon.at)}, {soon.name}"])
    return rows
