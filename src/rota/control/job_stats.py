"""How many jobs there are, and how far behind the queues are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.control.service import list_queues
from rota.db.connection import AsyncConn
from rota.model.capped import Capped
from rota.store import job_counts


@dataclass(frozen=True, slots=True)
class JobStats:
    """Jobs by state, and how long the oldest one that is due has waited; None: none is due."""

    states: dict[str, Capped]
    oldest_queued_age: timedelta | None


async def job_stats(conn: AsyncConn) -> JobStats:
    """Count jobs by state, system tasks left out."""
    states = await job_counts.by_state(conn)
    ages = [queue.oldest_age for queue in await list_queues(conn) if queue.oldest_age is not None]
    return JobStats(states, max(ages, default=None))
