"""Pairs of calendars: made, shown, changed and removed by those who operate them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.rows import dict_row
from pydantic import SecretStr

from rota import seal, unseal
from rota.apps.calendars.connectors import Calendar, Place, check_name, connector
from rota.apps.calendars.ledger import SQL, Conn, get_pair, read_pair
from rota.apps.calendars.model import DIRECTIONS, Direction, Pair, Side, Window
from rota.config import Settings
from rota.errors import Conflict, NotFound, UsageError
from rota.model.calendar_job import CalendarJob

KIND = "calendar_pair"
PAST = timedelta(days=30)
FUTURE = timedelta(days=365)
EARLIEST = timedelta(minutes=1)  # between two synchronisations of a pair by itself


@dataclass(frozen=True, slots=True)
class NewEnd:
    """A calendar of a pair that is to be added."""

    connector: str
    place: Place


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair as people see it: without anything that is a secret."""

    id: str
    first_connector: str
    first: str
    second_connector: str
    second: str
    direction: str
    every: timedelta | None
    past: timedelta
    future: timedelta
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Counts:
    """How many events a pair has."""

    alike: int
    first: int
    second: int


async def add(
    conn: Conn, settings: Settings, id: str, first: NewEnd, second: NewEnd, *, direction: Direction = "both",
    every: timedelta | None = None, past: timedelta = PAST, future: timedelta = FUTURE,
) -> PairView:  # fmt: skip
    """Adds a pair; nobody is called yet. A calendar that is only read decides in which direction events go."""
    check_id(id)
    if direction not in DIRECTIONS:
        raise UsageError(f"direction={direction!r} is not allowed: one of {', '.join(DIRECTIONS)}")
    if every is not None and every < EARLIEST:
        raise UsageError(f"every={every} is too often: at least a minute")
    if past < timedelta(0) or future <= timedelta(0) or max(past, future) > timedelta(days=36_500):
        raise UsageError("the window is out of range: from 0 to 100 years back, and up to 100 years ahead")
    opened = {side: _connect(end, settings) for side, end in (("first", first), ("second", second))}
    for side, towards in (("first", "to_second"), ("second", "to_first")):
        if not opened[side].writable:
            if direction == "both":
                direction = towards  # type: ignore[assignment]
            if direction != towards:
                raise UsageError(f"the {side} calendar is only read: events can go {towards} only")
    if first == second:
        raise UsageError("both calendars of the pair are the same one")
    parameters = {
        "id": id, "direction": direction, "every": every, "past": past, "future": future,
        "first_connector": first.connector, "first_shown": opened["first"].shown, "first_sealed": _seal(id, "first", first.place),
        "second_connector": second.connector, "second_shown": opened["second"].shown,
        "second_sealed": _seal(id, "second", second.place),
    }  # fmt: skip
    if (await conn.execute(SQL["pairs_add"], parameters)).rowcount == 0:
        raise Conflict(f"there is a pair {id!r} already: take another name, or remove it first")
    return await get(conn, id)


async def get(conn: Conn, id: str) -> PairView:
    """A pair; NotFound if there is none."""
    return _view(await need(conn, id))


async def need(conn: Conn, id: str) -> Pair:
    """A pair with its sealed places; NotFound if there is none."""
    pair = await get_pair(conn, id)
    if pair is None:
        raise NotFound(f"there is no pair {id!r} of calendars: `rota calendars pairs list` shows those there are")
    return pair


async def list_all(conn: Conn) -> list[PairView]:
    """All pairs, by name."""
    rows = await (await conn.execute(SQL["pairs_list"])).fetchall()
    return [_view(read_pair(row)) for row in rows]


async def remove(conn: Conn, id: str) -> None:
    """Removes a pair with everything that is known of it; the calendars stay as they are."""
    await need(conn, id)
    await conn.execute(SQL["pairs_remove"], {"pair": id})


async def sign_in(conn: Conn, id: str, side: Side, *, user: str | None, password: str | None) -> None:
    """Sets how one signs in to a calendar of a pair."""
    place = open_place(await need(conn, id), side)
    place = replace(place, user=user, password=None if password is None else SecretStr(password))
    sealed = {"pair": id, "sealed": _seal(id, side, place)}
    await conn.execute(SQL["pairs_seal_first" if side == "first" else "pairs_seal_second"], sealed)


async def counts(conn: Conn, id: str) -> Counts:
    """How many events a pair has."""
    row = await (await conn.execute(SQL["counts"], {"pair": id})).fetchone()
    return Counts(*row) if row else Counts(0, 0, 0)


async def rows(conn: Conn, block: str, id: str, **parameters: Any) -> list[dict[str, Any]]:
    """What is written down about a pair: `summaries`, `conflicts_list`, `conflicts_get` or `jobs`."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        return await (await cursor.execute(SQL[block], {"pair": id, **parameters})).fetchall()


def job_of(pair: Pair | PairView, window: Window | None = None, payload: Mapping[str, Any] | None = None) -> CalendarJob:
    """The job that synchronises a pair: within the window given, or its own around now."""
    now = datetime.now(UTC)
    start, end = window or Window(now - pair.past, now + pair.future)
    name = pair.first_connector if isinstance(pair, PairView) else pair.first.connector
    given = {"calendar_pair_id": pair.id, "connector": name, "payload": dict(payload or {})}
    return CalendarJob.model_validate({**given, "window_start": start.isoformat(), "window_end": end.isoformat()})


def open_calendar(pair: Pair, side: Side, settings: Settings) -> Calendar:
    """A calendar of a pair, ready to be asked."""
    end = pair.end(side)
    return connector(end.connector)(open_place(pair, side), settings)


def open_place(pair: Pair, side: Side) -> Place:
    """Return the place of one calendar of a pair."""
    location, user, password = json.loads(unseal(pair.end(side).sealed, kind=KIND, id=pair.id, field=side))
    return Place(location, user, None if password is None else SecretStr(password))


def check_id(id: str) -> None:
    """Refuses a name that no job could carry."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:@/-]{0,199}", id):
        raise UsageError(f"pair {id[:80]!r} is not a name: up to 200 letters, digits and _ . : @ / -")


def _connect(end: NewEnd, settings: Settings) -> Calendar:
    check_name(end.connector)
    return connector(end.connector)(end.place, settings)


def _seal(pair: str, side: Side, place: Place) -> str:
    word = None if place.password is None else place.password.get_secret_value()
    text = json.dumps([place.location, place.user, word])
    return seal(text, kind=KIND, id=pair, field=side, key_needed=word is not None)


def _view(pair: Pair) -> PairView:
    return PairView(
        pair.id, pair.first.connector, pair.first.shown, pair.second.connector, pair.second.shown, pair.direction, pair.every,
        pair.past, pair.future, pair.created_at,
    )  # fmt: skip
