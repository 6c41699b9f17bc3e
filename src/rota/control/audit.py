"""Who has changed what: one row for every change that an operator makes, in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple
from uuid import UUID

from rota.control.access import Actor
from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.filters import check_text
from rota.model.redact import redact
from rota.model.sanitize import clean_text
from rota.store import audit as store
from rota.store.audit import AuditRecord

MAX_TARGET = 500
MAX_DETAIL_BYTES = 8192
MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A piece of the list; `next` is what to ask the next one with, None at the end."""

    items: list[AuditRecord]
    next: int | None


class Entry(NamedTuple):
    """A row to be written."""

    account_id: UUID | None
    actor: str
    role: str
    via: str | None
    operation: str
    target: str
    detail: Mapping[str, Any]

    @classmethod
    def of(cls, actor: Actor, operation: str, target: str, detail: Mapping[str, Any] | None = None) -> Entry:
        """Return the row that says that this actor did something to something."""
        return cls(actor.account, actor.name, actor.role, actor.via, operation, target, detail or {})


async def record(conn: AsyncConn, actor: Actor, operation: str, target: str, detail: Mapping[str, Any] | None = None) -> None:
    """Writes down that somebody did something to something; secrets in `detail` are taken out, and what is too long is cut."""
    await record_many(conn, [Entry.of(actor, operation, target, detail)])


async def record_many(conn: AsyncConn, entries: Iterable[Entry]) -> None:
    """Write several rows in one statement."""
    rows = [
        {**each._asdict(), "account_id": each.account_id and str(each.account_id), "target": clean_text(each.target, MAX_TARGET),
         "detail": _bounded(each.detail)}
        for each in entries
    ]  # fmt: skip
    await store.record(conn, json.dumps(rows))


async def list_audit(
    conn: AsyncConn,
    *,
    actor: str | None = None,
    operation: str | None = None,
    target: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> AuditPage:
    """The newest changes for which everything that is given holds."""
    for name, value in (("actor", actor), ("operation", operation), ("target", target)):
        check_text(name, value)
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    found = await store.read_all(conn, actor=actor, operation=operation, target=target, before=before, limit=limit + 1)
    return AuditPage(found[:limit], found[limit - 1].id if len(found) > limit else None)


def _bounded(detail: Mapping[str, Any]) -> Any:
    plain = _plain(redact(dict(detail)))
    text = json.dumps(plain, ensure_ascii=False)
    size = len(text.encode())
    return plain if size <= MAX_DETAIL_BYTES else {"truncated": True, "bytes": size, "head": clean_text(text, 1000)}


def _plain(value: Any) -> Any:
    """What JSON and PostgreSQL can hold, whatever it was; `redact` has bounded it already."""
    match value:
        case None | bool() | int():
            return value
        case dict():
            return {clean_text(str(key), MAX_TARGET): _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case float() if isfinite(value):
            return value
        case _:
            return clean_text(str(value), MAX_DETAIL_BYTES)
