"""Rota's own tasks that look after what the control plane keeps: known to every worker, like `rota.tick`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any
from uuid import UUID

from rota.config import Settings, load_settings
from rota.control import retention
from rota.db.connection import AsyncConn
from rota.engine.context import Context, desk_of
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry
from rota.model.schedule import Timing, cron
from rota.model.task import TaskSpec
from rota.store import retention as retention_store

PRUNE = "rota.prune"
PARTITIONS = "rota.partitions"
DELIVER_WEBHOOK = "rota.deliver_webhook"

PRUNE_CRON = "*/5 * * * *"
PARTITIONS_CRON = "7 * * * *"
DELIVERY = Retry(max_attempts=8, base="10s", cap="1h", jitter="5s")

_settings: ContextVar[Settings | None] = ContextVar("rota_settings", default=None)  # of the application whose job runs


def control_tasks(settings: Settings | None = None, *, scheduled: bool = False) -> dict[str, TaskSpec]:
    """The tasks by name, for an application with these settings; where they are `scheduled`, they run by themselves."""
    prunes = scheduled and (settings is None or settings.retention.enabled)
    tasks = [
        _spec(PRUNE, prune, settings, timing=_by(PRUNE_CRON) if prunes else None, timeout_s=600),
        _spec(PARTITIONS, make_partitions, settings, timing=_by(PARTITIONS_CRON) if scheduled else None, timeout_s=60),
        _spec(DELIVER_WEBHOOK, deliver_webhook, settings, retry=DELIVERY, timeout_s=60),
    ]
    return {task.name: task for task in tasks}


# At the top level of the module: a process of its own, in which a suspect runs, must find them. There is no application there, and
# the settings are what the file and the environment say.


async def prune(ctx: Context) -> dict[str, int]:
    """Removes old history, for a bounded time."""
    settings = _settings_of_application().retention
    if not settings.enabled:
        return {}
    async with await _connect(ctx) as conn:
        return await retention.prune(conn, settings)


async def make_partitions(ctx: Context) -> int:
    """Makes the partitions of the time to come."""
    async with await _connect(ctx) as conn:
        return await retention_store.make_partitions(conn)


async def deliver_webhook(ctx: Context, delivery: UUID) -> str:
    """Brings a message to a webhook."""
    from rota.control import webhooks  # here, since most workers never bring one

    return await webhooks.deliver(lambda: _connect(ctx), delivery, _settings_of_application(), is_last=ctx.is_last_attempt)


def _spec(
    name: str, handler: Callable[..., Any], settings: Settings | None, *, timing: Timing | None = None, retry: Retry | None = None,
    timeout_s: float,
) -> TaskSpec:  # fmt: skip
    @wraps(handler)
    async def by_settings(*args: Any, **arguments: Any) -> Any:
        _settings.set(settings)  # each job has a context of its own
        return await handler(*args, **arguments)

    return TaskSpec(
        name,
        by_settings,
        *PayloadSchema.from_handler(handler, name),
        is_async=True,
        retry=retry or Retry(max_attempts=1),  # what one turn has left, the next one finds
        timeout_s=timeout_s,
        schedule=timing,
        system=True,
    )


def _settings_of_application() -> Settings:
    return _settings.get() or load_settings()


def _by(expression: str) -> Timing:
    # What a turn that was missed would have done, the next one does; and there is no use in two at once.
    return cron(expression, overlap="skip", misfire="skip")


async def _connect(ctx: Context) -> AsyncConn:
    return await desk_of(ctx).connect("upkeep")
