"""The application's own tables, in the schema `feeds`: numbered files, each applied once, by `rota feeds migrate`."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import psycopg

from rota.errors import DatabaseError

LOCK_KEY = 0x6665656473  # "feeds" in ASCII: one process at a time
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")
_MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedColumn)


def migrate(conn: psycopg.Connection[Any]) -> list[int]:
    """Applies what is missing, all or nothing, and gives its numbers; again is harmless. Rota's own schema must be there."""
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_KEY])
        conn.execute("SET LOCAL lock_timeout = '5s'")
        if conn.execute("SELECT to_regprocedure('rota.now()')").fetchone() in (None, (None,)):
            raise DatabaseError("the database lacks Rota's own schema, on which that of feeds stands: run `rota migrate up` first")
        conn.execute("CREATE SCHEMA IF NOT EXISTS feeds")
        conn.execute(
            "CREATE TABLE IF NOT EXISTS feeds.migration (number integer PRIMARY KEY, applied_at timestamptz DEFAULT now())"
        )
        applied = {row[0] for row in conn.execute("SELECT number FROM feeds.migration")}
        missing = {number: text for number, text in available().items() if number not in applied}
        for number, text in missing.items():
            conn.execute(text.encode(), prepare=False)
            conn.execute("INSERT INTO feeds.migration (number) VALUES (%s)", [number])
    return list(missing)


def available() -> dict[int, str]:
    """The files that come with this version, by number and in order."""
    folder = files("rota.apps.feeds") / "schema"
    found = {int(match[1]): each for each in folder.iterdir() if (match := _FILE_NAME.fullmatch(each.name))}
    return {number: found[number].read_text("utf-8") for number in sorted(found)}


class Explained:
    """A block in which a missing table is an error that says what to do."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, _MISSING) and "feeds." in str(error):
            raise DatabaseError("the database lacks the tables of feeds: run `rota feeds migrate`") from error


explained = Explained()
