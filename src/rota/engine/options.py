"""How a worker works."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Settings of one worker process; the defaults are those of the configuration."""

    queues: dict[str, int] = field(default_factory=lambda: {"default": 1})  # name → weight
    concurrency: int = 4
    poll_interval_s: float = 1.0
    lease_s: float = 300.0
    heartbeat_s: float = 10.0
    shutdown_timeout_s: float = 30.0
    scheduler: bool = True  # whether it also looks after schedules
    scheduler_tick_s: float = 15.0
    scheduler_lock: bool = False  # only one scheduler at a time is at work
    pooled: bool = False  # behind a transaction pooler: poll only
    claim_batch: int = 500
    claim_ahead_s: float = 0.05
    dead_after_s: float = 2.5  # a worker whose session has been gone this long is dead
    restart_grace_s: float = 8.0  # after a restart of the server, when all sessions are gone
