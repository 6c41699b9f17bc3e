"""`rota scheduler`: fires schedules, all the time or once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import typer

from rota.cli.database import check_schema
from rota.cli.output import JsonOption, print_json, say
from rota.cli.signals import on_signals
from rota.config import Settings, load_settings
from rota.control.alerts import Watch
from rota.db.connection import close_quietly, connect_async
from rota.engine.scheduler import Scheduler
from rota.engine.supervisor import end_with_parent
from rota.events import DeadlineMissed, Events, ScheduleFailing, ScheduleRefused, SchedulesFired
from rota.log import configure_logging

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def scheduler(ctx: typer.Context) -> None:
    """Fire schedules until SIGINT or SIGTERM, without running any jobs.

    It needs no application, and any number may run beside each other and beside workers, which do the same unless
    jobs.scheduler_enabled is false.
    """
    if ctx.invoked_subcommand is not None:
        return
    end_with_parent()
    settings = load_settings()
    configure_logging(settings.log, env=settings.app.env)
    check_schema(settings.database)
    asyncio.run(_schedule(settings))


@app.command()
def tick(as_json: JsonOption = False) -> None:
    """Do once what a scheduler does, and end: for a cron outside, where nothing runs all the time."""
    settings = load_settings()
    counts, alerts = asyncio.run(_tick(settings))
    if as_json:
        print_json({"jobs": counts["jobs"], "schedules": counts["schedules"], "skipped": counts["skipped"], "alerts": alerts})
        return
    for alert in alerts:
        say(alert)
    skipped = f", {counts['skipped']:,} passed over" if counts["skipped"] else ""
    print(f"{counts['jobs']:,} jobs enqueued{skipped}")


async def _schedule(settings: Settings) -> None:
    from rota.engine.journal import Journal
    from rota.engine.service import keep_serving

    events = Events()
    Journal(events)
    stopping = asyncio.Event()
    on_signals(stopping.set)
    # Alerts too: where all workers are dead or stuck, nobody else is there to raise them.
    services = (_scheduler(settings, events), Watch(settings.alerts))
    serving: set[asyncio.Task[Any]] = {
        asyncio.create_task(keep_serving(service, settings.database.dsn, events, pooled=settings.database.pooled))
        for service in services
    }
    tasks = serving | {asyncio.create_task(stopping.wait())}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _tick(settings: Settings) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    alerts: list[str] = []
    events = Events()
    events.subscribe(SchedulesFired, lambda event: counts.update(schedules=event.schedules, jobs=event.jobs, skipped=event.skipped))
    events.subscribe(
        DeadlineMissed,
        lambda event: alerts.append(f"{event.schedule}: job {event.job_id} missed its {event.deadline} deadline, {event.due}"),
    )
    events.subscribe(
        ScheduleFailing, lambda event: alerts.append(f"{event.schedule} has failed {event.failures} times in a row: {event.error}")
    )
    events.subscribe(ScheduleRefused, lambda event: alerts.append(f"{event.schedule} was switched off: {event.why}"))
    conn = await connect_async(settings.database.dsn, "tick", pooled=settings.database.pooled)
    try:
        await _scheduler(settings, events).tick(conn)
        await Watch(settings.alerts).run_once(conn)
    finally:
        await close_quietly(conn)
    return counts, alerts


def _scheduler(settings: Settings, events: Events) -> Scheduler:
    jobs = settings.jobs
    return Scheduler(
        events,
        apps=[settings.app.name],
        tick_s=jobs.scheduler_tick_s,
        look_s=jobs.poll_interval_ms / 1000,
        lock=jobs.scheduler_lock,
    )
