"""What Prometheus is told: the requests, the queues, and what the worker inside has counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from rota.engine.depth import MEASURE_EVERY_S, Depth
from rota.engine.metrics import Metrics, gauge
from rota.errors import RotaError
from rota.store.jobs_change import look_briefly

if TYPE_CHECKING:
    from rota.server.state import State

log = logging.getLogger("rota.server")


class Gauges:
    """Everything that a server can be scraped for, in one registry."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._depth = Depth(state.app.events)
        self._measured_at = 0.0
        self.registry = CollectorRegistry()
        for collector in (Metrics(state.app.events), state.requests, self):
            self.registry.register(collector)

    def collect(self) -> Iterator[Metric]:
        """What is open now."""
        yield gauge("rota_streams", "Live streams that are open.", [], {(): len(self._state.hub)})

    async def measure(self) -> None:
        """Looks how full the queues are, unless somebody just did."""
        if self._measured_at and monotonic() - self._measured_at < MEASURE_EVERY_S:
            return
        self._measured_at = monotonic()
        try:
            async with self._state.connection() as conn, conn.transaction():
                await look_briefly(conn)
                await self._depth.measure(conn)
        except (RotaError, psycopg.Error) as error:  # the rest is worth telling all the more
            log.warning("the queues could not be measured: %s", error)


async def scrape(state: State) -> bytes:
    """The metrics in Prometheus' text format."""
    await state.gauges.measure()
    return generate_latest(state.gauges.registry)
