"""Calendar sync: pairs of calendars that are kept alike, by jobs of the task `sync_pair`.

`app.include("rota.apps.calendars")`, or `[app] apps = ["rota.apps.calendars"]`, adds the tasks; `rota calendars` makes pairs.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime

from rota import Recurring, Rota
from rota.config import Settings, load_settings
from rota.errors import UsageError
from rota.model.calendar_job import QUEUE, RETRY, TASK

if TYPE_CHECKING:  # every process that enqueues has these tasks, and only workers need the engine
    from rota import Context

TIMEOUT = timedelta(hours=1)
REGULAR = "sync_pair_regularly"
IDLE = timedelta(hours=1)  # until a pair that is not synchronised by itself is looked at again


# At the top level of the module: a process of its own, in which a suspect runs, must find them.


async def sync_pair(
    ctx: Context,
    calendar_pair_id: str,
    connector: str,
    window_start: AwareDatetime,
    window_end: AwareDatetime,
    payload: dict[str, Any] | None = None,
) -> Any:
    """Synchronises a pair of calendars: what has changed in one is brought to the other, both ways."""
    return await _synchronise(load_settings(), ctx, calendar_pair_id, connector, window_start, window_end, payload)


async def sync_pair_regularly(ctx: Context, calendar_pair_id: str) -> timedelta:
    """Enqueues a synchronisation of a pair in its own window around now, as often as the pair says."""
    from rota.apps.calendars import pairs

    async with ctx.connection() as conn:
        pair = await pairs.need(conn, calendar_pair_id)
        if pair.every is None:
            return IDLE
        # One that still waits for its turn will do: a pair that is slow or fails does not pile up jobs.
        if not await pairs.rows(conn, "waiting", calendar_pair_id):
            stored = pairs.job_of(pair).stored()
            await conn.execute("SELECT rota.enqueue(%s, %s::jsonb)", [TASK, json.dumps(stored)])
    return pair.every


def install(app: Rota) -> Recurring[..., Any]:
    """Adds the tasks to an application; gives the recurring one, whose rows are the pairs that are synchronised by themselves."""
    settings = app.settings
    app.migrations["calendars"] = "rota.apps.calendars:schema"
    app.sealed_columns += ["rota_calendars.pair.first_sealed", "rota_calendars.pair.second_sealed"]

    @wraps(sync_pair)
    async def sync_by_settings(ctx: Context, **arguments: Any) -> Any:
        return await _synchronise(settings, ctx, **arguments)

    app.queue(QUEUE)
    app.task(
        name=TASK,
        queue=QUEUE,
        retry=RETRY,
        timeout=TIMEOUT,
        concurrency_key="{calendar_pair_id}",  # one at a time of each pair, over all workers
        tags=["calendars"],
    )(sync_by_settings)
    regular: Recurring[..., Any] = app.recurring(key="{calendar_pair_id}", name=REGULAR, queue=QUEUE, tags=["calendars"])(
        sync_pair_regularly
    )
    return regular


async def _synchronise(
    settings: Settings,
    ctx: Context,
    calendar_pair_id: str,
    connector: str,
    window_start: datetime,
    window_end: datetime,
    payload: dict[str, Any] | None = None,
) -> Any:
    from rota.apps.calendars.job import synchronise
    from rota.apps.calendars.model import Window

    if window_end <= window_start:
        raise UsageError(f"window_end={window_end.isoformat()} is not later than window_start={window_start.isoformat()}")
    return await synchronise(ctx, settings, calendar_pair_id, connector, Window(window_start, window_end), payload or {})
