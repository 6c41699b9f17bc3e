"""Edit and retry: a job runs again with another payload, and what it was stays on record."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import jobs as made
from tests.support.wait import PATIENCE_S

from rota import Rota
from rota.control import service
from rota.control.edit import by_code, edit_job
from rota.errors import Conflict, InvalidTransition, NotFound, PayloadError, UnknownTask, UsageError
from rota.model.ids import new_id
from rota.store import tasks

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

BY = {"kind": "manual", "user": "ann"}
SCHEMA = {"properties": {"user_id": {}, "lang": {}}, "required": ["user_id"], "additionalProperties": False}


@pytest.fixture
def worker(conn: Conn) -> UUID:
    """A worker that does what the test says, and a task `work` that needs a user_id."""
    made.declare(conn, "work")
    conn.execute("UPDATE rota.task SET payload_schema = %s", [json.dumps(SCHEMA)])
    return made.start_worker(conn)


def payload_of(conn: Conn, id: UUID) -> str:
    row = conn.execute("SELECT payload::text FROM rota.jobs WHERE id = %s", [id]).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


@pytest.mark.req("C03", "Q10")
class TestEdit:
    async def test_a_failed_job_runs_again_with_another_payload(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1, "lang": "en"}, key="k", priority=5)
        assert made.fail(conn, worker) == id
        before = (await service.get_job(aconn, id)).job

        assert (await edit_job(aconn, id, {"user_id": 2}, editor=BY)).state == "queued"
        detail = await service.get_job(aconn, id)
        assert (detail.job.payload, detail.job.key, detail.job.priority) == ({"user_id": 2}, "k", 5)
        assert (detail.job.created_at, detail.job.attempt) == (before.created_at, 1)
        assert [run.outcome for run in detail.runs] == ["failed"]
        [edit] = detail.edits
        assert (edit.attempt, edit.payload, edit.edited_by) == (1, {"user_id": 1, "lang": "en"}, BY)
        assert edit.edited_at >= before.finished_at  # type: ignore[operator]

        [(claimed, token)] = made.claim(conn, worker)
        assert claimed == id
        made.finish(conn, id, token, worker, "completed")
        detail = await service.get_job(aconn, id)
        assert (detail.job.state, detail.job.payload, len(detail.edits)) == ("completed", {"user_id": 2}, 1)
        assert conn.execute("SELECT attempt, payload FROM rota.run WHERE job_id = %s ORDER BY attempt", [id]).fetchall() == [
            (1, {"user_id": 1, "lang": "en"}), (2, {"user_id": 2}),
        ]  # fmt: skip

    async def test_a_canceled_one(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        await service.cancel_job(aconn, id)
        assert (await edit_job(aconn, id, changes={"lang": "de"}, editor=BY)).state == "queued"
        assert json.loads(payload_of(conn, id)) == {"user_id": 1, "lang": "de"}

    async def test_one_that_waits_for_its_next_attempt_runs_at_once(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        [(_, token)] = made.claim(conn, worker)
        assert made.finish(conn, id, token, worker, "failed", error="boom", delay=timedelta(hours=1)) == "queued"
        assert made.claim(conn, worker) == []
        await edit_job(aconn, id, {"user_id": 2}, editor=BY)
        assert [claimed for claimed, _ in made.claim(conn, worker)] == [id]
        assert [(edit.attempt, edit.payload) for edit in (await service.get_job(aconn, id)).edits] == [(1, {"user_id": 1})]

    async def test_what_is_not_changed_stays_as_it_was_written(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        conn.execute("UPDATE rota.task SET payload_schema = '{}'")
        exact = '{"z": 1.10, "a": 12345678901234567890123, "big": 1e400, "user_id": 1}'
        id = made.enqueue(conn)
        conn.execute("UPDATE rota.job SET payload = %s WHERE id = %s", [exact, id])
        await edit_job(aconn, id, changes={"user_id": 2, "new": None}, editor=BY)
        assert payload_of(conn, id).replace(" ", "") == '{"z":1.10,"a":12345678901234567890123,"big":1e400,"user_id":2,"new":null}'

    async def test_the_key_stays_that_of_what_was_asked_for(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1}, key="k")
        await edit_job(aconn, id, {"user_id": 2}, editor=BY)
        assert made.enqueue(conn, payload={"user_id": 1}, key="k") == id

    @pytest.mark.req("S09")
    async def test_a_job_that_has_another_key_lines_up_again(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        """Limits go by the payload: the place that it had under the old key is given to the next."""
        async with Rota(dsn) as app:

            @app.task(concurrency_key="{customer}", key_concurrency=1)
            def bill(customer: str) -> None: ...

            tasks.sync(conn, tasks=app.tasks.values(), queues=["default"])
            first, second, other = [(await app.aenqueue("bill", {"customer": name})).id for name in ("a", "a", "b")]
        worker = made.start_worker(conn)
        conn.execute("SELECT rota.admit_held()")
        ready = "SELECT id FROM rota.job WHERE state = 'queued' ORDER BY id"
        assert conn.execute(ready).fetchall() == [(first,), (other,)]
        assert [id for id, _ in made.claim(conn, worker, limit=5)] == [first, other]
        await edit_job(aconn, second, changes={"customer": "c"}, editor=BY)
        conn.execute("SELECT rota.admit_held()")
        assert conn.execute(ready).fetchall() == [(second,)]
        await edit_job(aconn, second, changes={"customer": "b"}, editor=BY)
        conn.execute("SELECT rota.admit_held()")
        assert conn.execute(ready).fetchall() == [], "there is one of b already"

    async def test_from_sql(self, conn: Conn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        assert conn.execute("""SELECT rota.edit_job(%s, '{"user_id": 3}')""", [id]).fetchone() == ("queued",)
        by = conn.execute("SELECT edited_by ->> 'kind', (edited_by ->> 'user') = session_user FROM rota.job_edit").fetchone()
        assert by == ("sql", True)

    async def test_by_the_tasks_own_code(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        app = Rota(dsn)

        @app.task
        def greet(user_id: int, lang: str = "en") -> None: ...

        tasks.sync(conn, tasks=app.tasks.values(), queues=["default"])
        id = made.enqueue(conn, "greet", payload={"user_id": 1})
        with pytest.raises(PayloadError, match="user_id='x' does not fit"):
            await edit_job(aconn, id, changes={"user_id": "x"}, editor=BY, validate=by_code(app.tasks))
        await edit_job(aconn, id, changes={"user_id": "7"}, editor=BY, validate=by_code(app.tasks))
        assert json.loads(payload_of(conn, id)) == {"user_id": 7}


@pytest.mark.req("C03")
class TestRefused:
    async def test_a_running_job_keeps_the_payload_it_was_claimed_with(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        made.claim(conn, worker)
        with pytest.raises(InvalidTransition, match="is running"):
            await edit_job(aconn, id, {"user_id": 2}, editor=BY)
        assert json.loads(payload_of(conn, id)) == {"user_id": 1}
        assert conn.execute("SELECT count(*) FROM rota.job_edit").fetchone() == (0,)

    async def test_a_claim_that_comes_first_wins(self, conn: Conn, aconn: AConn, worker: UUID, dsn: str) -> None:
        """The claim has the row and commits while the edit waits for it: the edit then finds it running."""
        id = made.enqueue(conn, payload={"user_id": 1})
        with psycopg.connect(dsn) as claimer:
            made.claim(claimer, worker)
            commit = threading.Timer(0.1, claimer.commit)
            commit.start()
            with pytest.raises(InvalidTransition, match="is running"):
                await edit_job(aconn, id, {"user_id": 2}, editor=BY)
            commit.join()
        assert json.loads(payload_of(conn, id)) == {"user_id": 1}

    async def test_a_completed_one(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        [(_, token)] = made.claim(conn, worker)
        made.finish(conn, id, token, worker, "completed")
        with pytest.raises(InvalidTransition, match="is completed"):
            await edit_job(aconn, id, {"user_id": 2}, editor=BY)

    async def test_one_that_waits_for_its_parents(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        parent = made.enqueue(conn, payload={"user_id": 1})
        id = made.enqueue(conn, payload={"user_id": 1}, parents=[parent])
        with pytest.raises(InvalidTransition, match="waiting for its parents"):
            await edit_job(aconn, id, {"user_id": 2}, editor=BY)
        assert json.loads(payload_of(conn, id)) == {"user_id": 1}

    async def test_one_that_is_not_there(self, aconn: AConn, worker: UUID) -> None:
        with pytest.raises(NotFound, match="there is no job"):
            await edit_job(aconn, new_id(), {"user_id": 2}, editor=BY)

    @pytest.mark.parametrize(
        ("payload", "words"),
        [
            ({"lang": "de"}, 'payload of "work" lacks user_id'),
            ({"user_id": 1, "usr": 2}, 'task "work" has no parameter usr'),
            ({"user_id": "\0"}, "NUL"),
            ({"user_id": "\ud800"}, "cannot be written"),
            ({"user_id": float("nan")}, "cannot be written"),
            ({"user_id": "x" * 1_100_000}, "more than the 1048576 allowed"),
        ],
    )
    async def test_what_the_task_could_not_take(
        self, conn: Conn, aconn: AConn, worker: UUID, payload: dict[str, Any], words: str
    ) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        made.fail(conn, worker)
        with pytest.raises(PayloadError, match=words):
            await edit_job(aconn, id, payload, editor=BY)
        assert (await service.get_job(aconn, id)).job.state == "failed"
        assert conn.execute("SELECT count(*) FROM rota.job_edit").fetchone() == (0,)

    @pytest.mark.req("O01")
    @pytest.mark.parametrize("hidden", ["canary", {"authorization": "canary"}, ["canary"]])
    async def test_a_secret_that_nobody_has_encrypted(self, conn: Conn, aconn: AConn, worker: UUID, hidden: Any) -> None:
        secret = {"type": "string", "x-rota-secret": True}
        schema = {"properties": {"name": {}, "hidden": {"anyOf": [secret, {"additionalProperties": secret}, {"items": secret}]}}}
        conn.execute("UPDATE rota.task SET payload_schema = %s", [json.dumps(schema)])
        id = made.enqueue(conn, payload={"name": "plain", "hidden": None})
        with pytest.raises(PayloadError, match="a secret that is not encrypted: hidden"):
            await edit_job(aconn, id, changes={"hidden": hidden}, editor=BY)
        with pytest.raises(psycopg.DatabaseError, match="a secret that is not encrypted"):
            made.enqueue(conn, payload={"hidden": hidden})
        nested = {
            "$defs": {"Inner": schema},
            "properties": {"inner": {"$ref": "#/$defs/Inner"}, "all": {"items": {"$ref": "#/$defs/Inner"}}},
        }
        for value in ({"inner": {"hidden": hidden}}, {"all": [{"hidden": None}, {"hidden": hidden}]}):
            conn.execute("UPDATE rota.task SET payload_schema = %s", [json.dumps(nested)])
            with pytest.raises(psycopg.DatabaseError, match="a secret that is not encrypted"):
                conn.execute("SELECT rota.enqueue('work', %s)", [json.dumps(value)])
        conn.execute("SELECT rota.enqueue('work', %s)", [json.dumps({"inner": {"name": "plain", "hidden": None}})])
        conn.execute("UPDATE rota.task SET payload_schema = %s", [json.dumps(schema)])
        stored = json.loads(json.dumps(hidden).replace("canary", "rota-secret:12345678:job:x"))
        await edit_job(aconn, id, changes={"hidden": stored}, editor=BY)
        assert "canary" not in str(conn.execute("SELECT j, e FROM rota.job j, rota.job_edit e").fetchall())

    async def test_a_task_that_nobody_knows(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        conn.execute("DELETE FROM rota.task")
        with pytest.raises(UnknownTask, match='unknown task "work"'):
            await edit_job(aconn, id, {"user_id": 2}, editor=BY)

    @pytest.mark.parametrize("given", [{}, {"payload": {}, "changes": {}}])
    async def test_neither_or_both(self, aconn: AConn, given: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match="say what the payload shall be"):
            await edit_job(aconn, new_id(), **given, editor=BY)

    async def test_changes_to_what_somebody_else_has_changed(self, conn: Conn, aconn: AConn, worker: UUID) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        old = payload_of(conn, id)
        await edit_job(aconn, id, {"user_id": 2}, editor=BY)
        with pytest.raises(psycopg.DatabaseError, match="another one by now") as refused:
            conn.execute("SELECT rota.edit_job(%s, '{\"user_id\": 3}', NULL, %s)", [id, old])
        assert refused.value.sqlstate == "RT409"
        assert json.loads(payload_of(conn, id)) == {"user_id": 2}

    async def test_the_job_of_a_recurring_row(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        with Rota(dsn) as app:

            @app.recurring(key="feed:{feed_id}")
            def fetch(feed_id: str) -> None: ...

            tasks.sync(conn, tasks=app.tasks.values(), queues=["default"])
        conn.execute(
            """WITH s AS (INSERT INTO rota.schedule (task, key, payload, strategy, every)
                          VALUES ('fetch', 'feed:1', '{"feed_id": "1"}', 'recurring', '1 h') RETURNING id),
                    j AS (INSERT INTO rota.job (id, task, payload, schedule_id)
                          SELECT rota.uuid7(), 'fetch', '{"feed_id": "1"}', id FROM s RETURNING id)
               SELECT id FROM j"""
        )
        row = conn.execute("SELECT id FROM rota.job").fetchone()
        assert row is not None
        with pytest.raises(InvalidTransition, match="recurring row"):
            await edit_job(aconn, row[0], {"feed_id": "2"}, editor=BY)

    async def test_a_locked_job(self, conn: Conn, aconn: AConn, worker: UUID, dsn: str) -> None:
        id = made.enqueue(conn, payload={"user_id": 1})
        await aconn.execute("SET lock_timeout = '50ms'")
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [id])
            with pytest.raises(Conflict, match="locked by another transaction"):
                await edit_job(aconn, id, {"user_id": 2}, editor=BY)


@pytest.mark.req("C03")
def test_two_editors_at_once_leave_a_whole_trail(conn: Conn, worker: UUID, dsn: str) -> None:
    """Whoever comes second replaces what the first has written, and the record has both steps."""
    id = made.enqueue(conn, payload={"user_id": 0})
    made.fail(conn, worker)

    def edit(user: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as own:
            own.execute("SELECT rota.edit_job(%s, %s)", [id, json.dumps({"user_id": user})])

    threads = [threading.Thread(target=edit, args=[user]) for user in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trail = [row[0]["user_id"] for row in conn.execute("SELECT payload FROM rota.job_edit ORDER BY id").fetchall()]
    assert sorted([*trail, json.loads(payload_of(conn, id))["user_id"]]) == list(range(9))
    assert trail[0] == 0
    assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)


@pytest.mark.req("C03", "Q06")
def test_no_edit_reaches_a_job_that_runs(conn: Conn, dsn: str) -> None:
    """Editors and workers fight over one job: from its claim to its end the payload is the one that was claimed."""
    made.declare(conn, "work", max_attempts=1000)
    workers = [made.start_worker(conn) for _ in range(2)]
    id = made.enqueue(conn, payload={"n": 0})
    ended: list[int] = []
    torn: list[Any] = []

    def work(worker: UUID) -> None:
        with psycopg.connect(dsn, autocommit=True) as own:
            while len(ended) < 150:
                for _, token in made.claim(own, worker):
                    claimed = payload_of(own, id)
                    if (seen := {payload_of(own, id) for _ in range(3)}) != {claimed}:
                        torn.append((claimed, seen))
                    assert made.finish(own, id, token, worker, "failed", error="x") == "queued"
                    ended.append(token)

    def edit(editor: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as own:
            n = editor
            while len(ended) < 150:
                n += 10
                own.execute("SELECT rota.edit_job(%s, %s)", [id, json.dumps({"n": n})])

    threads = [threading.Thread(target=work, args=[worker]) for worker in workers]
    threads += [threading.Thread(target=edit, args=[editor]) for editor in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(ended) >= 150
    assert torn == []
    row = conn.execute("SELECT count(*), count(DISTINCT payload::text) FROM rota.job_edit").fetchone()
    assert row is not None
    assert row[0] == row[1] > 10, "each edit is on record, with what it has replaced"


@pytest.mark.req("C03")
def test_edits_are_forgotten_with_their_jobs(conn: Conn, worker: UUID) -> None:
    kept, gone = (made.enqueue(conn, payload={"user_id": 1}) for _ in range(2))
    for id in (kept, gone):
        conn.execute("""SELECT rota.edit_job(%s, '{"user_id": 2}')""", [id])
    conn.execute("DELETE FROM rota.job WHERE id = %s", [gone])
    assert conn.execute("SELECT rota.forget_edits()").fetchone() == (1,)
    assert conn.execute("SELECT job_id FROM rota.job_edit").fetchall() == [(kept,)]


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("C03")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.dictionaries(names, json_values, max_size=4), changes=st.dictionaries(names, json_values, max_size=4))
def test_changes_are_merged_by_member(conn: Conn, dsn: str, before: dict[str, Any], changes: dict[str, Any]) -> None:
    conn.execute("INSERT INTO rota.queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
    conn.execute(
        "INSERT INTO rota.task (name, queue, priority, max_attempts, payload_schema) VALUES ('any', 'default', 0, 4, '{}') "
        "ON CONFLICT DO NOTHING"
    )
    id = new_id()
    conn.execute("INSERT INTO rota.job (id, task, payload) VALUES (%s, 'any', %s)", [id, json.dumps(before)])

    async def edit() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as aconn:
            await edit_job(aconn, id, changes=changes, editor=BY)

    asyncio.run(edit())
    assert json.loads(payload_of(conn, id)) == {**before, **changes}
    assert list(json.loads(payload_of(conn, id))) == [*(name for name in before if name not in changes), *changes]
