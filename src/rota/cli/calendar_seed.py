"""`rota calendars seed`: two folders with a few events, a pair of them, and jobs that synchronise it: something to look at."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.apps.calendars import pairs
from rota.apps.calendars.connectors import Place
from rota.apps.calendars.model import Window
from rota.apps.calendars.pairs import NewEnd
from rota.cli.database import connect
from rota.cli.local import control_on
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.config import Settings, load_settings
from rota.control.servers import server_env
from rota.db.connection import AsyncConn
from rota.errors import Conflict, Unreachable, UsageError
from rota.model.calendar_job import CalendarJob

PAIR = "seed:folders"
COOKIE_VARIABLE = "ROTA_SESSION"
EVENT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Rota//Seed//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:{now}\r\nSUMMARY:{title}\r\n"
    "DTSTART:{start}\r\nDURATION:PT1H\r\n{more}END:VEVENT\r\nEND:VCALENDAR\r\n"
)


def seed(
    folder: Annotated[Path, typer.Option(help="Where the two folders are made.")] = Path("calendars"),
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help=f"Schedule the jobs over POST /jobs/schedule there; {COOKIE_VARIABLE} has an admin's cookie."
        ),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make two folders with a few events, a pair of them, and three jobs that synchronise it.

    Once: a second time it finds them again.
    """
    settings = load_settings()
    env = connect(lambda conn: server_env(conn, settings))
    if env != "local":
        confirm(f"This will make a pair of calendars and jobs where app.env is {env}. Go on?", yes=yes)
    places = [folder.resolve() / name for name in ("first", "second")]
    for number, place in enumerate(places, 1):
        place.mkdir(parents=True, exist_ok=True)
        _fill(place, number)
    wanted = connect(lambda conn: _pair(conn, settings, places))
    key = f"seed-{datetime.now(UTC):%Y-%m-%d}"
    if server is None:
        made: Any = connect(lambda conn: control_on(conn).schedule_calendar_jobs(wanted, key=key))
        ids = [str(job.id) for job in made.jobs]
    else:
        ids = asyncio.run(_post(server, wanted, key))
    if as_json:
        print_json({"pair": PAIR, "folders": [str(place) for place in places], "jobs": ids})
        return
    print_table(
        ["job", "window"],
        [[id, f"{job.window_start:%Y-%m} to {job.window_end:%Y-%m}"] for id, job in zip(ids, wanted, strict=True)],
    )
    say(
        f"pair {PAIR} has two folders in {folder}; a worker with rota.apps.calendars synchronises them: `rota calendars log {PAIR}`"
    )


def _fill(place: Path, number: int) -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for each in range(1, 6):
        uid = f"seed-{number}-{each}"
        file = place / f"{uid}.ics"
        if not file.exists():
            start = now + timedelta(days=each * 9)
            more = "RRULE:FREQ=WEEKLY;COUNT=4\r\n" if each == 5 else ""
            texts = {"uid": uid, "title": f"Event {each} of calendar {number}", "more": more}
            file.write_bytes(EVENT.format(now=f"{now:%Y%m%dT%H%M%SZ}", start=f"{start:%Y%m%dT%H%M%SZ}", **texts).encode())


async def _pair(conn: AsyncConn, settings: Settings, places: list[Path]) -> list[CalendarJob]:
    """The pair, and a job for each of the next three months."""
    ends = [NewEnd("folder", Place(str(place))) for place in places]
    try:
        view = await pairs.add(conn, settings, PAIR, *ends)
    except Conflict:
        view = await pairs.get(conn, PAIR)
    now = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    months = [now + timedelta(days=31 * n) for n in range(4)]
    firsts = [month.replace(day=1) for month in months]
    return [pairs.job_of(view, Window(start, end)) for start, end in pairwise(firsts)]


async def _post(server: str, wanted: list[CalendarJob], key: str) -> list[str]:
    cookie = os.environ.get(COOKIE_VARIABLE)
    if not cookie:
        raise UsageError(f"{COOKIE_VARIABLE} is not set: it should have the session cookie of an admin who is signed in")
    import aiohttp

    body = {"jobs": [job.model_dump(mode="json") for job in wanted]}
    try:
        async with (
            aiohttp.ClientSession(cookies={"rota": cookie}) as session,
            session.post(f"{server.rstrip('/')}/jobs/schedule", json=body, headers={"Idempotency-Key": key}) as answer,
        ):
            said = await answer.json(content_type=None)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unreachable(f"{server} cannot be reached, or is no server of Rota: {type(error).__name__}") from None
    if answer.status != 202:
        raise Unreachable(f"{server} answered {answer.status}: {said.get('detail', said) if isinstance(said, dict) else said}")
    return [job["id"] for job in said["jobs"]]
