"""Limits as people write them: `"100/m"` of a rate, `"{customer_id}"` of a key; and as the database keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from rota.errors import UsageError
from rota.model.duration import parse_duration, show_duration
from rota.model.secret import is_secret

MAX_STARTS = 1_000_000
MAX_TEMPLATE_BYTES = 200

_RATE = re.compile(r"(\d{1,7})/(\S{1,40})")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 31 * 86400.0
_SHORTEST_S = 0.1
_NOT_SCALAR = ("object", "array")


class Limited(NamedTuple):
    """Which tasks and queues have limits now, or are disabled: whose jobs wait for a place."""

    tasks: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()

    def concerns(self, task: str, queue: str) -> bool:
        """Whether such a job waits for a place."""
        return task in self.tasks or queue in self.queues


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What code says of a queue: how many of its jobs may run at once, and how many start."""

    max_concurrency: int | None = None
    rate: str | None = None

    def __bool__(self) -> bool:
        return self.max_concurrency is not None or self.rate is not None


NO_LIMITS: Mapping[str, QueueLimits] = MappingProxyType({})


def check_concurrency(value: int, *, name: str) -> None:
    """Refuses a limit that the database would refuse; `name` is the argument that an error speaks of."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
        raise UsageError(f"{name}={value!r} is out of range: from 1 to 100000, or None for no limit")


def parse_rate(value: str, *, name: str) -> str:
    """A rate in the form that the database keeps, `100/60s`, from one as people write it: `100/m`, `5/10s`."""
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f'{name}={value!r} is not a rate: write "100/m" (per s, m, h, d) or "5/10s"')
    count, period = int(match[1]), match[2]
    seconds = _UNITS.get(period)
    if seconds is None:
        seconds = parse_duration(period, name=f"period of {name}", positive=True).total_seconds()
    if not 1 <= count <= MAX_STARTS or not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise UsageError(f"{name}={value!r} is out of range: from 1 to {MAX_STARTS} starts, per 0.1 s to 31 days")
    return f"{count}/{f'{seconds:.3f}'.rstrip('0').rstrip('.')}s"


def show_rate(stored: str) -> str:
    """A stored rate as people write it."""
    count, _, period = stored.partition("/")
    seconds = float(period.removesuffix("s"))
    unit = next((unit for unit, length in _UNITS.items() if length == seconds), None)
    return f"{count}/{unit or period}"


def rate_parts(stored: str) -> tuple[int, str]:
    """Of a stored rate: how many starts, and per how long in words."""
    count, _, period = stored.partition("/")
    return int(count), show_duration(parse_duration(period))


def check_concurrency_key(template: str, json_schema: Mapping[str, Any], *, task: str) -> None:
    """Refuses a template of keys that names something else than plain arguments of the task."""
    if not isinstance(template, str) or not template.isprintable() or not 1 <= len(template.encode()) <= MAX_TEMPLATE_BYTES:
        raise UsageError(
            f"concurrency_key={template!r} of task {task!r} is not a template: "
            f'write it like "{{customer_id}}", of at most {MAX_TEMPLATE_BYTES} bytes'
        )
    rest = re.sub(r"\{[^{}]*\}", "", template)
    names = re.findall(r"\{([^{}]*)\}", template)
    if "{" in rest or "}" in rest or not names:
        raise UsageError(f'concurrency_key={template!r} of task {task!r} must name arguments in braces, as in "{{customer_id}}"')
    known = json_schema.get("properties", {})
    for name in names:
        if name not in known:
            raise UsageError(
                f"concurrency_key={template!r} of task {task!r} names {name!r}: its parameters are {', '.join(known) or 'none'}"
            )
        if _is_compound(known[name], json_schema):
            raise UsageError(
                f"concurrency_key={template!r} of task {task!r} names {name!r}, which is no text, number or boolean: "
                "a key is made of those"
            )
        if is_secret(known[name]):
            raise UsageError(f"concurrency_key={template!r} of task {task!r} names {name!r}, which is a secret: keys are shown")


def _is_compound(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    if reference := schema.get("$ref"):
        schema = root.get("$defs", {}).get(reference.rpartition("/")[2], {})
    if schema.get("type") in _NOT_SCALAR:
        return True
    return any(_is_compound(each, root) for kind in ("anyOf", "oneOf") for each in schema.get(kind, ()))


def show_limits(max_concurrency: int | None, rate: str | None) -> str:
    """Both in words, empty if there is none: `20 at once, 50/s`."""
    parts = [f"{max_concurrency} at once" if max_concurrency else "", show_rate(rate) if rate else ""]
    return ", ".join(part for part in parts if part)
