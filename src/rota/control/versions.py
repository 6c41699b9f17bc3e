"""Versions of what operators edit: whoever changes something can say what they have seen, and is refused if it is another by now.

A version is made of what operators can set, and not of how things go: a schedule that fires stays the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import singledispatch
from typing import Any

from rota.control.service import Queue
from rota.errors import Stale
from rota.model.definition import TaskRecord
from rota.model.schedule_record import ScheduleRecord
from rota.store.queues import QueueSettings
from rota.store.webhooks import WebhookRecord

_SCHEDULE = ("id", "name", "task", "key", "payload", "timing", "enabled", "queue", "priority", "max_attempts")
_WEBHOOK = ("id", "url", "kinds", "enabled")


@singledispatch
def version_of(record: Any) -> str:
    """The version of something, as text of 16 digits."""
    raise TypeError(f"{type(record).__name__} has no version")


@version_of.register
def _(record: ScheduleRecord) -> str:
    return _digest(record, _SCHEDULE)


@version_of.register
def _(record: TaskRecord) -> str:
    return _digest(record, [field.name for field in dataclasses.fields(record) if field.name != "synced_at"])


@version_of.register(Queue)
@version_of.register(QueueSettings)
def _(record: Queue | QueueSettings) -> str:
    return _digest(record, QueueSettings.__slots__)


@version_of.register
def _(record: WebhookRecord) -> str:
    return _digest(record, _WEBHOOK)


def check_version(record: Any, expect: str | None, what: str) -> None:
    """Refuses a change to something that is no longer what the caller has seen; None: they have not looked."""
    if expect is not None and version_of(record) != expect:
        raise Stale(f"{what} has been changed meanwhile: look at it again, and repeat the change if it still makes sense")


def _digest(record: Any, names: Collection[str]) -> str:
    values = {name: getattr(record, name) for name in names}
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=_plain).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else str(value)
