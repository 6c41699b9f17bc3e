"""`rota schedules`: list, show, create, update, enable, disable, delete, run, next, explain."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rota.cli import schedule_view as view
from rota.cli.database import run as operate
from rota.cli.enqueue import read_object
from rota.cli.locate import AppOption, find_code
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, read_moment, say
from rota.control.schedule_views import MAX_LIMIT
from rota.control.schedules import check_name
from rota.errors import UsageError
from rota.model.cron import Cron
from rota.model.schedule import Timing, cron, every
from rota.model.schedule_record import ScheduleRecord

MOST_TIMES = 1000

app = typer.Typer(
    help="List, make, change and run schedules; when they fire.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]
LabelArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The schedule's name, or task/key of a recurring row.", show_default=False)
]
CronOption = Annotated[str | None, typer.Option("--cron", help='Five fields, as in "0 9 * * 1-5", or @daily and the like.')]
EveryOption = Annotated[str | None, typer.Option("--every", help='Again after so long: "30s", "5m", "1h30m".')]
ZoneOption = Annotated[str | None, typer.Option("--tz", help="The time zone of --cron, as in Europe/Berlin; else UTC.")]
PayloadOption = Annotated[str | None, typer.Option("--payload", metavar="JSON", help="A JSON object, or - to read it from stdin.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="A queue other than the task's.")]
PriorityOption = Annotated[int | None, typer.Option(help="Smaller numbers run first. Default: the task's.")]
AttemptsOption = Annotated[int | None, typer.Option(help="Attempts before a job fails for good; else the task's.")]
MisfireOption = Annotated[str | None, typer.Option(help="Instants that were missed: run the latest (the default), skip, or all.")]
CatchUpOption = Annotated[int | None, typer.Option(help="With --misfire all, at most so many; else 100.")]
OverlapOption = Annotated[
    str | None, typer.Option(help="When the job before is not done: allow (the default), skip, or queue_one.")
]
JitterOption = Annotated[str | None, typer.Option(help="Spread the jobs over so long after their instants.")]
StartsOption = Annotated[str | None, typer.Option(help="No instant before this time; local unless it names a zone.")]
EndsOption = Annotated[str | None, typer.Option(help="No instant after this time.")]
StartWithinOption = Annotated[str | None, typer.Option(help="A job that has not begun so long after its instant is an alert.")]
FinishWithinOption = Annotated[str | None, typer.Option(help="A job that has not ended so long after its instant is an alert.")]
EnabledOption = Annotated[str | None, typer.Option(metavar="true|false", help="Whether it fires; a new one does.")]
CountOption = Annotated[int, typer.Option("-n", min=1, max=MOST_TIMES, help="So many times.")]


@app.command(name="list")
def list_(
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Of this task, or of a pattern with * and ?; recurring rows too.")
    ] = None,
    recurring: Annotated[bool, typer.Option("--recurring", help="Recurring rows only, of which there may be very many.")] = False,
    failing: Annotated[bool, typer.Option("--failing", help="Those that keep failing, of either kind.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Only those after this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List schedules by name."""
    page = operate(
        lambda control: control.list_schedules(task=task, recurring=recurring, failing=failing, after=after, limit=limit)
    )
    if as_json:
        print_json({"schedules": [view.plain_line(line) for line in page.schedules], "next": page.next})
        return
    print_table(
        ["name", "task", "when", "zone", "enabled", "last", "next", "last firing"],
        [view.format_line(line) for line in page.schedules],
        empty="no schedule matches" if task or failing else "there are no schedules: `rota schedules create` makes one",
    )
    if page.next is not None:
        say(f"there may be more: add --after {page.next}")


@app.command()
def show(name: LabelArgument, as_json: JsonOption = False) -> None:
    """Show a schedule, when it fires next, and what became of its last 30 instants."""
    detail = operate(lambda control: control.get_schedule(name))
    if as_json:
        print_json(view.plain_detail(detail))
    else:
        view.print_detail(detail)


@app.command()
def create(
    name: NameArgument,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task whose jobs it enqueues.", show_default=False)],
    location: AppOption = None,
    cron_expression: CronOption = None,
    interval: EveryOption = None,
    tz: ZoneOption = None,
    payload: PayloadOption = None,
    queue: QueueOption = None,
    priority: PriorityOption = None,
    max_attempts: AttemptsOption = None,
    misfire: MisfireOption = None,
    catch_up: CatchUpOption = None,
    overlap: OverlapOption = None,
    jitter: JitterOption = None,
    starts_at: StartsOption = None,
    ends_at: EndsOption = None,
    start_within: StartWithinOption = None,
    finish_within: FinishWithinOption = None,
    enabled: EnabledOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a schedule: give --cron or --every.

    With an application (-a, or found by itself) task and payload are checked by its code; without one, by what workers have
    told the database about their tasks.
    """
    policies = _given(
        misfire=misfire,
        catch_up=catch_up,
        overlap=overlap,
        jitter=jitter,
        starts_at=starts_at and read_moment(starts_at, "--starts-at"),
        ends_at=ends_at and read_moment(ends_at, "--ends-at"),
        start_within=start_within,
        finish_within=finish_within,
    )
    timing = _read_timing(cron_expression, interval, tz, policies)
    arguments = read_object(payload or "{}")
    check_name(name)
    options = _given(queue=queue, priority=priority, max_attempts=max_attempts, enabled=_read_bool(enabled, "--enabled"))
    made = operate(
        lambda control: control.create_schedule(name, task, timing, payload=arguments, **options),
        find_code(location),
    )
    _tell(made, "made", as_json)


@app.command()
def update(
    name: NameArgument,
    location: AppOption = None,
    cron_expression: CronOption = None,
    interval: EveryOption = None,
    tz: ZoneOption = None,
    payload: PayloadOption = None,
    queue: QueueOption = None,
    priority: PriorityOption = None,
    max_attempts: AttemptsOption = None,
    misfire: MisfireOption = None,
    catch_up: CatchUpOption = None,
    overlap: OverlapOption = None,
    jitter: JitterOption = None,
    starts_at: StartsOption = None,
    ends_at: EndsOption = None,
    start_within: StartWithinOption = None,
    finish_within: FinishWithinOption = None,
    enabled: EnabledOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change some of a schedule; what is not given stays as it is.

    A task that has no schedule gets one: give the task's name, and --cron or --every.
    """
    changes = _given(
        cron=cron_expression,
        every=interval,
        tz=tz,
        payload=None if payload is None else read_object(payload),
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        misfire=misfire,
        catch_up=catch_up,
        overlap=overlap,
        jitter=jitter,
        starts_at=starts_at and read_moment(starts_at, "--starts-at"),
        ends_at=ends_at and read_moment(ends_at, "--ends-at"),
        start_within=start_within,
        finish_within=finish_within,
        enabled=_read_bool(enabled, "--enabled"),
    )
    if not changes:
        raise UsageError("nothing to change: give at least one option, such as --cron or --enabled")
    application = find_code(location) if {"payload", "cron", "every"} & changes.keys() else None
    _tell(operate(lambda control: control.update_schedule(name, **changes), application), "changed", as_json)


@app.command()
def enable(name: LabelArgument, as_json: JsonOption = False) -> None:
    """Let a schedule fire again, from now on."""
    _tell(operate(lambda control: control.enable_schedule(name)), "enabled", as_json)


@app.command()
def disable(name: LabelArgument, as_json: JsonOption = False) -> None:
    """Let a schedule fire no more; its history stays."""
    _tell(operate(lambda control: control.disable_schedule(name)), "disabled", as_json)


@app.command()
def delete(name: NameArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove a schedule and its ledger; jobs that it has enqueued stay.

    A schedule that is defined in code, such as one of Rota's own, stays deleted over deploys until `rota schedules restore`.
    """
    record = operate(lambda control: control.get_schedule(name)).record
    if record.key is not None:
        raise UsageError(f"{name} is a recurring row, which its application makes: `rota schedules disable {name}` stops it")
    origin = f" It is defined in code: `rota schedules restore {name}` creates it again." if record.definition is not None else ""
    # A script that names one schedule means it: only a person at a terminal is asked.
    confirm(f"This will remove the schedule {name} and its ledger.{origin} Continue?", yes=yes or not sys.stdin.isatty())
    operate(lambda control: control.delete_schedule(name))
    if as_json:
        print_json({"name": name})
        return
    say(f"schedule {name} is removed")


@app.command()
def restore(name: NameArgument, as_json: JsonOption = False) -> None:
    """Create a deleted schedule again, as code defines it."""
    _tell(operate(lambda control: control.restore_schedule(name)), "restored", as_json)


@app.command()
def run(name: LabelArgument, as_json: JsonOption = False) -> None:
    """Run a schedule's task now, beside its times."""
    job = operate(lambda control: control.run_schedule(name))
    if as_json:
        print_json({"name": name} if job is None else {"name": name, "job_id": job})
    elif job is None:
        say(f"{name} is due now")
    else:
        print(job)


@app.command(name="next")
def next_(name: LabelArgument, count: CountOption = 10, as_json: JsonOption = False) -> None:
    """Show when a schedule fires next, with what clock changes do to it."""
    times = operate(lambda control: control.next_times(name, count))
    if as_json:
        print_json({"name": name, "next": view.plain_times(times)})
    else:
        view.print_times(times, empty=f"{name} does not fire: it is disabled, has ended, or its job is live")


@app.command()
def explain(
    expression: Annotated[str, typer.Argument(metavar="CRON", help="A cron expression.", show_default=False)],
    tz: ZoneOption = None,
    count: CountOption = 5,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="The times after this one; else after now.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a cron expression means and when it fires; needs no database."""
    parsed = Cron.parse(expression, tz or "UTC", field="CRON")
    times = parsed.upcoming(datetime.now(UTC) if start is None else read_moment(start, "--from"), count)
    if as_json:
        words = parsed.describe()
        print_json({"cron": parsed.expression, "tz": parsed.tz, "words": words, "next": view.plain_times(times)})
        return
    print(parsed.describe())
    print()
    view.print_times(times, empty="it never fires after that")


def _read_timing(expression: str | None, interval: str | None, tz: str | None, policies: dict[str, Any]) -> Timing:
    if (expression is None) == (interval is None):
        raise UsageError('say when: either --cron, as in --cron "0 9 * * 1-5", or --every, as in --every 5m')
    if expression is not None:
        return cron(expression, tz=tz or "UTC", **policies)
    if tz is not None:
        raise UsageError(f"--tz={tz!r} has no meaning with --every: intervals are the same everywhere")
    assert interval is not None
    return every(interval, **policies)


def _read_bool(text: str | None, name: str) -> bool | None:
    if text not in (None, "true", "false"):
        raise UsageError(f"{name}={text!r} is not a boolean: write true or false")
    return None if text is None else text == "true"


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _tell(record: ScheduleRecord, done: str, as_json: bool) -> None:
    if as_json:
        print_json(view.plain_record(record))
        return
    say(f"schedule {record.label} is {done}: {view.sentence(record)}")
