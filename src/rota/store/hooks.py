"""Events of the application's own, and the jobs they enqueue."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rota.db import queries
from rota.db.steps import Query, Steps
from rota.model.job import Enqueued, NewJob
from rota.store import jobs as store

SQL = queries.load("hooks")


def emit(event: str, payload: str, triggered_by: str, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
    """Stores the jobs of this application's tasks that listen, and of those that only the database knows."""
    made = []
    for job in jobs:
        made.append((yield from store.insert(job)))  # noqa: PERF401 - a comprehension cannot yield
    known = "{" + ",".join(json.dumps(job.settings.task) for job in jobs) + "}"
    rows = yield Query(SQL["hooks_emit"], (event, payload, triggered_by, known))
    return [*made, *(Enqueued(id) for _, id in rows)]
