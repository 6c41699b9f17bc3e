"""Errors of the drivers that mean the same to every caller: the database is away, or lacks Rota's schema."""

from __future__ import annotations

from types import TracebackType

import psycopg

from rota.errors import DatabaseError

_NOT_MIGRATED = {"3F000", "42883", "42P01"}  # no such schema, function, table
_AWAY = {"57P01", "57P02", "57P03", "25006", "53300"}  # shut down, crashed, starting, a standby, full


class Explained:
    """A block in which an error that says the database is away becomes a DatabaseError; others pass as they are."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and (message := _explain(error)) is not None:
            raise DatabaseError(message) from error


explained = Explained()


def _explain(error: Exception) -> str | None:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    words = str(error).strip().partition("\n")[0]
    if state in _NOT_MIGRATED and "rota" in words:
        return f"the database lacks Rota's schema, or has an old one ({words}): run `rota migrate up`"
    if state in _AWAY or str(state).startswith("08"):
        return f"PostgreSQL is away: {words}"
    if state is None and _is_lost_connection(error, words):
        return f"PostgreSQL cannot be reached: {words or type(error).__name__}"
    return None


def _is_lost_connection(error: Exception, words: str) -> bool:
    if isinstance(error, psycopg.OperationalError | OSError):
        return True
    # The other drivers are known by name, as they need not be installed.
    library = type(error).__module__.partition(".")[0]
    return library in ("asyncpg", "psycopg2", "psycopg") and "closed" in words
