"""Rota's own tasks: known to every worker of an application, hidden from those who do not ask for them."""

from __future__ import annotations

from dataclasses import replace

from rota.db.connection import close_quietly
from rota.engine.context import Context, desk_of
from rota.engine.scheduler import Scheduler
from rota.model.cron import Cron
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry
from rota.model.schedule import Timing, cron
from rota.model.task import TaskSpec
from rota.store.workers import live_apps

TICK = "rota.tick"
FIRST = -32768  # what makes others' work due must not wait behind it


async def tick(ctx: Context) -> int:
    """Does what a scheduler would do now; how many jobs that made."""
    desk = desk_of(ctx)
    conn = await desk.connect("tick")
    try:
        # Of every application that has a live worker: only one of them gets this job.
        return await Scheduler(desk.events, apps=await live_apps(conn)).tick(conn)
    finally:
        await close_quietly(conn)


SYSTEM_TASKS = {
    TICK: TaskSpec(
        TICK,
        tick,
        *PayloadSchema.from_handler(tick, TICK),
        is_async=True,
        priority=FIRST,
        retry=Retry(max_attempts=1),  # the next tick finds what this one has left
        timeout_s=300,
        system=True,
    ),
}


def system_tasks(*, tick_cron: str) -> dict[str, TaskSpec]:
    """The tasks by name; unless `tick_cron` is empty, the queue's own cron drives scheduling too."""
    return {**SYSTEM_TASKS, TICK: replace(SYSTEM_TASKS[TICK], schedule=_tick_timing(tick_cron) if tick_cron else None)}


def _tick_timing(expression: str) -> Timing:
    Cron.parse(expression, field="jobs.scheduler_cron")
    # What a tick that was missed would have done, the next one does.
    return cron(expression, overlap="skip", misfire="skip")
