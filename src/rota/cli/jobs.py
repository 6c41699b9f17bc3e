"""`rota jobs`: list, show, enqueue, retry, cancel, why."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from rota.cli.database import run
from rota.cli.job_view import format_line, plain_detail, print_detail
from rota.cli.locate import AppOption, find_code
from rota.cli.logs import plain_line, print_line
from rota.cli.output import JsonOption, YesOption, confirm, format_cell, print_json, print_table, read_moment, read_since, say
from rota.control.service import MAX_LIMIT, to_cancel, to_retry
from rota.errors import Forbidden, UsageError
from rota.model.duration import parse_duration
from rota.model.filters import JobFilter
from rota.model.log_filter import LogFilter

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.cli.database import Control
    from rota.control.service import Bulk, JobDetail
    from rota.store.jobs_read import JobSummary
    from rota.store.logs_read import LogLine

app = typer.Typer(
    help="List, show, enqueue, retry and cancel jobs; why one waits.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

LINES_SHOWN = 20  # of a job's log, the last

IdArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
IdsArgument = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="The jobs' ids; else a filter.", show_default=False)]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", "-s", help="waiting, queued, running, completed, failed or canceled; may be repeated."),
]
TaskOption = Annotated[str | None, typer.Option("--task", "-t", help="A task's name, or a pattern with * and ?.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="A queue's name.")]
KeyOption = Annotated[str | None, typer.Option(help="The idempotency key.")]
TextOption = Annotated[str | None, typer.Option(help="Words in the error.")]
SinceOption = Annotated[str | None, typer.Option(help='Created since: "1h", or a time such as 2030-01-31T09:00.')]


@app.command(name="list")
def list_(
    state: StateOption = None,
    task: TaskOption = None,
    queue: QueueOption = None,
    key: KeyOption = None,
    text: TextOption = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")] = 50,
    before: Annotated[UUID | None, typer.Option(metavar="ID", help="Only jobs older than this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first."""
    filter = _filter(state, task, queue, key, text, since)
    page = run(lambda control: control.list_jobs(filter, before=before, limit=limit))
    if as_json:
        print_json({"jobs": page.jobs, "next": page.next})
        return
    print_table(
        ["id", "state", "task", "queue", "attempt", "created", "due or ended", "error"],
        [format_line(job) for job in page.jobs],
        empty="no job matches" if page.next is None else "no job matches so far",
    )
    if page.next is not None:
        say(f"there may be more: add --before {page.next}")


@app.command()
def show(id: IdArgument, as_json: JsonOption = False) -> None:
    """Show a job with its attempts and relatives."""
    detail, lines = run(lambda control: _look(control, id))
    if as_json:
        print_json({**plain_detail(detail), "logs": [plain_line(line) for line in lines]})
        return
    print_detail(detail)
    if lines:
        print()
    for line in lines:
        print_line(line)


async def _look(control: Control, id: UUID) -> tuple[JobDetail, list[LogLine]]:
    detail = await control.get_job(id)
    try:
        lines = (await control.list_logs(LogFilter(job_id=id), limit=LINES_SHOWN)).lines
    except Forbidden:  # those who may see jobs need not be those who may see logs
        lines = []
    return detail, lines[::-1]


@app.command()
def enqueue(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.", show_default=False)],
    payload: Annotated[str, typer.Argument(metavar="JSON", help="A JSON object, or - to read it from stdin.")] = "{}",
    location: AppOption = None,
    delay: Annotated[str | None, typer.Option(help='Run it after so long: "30s", "5m", "1h30m".')] = None,
    run_at: Annotated[str | None, typer.Option(help="Run it then; local time unless it names a zone.")] = None,
    key: KeyOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="A job with the same key is an error.")] = False,
    priority: Annotated[int | None, typer.Option(help="Smaller numbers run first.")] = None,
    queue: QueueOption = None,
    max_attempts: Annotated[int | None, typer.Option(help="Attempts before it fails for good.")] = None,
    timeout: Annotated[str | None, typer.Option(help="How long an attempt may take.")] = None,
    parent: Annotated[list[UUID] | None, typer.Option(metavar="ID", help="Wait for this job; may be repeated.")] = None,
    on_parent_failure: Annotated[
        str | None, typer.Option(help="When a parent fails: cancel (the default), fail, or ignore, which runs it all the same.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Enqueue a job of a task.

    With an application (-a, or found by itself) the payload is validated by the task's own schema; without one, by what
    workers have told the database about their tasks.
    """
    from rota.cli.enqueue import read_object, store

    options: dict[str, Any] = {
        "delay": None if delay is None else parse_duration(delay, name="--delay"),
        "run_at": None if run_at is None else read_moment(run_at, "--run-at"),
        "key": key,
        "strict": strict or None,
        "priority": priority,
        "queue": queue,
        "max_attempts": max_attempts,
        "timeout": None if timeout is None else parse_duration(timeout, name="--timeout", positive=True),
        "parents": parent,
        "on_parent_failure": on_parent_failure,
    }
    given = {name: value for name, value in options.items() if value is not None}
    id, created = store(task, read_object(payload), given, location)
    if as_json:
        print_json({"id": id, "created": created})
        return
    print(id)
    if not created:
        say(f"the key {key!r} was taken: this is the job that has it, and no new one was made")


@app.command()
def retry(
    ids: IdsArgument = None,
    state: StateOption = None,
    task: TaskOption = None,
    queue: QueueOption = None,
    key: KeyOption = None,
    text: TextOption = None,
    since: SinceOption = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="Run it with this payload instead, - for stdin.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change this of the payload; JSON or text; may be repeated."),
    ] = None,
    location: AppOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put failed or canceled jobs back in the queue, by id or by a filter; one job also with another payload.

    A changed payload is validated as by `rota jobs enqueue`. The job keeps its id and its history, and `rota jobs show` says what
    the payload was and who changed it.
    """
    filter = _filter(state, task, queue, key, text, since)
    if payload is not None or set_:
        from rota.cli.edit import edit

        _by_id(ids, filter)
        _change_each(ids or [], edit(ids or [], payload, set_ or []), "edited and retried", as_json, find_code(location))
    elif _by_id(ids, filter):
        _change_each(ids or [], lambda control, id: control.retry(id), "retried", as_json)
    else:
        _change_matching(
            to_retry(filter),
            lambda control, chosen: control.retry_many(chosen, progress=_show_progress),
            "retry",
            "retried",
            yes,
            as_json,
        )


@app.command()
def cancel(
    ids: IdsArgument = None,
    state: StateOption = None,
    task: TaskOption = None,
    queue: QueueOption = None,
    key: KeyOption = None,
    text: TextOption = None,
    since: SinceOption = None,
    reason: Annotated[str | None, typer.Option(help="Kept with jobs that had not started.")] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel jobs that have not run and ask running ones to stop, by id or by a filter."""
    filter = _filter(state, task, queue, key, text, since)
    if _by_id(ids, filter):
        _change_each(ids or [], lambda control, id: control.cancel(id, reason=reason), "canceled", as_json)
    else:
        _change_matching(
            to_cancel(filter),
            lambda control, chosen: control.cancel_many(chosen, reason=reason, progress=_show_progress),
            "cancel",
            "canceled",
            yes,
            as_json,
        )


@app.command()
def why(id: IdArgument, as_json: JsonOption = False) -> None:
    """Say why a job has not run."""
    explanation = run(lambda control: control.why(id))
    if as_json:
        print_json(
            {
                "job_id": id,
                "state": explanation.state,
                "verdict": explanation.verdict,
                "reasons": explanation.reasons,
            }
        )
        return
    for reason in explanation.reasons:
        print(format_cell(reason.sentence))


def _filter(
    state: list[str] | None, task: str | None, queue: str | None, key: str | None, text: str | None, since: str | None
) -> JobFilter:
    return JobFilter(state or (), task, queue, key, text, None if since is None else read_since(since, "--since"))


def _by_id(ids: list[UUID] | None, filter: JobFilter) -> bool:
    if ids and filter.narrows:
        raise UsageError("give ids or a filter, not both")
    if not ids and not filter.narrows:
        raise UsageError("say which jobs: their ids, or a filter such as --state, --task, --queue or --since")
    return bool(ids)


def _change_each(
    ids: list[UUID],
    change: Callable[[Control, UUID], Awaitable[JobSummary]],
    done: str,
    as_json: bool,
    application: Rota | None = None,
) -> None:
    async def change_each(control: Control) -> list[JobSummary]:
        return [await change(control, id) for id in ids]

    jobs = run(change_each, application)
    if as_json:
        print_json({"jobs": jobs})
        return
    for job in jobs:
        asked = done == "canceled" and job.state == "running"
        say(f"job {job.id} {'was asked to stop' if asked else f'{done}, it is {job.state}'}")
        if dropped := getattr(job, "dropped_secrets", None):
            say(f"its URL has another origin, so these secrets were dropped: {', '.join(dropped)}. Give them again with --set")


def _change_matching(
    filter: JobFilter, change: Callable[[Control, JobFilter], Awaitable[Bulk]], verb: str, done: str, yes: bool, as_json: bool
) -> None:
    count = run(lambda control: control.count_jobs(filter))
    if count:
        states = " or ".join(filter.states)
        confirm(f"This will {verb} {count} {states} job{'' if str(count) == '1' else 's'}. Go on?", yes=yes)
    bulk = run(lambda control: change(control, filter))
    if as_json:
        print_json({"changed": bulk.changed, "skipped": bulk.skipped})
        return
    skipped = f"; {bulk.skipped:,} skipped, which had changed or were locked" if bulk.skipped else ""
    say(f"{bulk.changed:,} {done}{skipped}" if count else "no job matches")


def _show_progress(bulk: Bulk) -> None:
    if sys.stderr.isatty():
        print(f"\r{bulk.changed:,} done", end="\r", file=sys.stderr, flush=True)
