"""`rota migrate`: the schema, up and down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, cast

import psycopg
import typer

from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.config import load_settings
from rota.db import grants, migrations
from rota.errors import NotFound, UsageError

app = typer.Typer(help="Bring the database's schema up or down.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command()
def up(
    to: Annotated[int | None, typer.Option(help="Stop at this number; else go to the newest.")] = None,
) -> None:
    """Apply the migrations that the database lacks."""
    _check_number(to)
    with _connect() as conn:
        done = migrations.up(conn, to=to)
    for migration in done:
        say(f"applied {migration.number:04} {migration.name}")
    if not done:
        say("nothing to do: the database is up to date")


@app.command()
def down(
    to: Annotated[int, typer.Option(help="The last number to keep; 0 removes everything of Rota.")],
    yes: YesOption = False,
) -> None:
    """Roll back the migrations above a number, with their data."""
    _check_number(to)
    with _connect() as conn:
        doomed = [state for state in migrations.status(conn) if state.applied_at is not None and state.number > to]
        if doomed:
            names = ", ".join(f"{state.number:04} {state.name}" for state in reversed(doomed))
            confirm(f"Rolling back {names} deletes the jobs and the history that are in their tables. Go on?", yes=yes)
        done = migrations.down(conn, to=to)
    for migration in done:
        say(f"rolled back {migration.number:04} {migration.name}")
    if not done:
        say(f"nothing to do: the database has no migration above {to:04}")


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show which migrations the database has.

    The exit code is 6 when it lacks some of this version.
    """
    with _connect() as conn:
        states = migrations.status(conn)
    if as_json:
        print_json(
            [{"number": each.number, "name": each.name, "state": _word(each), "applied_at": each.applied_at} for each in states]
        )
    else:
        print_table(
            ["number", "name", "state", "applied at"],
            [[f"{each.number:04}", each.name, _word(each), each.applied_at] for each in states],
        )
    migrations.require_current(states)


@app.command()
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of the PostgreSQL server.", show_default=False)],
    kind: Annotated[str, typer.Option("--as", help="read: look at everything; operate: also what operators do.")],
    only_print: Annotated[bool, typer.Option("--print", help="Print the SQL instead of running it.")] = False,
) -> None:
    """Let a role of the database look at Rota's tables, or operate jobs, queues and schedules.

    Neither may write runs and logs: that is the system's.
    """
    with _connect() as conn:
        migrations.require_current(migrations.status(conn))
        if only_print:
            for statement in grants.statements(conn, role, cast(grants.Kind, kind)):
                print(f"{statement};")
            return
        grants.grant(conn, role, cast(grants.Kind, kind))
    say(f"role {role} may {kind} now")


@contextmanager
def _connect() -> Iterator[psycopg.Connection[Any]]:
    database = load_settings().database
    with psycopg.connect(database.dsn, autocommit=True, connect_timeout=round(database.connect_timeout_s)) as conn:
        yield conn


def _check_number(to: int | None) -> None:
    if to is None:
        return
    if to < 0:
        raise UsageError(f"--to={to} is out of range: from 0, which is no migration at all")
    numbers = [migration.number for migration in migrations.available()]
    if to and to not in numbers:
        raise NotFound(f"there is no migration {to:04}: this version has {numbers[0]:04} to {numbers[-1]:04}")


def _word(state: migrations.Status) -> str:
    if state.unknown:
        return "unknown"
    if state.changed:
        return "changed"
    return "missing" if state.applied_at is None else "applied"
