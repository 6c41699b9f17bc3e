"""The one clock of a database, moved by tests: the real SQL sees another time, and nothing else is different."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

from rota.db import queries
from rota.errors import UsageError

SQL = queries.load("clock", folder="rota.contrib.testing")

_MICROSECOND = timedelta(microseconds=1)


class Clock:
    """Moves the time that `rota.now()` tells in one database."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        conn.execute(SQL["clock_install"])

    def now(self) -> datetime:
        """The time as the database's functions see it."""
        row = self._conn.execute(SQL["clock_read"]).fetchone()
        assert row is not None
        at: datetime = row[0]
        return at

    def move(self, by: timedelta) -> None:
        """Goes on by so much, or back."""
        self._conn.execute(SQL["clock_move"], {"microseconds": by // _MICROSECOND})

    def freeze(self, at: datetime | None = None) -> None:
        """Stands still, at this moment or at the one given; `move` still moves it."""
        if at is not None and at.tzinfo is None:
            raise UsageError(f"at={at!r} has no time zone: give an aware datetime, e.g. in UTC")
        self._conn.execute(SQL["clock_freeze"], {"at": at})

    def reset(self) -> None:
        """Tells the real time again."""
        self._conn.execute(SQL["clock_reset"])
