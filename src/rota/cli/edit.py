"""What `rota jobs retry` does when the payload is to be another one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rota.cli.enqueue import read_object
from rota.errors import PayloadError, UsageError

if TYPE_CHECKING:
    from rota.cli.database import Control
    from rota.store.jobs_read import JobSummary


def edit(ids: list[UUID], payload: str | None, changes: list[str]) -> Callable[[Control, UUID], Awaitable[JobSummary]]:
    """What to do to the one job; everything that can be seen to be wrong is refused before anyone is asked."""
    if len(ids) != 1:
        raise UsageError(f"--payload and --set change one job: give one id, not {'a filter' if not ids else f'{len(ids)} ids'}")
    if payload is not None and changes:
        raise UsageError("give --payload, which is all of it, or --set, which is some of it, and not both")
    whole = None if payload is None else read_object(payload)
    some = read_changes(changes) if payload is None else None
    return lambda control, id: control.edit_and_retry(id, whole, changes=some)


def read_changes(changes: list[str]) -> dict[str, Any]:
    """What `--set key=value` says: the value is JSON where it can be read so, and else text."""
    read: dict[str, Any] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not name or not equals:
            raise UsageError(f"--set={change!r} is not KEY=VALUE: write --set user_id=7, or --set 'name=\"7\"' for text")
        if name in read:
            raise UsageError(f"--set names {name!r} twice")
        read[name] = _read_value(name, value)
    return read


def _read_value(name: str, value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if value.lstrip()[:1] in ("{", "[", '"'):  # was meant to be JSON
            raise PayloadError(f"--set {name}: {value[:80]!r} is not JSON: {error}") from error
        return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
