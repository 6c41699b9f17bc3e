"""What commands print: data to stdout as tables or JSON, talk and errors to stderr."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from rota.errors import DatabaseError, Forbidden, NotMigrated, RotaError, UsageError
from rota.model.duration import parse_duration, show_duration

JSON_VERSION = 1  # of the shape that `--json` prints: it goes up when a field is renamed or removed

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what somebody stored must not steer the reader's terminal

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: versioned, times in UTC.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def say(text: str) -> None:
    """Tells the user something that is not data."""
    print(text, file=sys.stderr, flush=True)


def print_json(data: Any) -> None:
    """Prints `{"version": 1, "data": …}`; times are ISO 8601 in UTC, durations are seconds."""
    import orjson

    options = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    if sys.stdout.isatty():
        options |= orjson.OPT_INDENT_2
    text = orjson.dumps({"version": JSON_VERSION, "data": data}, _plain, options)
    print(text.decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = "nothing found") -> None:
    """Prints rows under headings, by Rich on a terminal and plainly elsewhere; tells `empty` when there are none."""
    texts = [[format_cell(cell) for cell in row] for row in rows]
    if not texts:
        say(empty)
    elif sys.stdout.isatty():
        _print_rich(columns, texts)
    else:
        _print_plain(columns, texts)


def format_cell(value: Any) -> str:
    """A value as a person reads it: local times with their zone, durations in two units."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        case timedelta():
            return show_duration(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(format_cell(each) for each in value) or "-"
        case _:
            return CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def read_moment(text: str, name: str) -> datetime:
    """The time that an option says; local time unless it names a zone. `name` is the option that an error speaks of."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{name}={text!r} is not a time: write 2030-01-31T09:00 or 2030-01-31T09:00+02:00") from error


def read_since(text: str, name: str) -> datetime | timedelta:
    """The time that an option says, or how long ago: "1h", "2030-01-31T09:00"."""
    return read_moment(text, name) if text[:4].isdigit() and "-" in text else parse_duration(text, name=name)


def confirm(question: str, *, yes: bool) -> None:
    """Asks before something is destroyed; where nobody can answer, `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is here to ask: add --yes to do it")
    if not typer.confirm(question, err=True):
        raise typer.Abort


def print_error(error: RotaError) -> None:
    """Prints what went wrong, in red on a terminal."""
    typer.secho(f"error: {error}", err=True, fg="red" if sys.stderr.isatty() else None)


def explain_driver_error(error: BaseException) -> RotaError | None:
    """Our error for one of the driver's that says nothing about Rota; None for errors of other kinds."""
    import psycopg

    match error:
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedFunction() | psycopg.errors.InvalidSchemaName():
            hint = "The tables of rota.apps.feeds and the like come with it where your application includes them (app.apps)"
            return NotMigrated(f"{_first_line(error)}: run `rota migrate up`. {hint}")
        case psycopg.errors.LockNotAvailable():
            return DatabaseError("another session holds a lock that is needed here; nothing was changed: try again in a moment")
        case psycopg.errors.InsufficientPrivilege():
            return Forbidden(f"{_first_line(error)}: `rota migrate grant` gives a user rights; grant it, or connect as another")
        case psycopg.OperationalError():
            return DatabaseError(
                f"PostgreSQL cannot be reached or gave up: {_first_line(error)}; check database.url, then `rota doctor`"
            )
        case psycopg.Error():
            return DatabaseError(_first_line(error))
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case set() | frozenset():
            return sorted(value)
    return str(value)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [[column.upper() for column in columns], *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: what users store must not be read as markup
    Console().print(table)


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text else text
