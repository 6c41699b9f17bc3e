"""Where secrets of payloads are sealed and opened: drafts in memory, tokens in tables.

A payload in memory has its secrets as drafts (`model/secret.py`). What stores one calls `seal_payload` with the record that it is
stored in; what needs the secrets opens it with the records that the payload may be of. A token can be read in its own record and
field only, and in an HTTP job only while the URL has the origin that the secret was given for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rota.errors import PayloadError
from rota.model.redact import HIDDEN
from rota.model.secret import (
    DRAFT,
    NO_KEY,
    OPEN,
    SEALED,
    Record,
    digests,
    draft,
    may_store,
    origin_of,
    read_token,
    undraft,
    write_token,
)

CALL = "http_call"  # the task whose payload says where its secrets are sent to

Records = Mapping[str, Record]  # by kind: those that a payload may be of

_DRAFT = re.compile(re.escape(DRAFT) + r"[A-Za-z0-9_=-]*")
_GONE = object()


def records_of(task: str, *, job: object = None, owner: str | None = None, schedule: object = None) -> Records:
    """Return the records whose secrets a payload may have: the job's own, and unless it has an owner its schedule's and task's."""
    found = {} if job is None else {"job": Record("job", str(job), owner or "")}
    if not owner:
        found["task"] = Record("task", task)
        if schedule is not None:
            found["schedule"] = Record("schedule", str(schedule))
    return found


def seal_payload(text: str, record: Record, task: str) -> str:
    """Return a payload as it is stored in this record: each draft encrypted and bound to it. Everything else stays as it is."""
    if DRAFT not in text:
        return text
    if not may_store(key_needed=False):
        raise PayloadError(f"{task}: its secrets cannot be stored: {NO_KEY}")
    payload = json.loads(text)
    origin = _origin(task, payload)

    def seal(value: str, field: str) -> str:
        return write_token(undraft(value), record, field, origin) if value.startswith(DRAFT) else value

    return _dump(_walk(payload, seal))


def open_payload(text: str, records: Records, task: str) -> str:
    """Return a payload with drafts instead of tokens. PayloadError if a token was sealed for none of these records."""
    if '"rota-' not in text:
        return text
    payload = json.loads(text)
    origin = _origin(task, payload)

    def read(value: str, field: str) -> str:
        if not is_token(value):
            return value
        kind = value.removeprefix(OPEN).split(":")[0] if value.startswith(OPEN) else value.split(":")[2]
        record = records.get(kind, Record(kind, "none"))
        try:
            return draft(read_token(value, record, field, origin))
        except ValueError as error:
            raise PayloadError(f"{task}: the secret {field} cannot be read: it {error}") from None

    return _dump(_walk(payload, read))


def carry_over(before: str, wanted: str, task: str) -> tuple[str, list[str]]:
    """Return an edited payload with the stored secrets that it keeps, and the fields of those that it loses.

    `[redacted]` stands for what is stored there. An HTTP job that is given another origin loses every secret that was not given
    again: a user who may edit a job must not learn its secrets by sending them elsewhere.
    """
    if '"rota-' not in before:
        return wanted, []
    old, new = json.loads(before), json.loads(wanted)
    stored: dict[str, str] = {}
    _walk(old, lambda value, field: stored.setdefault(field, value) if is_token(value) else value)
    moved = _origin(task, old) != _origin(task, new)
    lost: list[str] = []

    def keep(value: str, field: str) -> Any:
        if value == HIDDEN:
            value = stored.get(field, value)
        if moved and value in stored.values():
            lost.append(field)
            return _GONE
        return value

    return _dump(_walk(new, keep)), lost


def shown(value: Any) -> Any:
    """Return a payload as it may be shown, as rota.shown does in the database."""
    return _walk(value, lambda text, _: HIDDEN if is_token(text) else text)


def stand_in(text: str) -> str:
    """Return a payload with something else for each secret: enough to see whether it fits its task, and it needs no key."""
    if '"rota-' not in text and HIDDEN not in text:
        return text
    return _dump(_walk(json.loads(text), lambda value, _: draft("x" * 16) if is_token(value) or value == HIDDEN else value))


def payload_digests(text: str) -> list[str] | None:
    """Return what tells this payload from others, for each key; None for one without secrets, which the database can compare."""
    if DRAFT not in text:
        return None
    plain = _walk(json.loads(text), lambda value, _: "\0" + undraft(value) if value.startswith(DRAFT) else value)
    return digests(json.dumps(plain, sort_keys=True).encode())


def hide_drafts(text: str) -> str:
    """Return a payload as it may be shown."""
    return _DRAFT.sub(HIDDEN, text)


def is_token(value: str) -> bool:
    """Whether a text looks like a stored secret."""
    return value.startswith((SEALED, OPEN)) and value.count(":") >= 2


def _origin(task: str, payload: Any) -> str:
    """Return the origin that the secrets of a payload are sent to, if its task is one that sends them somewhere."""
    url = payload.get("url") if task == CALL and isinstance(payload, dict) else None
    try:
        return origin_of(url) if isinstance(url, str) else ""
    except ValueError:
        return ""


def _walk(value: Any, change: Callable[[str, str], Any], field: str = "") -> Any:
    """Return a copy in which each text is what `change` makes of it and of where it stands, as /headers/Authorization."""
    if isinstance(value, str):
        return change(value, field)
    if isinstance(value, dict):
        inner = {name: _walk(each, change, f"{field}/{_escape(name)}") for name, each in value.items()}
        return {name: each for name, each in inner.items() if each is not _GONE}
    if isinstance(value, list):
        return [each for each in (_walk(each, change, f"{field}/{at}") for at, each in enumerate(value)) if each is not _GONE]
    return value


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")  # as in a JSON pointer, so that no two fields have one name


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
