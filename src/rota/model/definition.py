"""A task as code defines it, in plain values that can be stored, compared and hashed; and what operators set over it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from rota.errors import UsageError, did_you_mean
from rota.model.duration import parse_duration
from rota.model.job import encode_object
from rota.model.limits import check_concurrency, parse_rate
from rota.model.retry import Retry, check_max_attempts
from rota.model.schedule import Timing
from rota.model.task import FieldValue, TaskSpec, check_max_concurrency
from rota.model.task_meta import check_retention

Definition = dict[str, Any]
Overrides = dict[str, Any]

_TIMES = ("disabled_at", "deleted_from_code_at", "created_at", "synced_at", "schedule_deleted_at")


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as it is stored. The settings are those that hold now; `definition` is what code said at the last sync."""

    name: str
    queue: str
    priority: int
    max_attempts: int
    timeout_s: float | None
    retry: dict[str, Any] | None
    max_concurrency: int | None
    rate: str | None
    concurrency_key: str | None
    key_concurrency: int | None
    key_rate: str | None
    retention_days: int | None
    retention_count: int | None
    payload_schema: dict[str, Any]
    default_payload: dict[str, Any]
    listens: list[str]
    description: str
    tags: list[str]
    fields: dict[str, FieldValue]
    strategy: str
    system: bool
    run_once: bool
    enabled: bool
    disabled_at: datetime | None
    disabled_by: str | None
    disable_reason: str | None
    overrides: Overrides | None
    definition: Definition | None
    definition_hash: str | None
    apps: list[str]
    deleted_from_code_at: datetime | None
    created_at: datetime
    synced_at: datetime
    schedule_deleted_at: datetime | None  # when an operator deleted the schedule that code gives it

    @property
    def deleted_from_code(self) -> bool:
        """Whether no application has it in its code any more."""
        return self.deleted_from_code_at is not None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What rota.show_task wrote."""
        values: dict[str, Any] = json.loads(text)
        for name in _TIMES:
            values[name] = datetime.fromisoformat(values[name]).astimezone(UTC) if values[name] is not None else None
        return cls(**values)


def define(spec: TaskSpec) -> Definition:
    """What code says of a task, as it is stored."""
    return {
        "name": spec.name,
        "description": spec.description,
        "tags": list(spec.tags),
        "fields": dict(spec.fields),
        "strategy": spec.strategy,
        "queue": spec.queue,
        "priority": spec.priority,
        "max_attempts": spec.max_attempts,
        "retry": spec.retry.to_json(),
        "timeout_s": spec.timeout_s,
        "max_concurrency": spec.max_concurrency,
        "rate": spec.rate,
        "concurrency_key": spec.concurrency_key,
        "key_concurrency": spec.key_concurrency,
        "key_rate": spec.key_rate,
        "retention_days": spec.retention_days,
        "retention_count": spec.retention_count,
        "listens": list(spec.listens),
        "system": spec.system,
        "run_once": spec.run_once,
        "enabled": spec.enabled,
        "default_payload": json.loads(spec.default_payload),
        "schedule": define_timing(spec.schedule) if spec.schedule is not None else None,
        "payload_schema": json.loads(json.dumps(spec.payload.json_schema)),
    }


def define_timing(timing: Timing) -> Definition:
    """A timing in plain values: durations in seconds, times as text."""
    return {name: _plain(getattr(timing, name)) for name in Timing.__slots__}


def hash_definition(definition: Definition) -> str:
    """The same for the same definition, in every process and every Python."""
    # Sorted by hand, since the order in which code names its parameters means nothing to a payload.
    text = json.dumps(definition, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def effective(definition: Definition, overrides: Overrides | None) -> Definition:
    """The settings that hold: what operators say, else what code says."""
    values = dict(definition)
    for name, value in (overrides or {}).items():
        part, dot, field = name.partition(".")
        if dot:
            values[part] = {**values[part], field: value}
        elif name in values:
            values[name] = value
    values["retry"] = {**values["retry"], "max_attempts": values["max_attempts"]}
    # A key without limits, or limits without a key, as when code takes back a key whose limit an operator had changed, are none.
    if None in (values["concurrency_key"], values["key_concurrency"] or values["key_rate"]):
        values |= {"concurrency_key": None, "key_concurrency": None, "key_rate": None}
    return values


def apply(spec: TaskSpec, overrides: Overrides) -> TaskSpec:
    """The task as operators want it run."""
    values = effective(define(spec), overrides)
    limits = {name: values[name] for name in ("max_concurrency", "rate", "concurrency_key", "key_concurrency", "key_rate")}
    return replace(spec, retry=Retry.from_json(values["retry"]), timeout_s=values["timeout_s"], **limits)


def read_overrides(strategy: str, given: Mapping[str, Any]) -> Overrides:
    """Settings that an operator wants, checked, as they are stored; None is no limit, or what holds for all tasks."""
    read: Overrides = {}
    for name, value in given.items():
        key = override_name(name)
        if key == "max_attempts" and strategy == "recurring":
            raise UsageError(f"{name}={value!r} means nothing for a recurring task: its row tries again by its retry policy")
        read[key] = _OVERRIDES[key](value)
    retry = {name.partition(".")[2]: value for name, value in read.items() if name.startswith("retry.")}
    Retry(**retry)
    return read


def override_name(name: str) -> str:
    """The setting that an operator means by a name."""
    known = _ALIASES.get(name, name)
    if known not in _OVERRIDES:
        hint = did_you_mean(name, SETTABLE, f"there are {', '.join(SETTABLE)}")
        raise UsageError(f"{name!r} is not a setting of a task that can be changed: {hint}")
    return known


def shown_override(name: str) -> str:
    """A setting's name as operators write it."""
    return next((alias for alias, known in _ALIASES.items() if known == name and known not in SETTABLE), name)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else value


def _whole(name: str, check: Callable[[Any], None], *, optional: bool = True) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None and not optional:
            raise UsageError(f"{name}=None is not a setting: give a number, or unset it")
        if value is not None:
            check(value)
        return value

    return read


def _duration(name: str, *, positive: bool, optional: bool) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        return parse_duration(value, name=name, positive=positive).total_seconds()

    return read


def _payload(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise UsageError(f'default_payload={value!r} must be a JSON object such as {{"user_id": 7}}')
    return json.loads(encode_object("default_payload", value))


_OVERRIDES: dict[str, Callable[[Any], Any]] = {
    "max_concurrency": _whole("max_concurrency", check_max_concurrency),
    "rate": lambda value: None if value is None else parse_rate(value, name="rate"),
    "key_concurrency": _whole("key_concurrency", lambda value: check_concurrency(value, name="key_concurrency")),
    "key_rate": lambda value: None if value is None else parse_rate(value, name="key_rate"),
    "max_attempts": _whole("max_attempts", check_max_attempts, optional=False),
    "timeout_s": _duration("timeout", positive=True, optional=True),
    "retry.base": _duration("retry.base", positive=False, optional=False),
    "retry.cap": _duration("retry.cap", positive=False, optional=False),
    "retry.jitter": _duration("retry.jitter", positive=False, optional=False),
    "retention_days": _whole("retention_days", lambda value: check_retention("retention_days", value)),
    "retention_count": _whole("retention_count", lambda value: check_retention("retention_count", value)),
    "default_payload": _payload,
}
_ALIASES = {"retry.max_attempts": "max_attempts", "timeout": "timeout_s"}
SETTABLE = (
    "max_concurrency", "rate", "key_concurrency", "key_rate", "max_attempts", "timeout", "retry.base", "retry.cap", "retry.jitter",
    "retention_days", "retention_count", "default_payload",
)  # fmt: skip
