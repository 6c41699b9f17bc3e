"""`rota calendars`: pairs (add, list, show, sign-in, remove), sync, log, jobs, conflicts, seed."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from rota.apps.calendars import REGULAR, ledger, pairs
from rota.apps.calendars.connectors import Place
from rota.apps.calendars.model import SIDES, Side, Window
from rota.apps.calendars.pairs import NewEnd
from rota.cli.calendar_seed import seed
from rota.cli.database import connect
from rota.cli.local import control_on
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, read_moment, say
from rota.config import Settings, load_settings
from rota.db.connection import AsyncConn
from rota.errors import NotFound, UsageError
from rota.model.duration import parse_duration, show_duration
from rota.model.secret import use_keys

T = TypeVar("T")

app = typer.Typer(
    help="Keep pairs of calendars alike.", no_args_is_help=True, add_completion=False,
    rich_markup_mode=None,
)  # fmt: skip
pair_commands = typer.Typer(
    help="Add, list, show and remove pairs of calendars.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
app.add_typer(pair_commands, name="pairs")
app.command(name="seed")(seed)

PairArgument = Annotated[str, typer.Argument(metavar="PAIR", help="The pair's name.", show_default=False)]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")]
PASSWORD_HELP = "The environment variable that has the password, or the bearer token where there is no user; - reads it from stdin."


def _run(operation: Callable[[AsyncConn, Settings], Awaitable[T]]) -> T:
    settings = load_settings()
    use_keys(settings.secrets.key, required=settings.app.env != "local")
    return connect(lambda conn: operation(conn, settings))


@pair_commands.command(name="add")
def add(
    pair: PairArgument,
    first: Annotated[
        str,
        typer.Option(
            metavar="CONNECTOR=LOCATION", help="The first calendar, as caldav=https://… or folder=/path.", show_default=False
        ),
    ],
    second: Annotated[
        str, typer.Option(metavar="CONNECTOR=LOCATION", help="The second, as ics=https://…; it is only read.", show_default=False)
    ],
    first_user: Annotated[str | None, typer.Option(help="Who signs in to the first.")] = None,
    first_password: Annotated[str | None, typer.Option(metavar="VARIABLE", help=PASSWORD_HELP)] = None,
    second_user: Annotated[str | None, typer.Option(help="Who signs in to the second.")] = None,
    second_password: Annotated[str | None, typer.Option(metavar="VARIABLE", help=PASSWORD_HELP)] = None,
    direction: Annotated[str, typer.Option(help="both, to_second or to_first.")] = "both",
    every: Annotated[str | None, typer.Option(help="Synchronise it by itself so often, as 15m; else only when asked.")] = None,
    past: Annotated[str, typer.Option(help="How far back new events are taken in, by itself.")] = "30d",
    future: Annotated[str, typer.Option(help="How far ahead.")] = "365d",
    as_json: JsonOption = False,
) -> None:
    """Add a pair of calendars; passwords are stored encrypted, and never shown again."""
    ends = [_end(first, first_user, first_password, "first"), _end(second, second_user, second_password, "second")]
    interval = None if every is None else parse_duration(every, name="every", positive=True)
    times = {"past": parse_duration(past, name="past"), "future": parse_duration(future, name="future")}

    async def operation(conn: AsyncConn, settings: Settings) -> pairs.PairView:
        async with conn.transaction():
            added = await pairs.add(conn, settings, pair, ends[0], ends[1], direction=direction, every=interval, **times)  # type: ignore[arg-type]
            if interval is not None:
                await _regularly(conn, settings, pair)
            await control_on(conn).record(conn, "calendars.add", pair, direction=direction, every=every)
            return added

    made = _run(operation)
    if as_json:
        print_json(made)
        return
    say(f"pair {pair} is added; `rota calendars sync {pair}` synchronises it now")


async def _regularly(conn: AsyncConn, settings: Settings, pair: str) -> None:
    """Makes the row that enqueues a pair's synchronisations, in the transaction that makes the pair."""
    from rota.app import Rota

    async with Rota(settings=settings) as application:
        regular = application.include("rota.apps.calendars")
        await regular.using(conn=conn).aensure(calendar_pair_id=pair)


@pair_commands.command(name="list")
def list_(as_json: JsonOption = False) -> None:
    """List the pairs."""
    found = _run(lambda conn, _: pairs.list_all(conn))
    if as_json:
        print_json(found)
        return
    print_table(
        ["pair", "first", "second", "direction", "every"],
        [[each.id, f"{each.first_connector} {each.first}", f"{each.second_connector} {each.second}", each.direction, each.every]
         for each in found],
        empty="there are no pairs of calendars: `rota calendars pairs add` makes one",
    )  # fmt: skip


@pair_commands.command()
def show(pair: PairArgument, as_json: JsonOption = False) -> None:
    """Show a pair: its calendars, how many events they have, and how its last synchronisation went."""

    async def operation(conn: AsyncConn, _: Settings) -> dict[str, Any]:
        view = await pairs.get(conn, pair)
        last = await pairs.rows(conn, "summaries", pair, limit=1)
        problems = await (await conn.execute(ledger.SQL["problems"], {"pair": pair})).fetchall()
        return {"pair": view, "events": await pairs.counts(conn, pair), "last": last[0] if last else None,
                "problems": [f"{side} {href}: {why}" for side, href, why in problems]}  # fmt: skip

    found = _run(operation)
    if as_json:
        print_json(found)
        return
    view, events, last = found["pair"], found["events"], found["last"]
    rows: list[list[Any]] = [
        ["first", f"{view.first_connector} {view.first}, {events.first} events"],
        ["second", f"{view.second_connector} {view.second}, {events.second} events"],
        ["alike", f"{events.alike} events"],
        ["direction", view.direction],
        ["every", view.every],
        ["window", f"{show_duration(view.past)} back, {show_duration(view.future)} ahead"],
        ["last", None if last is None else f"{last['outcome']}, {last['processed']} processed, {last['failed']} failed"],
        ["error", None if last is None else last["error"]],
        *(["problem", problem] for problem in found["problems"][:20]),
    ]
    print_table([f"pair {view.id}", ""], rows)


@pair_commands.command()
def sign_in(
    pair: PairArgument,
    side: Annotated[str, typer.Argument(metavar="SIDE", help="first or second.", show_default=False)],
    user: Annotated[str | None, typer.Option(help="Who signs in.")] = None,
    password: Annotated[str | None, typer.Option(metavar="VARIABLE", help=PASSWORD_HELP)] = None,
) -> None:
    """Set how one signs in to a calendar of a pair."""
    chosen = _side(side)
    word = _password(password, user, chosen)

    async def operation(conn: AsyncConn, _: Settings) -> None:
        async with conn.transaction():
            await pairs.sign_in(conn, pair, chosen, user=user, password=word)
            await control_on(conn).record(conn, "calendars.sign_in", pair, side=chosen, user=user)

    _run(operation)
    who = f"as {user}" if user else "with a token" if word else "by nobody"
    say(f"the {chosen} calendar of {pair} is signed in to {who} from now on")


@pair_commands.command()
def remove(pair: PairArgument, yes: YesOption = False) -> None:
    """Remove a pair and what is known of it; the calendars stay as they are."""
    confirm(f"Remove pair {pair}? Its calendars stay as they are.", yes=yes)

    async def operation(conn: AsyncConn, _: Settings) -> None:
        async with conn.transaction():
            await pairs.remove(conn, pair)
            await conn.execute("DELETE FROM rota.schedule WHERE task = %s AND key = %s", [REGULAR, pair])
            await control_on(conn).record(conn, "calendars.remove", pair)

    _run(operation)
    say(f"pair {pair} is removed")


@app.command()
def sync(
    pair: PairArgument,
    start: Annotated[str | None, typer.Option(help="Take in new events from then on; else as the pair says.")] = None,
    end: Annotated[str | None, typer.Option(help="Until then.")] = None,
    allow_deletions: Annotated[bool, typer.Option("--allow-deletions", help="Also if most events of a calendar are gone.")] = False,
    key: Annotated[str | None, typer.Option(help="Asked twice with the same key within a day, it is one job.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Enqueue a synchronisation of a pair; a worker with rota.apps.calendars does it."""

    async def operation(conn: AsyncConn, _: Settings) -> Any:
        view = await pairs.get(conn, pair)
        own = pairs.job_of(view)
        window = Window(
            own.window_start if start is None else read_moment(start, "--start"),
            own.window_end if end is None else read_moment(end, "--end"),
        )
        if window.end <= window.start:
            raise UsageError("--end must be later than --start")
        payload = {"allow_deletions": True} if allow_deletions else {}
        return (await control_on(conn).schedule_calendar_jobs([pairs.job_of(view, window, payload)], key=key)).jobs[0]

    job = _run(operation)
    if as_json:
        print_json(job)
        return
    say(f"a worker will synchronise {pair}; `rota calendars log {pair}` tells what became of it")
    print(job.id)


@app.command()
def log(pair: PairArgument, limit: LimitOption = 20, as_json: JsonOption = False) -> None:
    """List the last attempts at synchronising a pair: outcome, events processed and failed, and what went wrong."""
    found = _run(lambda conn, _: _rows(conn, "summaries", pair, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ["started", "outcome", "processed", "failed", "job", "attempt", "error"],
        [[each[name] for name in ("started_at", "outcome", "processed", "failed", "job_id", "attempt", "error")] for each in found],
        empty=f"{pair} was never synchronised: `rota calendars sync {pair}` does it",
    )


@app.command()
def jobs(pair: PairArgument, limit: LimitOption = 20, as_json: JsonOption = False) -> None:
    """List the jobs of a pair, live and finished."""
    found = _run(lambda conn, _: _rows(conn, "jobs", pair, limit=limit))
    if as_json:
        print_json(found)
        return
    names = ["id", "state", "connector", "window_start", "window_end", "priority", "attempt", "run_at", "last_error"]
    print_table(
        [name.replace("_", " ") for name in names], [[each[name] for name in names] for each in found], empty="there are none"
    )


@app.command()
def conflicts(
    pair: PairArgument,
    id: Annotated[int | None, typer.Option("--show", metavar="ID", help="Print what has lost in this one.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List the conflicts of a pair; what has lost in each is kept for half a year."""
    if id is not None:
        rows = _run(lambda conn, _: _rows(conn, "conflicts_get", pair, conflict=id))
        if not rows:
            raise NotFound(f"there is no conflict {id} of {pair}")
        if as_json:
            print_json(rows[0])
        else:
            print(rows[0]["text"] or "it was a deletion", end="")
        return
    found = _run(lambda conn, _: _rows(conn, "conflicts_list", pair, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "at", "kind", "winner", "uid"],
        [[each[name] for name in ("id", "at", "kind", "winner", "uid")] for each in found],
        empty="there are no conflicts",
    )


async def _rows(conn: AsyncConn, block: str, pair: str, **parameters: Any) -> list[dict[str, Any]]:
    await pairs.need(conn, pair)
    return await pairs.rows(conn, block, pair, **parameters)


def _end(text: str, user: str | None, variable: str | None, side: Side) -> NewEnd:
    connector, found, location = text.partition("=")
    if not found or not location:
        raise UsageError(f"--{side}={text[:40]!r} is not a calendar: write it as CONNECTOR=LOCATION, as folder=/srv/calendar")
    word = _password(variable, user, side)
    from pydantic import SecretStr

    return NewEnd(connector, Place(location, user, None if word is None else SecretStr(word)))


def _password(variable: str | None, user: str | None, side: Side) -> str | None:
    """The password: from a variable or from standard input, never from the command line, which everybody can read."""
    if variable == "-":
        return sys.stdin.readline().rstrip("\n")
    if variable is not None:
        if (word := os.environ.get(variable)) is None:
            raise UsageError(f"the environment has no variable {variable}: it should hold the password of the {side} calendar")
        return word
    if user is None:
        return None
    if not sys.stdin.isatty():
        raise UsageError(f"the password of {user} is missing: name a variable that has it with --{side}-password")
    word = typer.prompt(f"Password of {user} for the {side} calendar", hide_input=True, err=True)
    return str(word)


def _side(text: str) -> Side:
    for side in SIDES:
        if side == text:
            return side
    raise UsageError(f"side={text!r} is not allowed: first or second")
