"""`rota tasks`: list, show, sync, plan, enable, disable, trigger, set, unset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import task_view as view
from rota.cli.database import connect, need_database, run
from rota.cli.enqueue import read_object
from rota.cli.local import control_on
from rota.cli.locate import AppOption, find_code, need_app
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.cli.run_view import STATS_COLUMNS, stats_cells
from rota.control import sync as deploy
from rota.control.tasks import MAX_LIMIT, TaskView
from rota.errors import Conflict, UsageError
from rota.model.task_meta import parse_field

if TYPE_CHECKING:
    from rota.cli.database import Control
    from rota.control.stats import TaskStats

app = typer.Typer(
    help="List, deploy, trigger, switch and set tasks.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The task's name.", show_default=False)]


@app.command(name="list")
def list_(
    system: Annotated[bool, typer.Option("--all", "--system", help="Rota's own tasks too.")] = False,
    tag: Annotated[str | None, typer.Option("--tag", help="Only those with this tag.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="Only tasks with this field, such as team=billing. Repeat for several."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")] = 500,
    after: Annotated[str, typer.Option(metavar="NAME", help="Only those after this one.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the tasks that code has made known, by name."""
    fields = field or []
    for each in fields:
        parse_field(each)  # so that a mistake is found before any request
    page = run(lambda control: control.list(system=system, tag=tag, fields=fields, after=after, limit=limit))
    if as_json:
        print_json({"tasks": [view.plain(each) for each in page.tasks], "next": page.next})
        return
    print_table(
        ["task", "strategy", "queue", "enabled", "limit", "workers", "tags", "description"],
        [view.format_line(each) for each in page.tasks],
        empty="no task matches" if tag or fields else "there are no tasks: a worker or `rota tasks sync` makes them known",
    )
    if page.next is not None:
        say(f"there may be more: add --after {page.next}")


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a task: what code says, what operators have changed, who knows it, and how it has fared."""

    async def look(control: Control) -> tuple[TaskView, dict[str, TaskStats]]:
        return await control.get(name), await control.task_stats(name)

    found, stats = run(look)
    if as_json:
        print_json(view.plain(found) | {"stats": stats})
        return
    view.print_task(found)
    if any(each.per_minute for each in stats.values()):
        print()
        print_table(["in the last", *STATS_COLUMNS], [[period, *stats_cells(each)] for period, each in stats.items()])


@app.command()
def sync(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="With --force: only these.", show_default=False)
    ] = None,
    location: AppOption = None,
    force: Annotated[bool, typer.Option("--force", help="Take back what operators have changed, of all tasks or of NAME.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what the application's code defines to the database; operators' changes stay, unless forced.

    What the code no longer has is marked as deleted from code: its schedules do not fire until it comes back.
    """
    if names and not force:
        raise UsageError(f"NAME={names[0]!r} has a meaning with --force only: a sync is always of all tasks")
    need_database("tasks sync")
    application = need_app(location)
    if force and not names:
        confirm("This will take back what operators have changed of all tasks and their schedules. Go on?", yes=yes)
    done = connect(lambda conn: control_on(conn, application).sync_definitions(force=names or force))
    if as_json:
        print_json(done)
        return
    hidden = {spec.name for spec in application.definitions() if spec.system}
    for kind in ("created", "changed", "returned", "gone"):
        if shown := [name for name in getattr(done, kind) if name not in hidden]:
            print(f"{kind + ':':10}{', '.join(shown)}")
    say(f"the database knows the {len(application.tasks.keys() - hidden)} tasks of {application.name}")


@app.command()
def plan(
    location: AppOption = None,
    scan: Annotated[int, typer.Option(min=0, max=10_000_000, help="Look at the payloads of so many live jobs.")] = deploy.SCAN_MOST,
    as_json: JsonOption = False,
) -> None:
    """Show what a sync would change, what operators have changed, and which live jobs the code could not run.

    Changes nothing. Ends with 4 when there are such jobs, for deploy pipelines; with 0 otherwise.
    """
    need_database("tasks plan")
    application = need_app(location)
    found = connect(lambda conn: deploy.plan(conn, application.definitions(), app=application.name, scan=scan))
    if as_json:
        print_json(view.plain_plan(found))
    else:
        view.print_plan(found)
    if not found.compatible:
        raise Conflict(
            "there are live jobs that this code could not run: deploy code that takes them, or cancel or edit them first"
        )


@app.command()
def enable(name: NameArgument, as_json: JsonOption = False) -> None:
    """Let a task's schedules fire and its jobs run again."""
    _tell(run(lambda control: control.enable(name)), "is enabled", as_json)


@app.command()
def disable(
    name: NameArgument,
    reason: Annotated[str | None, typer.Option(help="Told to whoever asks why nothing runs.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let a task's schedules fire no more and its jobs wait, over restarts too; running ones go on."""
    done = run(lambda control: control.disable(name, reason=reason))
    _tell(done, f"is disabled; `rota tasks enable {name}` lets it go on", as_json)


@app.command()
def trigger(
    name: NameArgument,
    location: AppOption = None,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="A JSON object over the default payload, or - for stdin.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a task now: its default payload, with --payload over it.

    With an application (-a, or found by itself) the payload is checked by its code; without one, by what workers have told the
    database about it.
    """
    arguments = read_object(payload or "{}")
    job = run(lambda control: control.trigger(name, arguments), find_code(location))
    if as_json:
        print_json({"task": name, "job_id": job})
    else:
        print(job)


@app.command(name="set")
def set_(
    name: NameArgument,
    settings: Annotated[list[str], typer.Argument(metavar="SETTING=VALUE...", help="As in max_concurrency=5.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Overrule what code says of a task; deploys leave it so.

    Settings: max_concurrency, rate, key_concurrency, key_rate, max_attempts, timeout, retry.base, retry.cap, retry.jitter,
    retention_days, retention_count, default_payload. The value none is no limit, or what holds for all tasks.
    """
    given = dict(_read_setting(each) for each in settings)
    _tell(run(lambda control: control.update(name, **given)), "is changed", as_json)


@app.command()
def unset(
    name: NameArgument,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING]...", help="Only these; else all.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let code say again what a task's settings are."""
    _tell(run(lambda control: control.reset(name, *(settings or ()))), "is changed", as_json)


def _read_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is not a setting: write it as name=value, as in max_concurrency=5")
    if name == "default_payload":
        return name, read_object(value)
    if value.lower() in ("none", "null"):
        return name, None
    try:
        return name, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return name, value


def _tell(task: TaskView, done: str, as_json: bool) -> None:
    if as_json:
        print_json(view.plain(task))
        return
    say(f"task {task.record.name} {done}")
    if overrides := view.overrides(task.record):
        say(f"changed from what code says: {overrides}")
