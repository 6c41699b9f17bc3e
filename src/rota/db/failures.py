"""Errors of the drivers that mean the same to every caller: the database is away, or lacks Rota's schema."""

from __future__ import annotations

from types import TracebackType

import psycopg
from psycopg_pool import PoolTimeout

from rota.db.connection import is_disconnect
from rota.errors import DatabaseError, NotMigrated

_UNDEFINED = {"3F000", "42883", "42P01", "42703"}  # no such schema, function, table, column
_ENDED = "terminating connection due to administrator command"  # as libpq tells it when it was reading nothing
_AWAY = {"57P01", "57P02", "57P03", "25006", "53300"}  # shut down, crashed, starting, a standby, full


class Explained:
    """A block in which an error that says the database is away becomes a DatabaseError; others pass as they are."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and (explanation := _explain(error)) is not None:
            raise explanation from error


explained = Explained()


def was_lost(error: BaseException) -> bool:
    """Say whether a statement failed because its connection broke, and not because there was none or no answer came in time."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return cause is not None and is_disconnect(cause) and not isinstance(cause, PoolTimeout | psycopg.errors.ConnectionTimeout)


def was_ended(error: BaseException) -> bool:
    """Say whether a statement failed because PostgreSQL ended its session: it is undone, or it was done before that.

    A connection that breaks says less: the statement may still be running.
    """
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return isinstance(cause, psycopg.OperationalError) and (_state(cause) == "57P01" or _ENDED in str(cause))


def not_migrated(error: Exception) -> NotMigrated | None:
    """Return the error to raise where one of a driver's says that something is undefined: a schema, function, table or column."""
    return NotMigrated(f"{_words(error)}: run `rota migrate up`") if _state(error) in _UNDEFINED else None


def _explain(error: Exception) -> DatabaseError | None:
    state, words = _state(error), _words(error)
    if "rota" in words and (missing := not_migrated(error)) is not None:  # else it is the caller's own SQL
        return missing
    if state in _AWAY or str(state).startswith("08"):
        return DatabaseError(f"PostgreSQL is away: {words}")
    if state is None and _is_lost_connection(error, words):
        return DatabaseError(f"PostgreSQL cannot be reached: {words or type(error).__name__}")
    return None


def _state(error: Exception) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _words(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _is_lost_connection(error: Exception, words: str) -> bool:
    if isinstance(error, psycopg.OperationalError | OSError):
        return True
    # The other drivers are known by name, as they need not be installed.
    library = type(error).__module__.partition(".")[0]
    return library in ("asyncpg", "psycopg2", "psycopg") and "closed" in words
