"""Two hundred schedules of all kinds, and the instants that those with a cron expression must have, found without the product."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from tests.support.cron_corpus import EXPRESSIONS
from tests.support.cron_oracle import Oracle, Run, walk

from rota.model.schedule import Timing, cron, every

DAY = timedelta(days=1)
ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Australia/Sydney", "Australia/Lord_Howe",
    "Asia/Kathmandu", "Africa/Casablanca", "America/Santiago", "Pacific/Auckland",
)  # fmt: skip
INTERVALS = ("20s", "1m", "90s", "7m", "20m", "1h", "100m", "5h", "26h")


def make_timings(seed: int, count: int, start: datetime, days: float) -> dict[str, Timing]:
    """The schedules by name: the same ones for the same seed."""
    rng = random.Random(f"schedules {seed}")
    return {f"{n:03}": _make_timing(rng, start, days) for n in range(count)}


def _make_timing(rng: random.Random, start: datetime, days: float) -> Timing:
    options = {
        "misfire": rng.choice(("latest", "latest", "skip", "all")),
        "catch_up": rng.choice((1, 2, 5, 12, 100)),
        "overlap": rng.choice(("allow", "allow", "skip", "queue_one")),
        "jitter": rng.choice((0, 0, 0, "30s", "10m")),
        "starts_at": start + rng.uniform(0.1, 0.4) * days * DAY if rng.random() < 0.1 else None,
        "ends_at": start + rng.uniform(0.5, 0.9) * days * DAY if rng.random() < 0.1 else None,
    }
    if rng.random() < 0.3:
        return every(rng.choice(INTERVALS), **options)  # type: ignore[arg-type]
    return cron(rng.choice(EXPRESSIONS), tz=rng.choice(ZONES), **options)  # type: ignore[arg-type]


def expected_instants(timing: Timing, after: datetime, until: datetime) -> list[datetime]:
    """Every instant after one time, and not after another, of a schedule with a cron expression."""
    assert timing.cron is not None
    fires = Oracle(timing.cron).fires(_walk(timing.tz, after - DAY, until))
    return [
        at for at in fires
        if at > after and (timing.starts_at is None or at >= timing.starts_at) and (timing.ends_at is None or at <= timing.ends_at)
    ]  # fmt: skip


@cache
def _walk(tz: str, start: datetime, end: datetime) -> list[Run]:
    start = start.replace(second=0, microsecond=0)  # the oracle goes from minute to minute
    return [run for run in walk(ZoneInfo(tz), start, end) if run.instant <= end]
