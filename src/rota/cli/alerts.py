"""`rota alerts`: list, show, ack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, format_cell, print_json, print_table, say
from rota.store.alerts import AlertRecord

if TYPE_CHECKING:
    from rota.cli.database import Control

app = typer.Typer(help="List, show and acknowledge alerts.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The alert's number.", show_default=False)]


@app.command(name="list")
def list_(
    all: Annotated[bool, typer.Option("--all", help="Also those that were acknowledged or are over.")] = False,
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as job_failed or queue_stuck.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the alerts that somebody should look at, those seen last first."""
    found = run(lambda control: control.list_alerts(all=all, kind=kind, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "severity", "kind", "subject", "count", "last seen", "state", "summary"],
        [
            [each.id, each.severity, each.kind, each.subject, each.count, each.last_seen_at, each.state, each.summary]
            for each in found
        ],
        empty="no alerts" if all else "no open alerts; `rota alerts list --all` shows those that were acknowledged or are over",
    )


@app.command()
def show(id: IdArgument, as_json: JsonOption = False) -> None:
    """Show one alert with its details."""
    alert = run(lambda control: control.get_alert(id))
    if as_json:
        print_json(alert)
        return
    for name, value in _lines(alert):
        print(f"{name + ':':16} {format_cell(value)}")


@app.command()
def ack(
    ids: Annotated[list[int], typer.Argument(metavar="ID…", help="The alerts' numbers.", show_default=False)],
    note: Annotated[str | None, typer.Option(help="What you know about it, for whoever comes next.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge alerts: somebody knows of them, and they are listed no more until they come back."""

    async def acknowledge(control: Control) -> list[AlertRecord]:
        done = []
        for id in ids:
            done.append(await control.acknowledge_alert(id, note=note))
            say(f"alert {id} is acknowledged")
        return done

    done = run(acknowledge)
    if as_json:
        print_json(done)


def _lines(alert: AlertRecord) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [
        ("alert", f"{alert.id}, {alert.state}"),
        ("kind", f"{alert.kind} ({alert.severity})"),
        ("subject", alert.subject),
        ("summary", alert.summary),
        ("count", f"{alert.count:,}, opened {alert.times_opened:,} times"),
        ("first seen", alert.first_seen_at),
        ("last seen", alert.last_seen_at),
    ]
    if alert.acknowledged_at is not None:
        lines.append(("acknowledged", f"{format_cell(alert.acknowledged_at)} by {alert.acknowledged_by}"))
    if alert.note is not None:
        lines.append(("note", alert.note))
    if alert.resolved_at is not None:
        lines.append(("resolved", alert.resolved_at))
    return lines + [(name, value) for name, value in alert.details.items() if value is not None]
