"""`rota migrate`: the schema of Rota and of included applications, up and down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, cast

import psycopg
import typer

from rota.cli.locate import AppOption, find_app
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.config import load_settings
from rota.db import grants, migrations
from rota.db.connection import connect_plainly
from rota.engine.supervisor import end_with_parent
from rota.errors import NotFound, UsageError
from rota.model.folders import OWN

app = typer.Typer(help="Bring the database's schema up or down.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)


OfOption = Annotated[
    str | None,
    typer.Option(
        "--of", metavar="NAMESPACE", help="Only these migrations: rota, or the namespace of an included application.",
        show_default=False,
    ),
]  # fmt: skip


@app.command()
def up(
    of: OfOption = None,
    to: Annotated[
        int | None, typer.Option(help="Stop at this number, of Rota's own unless --of says else. Default: the newest.")
    ] = None,
    location: AppOption = None,
) -> None:
    """Apply the migrations that the database lacks: Rota's, and those of the applications that yours includes."""
    end_with_parent()
    folders = folders_of(location)
    of = _checked(folders, of or (OWN if to is not None else None), to)
    with _connect() as conn:
        done = migrations.up(conn, folders, of=of, to=to)
    for migration in done:
        say(f"applied {migration}")
    if not done:
        say("nothing to do: the database is up to date")


@app.command()
def down(
    to: Annotated[
        int, typer.Option(help="The last number to keep; 0 removes everything, and of Rota's own also the applications'.")
    ],
    of: OfOption = None,
    location: AppOption = None,
    yes: YesOption = False,
) -> None:
    """Roll back the migrations above a number, with their data: Rota's own, or those that --of names."""
    folders = folders_of(location)
    of = _checked(folders, of, to) or OWN
    with _connect() as conn:
        applied = {(each.namespace, each.number) for each in migrations.status(conn, folders) if each.applied_at is not None}
        doomed = [each for each in migrations.unwanted(folders, of=of, to=to) if (each.namespace, each.number) in applied]
        if doomed:
            confirm(f"Rolling back {', '.join(map(str, doomed))} deletes all data in their tables. Continue?", yes=yes)
        done = migrations.down(conn, folders, of=of, to=to)
    for migration in done:
        say(f"rolled back {migration}")
    if not done:
        say(f"nothing to do: the database has no migration of {of} above {to:04}")


@app.command()
def status(location: AppOption = None, as_json: JsonOption = False) -> None:
    """Show which migrations the database has: Rota's, and those of the applications that yours includes.

    The exit code is 6 when it lacks some of this version.
    """
    folders = folders_of(location)
    with _connect() as conn:
        states = migrations.status(conn, folders)
    if as_json:
        print_json(
            [
                {
                    "namespace": each.namespace,
                    "number": each.number,
                    "name": each.name,
                    "state": _word(each),
                    "applied_at": each.applied_at,
                }
                for each in states
            ]
        )
    else:
        print_table(
            ["namespace", "number", "name", "state", "applied at"],
            [[each.namespace, f"{each.number:04}", each.name, _word(each), each.applied_at] for each in states],
        )
    migrations.require_current([each for each in states if not each.unknown])


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
    with connect_plainly(load_settings().database) as conn:
        yield conn


def folders_of(location: str | None = None) -> migrations.Folders:
    """Return where the migrations of included applications are: those of the application found, else of `app.apps`."""
    from rota.app import Rota

    return (find_app(location) or Rota()).migrations


def _checked(folders: migrations.Folders, of: str | None, to: int | None) -> str | None:
    """Refuse a namespace or a number that does not exist."""
    if of not in (None, OWN, *folders):
        raise NotFound(f"there are no migrations of {of!r}: there are {', '.join([OWN, *folders])}")
    if to is None:
        return of
    if to < 0:
        raise UsageError(f"--to={to} is out of range: from 0, which is no migration at all")
    numbers = [each.number for each in migrations.collect(folders) if each.namespace == (of or OWN)]
    if to and to not in numbers:
        raise NotFound(f"there is no migration {to:04}: this version has {numbers[0]:04} to {numbers[-1]:04}")
    return of


def _word(state: migrations.Status) -> str:
    if state.unknown:
        return "unknown"
    if state.changed:
        return "changed"
    return "missing" if state.applied_at is None else "applied"
