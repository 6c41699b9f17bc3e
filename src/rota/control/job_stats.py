"""How many jobs there are, and how far behind the queues are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.control.service import list_queues
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import JOB_STATES
from rota.store import jobs_read

WALK = 2 * COUNT_CAP  # finished jobs looked at


@dataclass(frozen=True, slots=True)
class JobStats:
    """Jobs by state, and how long the oldest one that is due has waited; None: none is due."""

    states: dict[str, Capped]
    oldest_queued_age: timedelta | None


async def job_stats(conn: AsyncConn) -> JobStats:
    """Jobs by state, Rota's own left out; counts are exact while small."""
    states = await count_states(conn)
    ages = [queue.oldest_age for queue in await list_queues(conn) if queue.oldest_age is not None]
    return JobStats(states, max(ages, default=None))


async def count_states(conn: AsyncConn) -> dict[str, Capped]:
    """Jobs by state, each counted by an index of its own."""
    states = dict.fromkeys(JOB_STATES, Capped(0))
    for each in await jobs_read.stats(conn, cap=COUNT_CAP, walk=WALK):
        state = "queued" if each.state in ("delayed", "held") else each.state
        total = states[state].count + each.count
        states[state] = Capped(min(total, COUNT_CAP), total > COUNT_CAP or each.capped or states[state].capped)
    return states
