"""The control plane over a connection of the command's own: who runs the command is who acts."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg

from rota.config import Settings, load_settings
from rota.control.access import Access, Actor
from rota.control.plane import ControlPlane
from rota.model.limits import QueueLimits
from rota.model.task import TaskSpec
from rota.store.intake import Intake

if TYPE_CHECKING:
    from rota.app import Rota


class NoCode:
    """Stands for the application where there is none: what workers have told the database about their tasks decides."""

    name = "cli"
    tasks: Mapping[str, TaskSpec] = {}
    queues: Mapping[str, int] = {}
    queue_limits: Mapping[str, QueueLimits] = {}

    @property
    def settings(self) -> Settings:
        """Those of the command."""
        return load_settings()

    def definitions(self) -> NoReturn:
        """There is no code whose tasks could be made known."""
        raise AssertionError("commands that deploy tasks have an application")


class OneConnection:
    """The one connection of a command, for everything that it does."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    @asynccontextmanager
    async def async_connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """The connection."""
        yield self._conn

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Commands work from an event loop only."""
        raise AssertionError("commands work from an event loop")

    def close(self) -> None:
        """Whoever opened it closes it."""

    async def aclose(self) -> None:
        """Whoever opened it closes it."""


def control_on(conn: psycopg.AsyncConnection[Any], application: Rota | None = None) -> ControlPlane:
    """What operators see and do, on this connection; tasks and payloads are checked by the application's code where there is one.

    Whoever can connect to the database may do everything there: the role is admin, and the database's own rights hold.
    """
    actor = Actor(current_user(), "admin", via="cli")
    return ControlPlane(application or NoCode(), Intake(OneConnection(conn), ()), Access(), actor)


def current_user() -> str:
    """Who calls, for the records."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
