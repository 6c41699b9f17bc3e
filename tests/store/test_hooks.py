"""Events of the application's own: whoever listens is enqueued in the transaction that emits them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from rota import Rota
from rota.errors import PayloadError, UnknownQueue, UsageError
from rota.store import tasks


class Order(BaseModel):
    """A payload that takes more than it names."""

    model_config = {"extra": "allow"}
    id: int = 0


@pytest.fixture
def app(dsn: str, conn: psycopg.Connection[Any]) -> Any:
    with Rota(dsn) as app:

        @app.task(on="order_changed", queue="mail")
        def tell(operation: str, new: dict[str, Any] | None = None) -> None: ...

        @app.task(on=["order_changed", "order_paid"])
        def book(new: dict[str, Any] | None = None) -> None: ...

        @app.task(on="order_paid")
        def archive(order: Order) -> None: ...

        @app.task
        def other() -> None: ...

        tasks.sync(conn, tasks=app.tasks.values(), queues=list(app.queues))
        conn.execute('CREATE TABLE public."Order" (id int PRIMARY KEY, total numeric)')
        yield app


def jobs(conn: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT task, payload, triggered_by FROM rota.job ORDER BY task, id").fetchall()


@pytest.mark.req("C05")
def test_everyone_who_listens_is_enqueued(app, conn):
    made = app.emit("order_paid", {"id": 7, "new": {"total": 3}, "note": "x"})
    by = {"kind": "hook", "hook": "order_paid", "operation": "emit"}
    assert jobs(conn) == [("archive", {"id": 7, "new": {"total": 3}, "note": "x"}, by), ("book", {"new": {"total": 3}}, by)]
    assert {each.id for each in made} == {row[0] for row in conn.execute("SELECT id FROM rota.job").fetchall()}


async def test_from_an_event_loop(app, conn):
    assert len(await app.aemit("order_changed", {"operation": "x"})) == 2
    await app.aclose()
    with pytest.raises(UsageError, match="use `await aemit"):
        app.emit("order_paid")


@pytest.mark.req("Q20")
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_in_the_callers_transaction(app, conn, dsn, end):
    with psycopg.connect(dsn) as own:
        app.emit("order_paid", conn=own)
        assert jobs(conn) == []
        getattr(own, end)()
    assert len(jobs(conn)) == (2 if end == "commit" else 0)


def test_tasks_of_other_applications_hear_it_too(app, conn, dsn):
    with Rota(dsn) as stranger:

        @stranger.task(on="order_paid")
        def book(new: dict[str, Any] | None = None) -> None: ...

        assert len(stranger.emit("order_paid")) == 2  # its own, which it shares with the other one, and `archive`
    assert [row[0] for row in jobs(conn)] == ["archive", "book"]


def test_nobody_listens(app, conn):
    assert app.emit("nothing_of_the_kind") == []
    assert conn.execute("SELECT count(*) FROM rota.emit('nothing_of_the_kind')").fetchone() == (0,)


@pytest.mark.parametrize(
    ("event", "payload", "error", "words"),
    [
        ("order changed", {}, UsageError, "event name 'order changed' is not allowed: letters, digits"),
        ("", {}, UsageError, "event name ''"),
        ("order_changed", {}, PayloadError, "operation"),
        ("order_changed", {"operation": 7}, PayloadError, "operation"),
        ("order_paid", {"new": "\0"}, UsageError, "NUL"),
        ("order_paid", {"new": float("nan")}, UsageError, "payload=.*cannot be written as a JSON object"),
        ("order_paid", {"new": object()}, UsageError, "payload=.*cannot be written as a JSON object"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_enqueued(app, conn, event, payload, error, words):
    with pytest.raises(error, match=words):
        app.emit(event, payload)
    assert jobs(conn) == []


def test_definitions_are_checked(app):
    with pytest.raises(UsageError, match="event name 'a b'"):

        @app.task(on="a b")
        def bad() -> None: ...

    with pytest.raises(UnknownQueue):
        app.enqueue("other", queue="nowhere")


@pytest.mark.req("C05")
def test_a_table_emits_its_changes(app, conn):
    conn.execute("""SELECT rota.on_change('"Order"', 'order_changed', '{insert,delete}')""")
    conn.execute("""SELECT rota.on_change('public."Order"', 'order_changed')""")  # again, and for all: one trigger
    conn.execute("""INSERT INTO "Order" VALUES (1, 'NaN')""")
    conn.execute("""UPDATE "Order" SET total = 2.50""")
    conn.execute("""DELETE FROM "Order" """)
    tell = [(payload, by) for task, payload, by in jobs(conn) if task == "tell"]
    assert [payload for payload, _ in tell] == [
        {"operation": "insert", "new": {"id": 1, "total": "NaN"}},
        {"operation": "update", "new": {"id": 1, "total": 2.5}},
        {"operation": "delete", "new": None},
    ]
    assert tell[1][1] == {"kind": "hook", "hook": "order_changed", "operation": "update", "table": 'public."Order"'}
    assert len(jobs(conn)) == 6


def test_a_change_that_is_rolled_back_was_never_told(app, conn, dsn):
    conn.execute("""SELECT rota.on_change('"Order"', 'order_changed')""")
    with psycopg.connect(dsn) as own:
        own.execute("""INSERT INTO "Order" VALUES (1)""")
        own.rollback()
    assert jobs(conn) == []


def test_a_table_can_be_quiet_again(app, conn):
    conn.execute("""SELECT rota.on_change('"Order"', 'order_changed')""")
    conn.execute("""SELECT rota.off_change('"Order"', 'order_changed'), rota.off_change('"Order"', 'never')""")
    conn.execute("""INSERT INTO "Order" VALUES (1)""")
    assert jobs(conn) == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("""rota.on_change('"Order"', 'a b')""", 'event name "a b" is not allowed'),
        ("""rota.on_change('"Order"', NULL)""", "event name"),
        ("""rota.on_change('"Order"', 'a', '{}')""", "operations {} are not allowed"),
        ("""rota.on_change('"Order"', 'a', '{truncate}')""", "operations {truncate} are not allowed"),
        ("rota.emit('a', '[]')", "must be a JSON object, not array"),
        ("rota.emit('a', NULL)", "must be a JSON object, not NULL"),
    ],
)
def test_sql_is_told_what_is_wrong(app, conn, call, words):
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(f"SELECT {call}")
    assert words in str(caught.value)
    assert caught.value.sqlstate == "RT422"
