"""Lines are found by text, task, level, job, run and time, however many there are."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from rota.cli.database import LIMITS
from rota.control import logs
from rota.control.logs import follow_logs, last_lines, list_logs
from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.ids import new_id
from rota.model.log_filter import LogFilter, parse_run

pytestmark = pytest.mark.req("C07")

INSERT = """INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message, fields)
            VALUES (rota.now() - %s::interval, %s, %s, %s, %s, %s, %s, %s)"""


def say(
    conn: psycopg.Connection[Any], message: str, *, task: str = "mail", level: int = 20, job: UUID | None = None, attempt: int = 1,
    sequence: int = 1, ago: str = "0", **fields: Any,
) -> UUID:  # fmt: skip
    """Store a line."""
    job = job or new_id()
    conn.execute(INSERT, [ago, task, job, attempt, sequence, level, message, json.dumps(fields) if fields else None])
    return job


@pytest.fixture
async def reader(dsn: str) -> Any:
    """A connection such as the command line has."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, options=LIMITS) as connection:
        yield connection


async def found(conn: AsyncConn, **filter: Any) -> list[str]:
    return [line.message for line in (await list_logs(conn, LogFilter(**filter))).lines]


async def test_it_works(conn: psycopg.Connection[Any], reader: AsyncConn) -> None:
    job = say(conn, "order 4711 sent to Anna", user_id=7, ago="3 s")
    say(conn, "order 4711 was late", level=30, task="shop", ago="2 s")
    say(conn, "no connection", level=40, task="shop", ago="1 s")
    newest_first = ["no connection", "order 4711 was late", "order 4711 sent to Anna"]
    assert await found(reader) == newest_first
    assert await found(reader, task="shop") == newest_first[:2]
    assert await found(reader, level="warning") == newest_first[:2]
    assert await found(reader, level="error") == newest_first[:1]
    assert await found(reader, text="4711") == newest_first[1:]
    assert await found(reader, text="ORDER anna") == newest_first[2:]
    assert await found(reader, text='"order 4711" -late') == newest_first[2:]
    assert await found(reader, text="Anna 7") == newest_first[2:]
    assert await found(reader, text="user_id") == []  # the name of a field is no word
    assert await found(reader, text="4711", task="shop", level="warning") == newest_first[1:2]
    assert await found(reader, text="nowhere") == []
    assert await found(reader, job_id=job) == newest_first[2:]
    assert await found(reader, job_id=job, attempt=2) == []
    assert await found(reader, since=timedelta(seconds=1.5)) == newest_first[:1]
    now = datetime.now(UTC)
    assert await found(reader, since=now - timedelta(hours=1), until=now - timedelta(seconds=1.5)) == newest_first[1:]
    line = (await list_logs(reader, LogFilter(job_id=job))).lines[0]
    assert (line.task, line.level_name, line.fields, line.attempt, line.sequence) == ("mail", "info", {"user_id": 7}, 1, 1)


async def test_a_job_in_its_order(conn: psycopg.Connection[Any], reader: AsyncConn) -> None:
    job = new_id()
    for attempt, sequence in ((2, 1), (1, 2), (1, 1), (2, 2)):  # as they may come in
        say(conn, f"{attempt}.{sequence}", job=job, attempt=attempt, sequence=sequence)
    assert [line.message for line in await last_lines(reader, job)] == ["1.1", "1.2", "2.1", "2.2"]
    assert [line.message for line in await last_lines(reader, job, limit=3)] == ["1.2", "2.1", "2.2"]
    assert await found(reader, job_id=job, attempt=1) == ["1.2", "1.1"]
    assert await found(reader, job_id=job, text="2.1") == ["2.1"]


async def pages(conn: AsyncConn, filter: LogFilter, limit: int) -> list[str]:
    messages, before = [], None
    while True:
        page = await list_logs(conn, filter, before=before, limit=limit)
        messages += [line.message for line in page.lines]
        if page.next is None:
            return messages
        before = page.next


@pytest.mark.parametrize("text", [None, "rare", "even"])
async def test_page_by_page(
    conn: psycopg.Connection[Any], reader: AsyncConn, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Nothing twice and nothing missed, across days, whichever way the search goes, and where many lines share an instant."""
    monkeypatch.setattr(logs, "SCAN_WINDOW", 10)
    conn.execute("SET timezone = 'UTC'")
    conn.execute(
        """INSERT INTO rota.log
           SELECT date_trunc('day', rota.now()) + (n / 4) * interval '1 hour' - interval '36 hours', 'mail', rota.uuid7(), 1, 1, 20,
                  'line ' || n || CASE WHEN n % 2 = 0 THEN ' even' ELSE '' END || CASE WHEN n % 17 = 0 THEN ' rare' ELSE '' END
           FROM generate_series(1, 240) n"""
    )
    order = "SELECT message FROM rota.log WHERE message LIKE %s ORDER BY at DESC, job_id DESC, attempt DESC, sequence DESC"
    expected = [message for (message,) in conn.execute(order, [f"%{text or ''}%"]).fetchall()]
    for limit in (1, 7, 1000) if text != "even" else (7, 1000):
        assert await pages(reader, LogFilter(text=text), limit) == expected
    since = datetime.now(UTC) - timedelta(hours=20)
    some = await pages(reader, LogFilter(text=text, since=since), 5)
    assert some == expected[: len(some)]
    assert await pages(reader, LogFilter(text=text, since=timedelta(hours=20)), 5) == some


async def test_what_cannot_be_asked_for(reader: AsyncConn) -> None:
    for filter, why in (
        ({"level": "loud"}, "level='loud' is not a level"),
        ({"attempt": 1}, "give job_id="),
        ({"job_id": UUID(int=1), "attempt": 0}, "attempt=0 is out of range"),
        ({"text": "a\0b"}, "cannot store"),
        ({"text": "x" * 501}, "at most 500"),
        ({"since": datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)}, "no time zone"),
    ):
        with pytest.raises(UsageError, match=why):
            LogFilter(**filter)
    with pytest.raises(UsageError, match="limit=0 is out of range"):
        await list_logs(reader, limit=0)
    with pytest.raises(UsageError, match="neither a job's id nor a run's"):
        parse_run("abc/1")
    assert parse_run(f"{UUID(int=1)}/3") == (UUID(int=1), 3)


@pytest.mark.parametrize("text", ['"', "' OR 1=1 --", "a & b | !", "((", ":*", "\\", "…", "-", "or"])
async def test_no_text_breaks_a_search(conn: psycopg.Connection[Any], reader: AsyncConn, text: str) -> None:
    say(conn, "hello")
    await found(reader, text=text)


async def test_following(conn: psycopg.Connection[Any], reader: AsyncConn) -> None:
    for number in range(20):
        say(conn, f"old {number}", ago=f"{60 - number} s")
    lines = follow_logs(reader, LogFilter(task="mail"), last=2, every_s=0.01)
    assert [(await anext(lines)).message for _ in range(2)] == ["old 18", "old 19"]
    say(conn, "of another", task="shop")
    say(conn, "new")
    assert (await anext(lines)).message == "new"
    say(conn, "late", ago="5 s")  # said before the last one, and here only now
    assert (await anext(lines)).message == "late"
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    say(conn, "last")
    assert (await waiting).message == "last"
    await lines.aclose()


async def test_plans(conn: psycopg.Connection[Any], reader: AsyncConn) -> None:
    """Every way to lines goes by an index, and the search for rare words by that of words."""
    conn.execute(
        """INSERT INTO rota.log SELECT rota.now() - n * interval '1 ms', 'task' || n % 50, rota.uuid7(), 1, 1,
                  CASE WHEN n % 1000 = 0 THEN 40 ELSE 20 END, 'request ' || n || ' took ' || n % 97 || ' ms', NULL
           FROM generate_series(1, 30000) n"""
    )
    for analyzed in (False, True):
        if analyzed:
            conn.execute("ANALYZE rota.log")
        for filter in (LogFilter(), LogFilter(task="task7"), LogFilter(level="error"), LogFilter(text="request 29999")):
            plan = await explained(reader, filter)
            assert "Seq Scan on log" not in plan, plan
            if filter.task:
                assert "task" in plan
    assert await found(reader, text="request 29999") == ["request 29999 took 26 ms"]


async def explained(conn: AsyncConn, filter: LogFilter) -> str:
    """The plans of the statements that a list takes."""
    texts: list[str] = []
    execute = conn.execute

    async def explain(query: Any, params: Any = None, **options: Any) -> Any:
        text = query if isinstance(query, str) else query.as_string(conn)
        if "FROM rota.log\n" in text:
            rows = await (await execute("EXPLAIN " + text, params)).fetchall()
            texts.extend(row[0] for row in rows)
        return await execute(query, params, **options)

    conn.execute = explain  # type: ignore[method-assign, assignment]
    try:
        await list_logs(conn, filter, limit=10)
    finally:
        conn.execute = execute  # type: ignore[method-assign]
    return "\n".join(texts)
