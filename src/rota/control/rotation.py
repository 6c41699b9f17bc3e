"""Change the key that secrets are encrypted with, while everything runs.

Each secret has a data key of its own, which is wrapped by a key of `secrets.key`. A rotation wraps the data keys again: no secret
is read, and its record need not be known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from psycopg import sql

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.errors import ConfigError
from rota.model.secret import TOKEN, known_key_ids, rewrap

SQL = queries.load("secrets")

# Where Rota itself stores secrets; `app.sealed_columns` names those of applications.
LIVE = ("rota.job.payload", "rota.schedule.payload", "rota.task.default_payload", "rota.task.overrides", "rota.task.definition",
        "rota.webhook.secret")  # fmt: skip
HISTORY = ("rota.run.payload", "rota.job_edit.payload")

BLOCKS = 500  # of a table, looked at by one statement
ROWS = 200  # changed by one transaction
TURNS = 20  # over a table in which others keep writing with an older key


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key, and what needs it."""

    id: str
    known: bool  # it is in secrets.key here
    newest: bool  # it encrypts
    secrets: int  # encrypted with it
    requests: int  # idempotency keys that repeated requests are compared by; they expire


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation has done."""

    key: str
    changed: int  # secrets that are wrapped by the newest key now
    left: int  # under keys that are not in secrets.key here


@dataclass(frozen=True, slots=True)
class Place:
    """One table without partitions, and a column of it."""

    leaf: sql.Composable
    column: sql.Composable
    type: sql.SQL
    blocks: int

    def statement(self, name: str) -> sql.Composed:
        """One of the statements, for this table and column."""
        return sql.SQL(SQL[name]).format(leaf=self.leaf, column=self.column, type=self.type)


async def key_uses(conn: AsyncConn, columns: Iterable[str]) -> list[KeyUse]:
    """Return how much each key is used in these columns, keys of this process first, the newest first."""
    secrets: Counter[str] = Counter()
    async for place in _places(conn, columns):
        for span in _spans(place):
            secrets.update(dict(await (await conn.execute(place.statement("secrets_count"), span)).fetchall()))
    requests: dict[str, int] = dict(await (await conn.execute(SQL["secrets_requests"])).fetchall())
    known = known_key_ids()
    others = sorted((secrets.keys() | requests.keys()) - {*known})
    return [
        KeyUse(id, id in known, id == known[0] if known else False, secrets[id], requests.get(id, 0)) for id in (*known, *others)
    ]


async def rotate(conn: AsyncConn, columns: Iterable[str]) -> Rotation:
    """Wrap all secrets in these columns by the newest key. Workers and servers go on meanwhile; ConfigError without a key."""
    known = known_key_ids()
    if not known:
        raise ConfigError("there is no key: set secrets.key (ROTA_SECRETS_KEY) to the new key and, after a comma, the old one")
    changed = 0
    columns = list(columns)
    if old := known[1:]:
        pattern = f"rota-secret:({'|'.join(old)}):"
        async for place in _places(conn, columns):
            for _ in range(TURNS):
                done = await _rotate_place(conn, place, pattern)
                changed += done
                if not done:
                    break
    left = sum(use.secrets for use in await key_uses(conn, columns) if not use.newest)
    return Rotation(known[0], changed, left)


async def _rotate_place(conn: AsyncConn, place: Place, pattern: str) -> int:
    changed = 0
    for span in _spans(place):
        while True:
            async with conn.transaction():
                parameters = {**span, "old": pattern, "limit": ROWS}
                rows = await (await conn.execute(place.statement("secrets_lock"), parameters)).fetchall()
                done = 0
                for row, text in rows:
                    wrapped, count = _rewrap_all(text)
                    if count:
                        await conn.execute(place.statement("secrets_write"), {"row": row, "text": wrapped})
                        done += count
            changed += done
            if len(rows) < ROWS or not done:
                break
    return changed


def _rewrap_all(text: str) -> tuple[str, int]:
    """Return a text with its secrets wrapped by the newest key, and how many have changed."""
    changed = 0

    def wrapped(match: re.Match[str]) -> str:
        nonlocal changed
        try:
            token = rewrap(match[0])
        except ValueError:  # a key that is not known here, or not a secret although it looks like one
            return match[0]
        changed += token != match[0]
        return token

    return TOKEN.sub(wrapped, text), changed


async def _places(conn: AsyncConn, columns: Iterable[str]) -> AsyncIterator[Place]:
    for name in columns:
        table, _, column = name.rpartition(".")
        row = await (await conn.execute(SQL["secrets_type"], {"table": table, "column": column})).fetchone()
        if row is None:
            continue  # of an included application whose tables are not there yet
        for leaf, blocks in await (await conn.execute(SQL["secrets_leaves"], {"table": table})).fetchall():
            # Rows that move to a new place while we look are found there: some blocks more than there are now.
            yield Place(sql.SQL(leaf), sql.Identifier(column), sql.SQL(row[0]), blocks + BLOCKS)


def _spans(place: Place) -> Iterable[dict[str, str]]:
    for first in range(0, place.blocks, BLOCKS):
        yield {"first": f"({first},0)", "last": f"({first + BLOCKS},0)"}
