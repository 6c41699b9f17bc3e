"""Django's database connections in handlers: renewed around each run as Django renews them around each request.

Django closes connections that are unusable or too old when a request begins and ends. In a worker nothing sends those signals,
so a connection that PostgreSQL has closed would fail every later job of its thread. Nothing here imports Django: as long as the
process has not loaded it, each run pays for one lookup in `sys.modules`.

All that Rota knows of Django's internals is in this file: `connections.all()`, `close_if_unusable_or_obsolete()`,
`errors_occurred`, `health_check_done`, `in_atomic_block` and the signal `connection_created`.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any
from weakref import WeakSet

from rota.db.connection import has_unread

FAILED = "Django's connections could not be renewed"

log = logging.getLogger("rota.worker")

_of_handler_threads = threading.local()
_elsewhere: WeakSet[Any] = WeakSet()  # connections that were opened outside handler threads
_lock = threading.Lock()  # of that set
_watching = False


def renew() -> None:
    """Close the calling thread's lost, unusable and obsolete connections; to be called before and after a run."""
    if is_loaded():
        _of_handler_threads.marked = True
        _renew()


def close_all() -> None:
    """Close the calling thread's connections, because the thread ends."""
    if (connections := _connections()) is not None:
        connections.close_all()


def is_loaded() -> bool:
    """Say whether the process has imported Django's database layer."""
    return "django.db" in sys.modules


async def renew_for_async() -> None:
    """Close lost connections of the thread in which asgiref runs the ORM for async handlers; call it where Django is loaded.

    That thread, and so its connections, are shared by all async handlers. A hop to it costs 0.1 ms and waits for what runs there,
    so we look at the connections from here and hop only when one needs to be closed. One that is merely older than CONN_MAX_AGE
    stays: another handler may be reading from it.
    """
    needed = _watch()
    with _lock:
        known = list(_elsewhere)
    for connection in known:
        if connection.connection is not None and not connection.in_atomic_block:
            connection.health_check_done = False  # with CONN_HEALTH_CHECKS, Django checks again before the next query
            needed = needed or connection.errors_occurred or _is_lost(connection)
    if needed:
        from asgiref.sync import sync_to_async

        try:
            await sync_to_async(_close_broken)()
        except Exception:
            log.exception(FAILED)


def _renew() -> None:
    connections = _connections()
    if connections is None:
        return
    try:
        sys.modules["django.db"].reset_queries()  # with DEBUG, Django keeps every query
        for connection in connections.all(initialized_only=True):
            # A test's transaction: Django would take it for one that was left open, and close the connection.
            if not connection.in_atomic_block:
                if _is_lost(connection):
                    connection.errors_occurred = True  # Django then asks the server, whatever CONN_HEALTH_CHECKS says
                connection.close_if_unusable_or_obsolete()
    except Exception:  # the handler's result counts, not what became of its connection
        log.exception(FAILED)


def _close_broken() -> None:
    connections = _connections()
    if connections is None:
        return
    for connection in connections.all(initialized_only=True):
        _note(connection)  # one that was opened before we watched
        if connection.connection is not None and not connection.in_atomic_block:
            if (connection.errors_occurred or _is_lost(connection)) and not connection.is_usable():
                connection.close()
            connection.errors_occurred = False


def _connections() -> Any:
    """Django's connection handler; None while Django is not loaded or has no settings."""
    django_db = sys.modules.get("django.db")
    configured = django_db is not None and sys.modules["django.conf"].settings.configured
    return getattr(django_db, "connections", None) if configured else None


def _is_lost(connection: Any) -> bool:
    """Whether the server has said something on an idle connection, which is mostly goodbye."""
    if connection.vendor != "postgresql" or connection.connection is None:
        return False
    try:
        return has_unread(connection.connection.fileno())
    except Exception:  # closed on our side
        return True


def _watch() -> bool:
    """Learn of connections that are opened from now on; True the first time, when there may be some already."""
    global _watching
    if _watching:
        return False
    from django.db.backends.signals import connection_created

    _watching = True
    connection_created.connect(_note, dispatch_uid="rota")
    return True


def _note(connection: Any, **_: Any) -> None:
    if not getattr(_of_handler_threads, "marked", False):
        with _lock:
            _elsewhere.add(connection)
