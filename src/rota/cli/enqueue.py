"""What `rota jobs enqueue` does with its JSON and with the application."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn
from uuid import UUID

from rota.cli.database import run
from rota.cli.local import current_user
from rota.cli.locate import find_code
from rota.errors import PayloadError


def read_object(text: str) -> dict[str, Any]:
    """The JSON object that the argument is, or that stdin has; anything else is refused before anyone is asked."""
    source = sys.stdin.read() if text == "-" else text
    try:
        value = json.loads(source, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise PayloadError(
            f"the payload is not JSON: {error.msg} at line {error.lineno}, column {error.colno} of {_shorten(source)}"
        ) from error
    except RecursionError as error:
        raise PayloadError("the payload is nested too deeply") from error
    if not isinstance(value, dict):
        raise PayloadError(f'the payload must be a JSON object such as {{"user_id": 7}}, not {_shorten(source)}')
    return value


def store(task: str, payload: dict[str, Any], options: dict[str, Any], location: str | None) -> tuple[UUID, bool]:
    """Stores the job by the application's rules, or by the database's when there is no application."""
    application = find_code(location)
    if application is None:
        return run(lambda control: control.enqueue(task, payload, **options))
    with application:
        made = application.enqueue(task, payload, **options, triggered_by={"kind": "cli", "user": current_user()})
        return made.id, made.created


def _refuse_constant(name: str) -> NoReturn:
    raise PayloadError(f"the payload has {name}, which is not JSON: use null or a string")


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
