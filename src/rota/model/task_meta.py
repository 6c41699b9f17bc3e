"""What code says about a task for those who operate it: what it is for, and how it is set up at first."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict

from rota.errors import UsageError
from rota.model.filters import check_text
from rota.model.limits import check_concurrency, check_concurrency_key, parse_rate
from rota.model.options import TASK_HINTS, refuse_unknown
from rota.model.secret import Record
from rota.model.task import FieldValue, TaskSpec
from rota.model.vault import seal_payload

MAX_DESCRIPTION = 1000
MAX_TAGS = 20
MAX_FIELDS = 20
MAX_FIELD_CHARS = 200
MAX_SLOTS = 10_000
MAX_RETENTION_DAYS = 36_500
MAX_RETENTION_COUNT = 100_000_000

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,49}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,49}")


TASK_OPTIONS = ("name", "queue", "priority", "retry", "max_attempts", "timeout", "isolate", "max_concurrency", "schedule", "on")
RECURRING_OPTIONS = (
    "key",
    "name",
    "every",
    "queue",
    "priority",
    "retry",
    "timeout",
    "isolate",
    "max_concurrency",
    "history",
    "always",
)


class TaskMeta(TypedDict, total=False):
    """What else `@app.task` takes."""

    description: str | None
    tags: str | Iterable[str]
    fields: Mapping[str, FieldValue]
    enabled: bool
    default_payload: Mapping[str, Any] | None
    retention_days: int | None
    retention_count: int | None
    system: bool
    run_once: bool | None
    slots: int
    rate: str | None
    concurrency_key: str | None
    key_concurrency: int | None
    key_rate: str | None


def with_meta(
    spec: TaskSpec,
    *,
    description: str | None = None,
    tags: str | Iterable[str] = (),
    fields: Mapping[str, FieldValue] | None = None,
    enabled: bool = True,
    default_payload: Mapping[str, Any] | None = None,
    retention_days: int | None = None,
    retention_count: int | None = None,
    system: bool = False,
    run_once: bool | None = None,
    slots: int = 0,
    rate: str | None = None,
    concurrency_key: str | None = None,
    key_concurrency: int | None = None,
    key_rate: str | None = None,
    **unknown: Any,
) -> TaskSpec:
    """The task with what is said of it here; else the first paragraph of its handler's docstring describes it."""
    refuse_unknown("@app.task", unknown, [*TASK_OPTIONS, *TaskMeta.__annotations__], TASK_HINTS)
    for name, value in (("enabled", enabled), ("system", system)):
        if not isinstance(value, bool):
            raise UsageError(f"{name}={value!r} of task {spec.name!r} is not a boolean: give True or False")
    if run_once is not None and (not isinstance(run_once, bool) or spec.strategy != "init"):
        raise UsageError(f"run_once={run_once!r} of task {spec.name!r} is not allowed: True or False, for tasks with schedule=init")
    check_retention("retention_days", retention_days)
    check_retention("retention_count", retention_count)
    _check_slots(spec, slots)
    return replace(
        spec,
        description=_read_docstring(spec.handler) if description is None else _check_description(spec.name, description),
        tags=read_tags(tags),
        fields=read_fields(fields or {}),
        enabled=enabled,
        default_payload="{}" if default_payload is None else _read_payload(spec, default_payload),
        retention_days=retention_days,
        retention_count=retention_count,
        system=system,
        each_sync=run_once is False,
        slots=slots,
        rate=None if rate is None else parse_rate(rate, name="rate"),
        **_read_key_limits(spec, concurrency_key, key_concurrency, key_rate),
    )


def read_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """The tags in their order, each once."""
    given = [tags] if isinstance(tags, str) else list(tags)
    for tag in given:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise UsageError(f"tag {tag!r} is not allowed: letters, digits and _ . : / - only, at most 50")
    if len(set(given)) > MAX_TAGS:
        raise UsageError(f"tags={given!r} are too many: at most {MAX_TAGS}")
    return tuple(sorted(set(given)))


def read_fields(fields: Mapping[str, FieldValue]) -> tuple[tuple[str, FieldValue], ...]:
    """Return fields of the user's own by name; UsageError for what could not be stored or searched."""
    if not isinstance(fields, Mapping):
        raise UsageError(f'fields={fields!r} must be a mapping such as {{"team": "billing"}}')
    if len(fields) > MAX_FIELDS:
        raise UsageError(f"fields has {len(fields)} entries: at most {MAX_FIELDS}")
    for name, value in fields.items():
        if not isinstance(name, str) or not _FIELD.fullmatch(name):
            raise UsageError(f"field name {name!r} is not allowed: letters, digits and _ . - only, at most 50, no digit first")
        if not isinstance(value, FieldValue) or (isinstance(value, float) and not math.isfinite(value)):
            raise UsageError(f"fields[{name!r}]={value!r} must be text, a finite number or a boolean")
        if len(str(value)) > MAX_FIELD_CHARS:
            raise UsageError(f"fields[{name!r}] has {len(str(value))} characters: at most {MAX_FIELD_CHARS}")
        check_text(f"fields[{name!r}]", str(value))
    return tuple(sorted(fields.items()))


def parse_field(text: str) -> tuple[str, str]:
    """Read a search for a field, written `team=billing`."""
    name, equals, value = text.partition("=")
    if not equals or not _FIELD.fullmatch(name):
        raise UsageError(f"field={text!r} must be a name and a value, such as team=billing")
    check_text("field", value)
    return name, value


def _read_key_limits(spec: TaskSpec, template: str | None, concurrency: int | None, rate: str | None) -> dict[str, Any]:
    if template is None:
        if concurrency is not None or rate is not None:
            raise UsageError(
                f"key_concurrency={concurrency!r} and key_rate={rate!r} of task {spec.name!r} are limits of each key: "
                'say which with concurrency_key="{...}"'
            )
        return {}
    check_concurrency_key(template, spec.payload.json_schema, task=spec.name)
    if concurrency is None and rate is None:
        concurrency = 1
    if concurrency is not None:
        check_concurrency(concurrency, name="key_concurrency")
    key_rate = None if rate is None else parse_rate(rate, name="key_rate")
    return {"concurrency_key": template, "key_concurrency": concurrency, "key_rate": key_rate}


def check_retention(name: str, value: int | None) -> None:
    """Refuses a retention that the database would refuse."""
    most = MAX_RETENTION_DAYS if name == "retention_days" else MAX_RETENTION_COUNT
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise UsageError(f"{name}={value!r} is out of range: from 1 to {most}, or None for what holds for all tasks")


def _check_slots(spec: TaskSpec, slots: int) -> None:
    if isinstance(slots, bool) or not isinstance(slots, int) or not 0 <= slots <= MAX_SLOTS:
        raise UsageError(f"slots={slots!r} of task {spec.name!r} is out of range: from 0 to {MAX_SLOTS}")
    if slots and not spec.is_async:
        raise UsageError(f"slots={slots!r} of task {spec.name!r} is for async handlers only: write it as async def")


def _check_description(task: str, description: str) -> str:
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise UsageError(
            f"description={description!r:.80} of task {task!r} is not allowed: text of at most {MAX_DESCRIPTION} letters"
        )
    check_text("description", description)
    return description.strip()


def _read_docstring(handler: Callable[..., Any]) -> str:
    # cleandoc, because newer Pythons take the indentation out when they compile, and the same code must be described the same.
    paragraph = inspect.cleandoc(handler.__doc__ or "").split("\n\n")[0]
    text = "".join(
        character for character in " ".join(paragraph.split()) if character != "\0" and not "\ud800" <= character <= "\udfff"
    )
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"


def _read_payload(spec: TaskSpec, payload: Mapping[str, Any]) -> str:
    try:
        return seal_payload(spec.payload.encode_json(payload), Record("task", spec.name), spec.name)
    except UsageError as error:
        raise type(error)(f"default_payload of task {spec.name!r} does not fit its handler: {error}") from None
