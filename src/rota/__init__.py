"""The job platform for Python on PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.engine.context import Context
    from rota.model.job import Enqueued, NewJob
    from rota.model.outcome import Cancel, RetryAfter, Snooze
    from rota.model.retry import Retry
    from rota.model.schedule import Timing, cron, every, init
    from rota.model.secret import Secret, seal, unseal
    from rota.recurring import Recurring
    from rota.store.schedule_changes import Recurrence
    from rota.task import Task

__version__ = "0.1.0"

__all__ = [
    "Cancel", "Context", "Enqueued", "NewJob", "Recurrence", "Recurring", "Retry", "RetryAfter", "Rota", "Secret", "Snooze", "Task",
    "Timing", "cron", "every", "init", "seal", "unseal",
]  # fmt: skip

# Imported when first asked for, so that the command line starts fast and an enqueuing process stays small.
_HOMES = {
    "Cancel": "rota.model.outcome",
    "Context": "rota.engine.context",
    "Enqueued": "rota.model.job",
    "NewJob": "rota.model.job",
    "Recurrence": "rota.store.schedule_changes",
    "Recurring": "rota.recurring",
    "Retry": "rota.model.retry",
    "RetryAfter": "rota.model.outcome",
    "Rota": "rota.app",
    "Secret": "rota.model.secret",
    "Snooze": "rota.model.outcome",
    "Task": "rota.task",
    "Timing": "rota.model.schedule",
    "cron": "rota.model.schedule",
    "every": "rota.model.schedule",
    "init": "rota.model.schedule",
    "seal": "rota.model.secret",
    "unseal": "rota.model.secret",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
