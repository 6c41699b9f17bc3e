"""The door for SQL, psql and table triggers: the same rules as from Python."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rota import Retry, Rota
from rota.model.ids import new_id
from rota.store import tasks


@pytest.fixture
def app(dsn: str, conn: psycopg.Connection[Any]) -> Rota:
    app = Rota(dsn)
    app.queue("slow")

    @app.task(queue="mail", priority=3, retry=Retry(max_attempts=7), timeout="30s")
    def send_welcome(user_id: int, lang: str = "en") -> None: ...

    tasks.sync(conn, tasks=app.tasks.values(), queues=list(app.queues))
    return app


def enqueue(conn: psycopg.Connection[Any], arguments: str, *values: Any) -> Any:
    return conn.execute(f"SELECT rota.enqueue({arguments})", values).fetchone()[0]


def job(conn: psycopg.Connection[Any], what: str) -> Any:
    return conn.execute(f"SELECT {what} FROM rota.job").fetchone()


@pytest.mark.req("Q02", "Q03")
def test_it_has_the_settings_of_the_task(app, conn):
    id = enqueue(conn, """'send_welcome', '{"user_id": 7}'""")
    wanted = (id, "mail", 3, 7, None, "queued", {"user_id": 7}, {"kind": "sql", "user": conn.info.user})
    assert job(conn, "id, queue, priority, max_attempts, timeout, state, payload, triggered_by") == wanted


@pytest.mark.req("Q03")
def test_every_option(app, conn):
    enqueue(
        conn,
        """'send_welcome', '{"user_id": 7}', queue => 'slow', priority => -1, run_at => '2030-01-01 12:00Z', key => 'k',
           max_attempts => 2, timeout => '1 hour', owner => 'ann', on_parent_failure => 'fail',
           triggered_by => '{"kind": "hook"}'""",
    )
    due = datetime(2030, 1, 1, 12, tzinfo=UTC)
    wanted = ("slow", -1, due, "delayed", "k", 2, timedelta(hours=1), "ann", "fail", {"kind": "hook"})
    columns = "queue, priority, run_at, state, key, max_attempts, timeout, owner, on_parent_failure, triggered_by"
    assert job(conn, columns) == wanted


@pytest.mark.req("Q03")
def test_what_sql_stores_the_handler_can_read(app, conn):
    enqueue(conn, "'send_welcome', %s", json.dumps({"user_id": 2**70, "lang": "é😀\\"}))
    text = job(conn, "payload::text")[0]
    assert app.tasks["send_welcome"].payload.decode(text) == {"user_id": 2**70, "lang": "é😀\\"}


@pytest.mark.req("Q03")
def test_a_key_is_the_same_from_sql_and_from_python(app, conn):
    with app:
        made = app.enqueue("send_welcome", {"user_id": 7, "lang": "de"}, key="k")
        assert enqueue(conn, """'send_welcome', '{"lang": "de",   "user_id": 7}', key => 'k'""") == made.id
        with pytest.raises(
            psycopg.Error, match=f'key "k" of task "send_welcome" belongs to job {made.id} with another payload'
        ) as caught:
            enqueue(conn, """'send_welcome', '{"user_id": 8}', key => 'k'""")
        assert caught.value.sqlstate == "RT409"
        with pytest.raises(psycopg.Error, match=f'a job with key "k" of task "send_welcome" exists: {made.id}'):
            enqueue(conn, """'send_welcome', '{"lang": "de", "user_id": 7}', key => 'k', strict => true""")
        theirs = enqueue(conn, """'send_welcome', '{"user_id": 9}', key => 'l'""")
        assert app.enqueue("send_welcome", {"user_id": 9}, key="l").id == theirs


@pytest.mark.req("Q19")
def test_parents(app, conn):
    first = enqueue(conn, """'send_welcome', '{"user_id": 1}'""")
    second = enqueue(conn, """'send_welcome', '{"user_id": 2}', parents => ARRAY[%s::uuid]""", first)
    assert conn.execute("SELECT state FROM rota.job WHERE id = %s", [second]).fetchone() == ("waiting",)
    with pytest.raises(psycopg.Error, match=r"parent job .* does not exist"):
        enqueue(conn, """'send_welcome', '{"user_id": 2}', parents => ARRAY[%s::uuid]""", new_id())


@pytest.mark.fault(11)
@pytest.mark.req("Q03")
@pytest.mark.parametrize(
    ("arguments", "state", "reason"),
    [
        ("""'send_welcom', '{}'""", "RT404", 'unknown task "send_welcom"'),
        ("""'send_welcome', '{}'""", "RT422", 'payload of "send_welcome" lacks user_id'),
        ("""'send_welcome', '{"user_id": 7, "colour": 1}'""", "RT422", 'task "send_welcome" has no parameter colour'),
        ("""'send_welcome', '[7]'""", "RT422", "must be a JSON object, not array"),
        ("""'send_welcome', NULL""", "RT422", "must be a JSON object, not NULL"),
        ("""'send_welcome', '{"user_id": 7}', queue => 'elsewhere'""", "RT404", 'unknown queue "elsewhere"'),
        ("""'send_welcome', '{"user_id": 7}', delay => '1 s', run_at => now()""", "RT422", "give run_at or delay, not both"),
        ("""'send_welcome', '{"user_id": 7, "lang": "\\u0000"}'""", "22P05", "unsupported Unicode"),
        ("""'send_welcome', '{"user_id": 7, "lang": "\\ud800"}'""", "22P02", "invalid input syntax"),
        ("""'send_welcome', '{"user_id": NaN}'""", "22P02", "invalid input syntax"),
        (
            """'send_welcome', json_build_object('user_id', repeat('x', 10000000))::jsonb""",
            "RT422",
            "more than the 1048576 allowed",
        ),
        ("""'send_welcome', '{"user_id": 7}', max_attempts => 0""", "23514", "job_max_attempts"),
        ("""'send_welcome', '{"user_id": 7}', priority => 100000""", "22003", "smallint out of range"),
        ("""'send_welcome', '{"user_id": 7}', key => ''""", "23514", "job_key_length"),
        ("""'send_welcome', '{"user_id": 7}', timeout => '0 s'""", "23514", "job_timeout"),
        ("""'send_welcome', '{"user_id": 7}', on_parent_failure => 'explode'""", "23514", "job_on_parent_failure"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_enqueued(app, conn, arguments, state, reason):
    with pytest.raises(psycopg.Error, match=reason) as caught:
        enqueue(conn, arguments.replace("%", "%%"))
    assert caught.value.sqlstate == state
    assert job(conn, "count(*)") == (0,)
    assert conn.execute("SELECT count(*) FROM rota.job_key").fetchone() == (0,)


@pytest.fixture
def users(app, conn) -> None:
    """A table of the application's own whose trigger enqueues."""
    conn.execute("CREATE TABLE users (id bigint PRIMARY KEY, lang text)")
    conn.execute(
        """CREATE FUNCTION greet() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN
               PERFORM rota.enqueue('send_welcome', jsonb_build_object('user_id', NEW.id, 'lang', NEW.lang),
                                    key => 'welcome:' || NEW.id, triggered_by => '{"kind": "hook", "name": "users"}');
               RETURN NEW;
           END $$"""
    )
    conn.execute("CREATE TRIGGER greet AFTER INSERT OR UPDATE ON users FOR EACH ROW EXECUTE FUNCTION greet()")


@pytest.mark.req("Q20")
def test_from_a_trigger(users, conn):
    conn.execute("INSERT INTO users SELECT n, 'en' FROM generate_series(1, 3) AS n")
    stored = conn.execute("SELECT payload, triggered_by FROM rota.job ORDER BY payload ->> 'user_id'").fetchall()
    assert stored == [({"user_id": n, "lang": "en"}, {"kind": "hook", "name": "users"}) for n in (1, 2, 3)]


@pytest.mark.req("Q20")
def test_from_a_trigger_that_is_rolled_back(users, conn):
    with conn.transaction(force_rollback=True):
        conn.execute("INSERT INTO users VALUES (1, 'en')")
        assert job(conn, "count(*)") == (1,)
    assert job(conn, "count(*)") == (0,)


@pytest.mark.req("Q03", "Q20")
def test_from_a_trigger_with_the_rules_of_keys(users, conn):
    conn.execute("INSERT INTO users VALUES (1, 'en')")
    conn.execute("UPDATE users SET lang = 'en'")  # the same key and payload: the first job stands
    assert job(conn, "count(*)") == (1,)
    with pytest.raises(psycopg.Error, match='key "welcome:1" of task "send_welcome" belongs to job'):
        conn.execute("UPDATE users SET lang = 'de'")
    assert conn.execute("SELECT lang FROM users").fetchone() == ("en",)
