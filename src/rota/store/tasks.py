"""Tasks and queues as code defines them, written to the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson

from rota.db import queries
from rota.db.connection import Conn
from rota.model.task import TaskSpec

SQL = queries.load("tasks")


def sync(conn: Conn, *, tasks: Iterable[TaskSpec], queues: Sequence[str]) -> None:
    """Makes tasks and queues known to the database."""
    definitions = [
        {
            "name": task.name,
            "queue": task.queue,
            "priority": task.priority,
            "max_attempts": task.max_attempts,
            "timeout_s": task.timeout_s,
            "retry": task.retry.to_json(),
            "max_concurrency": task.max_concurrency,
            "listens": task.listens,
            "payload_schema": task.payload.json_schema,
        }
        for task in tasks
    ]
    conn.execute(SQL["tasks_sync"], {"tasks": orjson.dumps(definitions).decode()})
    conn.execute(SQL["tasks_sync_queues"], {"queues": list(queues)})
