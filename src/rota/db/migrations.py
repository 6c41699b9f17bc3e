"""Numbered SQL migrations, up and down, one process at a time."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

import psycopg
from psycopg.rows import dict_row

from rota.db.connection import AsyncConn
from rota.errors import DatabaseError, MigrationError

OLDEST_POSTGRES = 14
LOCK_KEY = 0x726F7461  # "rota" in ASCII: one advisory lock for everything that changes the schema
LOCK_TIMEOUT = "5s"  # a migration that waits for a table lock makes every query behind it wait too

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.up\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, with the way back."""

    number: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.up.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Status:
    """A migration and whether this database has it."""

    number: int
    name: str
    applied_at: datetime | None
    changed: bool = False
    unknown: bool = False


def available() -> list[Migration]:
    """The migrations that come with this version of Rota, in order."""
    folder = files("rota.db") / "schema"
    found = []
    for entry in folder.iterdir():
        if match := _FILE_NAME.fullmatch(entry.name):
            number, name = match.groups()
            down = folder / f"{number}_{name}.down.sql"
            found.append(Migration(int(number), name, entry.read_text("utf-8"), down.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def up(conn: psycopg.Connection[Any], *, to: int | None = None) -> list[Migration]:
    """Applies what is missing, up to number `to`; each migration in a transaction of its own."""
    _check_server(conn)
    wanted = [migration for migration in available() if to is None or migration.number <= to]
    return [migration for migration in wanted if _step_up(conn, migration)]


def down(conn: psycopg.Connection[Any], *, to: int) -> list[Migration]:
    """Rolls back every migration above number `to` (0 removes Rota's schema)."""
    unwanted = [migration for migration in reversed(available()) if migration.number > to]
    done = [migration for migration in unwanted if _step_down(conn, migration)]
    if to == 0:
        with conn.transaction():
            _lock(conn)
            conn.execute("DROP TABLE IF EXISTS rota.migration")
            conn.execute("DROP SCHEMA IF EXISTS rota")
    return done


def status(conn: psycopg.Connection[Any]) -> list[Status]:
    """Every migration this version or this database knows."""
    applied = _applied(conn)
    states = []
    for migration in available():
        row = applied.pop(migration.number, None)
        states.append(
            Status(
                migration.number,
                migration.name,
                row["applied_at"] if row else None,
                changed=row is not None and row["checksum"] != migration.checksum,
            )
        )
    states += [Status(number, row["name"], row["applied_at"], unknown=True) for number, row in applied.items()]
    return states


def require_current(states: list[Status]) -> None:
    """Raises unless every migration of this version has been applied."""
    missing = [state for state in states if state.applied_at is None]
    if missing:
        raise DatabaseError(
            f"the database lacks {len(missing)} of Rota's migrations (the first is {missing[0].number:04} {missing[0].name}): "
            "run `rota migrate up`"
        )


async def lacking(conn: AsyncConn) -> list[Migration]:
    """The migrations of this version that a database has not."""
    try:
        rows = await (await conn.execute("SELECT number FROM rota.migration")).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        rows = []
    applied = {number for (number,) in rows}
    return [migration for migration in available() if migration.number not in applied]


def _step_up(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    with conn.transaction():
        _lock(conn)
        conn.execute("CREATE SCHEMA IF NOT EXISTS rota")
        conn.execute(
            """CREATE TABLE IF NOT EXISTS rota.migration (
                   number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                   applied_at timestamptz NOT NULL DEFAULT now())"""
        )
        row = _applied(conn).get(migration.number)
        if row is not None:
            if row["checksum"] != migration.checksum:
                raise MigrationError(
                    f"migration {migration.number:04} {migration.name} was applied on {row['applied_at']:%Y-%m-%d} "
                    "with another text: the files of this version do not belong to this database"
                )
            return False
        conn.execute(migration.up.encode(), prepare=False)
        conn.execute(
            "INSERT INTO rota.migration (number, name, checksum) VALUES (%s, %s, %s)",
            [migration.number, migration.name, migration.checksum],
        )
    return True


def _step_down(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    with conn.transaction():
        _lock(conn)
        applied = _applied(conn)
        if newer := [row["name"] for number, row in applied.items() if number > migration.number]:
            raise MigrationError(f"roll back {', '.join(newer)} first, with the version of Rota that brought it")
        if migration.number not in applied:
            return False
        conn.execute(migration.down.encode(), prepare=False)
        conn.execute("DELETE FROM rota.migration WHERE number = %s", [migration.number])
    return True


def _lock(conn: psycopg.Connection[Any]) -> None:
    # Waiting for another migrating process is no harm to anyone, so that wait comes before the lock_timeout.
    conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_KEY])
    conn.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")


def _applied(conn: psycopg.Connection[Any]) -> dict[int, dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        if cursor.execute("SELECT to_regclass('rota.migration') AS there").fetchone() == {"there": None}:
            return {}
        rows = cursor.execute("SELECT number, name, checksum, applied_at FROM rota.migration ORDER BY number").fetchall()
    return {row["number"]: row for row in rows}


def _check_server(conn: psycopg.Connection[Any]) -> None:
    major = conn.info.server_version // 10000
    if major < OLDEST_POSTGRES:
        raise DatabaseError(f"PostgreSQL {major} is too old: Rota needs {OLDEST_POSTGRES} or newer")
