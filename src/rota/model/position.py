"""Where in a queue's order a claim begins."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Position(NamedTuple):
    """A job's place in the order of its queue."""

    priority: int
    run_at: datetime | str
    id: str


START = Position(-32768, "-infinity", "00000000-0000-0000-0000-000000000000")  # before all jobs
