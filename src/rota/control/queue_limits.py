"""Limits of queues, as operators set them: over restarts and deploys, until they say otherwise."""

from __future__ import annotations

from typing import Any

from rota.control.service import unknown_queue
from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.limits import check_concurrency, parse_rate
from rota.store import queues

Limits = dict[str, Any]


async def limit_queue(conn: AsyncConn, name: str, **limits: Any) -> Limits:
    """Overrules what code says of a queue's `max_concurrency` and `rate`; None is no limit, and what is not named stays as it is.
    Gives what holds now. It holds at once: what runs may end, and nothing else starts before there is a place."""
    if unknown := limits.keys() - {"max_concurrency", "rate"}:
        raise UsageError(f"{', '.join(sorted(unknown))} is no limit of a queue: there are max_concurrency and rate")
    if not limits:
        raise UsageError("nothing to set: give max_concurrency or rate")
    wanted = dict(limits)
    if wanted.get("max_concurrency") is not None:
        check_concurrency(wanted["max_concurrency"], name="max_concurrency")
    if wanted.get("rate") is not None:
        wanted["rate"] = parse_rate(wanted["rate"], name="rate")
    return await _set(conn, name, wanted)


async def unlimit_queue(conn: AsyncConn, name: str) -> Limits:
    """Lets code say again what a queue's limits are; gives what holds now."""
    return await _set(conn, name, None)


async def _set(conn: AsyncConn, name: str, wanted: Limits | None) -> Limits:
    async with conn.transaction():
        known = await queues.overrides(conn, name)
        if known is None:
            raise await unknown_queue(conn, name)
        await queues.override(conn, name, None if wanted is None else {**known, **wanted})
        return await queues.limits(conn, name)
