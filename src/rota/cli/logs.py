"""`rota logs`: what handlers say."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, format_cell, print_json, read_moment, read_since, say
from rota.control import logs
from rota.errors import UsageError
from rota.model.log_filter import LogFilter, parse_run

if TYPE_CHECKING:
    from rota.cli.database import Control
    from rota.store.logs_read import LogLine

app = typer.Typer(help="Show, search and follow what handlers say.", add_completion=False, rich_markup_mode=None)

COLORS = {"warning": "yellow", "error": "red", "critical": "red", "debug": "bright_black"}


@app.command()
def show(
    text: Annotated[
        str | None, typer.Option("--text", "-q", help='Words in message or values; "a phrase" in quotes, -word for without it.')
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="A task's name.")] = None,
    job: Annotated[
        str | None, typer.Option("--job", "--run", "-j", metavar="ID[/ATTEMPT]", help="Of this job, or of one attempt at it.")
    ] = None,
    level: Annotated[str | None, typer.Option("--level", "-l", help="debug, info, warning, error or critical, and worse.")] = None,
    since: Annotated[str | None, typer.Option(help='Since: "1h", or a time such as 2030-01-31T09:00.')] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=logs.MAX_LIMIT, help="The last so many.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is said from now on.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the last lines that match, in the order in which they were said."""
    job_id, attempt = (None, None) if job is None else parse_run(job)
    filter = LogFilter(
        text=text,
        task=task,
        level=level and level.lower(),
        job_id=job_id,
        attempt=attempt,
        since=None if since is None else read_since(since, "--since"),
        until=None if until is None else read_moment(until, "--until"),
    )
    if follow:
        _follow(filter, limit, as_json=as_json)
        return
    page = run(lambda control: control.list_logs(filter, limit=limit))
    lines = page.lines[::-1]
    if as_json:
        print_json({"lines": [plain_line(line) for line in lines], "more": page.next is not None})
        return
    for line in lines:
        print_line(line)
    if not lines:
        say("no line matches; what is kept is set under [logs] in rota.toml")
    elif page.next is not None:
        say(f"these are the last {limit}: add --limit, or --until {lines[0].at.astimezone(UTC).isoformat()} for older ones")


def plain_line(line: LogLine) -> dict[str, Any]:
    """A line for `--json`."""
    # What users stored may have numbers that are too big for the fast encoder.
    plain = {field.name: getattr(line, field.name) for field in dataclasses.fields(line)}
    return {**plain, "level": line.level_name, "fields": orjson.Fragment(json.dumps(line.fields))}


def print_line(line: LogLine) -> None:
    """Prints a line for people."""
    at = line.at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    fields = " ".join(f"{name}={_value(value)}" for name, value in (line.fields or {}).items() if name != "exception")
    parts = [at, f"{line.level_name:8}", f"{line.task} {line.job_id}/{line.attempt}", format_cell(line.message), fields]
    typer.secho("  ".join(filter(None, parts)), fg=COLORS.get(line.level_name) if sys.stdout.isatty() else None)
    if line.fields and isinstance(trace := line.fields.get("exception"), str):
        print(format_cell(trace))


def _value(value: Any) -> str:
    return format_cell(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _follow(filter: LogFilter, limit: int, *, as_json: bool) -> None:
    async def watch(control: Control) -> None:
        async for line in logs.follow(control.list_logs, filter, last=min(limit, 10)):
            if as_json:
                print_json(plain_line(line))
            else:
                print_line(line)
            sys.stdout.flush()

    if filter.until is not None:
        raise UsageError("--until is over before --follow begins: leave one of them out")
    try:
        run(watch)
    except KeyboardInterrupt:
        say("")
