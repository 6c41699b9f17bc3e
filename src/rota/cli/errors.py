"""`rota errors`: list, show, retry."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, YesOption, confirm, format_cell, print_json, print_table, read_since, say
from rota.cli.run_view import exactly, print_error_of
from rota.control.error_groups import MAX_GROUPS, failed_jobs
from rota.store.runs_read import RunId

app = typer.Typer(
    help="What goes wrong, in groups; retry a whole one.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

FingerprintArgument = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="The group, as `list` shows it; its beginning will do.", show_default=False)
]
TaskOption = Annotated[str | None, typer.Option("--task", "-t", help="A task's name, or a pattern with * and ?.")]


@app.command(name="list")
def list_(
    task: TaskOption = None,
    since: Annotated[str | None, typer.Option(help='Seen, and counted, since: "1h", or a time such as 2030-01-31T09:00.')] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_GROUPS, help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List the groups of errors, those seen last first.

    Failed attempts belong together when the error has the same type and came from the same functions of the application.
    """
    moment = None if since is None else read_since(since, "--since")
    groups = run(lambda control: control.list_errors(task=task, since=moment, limit=limit))
    if as_json:
        print_json(groups)
        return
    print_table(
        ["fingerprint", "count", "last seen", "first seen", "tasks", "error"],
        [
            [
                group.fingerprint,
                group.count,
                group.last_seen,
                group.first_seen,
                group.tasks,
                " ".join(f"{group.type}: {group.message}".split())[:100],
            ]
            for group in groups
        ],
        empty="no attempt has failed" if task is None and since is None else "no failed attempt matches",
    )


@app.command()
def show(fingerprint: FingerprintArgument, as_json: JsonOption = False) -> None:
    """Show a group: its last traceback, how often and since when, and its last runs."""
    detail = run(lambda control: control.get_error(fingerprint))
    if as_json:
        latest = [
            {"run": str(RunId(each.job_id, each.attempt)), "task": each.task, "finished_at": each.finished_at}
            for each in detail.latest
        ]
        print_json({"group": detail.group, "error": exactly(detail.error), "latest": latest})
        return
    group = detail.group
    values = {
        "error group": group.fingerprint,
        "count": f"{group.count} failed attempts",
        "first seen": group.first_seen,
        "last seen": group.last_seen,
        "tasks": group.tasks,
    }
    for name, value in values.items():
        print(f"{name + ':':15}{format_cell(value)}")
    print()
    print_error_of(detail.error)
    print()
    print_table(
        ["run", "task", "failed"], [[str(RunId(each.job_id, each.attempt)), each.task, each.finished_at] for each in detail.latest]
    )


@app.command()
def retry(fingerprint: FingerprintArgument, task: TaskOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Put every job that has failed for good with this error back in the queue."""
    whole = run(lambda control: control.get_error(fingerprint)).group.fingerprint
    filter = failed_jobs(whole, task=task)
    count = run(lambda control: control.count_jobs(filter))
    if count:
        confirm(f"This will retry {count} failed job{'' if str(count) == '1' else 's'}. Go on?", yes=yes)
    bulk = run(lambda control: control.retry_many(filter))
    if as_json:
        print_json({"changed": bulk.changed, "skipped": bulk.skipped})
        return
    skipped = f"; {bulk.skipped:,} skipped, which had changed or were locked" if bulk.skipped else ""
    say(f"{bulk.changed:,} retried{skipped}" if count else "no job has failed for good with this error")
