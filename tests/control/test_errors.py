"""Error groups: what belongs together, how often, since when, and all of it retried."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.engine import Engine
from tests.support.isolated import app

from rota.control import error_groups, service
from rota.errors import NotFound, UsageError
from rota.model.filters import JobFilter
from rota.store.error_groups import SQL

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

ONE, OTHER = "1111222233334444", "1111aaaabbbbcccc"


def fail(conn: Conn, worker: UUID, task: str = "work", *, final: bool = True, **error: Any) -> UUID:
    """Enqueue a job and let its attempt fail with this error."""
    id = given.enqueue(conn, task, priority=-5)
    [(claimed, token)] = given.claim(conn, worker)
    assert claimed == id
    described = json.dumps({"type": "ValueError", "message": "boom", **error})
    conn.execute(
        "SELECT rota.finish_run(%s, %s, %s, 'failed', 0, 0, %s, NULL, '1 h', %s)", [id, token, worker, described, not final]
    )
    return id


@pytest.mark.req("C04")
class TestGroups:
    async def test_failures_with_one_fingerprint_are_one_group(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        fail(conn, worker, "mail", fingerprint=ONE, message="first")
        fail(conn, worker, "sms", fingerprint=ONE, message="second", final=False)
        fail(conn, worker, "mail", fingerprint=OTHER, type="Refused", module="shop.mail")
        last = fail(conn, worker, "sms", fingerprint=ONE, message="third")
        one, other = await error_groups.list_errors(aconn)
        assert (one.fingerprint, one.type, one.message, one.tasks, str(one.count)) == (
            ONE,
            "ValueError",
            "third",
            ["mail", "sms"],
            "3",
        )
        assert (other.fingerprint, other.type, str(other.count)) == (OTHER, "shop.mail.Refused", "1")
        assert one.first_seen < other.first_seen < one.last_seen
        detail = await error_groups.get_error(aconn, ONE)
        assert detail.group == one
        assert detail.error["message"] == "third"
        assert (detail.latest[0].job_id, detail.latest[0].attempt, len(detail.latest)) == (last, 1, 3)

    async def test_by_task_and_time(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        given.move_clock(conn, -timedelta(hours=2))
        fail(conn, worker, "mail", fingerprint=ONE)
        fail(conn, worker, "mail", fingerprint=OTHER)
        given.move_clock(conn, timedelta(0))
        fail(conn, worker, "sms", fingerprint=OTHER)
        fail(conn, worker, "mail", fingerprint=OTHER)

        async def listed(**options: Any) -> list[tuple[str, int]]:
            return [(group.fingerprint, group.count.count) for group in await error_groups.list_errors(aconn, **options)]

        assert await listed() == [(OTHER, 3), (ONE, 1)]
        assert await listed(since=timedelta(hours=1)) == [(OTHER, 2)]
        assert await listed(task="mail") == [(OTHER, 2), (ONE, 1)]
        assert await listed(task="s*") == [(OTHER, 1)]
        assert await listed(task="mail", since=timedelta(hours=1)) == [(OTHER, 1)]
        assert await listed(limit=1) == [(OTHER, 3)]
        assert await listed(task="none") == []
        with pytest.raises(UsageError, match="limit=0 is out of range"):
            await listed(limit=0)

    async def test_errors_made_in_sql_have_a_group_too(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", "child")
        worker = given.start_worker(conn)
        for _ in range(2):
            parent = given.enqueue(conn)
            given.enqueue(conn, "child", parents=[parent], on_parent_failure="fail")
            given.claim(conn, worker)
            sql = "UPDATE rota.job SET lease_until = rota.now() - interval '1 s', max_attempts = 1, culprit = true WHERE id = %s"
            conn.execute(sql, [parent])
            conn.execute("SELECT rota.rescue_runs('{}')")
        groups = await error_groups.list_errors(aconn)
        assert sorted((group.type, group.tasks, group.count.count) for group in groups) == [
            ("ParentFailed", ["child"], 2),
            ("WorkerCrashed", ["work"], 2),
        ]

    @pytest.mark.parametrize(
        ("one", "other", "alike"),
        [
            ("Job exceeded timeout of 30s", "Job exceeded timeout of 1.5s", True),
            ("no user 7", "no user 12345", True),
            (
                "order 01a1e0ca-1f89-71c6-942e-1dff482eb9a6 at 0x7f36285d39d0",
                "order 0b1e0ca0-1f89-71c6-942e-1dff482eb9a6 at 0x1",
                True,
            ),
            ("no user", "no group", False),
        ],
    )
    async def test_without_frames_the_task_and_the_words_decide(
        self, conn: Conn, aconn: AConn, one: str, other: str, alike: bool
    ) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        fail(conn, worker, "mail", message=one)
        fail(conn, worker, "mail", message=other)
        assert len(await error_groups.list_errors(aconn)) == (1 if alike else 2)
        fail(conn, worker, "sms", message=one)
        assert len(await error_groups.list_errors(aconn)) == (2 if alike else 3)

    async def test_what_did_not_fail_has_none(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        for outcome in ("completed", "canceled", "snoozed", "released"):
            given.enqueue(conn, priority=-5)
            [(id, token)] = given.claim(conn, worker)
            given.finish(conn, id, token, worker, outcome, error="nothing to see", delay=timedelta(hours=1))
        assert await error_groups.list_errors(aconn) == []
        assert conn.execute("SELECT count(*) FROM rota.run WHERE fingerprint IS NOT NULL").fetchone() == (0,)

    @pytest.mark.req("C11")
    async def test_rotas_own_are_hidden_unless_asked_for(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "rota.tick")
        fail(conn, given.start_worker(conn), "rota.tick", fingerprint=ONE)
        assert await error_groups.list_errors(aconn) == []
        assert len(await error_groups.list_errors(aconn, task="rota.tick")) == 1
        assert (await error_groups.get_error(aconn, ONE)).group.tasks == ["rota.tick"]

    async def test_a_beginning_will_do(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        for fingerprint in (ONE, ONE, OTHER):
            fail(conn, worker, fingerprint=fingerprint)
        assert (await error_groups.get_error(aconn, "11112")).group.fingerprint == ONE
        with pytest.raises(UsageError, match=f"begins several: {ONE}, {OTHER}; give more digits"):
            await error_groups.get_error(aconn, "1111")
        with pytest.raises(NotFound, match="there is no error 2222"):
            await error_groups.get_error(aconn, "2222")
        for nonsense in ("", "abc", "xyz1", "1' OR", "a" * 17):
            with pytest.raises(UsageError, match="is not one: 4 to 16"):
                await error_groups.get_error(aconn, nonsense)


@pytest.mark.req("Q18")
class TestRetry:
    async def test_a_whole_group_is_retried_and_nothing_else(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        dead = [fail(conn, worker, task, fingerprint=ONE) for task in ("mail", "mail", "sms")]
        other = fail(conn, worker, "mail", fingerprint=OTHER)
        waiting = fail(conn, worker, "mail", fingerprint=ONE, final=False)
        filter = error_groups.failed_jobs(ONE)
        assert str(await service.count_jobs(aconn, filter)) == "3"
        assert str(await service.count_jobs(aconn, error_groups.failed_jobs(ONE, task="sms"))) == "1"
        assert await service.retry_jobs(aconn, filter) == service.Bulk(3, 0)
        assert {job.id for job in (await service.list_jobs(aconn, JobFilter(states=["queued"]))).jobs} == {*dead, waiting}
        assert [job.id for job in (await service.list_dead_letters(aconn)).jobs] == [other]
        # The history stays: it has failed so.
        assert str((await error_groups.get_error(aconn, ONE)).group.count) == "4"
        assert await service.retry_jobs(aconn, filter) == service.Bulk(0, 0)

    async def test_live_jobs_are_found_by_their_last_error(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "mail")
        worker = given.start_worker(conn)
        id = fail(conn, worker, "mail", fingerprint=ONE, final=False)
        fail(conn, worker, "mail", fingerprint=OTHER, final=False)
        assert await given.list_ids(aconn, fingerprint=ONE) == [id]
        plain = fail(conn, worker, "mail", final=False)
        row = conn.execute("SELECT fingerprint FROM rota.run WHERE job_id = %s", [plain]).fetchone()
        assert row is not None
        assert await given.list_ids(aconn, fingerprint=row[0]) == [plain]


@pytest.mark.req("C04")
async def test_one_error_is_one_group_wherever_its_handler_runs(dsn: str, conn: Conn, aconn: AConn) -> None:
    """In the worker's threads, and in a process of its own."""
    engine = Engine(dsn, conn)
    isolated = app.tasks["fail"]
    engine.tasks.update({"fail": isolated, "beside": replace(isolated, name="beside", isolate=False)})
    async with engine.worker():
        ids = [engine.enqueue(task, {"how": "value"}, max_attempts=1) for task in ("fail", "beside", "beside")]
        await engine.ended(*ids, state="failed")
    [group] = await error_groups.list_errors(aconn)
    assert (group.tasks, str(group.count), group.type) == (["beside", "fail"], "3", "ValueError")


def test_groups_are_read_from_the_index_alone(conn: Conn) -> None:
    """Many failures of few kinds: from each kind to the next, not from each failure to the next."""
    conn.execute(
        """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, error, fingerprint, created_at)
           SELECT rota.uuid7(), 1, 'task ' || n %% 3, 'default', 'failed', true, now() - n * interval '1 s', '{}',
                  '{"type": "Boom", "message": "x"}', lpad(to_hex(n %% 7), 16, '0'), now()
           FROM generate_series(1, 20000) n""".replace("%%", "%").encode()
    )
    conn.execute("VACUUM (ANALYZE) rota.run")
    for setting in ("enable_seqscan = off", "enable_bitmapscan = off", "jit = off"):
        conn.execute(f"SET {setting}")
    statement = SQL["error_groups_read"].format(which="true", match="true", since="now() - interval '10 minutes'")
    statement = statement.replace("%(limit)s", "2000").replace("%(cap)s", "100")
    assert len(conn.execute(statement.encode()).fetchall()) == 21
    row = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert "Seq Scan" not in json.dumps(plan)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 3000  # 20,000 failures are 600 pages of the table
