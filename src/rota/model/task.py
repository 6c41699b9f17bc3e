"""What the engine knows of a task: the handler and how to run it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.errors import UsageError
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry

_TASK_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}")
_QUEUE_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task as defined in code."""

    name: str
    handler: Callable[..., Any]
    payload: PayloadSchema
    wants_context: bool
    is_async: bool
    queue: str = "default"
    priority: int = 0
    retry: Retry = field(default_factory=Retry)
    timeout_s: float | None = None
    isolate: bool = False


def check_task_name(name: str) -> None:
    """Refuses a name that would not work in URLs, metrics and the command line."""
    if not isinstance(name, str) or not _TASK_NAME.fullmatch(name):
        raise UsageError(f"task name {name!r} is not allowed: letters, digits and _ . : - only, at most 200, no digit first")


def check_queue_name(name: str) -> None:
    """Refuses a queue name that the database would refuse."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise UsageError(f"queue name {name!r} is not allowed: small letters, digits and _ . - only, at most 63")


def check_importable(handler: Callable[..., Any]) -> None:
    """Refuses a handler that another process could not find by its module and name."""
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if module is None or name is None:
        raise UsageError(f"{handler!r} cannot run in a process of its own, which would not find it: it has no name")
    if "<" in name:  # <locals>, <lambda>
        raise UsageError(
            f"{module}.{name} cannot run in a process of its own, which would not find it: define it at the top level of its module"
        )
    if module == "__main__" and getattr(sys.modules["__main__"], "__file__", None) is None:
        raise UsageError(f"{name} cannot run in a process of its own, which would not find it: define it in a file")


def check_priority(value: int) -> None:
    """Refuses a priority that the database would refuse."""
    if isinstance(value, bool) or not isinstance(value, int) or not -32768 <= value <= 32767:
        raise UsageError(f"priority={value!r} is out of range: from -32768 (first) to 32767 (last)")
