"""Numbered SQL migrations, up and down, one process at a time: Rota's own, and those of included applications.

An application registers its folder under a namespace in `Rota.migrations`. All share one ledger, `rota.migration`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from rota.db.connection import AsyncConn
from rota.errors import ConfigError, DatabaseError, MigrationError, NotMigrated
from rota.model.folders import OWN

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

OLDEST_POSTGRES = 14
LOCK_KEY = 0x726F7461  # "rota" in ASCII: one advisory lock for everything that changes the schema
LOCK_TIMEOUT = "5s"  # a migration that waits for a table lock makes every query behind it wait too
OWN_FOLDER = "rota.db:schema"
NAMED = 5  # missing migrations that an error lists by name

Folders = Mapping[str, str]  # of included applications: "package:folder" by namespace
NO_FOLDERS: Folders = MappingProxyType({})

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.up\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, with the way back."""

    number: int
    name: str
    up: str
    down: str
    namespace: str = OWN

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.up.encode()).hexdigest()

    def __str__(self) -> str:
        return label(self.namespace, self.number, self.name)


@dataclass(frozen=True, slots=True)
class Status:
    """A migration and whether this database has it."""

    number: int
    name: str
    applied_at: datetime | None
    changed: bool = False
    unknown: bool = False
    namespace: str = OWN

    def __str__(self) -> str:
        return label(self.namespace, self.number, self.name)


def label(namespace: str, number: int, name: str) -> str:
    """Return a migration's name for messages: `0003 schedules`, or `feeds 0001 feeds` of an included application."""
    return f"{number:04} {name}" if namespace == OWN else f"{namespace} {number:04} {name}"


def available(namespace: str = OWN, folder: str = OWN_FOLDER) -> list[Migration]:
    """Return the migrations in a folder, in order. Raises `ConfigError` if the folder or a way back is missing."""
    found: dict[int, Migration] = {}
    for number, (name, entry, down) in _read_folder(namespace, folder):
        if number in found:
            raise ConfigError(f"{folder} has two migrations {number:04}: {found[number].name} and {name}")
        found[number] = Migration(number, name, entry.read_text("utf-8"), down.read_text("utf-8"), namespace)
    if not found:
        raise ConfigError(f"{folder} has no migrations: their files are named 0001_name.up.sql and 0001_name.down.sql")
    return [found[number] for number in sorted(found)]


def collect(folders: Folders = NO_FOLDERS) -> list[Migration]:
    """Return Rota's migrations, then those of included applications in the order of their registration."""
    return [*available(), *(each for namespace, folder in folders.items() for each in available(namespace, folder))]


def up(
    conn: psycopg.Connection[Any], folders: Folders = NO_FOLDERS, *, of: str | None = None, to: int | None = None
) -> list[Migration]:
    """Apply what is missing, each migration in a transaction of its own.

    With `of` only that namespace, up to number `to`. Raises `NotMigrated` if Rota's own migrations, which come first, are missing.
    """
    _check_server(conn)
    all_of_them = collect(folders)
    wanted = [each for each in all_of_them if of in (None, each.namespace) and (to is None or each.number <= to)]
    applied = _applied(conn)
    if of not in (None, OWN):
        require_current(status(conn))
    missing = [each for each in wanted if not _is_applied(each, applied)]
    return [each for each in missing if _step_up(conn, each)]


def down(conn: psycopg.Connection[Any], folders: Folders = NO_FOLDERS, *, of: str = OWN, to: int) -> list[Migration]:
    """Roll back every migration of a namespace above number `to`: all of them or, if one cannot be, none.

    Rolling back all of Rota's own rolls back those of included applications first, and removes the schema `rota`.
    """
    with conn.transaction():
        done = [each for each in unwanted(folders, of=of, to=to) if _step_down(conn, each)]
        if of == OWN and to == 0:
            _lock(conn)
            conn.execute("DROP TABLE IF EXISTS rota.migration")
            conn.execute("DROP SCHEMA IF EXISTS rota")
    return done


def unwanted(folders: Folders = NO_FOLDERS, *, of: str = OWN, to: int) -> list[Migration]:
    """Return what `down` rolls back, in its order, whether the database has it or not."""
    everything = of == OWN and to == 0
    return [each for each in reversed(collect(folders)) if everything or (each.namespace == of and each.number > to)]


def status(conn: psycopg.Connection[Any], folders: Folders = NO_FOLDERS) -> list[Status]:
    """Return every migration that this version or this database knows."""
    applied = _applied(conn)
    states = []
    for migration in collect(folders):
        row = applied.pop((migration.namespace, migration.number), None)
        states.append(
            Status(
                migration.number,
                migration.name,
                row["applied_at"] if row else None,
                changed=row is not None and row["checksum"] != migration.checksum,
                namespace=migration.namespace,
            )
        )
    left = ((namespace, number, row) for (namespace, number), row in applied.items())
    return states + [Status(number, row["name"], row["applied_at"], unknown=True, namespace=of) for of, number, row in left]


def require_current(states: list[Status]) -> None:
    """Raise `NotMigrated` unless every migration of this version has been applied."""
    if missing := [state for state in states if state.applied_at is None]:
        raise NotMigrated(f"{describe_missing(missing)}: run `rota migrate up`")


def describe_missing(missing: Sequence[Migration | Status]) -> str:
    """Return the sentence that says which migrations a database lacks."""
    names = ", ".join(map(str, missing[:NAMED])) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
    return f"the database lacks {len(missing)} {'migration' if len(missing) == 1 else 'migrations'}: {names}"


async def lacking(conn: AsyncConn, folders: Folders = NO_FOLDERS) -> list[Migration]:
    """Return the migrations of this version that a database has not."""
    try:
        rows = await (await conn.execute("SELECT namespace, number FROM rota.migration")).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        rows = []
    applied = set(rows)
    return [each for each in collect(folders) if (each.namespace, each.number) not in applied]


def _read_folder(namespace: str, folder: str) -> Iterable[tuple[int, tuple[str, Traversable, Traversable]]]:
    package, _, inner = folder.partition(":")
    try:
        module = import_module(package)
        root = files(module) if hasattr(module, "__path__") else Path(module.__file__ or "").parent
        place = root / inner
        entries = sorted(place.iterdir(), key=lambda entry: entry.name)
    except (ImportError, OSError) as error:
        raise ConfigError(f"the migrations of {namespace!r} are not found at {folder!r}: {error}") from None
    for entry in entries:
        if match := _FILE_NAME.fullmatch(entry.name):
            number, name = match.groups()
            down = place / f"{number}_{name}.down.sql"
            if not down.is_file():
                raise ConfigError(f"{folder} has {entry.name} and no {down.name}, which rolls it back")
            yield int(number), (name, entry, down)


def _is_applied(migration: Migration, applied: Mapping[tuple[str, int], dict[str, Any]]) -> bool:
    row = applied.get((migration.namespace, migration.number))
    if row is not None and row["checksum"] != migration.checksum:
        raise MigrationError(
            f"migration {migration} was applied on {row['applied_at']:%Y-%m-%d} "
            "with another text: the files of this version do not belong to this database"
        )
    return row is not None


def _step_up(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    with conn.transaction():
        _lock(conn)
        conn.execute("CREATE SCHEMA IF NOT EXISTS rota")
        conn.execute(
            """CREATE TABLE IF NOT EXISTS rota.migration (
                   namespace text NOT NULL DEFAULT 'rota', number integer NOT NULL, name text NOT NULL, checksum text NOT NULL,
                   applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (namespace, number))"""
        )
        if _is_applied(migration, _applied(conn)):  # by another process, while we waited for the lock
            return False
        conn.execute(migration.up.encode(), prepare=False)
        conn.execute(
            "INSERT INTO rota.migration (namespace, number, name, checksum) VALUES (%s, %s, %s, %s)",
            [migration.namespace, migration.number, migration.name, migration.checksum],
        )
    return True


def _step_down(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    with conn.transaction():
        _lock(conn)
        applied = _applied(conn)
        standing = [
            label(namespace, number, row["name"])
            for (namespace, number), row in applied.items()
            if (namespace == migration.namespace and number > migration.number)
            or (namespace != OWN and migration.namespace == OWN and migration.number == 1)
        ]
        if standing:
            raise MigrationError(f"roll back {', '.join(standing)} first, with the version or the application that brought it")
        if (migration.namespace, migration.number) not in applied:
            return False
        try:
            conn.execute(migration.down.encode(), prepare=False)
        except psycopg.errors.DependentObjectsStillExist as error:
            first, *more = (error.diag.message_detail or str(error)).splitlines()
            raise MigrationError(
                f"{migration} cannot be rolled back: {first}{' and more' if more else ''}; roll that back first, with --of"
            ) from error
        conn.execute("DELETE FROM rota.migration WHERE (namespace, number) = (%s, %s)", [migration.namespace, migration.number])
    return True


def _lock(conn: psycopg.Connection[Any]) -> None:
    # Waiting for another migrating process is no harm to anyone, so that wait comes before the lock_timeout.
    conn.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_KEY])
    conn.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")


def _applied(conn: psycopg.Connection[Any]) -> dict[tuple[str, int], dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        if cursor.execute("SELECT to_regclass('rota.migration') AS there").fetchone() == {"there": None}:
            return {}
        rows = cursor.execute(
            "SELECT namespace, number, name, checksum, applied_at FROM rota.migration ORDER BY namespace = 'rota' DESC, 1, 2"
        ).fetchall()
    return {(row["namespace"], row["number"]): row for row in rows}


def _check_server(conn: psycopg.Connection[Any]) -> None:
    major = conn.info.server_version // 10000
    if major < OLDEST_POSTGRES:
        raise DatabaseError(f"PostgreSQL {major} is too old: Rota needs {OLDEST_POSTGRES} or newer")
