"""`rota runs`: list, show, stats."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, print_json, print_table, read_since, say
from rota.cli.run_view import STATS_COLUMNS, format_line, plain, print_detail, stats_cells
from rota.control.runs import MAX_LIMIT
from rota.errors import UsageError
from rota.model.duration import parse_duration
from rota.model.filters import RUN_STATUSES, RunFilter
from rota.store.runs_read import RunId

app = typer.Typer(help="List and show runs; how tasks fare.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command(name="list")
def list_(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", "-s", help=f"{', '.join(RUN_STATUSES[:-1])} or {RUN_STATUSES[-1]}; may be repeated."),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="A task's name, or a pattern with * and ?.")] = None,
    job: Annotated[UUID | None, typer.Option(metavar="ID", help="The attempts at one job.")] = None,
    worker: Annotated[UUID | None, typer.Option(metavar="ID", help="What one worker ran.")] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="NAME", help="What a schedule made run; TASK/KEY for a recurring row.")
    ] = None,
    triggered_by: Annotated[str | None, typer.Option(metavar="KIND", help="scheduler, manual, hook, cli, sql …")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="What went wrong, as `rota errors list` shows it.")] = None,
    text: Annotated[str | None, typer.Option(help="Words in the error.")] = None,
    since: Annotated[str | None, typer.Option(help='Of jobs created since: "1h", or a time such as 2030-01-31T09:00.')] = None,
    until: Annotated[str | None, typer.Option(help="Of jobs created before.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="RUN", help="Only what comes after this run in the list.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, those of the newest jobs first."""
    filter = RunFilter(
        status or (),
        task,
        worker=worker,
        job=job,
        text=text,
        since=None if since is None else read_since(since, "--since"),
        until=None if until is None else read_since(until, "--until"),
        triggered_by=triggered_by,
        fingerprint=fingerprint,
    )
    start = None if before is None else read_run_id(before, "--before")
    page = run(lambda control: control.list_runs(filter, schedule=schedule, before=start, limit=limit))
    if as_json:
        print_json({"runs": [plain(each) for each in page.runs], "next": page.next and str(page.next)})
        return
    print_table(
        ["run", "status", "task", "started", "took", "worker", "triggered by", "error"],
        [format_line(each) for each in page.runs],
        empty="no run matches" if page.next is None else "no run matches so far",
    )
    if page.next is not None:
        say(f"there may be more: add --before {page.next}")


@app.command()
def show(
    id: Annotated[str, typer.Argument(metavar="JOB[/ATTEMPT]", help="The run: of a job, by default the last.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Show a run: payload, times, who triggered it, and its error in full."""
    found = read_run_id(id, "RUN", attempt_needed=False)
    detail = run(lambda control: control.get_run(found.job_id, found.attempt or None))
    if as_json:
        print_json(plain(detail))
    else:
        print_detail(detail)


@app.command()
def stats(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One task; else every one that has run.")] = None,
    since: Annotated[str, typer.Option(help='How far back: "1h", "24h", "7d".')] = "24h",
    system: Annotated[bool, typer.Option("--system", help="Rota's own tasks too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show throughput, failures and percentiles of tasks.

    They come from what workers add up every ten seconds, not from the runs, and are right to within five per cent.
    """
    period = parse_duration(since, name="--since", positive=True)
    found = run(lambda control: control.list_stats(period=period, task=task, system=system))
    if as_json:
        print_json(found)
        return
    print_table(
        ["task", *STATS_COLUMNS],
        [[each.task, *stats_cells(each)] for each in found],
        empty=f"nothing has run in the last {since}",
    )


def read_run_id(text: str, name: str, *, attempt_needed: bool = True) -> RunId:
    """The run that somebody has written as JOB/ATTEMPT; attempt 0 stands for none."""
    job, slash, attempt = text.partition("/")
    try:
        id = RunId(UUID(job), int(attempt) if slash else 0)
    except ValueError:
        id = RunId(UUID(int=0), -1)
    if id.attempt < 0 or (attempt_needed and not slash) or (slash and not id.attempt) or id.attempt >= 2**63:
        raise UsageError(f"{name}={text!r} is not a run: write JOB/ATTEMPT, as `rota runs list` shows it")
    return id
