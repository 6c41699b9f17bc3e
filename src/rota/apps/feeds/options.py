"""What can be set where the application is included: `app.include("rota.apps.feeds", min_interval="5m")`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self

from rota.errors import UsageError

MIB = 1_048_576
VARIABLE = "ROTA_FEEDS_OPTIONS"


@dataclass(frozen=True, slots=True)
class Options:
    """How often feeds are fetched, how politely, and how much of each is taken."""

    queue: str = "feeds"
    slots: int = 50  # fetches that one worker process has open at a time
    min_interval: timedelta = timedelta(minutes=15)
    max_interval: timedelta = timedelta(days=1)
    pushed_interval: timedelta = timedelta(hours=6)  # of a feed whose hub tells us of news
    host_concurrency: int = 1  # fetches from one host at a time, over all workers
    host_rate: str | None = "1/s"  # that begin
    timeout_s: float = 30.0
    max_bytes: int = 5 * MIB  # of a document, packed or not
    max_entries: int = 1000  # of one document, the first ones of it
    user_agent: str = "rota-feeds"
    callback_url: str | None = None  # where hubs reach the server; else server.url, and without either no hub is asked
    lease: timedelta = timedelta(days=10)  # that we ask a hub for

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.min_interval <= self.max_interval <= timedelta(days=365):
            raise UsageError(
                f"min_interval={self.min_interval} and max_interval={self.max_interval} are not allowed: "
                "a second at least, a year at most, the smaller one first"
            )
        if not 1024 <= self.max_bytes <= 100 * MIB:
            raise UsageError(f"max_bytes={self.max_bytes} is out of range: from 1024 to {100 * MIB}")
        if not 0 < self.timeout_s <= 300:
            raise UsageError(f"timeout_s={self.timeout_s:g} is out of range: more than 0, at most 300")
        if not 1 <= self.max_entries <= 10_000:
            raise UsageError(f"max_entries={self.max_entries} is out of range: from 1 to 10000")

    def hand_down(self) -> None:
        """Tells them to processes that this one starts: one in which a suspect runs alone has no application to ask."""
        plain = {name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in asdict(self).items()}
        os.environ[VARIABLE] = json.dumps(plain)

    @classmethod
    def handed_down(cls) -> Self:
        """What the process has told that started this one; else the defaults."""
        given: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
        spans = {"min_interval", "max_interval", "pushed_interval", "lease"} & given.keys()
        return cls(**{**given, **{name: timedelta(seconds=given[name]) for name in spans}})
