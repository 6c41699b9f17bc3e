"""How a worker works."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.model.limits import QueueLimits
from rota.model.task import DEFAULT_APP


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is kept of what handlers say; the defaults are those of the configuration."""

    enabled: bool = True
    level: str = "info"
    lines_per_run: int = 1000
    line_bytes: int = 8192
    buffer_lines: int = 10_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Settings of one worker process; the defaults are those of the configuration."""

    app: str = DEFAULT_APP  # whose tasks they are, among applications that share the database
    queues: dict[str, int] = field(default_factory=lambda: {"default": 1})  # name → weight
    queue_limits: dict[str, QueueLimits] = field(default_factory=dict)  # what code says of them
    concurrency: int = 4
    poll_interval_s: float = 1.0
    lease_s: float = 300.0
    unknown_task_after_s: float = 86400.0  # how long a job may wait for a worker that knows its task
    heartbeat_s: float = 10.0
    shutdown_timeout_s: float = 30.0
    scheduler: bool = True  # whether it also looks after schedules
    scheduler_tick_s: float = 15.0
    scheduler_lock: bool = False  # only one scheduler at a time is at work
    pooled: bool = False  # behind a transaction pooler: poll only
    logs: LogOptions = LogOptions()
    claim_batch: int = 500
    claim_ahead_s: float = 0.05
    dead_after_s: float = 2.5  # a worker whose session has been gone this long is dead
    restart_grace_s: float = 8.0  # after a restart of the server, when all sessions are gone
