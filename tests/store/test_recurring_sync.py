"""A recurring row is switched by a condition in the caller's transaction; two who look at once do not both look too early."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.callers import CALLERS, Caller, psycopg_sync
from tests.support.recurring import Rows
from tests.support.wait import PATIENCE_S, wait_until

from rota import Rota

pytestmark = pytest.mark.req("R06")

WANTED = "EXISTS (SELECT FROM subscription WHERE feed_id = %(feed_id)s)"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def feed(dsn: str, conn: psycopg.Connection[Any]) -> Iterator[Any]:
    conn.execute("CREATE TABLE subscription (feed_id int, person text)")
    conn.execute("CREATE TABLE note (text text)")
    with Rota(dsn) as app:

        @app.recurring(key="feed:{feed_id}")
        def fetch(feed_id: int, url: str = "") -> None: ...

        fetch.ensure(7)
        yield fetch


def leave(caller: Caller, feed: Any, person: str) -> None:
    caller.write(f"DELETE FROM subscription WHERE person = '{person}'")
    caller.call(feed, "sync_enabled", WANTED, 7)


def join(caller: Caller, feed: Any, person: str) -> None:
    caller.write(f"INSERT INTO subscription VALUES (7, '{person}')")
    caller.call(feed, "sync_enabled", WANTED, 7)


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize("order", ["it comes first", "it comes second"])
@pytest.mark.parametrize("steps", ["both leave", "one joins as the last leaves", "the last leaves as one joins"])
def test_two_at_once(dsn: str, feed: Any, conn: psycopg.Connection[Any], kind: str, order: str, steps: str) -> None:
    people = ["ann", "bob"] if steps == "both leave" else ["bob" if steps.startswith("one") else "ann"]
    for person in people:
        conn.execute("INSERT INTO subscription VALUES (7, %s)", [person])
    deeds = {"ann": leave if "ann" in people else join, "bob": leave if "bob" in people else join}
    kinds = [CALLERS[kind], psycopg_sync] if order == "it comes first" else [psycopg_sync, CALLERS[kind]]
    errors: list[BaseException] = []
    first_is_done, may_commit = threading.Event(), threading.Event()

    def come(place: int, person: str) -> None:
        try:
            with kinds[place](dsn) as caller:
                if place == 1:
                    assert first_is_done.wait(PATIENCE_S)
                deeds[person](caller, feed, person)
                first_is_done.set()
                if place == 0:
                    assert may_commit.wait(PATIENCE_S)
                caller.commit()
        except BaseException as error:
            errors.append(error)
            first_is_done.set()

    threads = [threading.Thread(target=come, args=[place, person]) for place, person in enumerate(("ann", "bob"))]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: errors or conn.execute(WAITING).fetchone() == (1,), what="the second waits for the first")
    finally:
        may_commit.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    row = conn.execute(f"SELECT enabled, {WANTED} FROM rota.schedule", {"feed_id": 7}).fetchone()
    assert row == ((False, False) if steps == "both leave" else (True, True))


@pytest.mark.parametrize("kind", CALLERS)
def test_in_the_callers_transaction(dsn: str, feed: Any, conn: psycopg.Connection[Any], kind: str) -> None:
    def enabled() -> bool:
        return bool(Rows(conn).row("feed:7").enabled)

    with CALLERS[kind](dsn) as caller:
        caller.write()
        assert not caller.call(feed, "sync_enabled", WANTED, 7).enabled
        assert enabled()
        caller.rollback()
    assert enabled()
    with CALLERS[kind](dsn) as caller:
        join(caller, feed, "ann")
        caller.call(feed, "disable", 7)
        assert caller.call(feed, "enable", 7).enabled
        made = caller.call(feed, "ensure", 8)
        assert made.created
        assert [each.created for each in caller.call(feed, "ensure_many", [{"feed_id": 9}, {"feed_id": 8}])] == [True, False]
        assert Rows(conn).row("feed:8") is None
        caller.commit()
    assert enabled()
    assert Rows(conn).row("feed:9").enabled


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "sqlalchemy session, psycopg", "django alias"])
def test_arguments_are_text_too(dsn: str, feed: Any, conn: psycopg.Connection[Any], kind: str) -> None:
    conn.execute("INSERT INTO note VALUES ('it''s \\ \"x\" $1 :a')")
    with CALLERS[kind](dsn) as caller:
        caller.call(feed, "ensure", 7, 'it\'s \\ "x" $1 :a')
        found = "EXISTS (SELECT FROM note WHERE text = %(url)s) AND %(feed_id)s::int = 7"
        assert caller.call(feed, "sync_enabled", found, 7, 'it\'s \\ "x" $1 :a').enabled
        caller.rollback()
