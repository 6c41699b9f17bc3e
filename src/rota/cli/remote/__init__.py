"""The control plane over the API of a server: the methods, results and errors of `rota.control.plane`, with a network between.

Each method is one request, or a few. None is sent a second time by itself: what changes something might then be done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.cli.remote.alerts import RemoteAlerts
from rota.cli.remote.history import RemoteHistory
from rota.cli.remote.jobs import RemoteJobs
from rota.cli.remote.people import RemotePeople
from rota.cli.remote.queues import RemoteQueues
from rota.cli.remote.schedules import RemoteSchedules
from rota.cli.remote.tasks import RemoteTasks
from rota.cli.remote.transport import Transport

Result = TypeVar("Result")


class RemoteControl(RemoteTasks, RemoteJobs, RemoteHistory, RemoteAlerts, RemoteQueues, RemoteSchedules, RemotePeople):
    """What operators see and do, as who has the token."""


def ask(url: str, token: str | None, operation: Callable[[RemoteControl], Awaitable[Result]]) -> Result:
    """Does it over the API of this server."""

    async def asked() -> Result:
        return await operation(RemoteControl(Transport(url, token)))

    return asyncio.run(asked())
