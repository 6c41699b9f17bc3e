"""Names that other job systems give fields of ours: requests may use them, answers never do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.errors import UsageError

# By the model that has the field, and so for the models that inherit from it; docs/other-names.md shows them to users.
OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "JobMatch": {"type": "task"},
    "TimingBody": {"cron_expr": "cron", "timezone": "tz"},
    "ScheduleBody": {"job_type": "task"},
    "ScheduleChange": {"job_type": "task"},
    "CalendarJobBody": {"pair_id": "calendar_pair_id", "connector_id": "connector", "next_run_at": "run_at"},
    "NewHttpJob": {"scheduled_at": "run_at", "timeout_seconds": "timeout_s"},
}


def other_names(model: type) -> dict[str, str]:
    """Return the other names that a model reads, with the field that each one stands for."""
    return {other: own for each in model.__mro__ for other, own in OTHER_NAMES.get(each.__name__, {}).items()}


def with_own_names(given: Any, names: Mapping[str, str]) -> Any:
    """Rename the members of a request; both names with different values are an error."""
    if not isinstance(given, dict) or names.keys().isdisjoint(given):
        return given
    read = dict(given)
    for other, own in names.items():
        if other not in read:
            continue
        value = read.pop(other)
        if own in read and read[own] != value:
            raise UsageError(f"{own} and {other} are two names of the same field, and they differ: give only one of them")
        read[own] = value
    return read


def documented(own: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what a document of the API says of the other names, given what it says of our own."""
    return {other: {**own[name], "deprecated": True, "description": f"Another name of `{name}`."} for other, name in names.items()}
