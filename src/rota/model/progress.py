"""How far a run has come, as its handler tells it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import orjson

from rota.errors import UsageError
from rota.model.redact import redact_text, secrets_known
from rota.model.run import Run
from rota.model.sanitize import clean_text

MAX_MESSAGE_CHARS = 500
MOST = 2**53  # what JSON's readers can count to


def write_progress(run: Run, done: float, total: float | None = None, message: str = "") -> str:
    """Progress as it is stored; UsageError when it is none."""
    _check("done", done, least=0)
    if total is not None:
        _check("total", total, least=0)
        if done > total:
            raise UsageError(f"progress done={done!r} is more than total={total!r}: count what is done out of all there is to do")
    if not isinstance(message, str):
        raise UsageError(f"progress message={message!r} is not text: give a str")
    with secrets_known(run.secrets):
        text = clean_text(redact_text(message), MAX_MESSAGE_CHARS)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return orjson.dumps({"done": done, "total": total, "message": text, "attempt": run.attempt, "at": now}).decode()


def show_progress(progress: dict[str, Any]) -> str:
    """Progress as a person reads it: `45 of 120 (37 %), importing`."""
    done, total, message = progress.get("done"), progress.get("total"), progress.get("message")
    text = f"{done:,}" if total is None else f"{done:,} of {total:,}"
    if total:
        text += f" ({math.floor(done / total * 100)} %)" if isinstance(done, int | float) else ""
    return f"{text}, {message}" if message else text


def _check(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"progress {name}={value!r} is not a number: give how much, from {least}")
    if not math.isfinite(value) or not least <= value <= MOST:
        raise UsageError(f"progress {name}={value!r} is out of range: from {least} to {MOST}")
