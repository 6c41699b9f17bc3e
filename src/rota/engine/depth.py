"""How full the queues are, for those who watch them from outside."""

from __future__ import annotations

from rota.db.connection import AsyncConn
from rota.events import Events, QueueDepth, QueuesMeasured
from rota.store import queues

MEASURE_EVERY_S = 15.0


class Depth:
    """Measures the queues for whoever subscribed to that; for nobody it costs nothing."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def measure(self, conn: AsyncConn) -> None:
        """Looks once and tells."""
        if not self._events.wanted(QueuesMeasured):
            return
        self._events.emit(
            QueuesMeasured(
                [
                    QueueDepth(
                        row.name,
                        {state: getattr(row, state) for state in ("ready", "delayed", "held", "waiting", "running")},
                        row.oldest_age.total_seconds() if row.oldest_age is not None else 0.0,
                    )
                    for row in await queues.read_all(conn)
                ]
            )
        )
