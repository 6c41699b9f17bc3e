"""The job `sync_pair`: a synchronisation as a run of Rota, with a summary of each attempt."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg

from rota import Context, Snooze
from rota.apps.calendars import pairs
from rota.apps.calendars.errors import Busy, CalendarError
from rota.apps.calendars.ledger import Ledger
from rota.apps.calendars.model import SIDES, Pair, Report, Window
from rota.apps.calendars.sync import Sync
from rota.config import Settings
from rota.errors import LeaseLost, RotaError, UsageError

SNOOZES = 30  # after which being told to wait counts as a failure
WAIT_S = 60.0  # where nobody says how long: doubled each time, as failures are
MAX_WAIT_S = 1800.0
MAX_ERROR = 500


async def synchronise(
    ctx: Context, settings: Settings, pair_id: str, connector: str, window: Window, payload: dict[str, Any]
) -> Any:
    """Synchronises a pair and writes the summary of it, in the transaction that completes the job."""
    pair = await _find(ctx, pair_id, connector)
    ledger = Ledger.of(ctx, pair.id)
    await ledger.begin(ctx.attempt, connector, window)
    report = Report()
    try:
        await _run(ctx, settings, pair, ledger, window, payload, report)
    except Busy as error:
        return await _wait(ctx, ledger, error, report)
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(5):
                await ledger.end(ctx.attempt, "stopped", processed=report.processed, error="it was told to stop")
        raise
    except LeaseLost:
        raise
    except Exception as error:
        await _fail(ctx, ledger, error, report)
        raise
    outcome = "partial" if report.failed else "completed"
    for problem in report.problems[:10]:
        ctx.log.warning("calendar.problem", pair=pair.id, problem=problem)
    async with ctx.transaction() as conn:
        told = f"{report.failed} events could not be synchronised: {report.problems[0]}"[:MAX_ERROR] if report.failed else None
        await ledger.end(
            ctx.attempt, outcome, processed=report.processed, failed=report.failed, error=told, details=report.plain(), conn=conn
        )
        ctx.result = {"outcome": outcome, "pair": pair.id, **report.plain()}
    ctx.log.info("calendar.synced", pair=pair.id, outcome=outcome, processed=report.processed, failed=report.failed)
    return ctx.result


async def _find(ctx: Context, pair_id: str, connector: str) -> Pair:
    async with ctx.connection() as conn:
        pair = await pairs.need(conn, pair_id)
    if connector not in (pair.first.connector, pair.second.connector):
        raise UsageError(
            f"connector={connector!r} is not one of pair {pair.id!r}, which has {pair.first.connector} and {pair.second.connector}"
        )
    return pair


async def _run(
    ctx: Context, settings: Settings, pair: Pair, ledger: Ledger, window: Window, payload: dict[str, Any], report: Report
) -> None:
    sync = Sync(
        ledger,
        {side: pairs.open_calendar(pair, side, settings) for side in SIDES},
        {side: pair.end(side).cursor for side in SIDES},
        window,
        pair.direction,
        allow_deletions=payload.get("allow_deletions") is True,
        tell=lambda done, total: ctx.progress(done, total, "events"),
        report=report,
    )
    await sync.run()


async def _wait(ctx: Context, ledger: Ledger, error: Busy, report: Report) -> Any:
    """Being told to wait is no failure of ours, unless it never ends."""
    before = await ledger.snoozes()
    if before >= SNOOZES:
        await _fail(ctx, ledger, error, report)
        raise error
    wait_s = error.retry_after_s if error.retry_after_s is not None else min(WAIT_S * 2.0 ** min(before, 10), MAX_WAIT_S)
    await ledger.end(ctx.attempt, "snoozed", processed=report.processed, error=describe(error), details=report.plain())
    ctx.log.info("calendar.busy", wait_s=wait_s, reason=describe(error))
    return Snooze(max(wait_s, 1.0))


async def _fail(ctx: Context, ledger: Ledger, error: Exception, report: Report) -> None:
    # What cannot be written down now is told by the run's own error; and the next attempt finds this one as lost.
    with suppress(psycopg.Error, LeaseLost):
        failed = max(report.failed, 1)
        await ledger.end(
            ctx.attempt, "failed", processed=report.processed, failed=failed, error=describe(error), details=report.plain()
        )


def describe(error: Exception) -> str:
    """An error in a line; of one that is not ours only its kind, since nobody knows what it says."""
    if isinstance(error, CalendarError | RotaError):
        return f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return type(error).__name__
