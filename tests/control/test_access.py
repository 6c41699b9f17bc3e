"""Who may do what: the policy by roles, and the rights of roles of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any, get_args

import psycopg
import pytest
from psycopg import sql
from tests.support import jobs as given

from rota import Rota, every
from rota.control import alerts, audit, queue_limits, schedules, service, tasks
from rota.control.access import DEFAULT, Access, Actor, Role, check
from rota.control.edit import edit_job
from rota.control.enqueue import enqueue
from rota.db import grants
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.steps import atomically, carry_out_async
from rota.errors import Forbidden, NotFound, UsageError
from rota.model.filters import JobFilter
from rota.model.ids import new_id

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

HISTORY = ("rota.run", "rota.log")  # what the system alone writes


def allowed(policy: Any, role: Role) -> set[str]:
    return {operation for operation in DEFAULT if _may(policy, role, operation)}


def _may(policy: Any, role: Role, operation: str) -> bool:
    return _allows(Actor("ann", role), operation, policy)


def _allows(actor: Actor, operation: str, policy: Any = None) -> bool:
    try:
        check(policy or Access(), actor, operation)
    except Forbidden:
        return False
    return True


@pytest.mark.req("C10")
class TestPolicy:
    def test_tasks_runs_and_logs_are_for_admins(self) -> None:
        for noun in ("tasks", "runs", "logs"):
            for operation in (each for each in DEFAULT if each.startswith(noun)):
                assert not any(_may(Access(), role, operation) for role in ("operator", "read_only"))
                assert _may(Access(), "admin", operation) is not operation.endswith(".write")

    def test_runs_and_logs_are_written_by_the_system_only(self) -> None:
        class Anything:
            def allows(self, actor: Actor, operation: str) -> bool:
                return True

        for operation in ("runs.write", "logs.write"):
            assert [role for role in get_args(Role) if _may(Access(), role, operation)] == ["system"]
            assert [role for role in get_args(Role) if _may(Anything(), role, operation)] == ["system"]
            with pytest.raises(UsageError, match="only the system writes"):
                Access({operation: ["admin"]})

    def test_who_may_do_more_may_do_what_others_may(self) -> None:
        levels = [allowed(Access(), role) for role in ("user", "read_only", "operator", "admin", "system")]
        assert all(less < more for less, more in pairwise(levels))
        assert levels[0] == set()
        assert levels[1] == {"jobs.read", "queues.read", "schedules.read", "workers.read", "alerts.read", "metrics.read"}
        assert levels[-1] == set(DEFAULT)

    def test_the_application_decides_otherwise(self) -> None:
        policy = Access({"runs.read": ["admin", "operator"], "jobs.change": ["admin"]})
        assert allowed(policy, "operator") == (allowed(Access(), "operator") | {"runs.read"}) - {"jobs.change"}
        assert not _may(policy, "read_only", "runs.read")

    def test_it_says_who_what_and_why(self) -> None:
        with pytest.raises(Forbidden, match=r"ann, who is read_only, may not do jobs\.change: ask an admin") as refused:
            check(Access(), Actor("ann", "read_only"), "jobs.change")
        assert (refused.value.exit_code, refused.value.http_status, refused.value.code) == (5, 403, "forbidden")

    def test_a_token_does_no_more_than_its_scopes_and_no_more_than_its_role(self) -> None:
        scopes = frozenset({"jobs.read", "users.change"})
        for role, may in (("admin", {"jobs.read", "users.change"}), ("operator", {"jobs.read"}), ("user", set())):
            actor = Actor("ann", role, scopes=scopes)
            assert {each for each in DEFAULT if _allows(actor, each)} == may
        assert not _allows(Actor("ann", "admin", scopes=frozenset()), "jobs.read")

    def test_what_nobody_has_heard_of_nobody_may(self) -> None:
        assert [role for role in get_args(Role) if _may(Access(), role, "moon.read")] == ["system"]

    @pytest.mark.parametrize("grants", [{"moon.read": ["admin"]}, {"runs.read": ["king"]}, {"runs.read": "admin"}])
    def test_bad_grants(self, grants: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match=r"not an operation|not roles"):
            Access(grants)

    @pytest.mark.parametrize(
        ("name", "role"), [("", "admin"), ("a\0", "admin"), ("x" * 255, "admin"), (7, "admin"), ("ann", "king")]
    )
    def test_bad_actors(self, name: Any, role: Any) -> None:
        with pytest.raises(UsageError, match=r"name|role"):
            Actor(name, role)


@pytest.fixture
def role(conn: Conn) -> Iterator[str]:
    """A role of the server that has no rights yet."""
    name = f"Rota {new_id()}"
    conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    yield name
    conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
async def as_role(dsn: str, role: str) -> AsyncIterator[AConn]:
    """A connection of that role."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as own:
        await own.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
        yield own


async def refused(conn: AConn, statement: str) -> bool:
    try:
        await conn.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False


@pytest.mark.req("C10")
class TestRolesOfTheDatabase:
    async def test_without_a_grant_nothing(self, conn: Conn, as_role: AConn) -> None:
        assert await refused(as_role, "SELECT FROM rota.job")

    async def test_a_reader_looks_and_changes_nothing(self, conn: Conn, as_role: AConn, role: str) -> None:
        given.declare(conn, "work")
        id = given.enqueue(conn)
        grants.grant(conn, role, "read")
        assert (await service.list_jobs(as_role)).jobs[0].id == id
        assert (await service.get_job(as_role, id)).job.state == "queued"
        assert [queue.name for queue in await service.list_queues(as_role)] == ["default"]
        for change in (
            service.retry_job(as_role, id), service.cancel_job(as_role, id), service.pause_queue(as_role, "default"),
            edit_job(as_role, id, {}, editor={"user": "x"}), enqueue(as_role, "work", {}),
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await change
        assert conn.execute("SELECT state FROM rota.job").fetchall() == [("queued",)]

    async def test_an_operator_operates(self, conn: Conn, as_role: AConn, role: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        grants.grant(conn, role, "operate")
        id, created = await enqueue(as_role, "work", {"n": 1}, key="k")
        assert created
        child, _ = await enqueue(as_role, "work", {}, parents=[id])
        assert (await service.cancel_job(as_role, id, reason="a mistake")).state == "canceled"
        assert (await service.get_job(as_role, child)).job.state == "canceled"
        assert (await service.retry_job(as_role, id)).state == "queued"
        assert (await edit_job(as_role, id, changes={"n": 2}, editor={"user": "x"})).state == "queued"
        await service.pause_queue(as_role, "default", reason="mail is down")
        await service.resume_queue(as_role, "default")
        given.fail(conn, worker)
        assert (await service.retry_jobs(as_role, JobFilter(task="work"))).changed == 1
        assert (await service.cancel_jobs(as_role, JobFilter(task="work"))).changed == 1

    async def test_an_operator_changes_schedules_limits_and_alerts(self, conn: Conn, as_role: AConn, role: str, dsn: str) -> None:
        async with Rota(dsn) as app:

            @app.task(schedule=every("1h"))
            def work(n: int = 0) -> None: ...

            await app.control.sync_definitions()
        conn.execute(
            """INSERT INTO rota.alert (kind, subject, fingerprint, severity, summary, details, count, first_seen_at, last_seen_at)
               VALUES ('job_failed', 'work', '', 'warning', 'x', '{}', 1, rota.now(), rota.now())"""
        )
        given.enqueue(conn)
        grants.grant(conn, role, "operate")

        def steps(made: Any) -> Any:
            return carry_out_async(AsyncPsycopgCarrier(as_role), atomically(made, autocommits=True))

        await tasks.trigger(as_role, "work", {"n": 1}, user="ole")
        await queue_limits.limit_queue(as_role, "default", max_concurrency=3, rate="5/s")
        await queue_limits.unlimit_queue(as_role, "default")
        for enabled in (False, True):
            await steps(schedules.set_enabled("work", enabled))
        await steps(schedules.delete("work"))
        assert conn.execute("SELECT count(*) FROM rota.task WHERE schedule_deleted_at IS NOT NULL").fetchone() == (1,)
        [alert] = await alerts.list_alerts(as_role)
        assert (await alerts.acknowledge(as_role, alert.id, by="ole")).state == "acknowledged"

    async def test_an_operator_does_not_decide_what_runs(self, conn: Conn, as_role: AConn, role: str) -> None:
        """No task, no schedule, no job of another task or owner, and above all no HTTP call."""
        for task in ("work", "http_call", "rota.tick"):
            given.declare(conn, task)
        conn.execute("UPDATE rota.task SET system = true WHERE name = 'rota.tick'")
        job, call = (given.enqueue(conn, task) for task in ("work", "http_call"))
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, every) VALUES ('s', 'work', 'interval', '1 h')")
        grants.grant(conn, role, "operate")
        for statement in (
            "SELECT rota.enqueue('http_call')",
            "SELECT rota.enqueue('rota.tick')",
            f"SELECT rota.edit_job('{call}', '{{\"n\": 2}}')",
            "INSERT INTO rota.job (id, task) VALUES (rota.uuid7(), 'http_call')",
            "INSERT INTO rota.job (id, task) VALUES (rota.uuid7(), 'work')",
            f"UPDATE rota.job SET task = 'http_call' WHERE id = '{job}'",
            f"UPDATE rota.job SET payload = '{{}}' WHERE id = '{job}'",
            f"UPDATE rota.job SET owner = 'eve' WHERE id = '{job}'",
            "DELETE FROM rota.job",
            "DELETE FROM rota.job_key",
            "INSERT INTO rota.schedule (name, task, strategy, every) VALUES ('x', 'http_call', 'interval', '1 h')",
            "UPDATE rota.schedule SET task = 'http_call'",
            "UPDATE rota.schedule SET payload = '{}'",
            "UPDATE rota.schedule SET every = '1 second'",
            "UPDATE rota.task SET enabled = false",
            "UPDATE rota.task SET default_payload = '{}'",
            "INSERT INTO rota.task (name) VALUES ('x')",
        ):
            assert await refused(as_role, statement), statement
        with pytest.raises(psycopg.DatabaseError, match=f"job {job} exists"):
            await as_role.execute("SELECT rota.enqueue('work', id => %s)", [job])
        await as_role.execute("SELECT rota.enqueue('work')")
        assert await refused(as_role, "SELECT rota.enqueue('http_call')")
        conn.execute("SELECT rota.enqueue('http_call')")

    async def test_a_role_that_was_set_is_the_one_that_counts(self, conn: Conn, role: str) -> None:
        given.declare(conn, "http_call")
        grants.grant(conn, role, "operate")
        conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match='denied for task "http_call"'):
            conn.execute("SELECT rota.enqueue('http_call')")
        conn.execute("RESET ROLE")

    async def test_an_operator_does_not_write_history(self, conn: Conn, as_role: AConn, role: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        given.enqueue(conn)
        given.fail(conn, worker)
        grants.grant(conn, role, "operate")
        parts = conn.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ANY (%s::regclass[])", [list(HISTORY)]
        ).fetchall()
        assert len(parts) > len(HISTORY)
        for table in [*HISTORY, *(part for (part,) in parts)]:
            assert await refused(as_role, f"SELECT FROM {table}") is (table not in HISTORY)
            assert await refused(as_role, f"INSERT INTO {table} SELECT * FROM {table}")
            assert await refused(as_role, f"UPDATE {table} SET job_id = job_id")
            assert await refused(as_role, f"DELETE FROM {table}")
            assert await refused(as_role, f"TRUNCATE {table}")
        for table in ("rota.migration", "rota.worker", "rota.job_edit"):
            assert await refused(as_role, f"DELETE FROM {table}")
        assert conn.execute("SELECT outcome FROM rota.run").fetchall() == [("failed",)]

    async def test_the_path_of_the_caller_does_not_lead_astray(self, conn: Conn, as_role: AConn, role: str) -> None:
        """What runs with the owner's rights must not run what the caller has put in its way."""
        given.declare(conn, "work")
        id = given.enqueue(conn)
        grants.grant(conn, role, "operate")
        conn.execute(sql.SQL("CREATE SCHEMA trap AUTHORIZATION {}").format(sql.Identifier(role)))
        await as_role.execute(
            """CREATE FUNCTION trap.json_build_object(text, text, text, text) RETURNS json LANGUAGE plpgsql
               AS $$ BEGIN RAISE EXCEPTION 'astray, as %', current_user; END $$"""
        )
        await as_role.execute("CREATE TEMP TABLE job (id uuid)")
        await as_role.execute("SET search_path = trap, pg_catalog")
        assert (await service.cancel_job(as_role, id)).state == "canceled"

    async def test_nobody_sees_the_secrets_of_webhooks(self, conn: Conn, as_role: AConn, role: str) -> None:
        conn.execute("INSERT INTO rota.webhook (url, secret) VALUES ('https://example.org/canary', 'canary-canary-canary')")
        for kind in get_args(grants.Kind):
            grants.grant(conn, role, kind)
            assert await refused(as_role, "SELECT secret FROM rota.webhook")
            assert await refused(as_role, "SELECT url FROM rota.webhook")  # with many services that is one, too

    async def test_who_has_changed_what_is_added_to_and_nothing_else(self, conn: Conn, as_role: AConn, role: str) -> None:
        grants.grant(conn, role, "operate")
        await audit.record(as_role, Actor("ann", "operator"), "jobs.retry", "x")
        for statement in ("SELECT FROM rota.audit", "UPDATE rota.audit SET actor = ''", "DELETE FROM rota.audit"):
            assert await refused(as_role, statement)
        for table in ("account", "magic_link", "session", "api_token"):
            assert await refused(as_role, f"SELECT FROM rota.{table}")

    async def test_what_is_yet_to_come_is_the_owners(self, conn: Conn, as_role: AConn, role: str) -> None:
        grants.grant(conn, role, "operate")
        conn.execute("CREATE TABLE rota.yet_to_come (mail text)")
        assert await refused(as_role, "SELECT FROM rota.yet_to_come")

    def test_again_is_harmless_and_can_be_printed(self, conn: Conn, role: str) -> None:
        first = grants.grant(conn, role, "operate")
        assert grants.grant(conn, role, "operate") == first == grants.statements(conn, role, "operate")
        assert any("retry_job" in statement for statement in first)
        assert [statement for statement in first if "rota.run " in statement] == [f'GRANT SELECT ON rota.run TO "{role}"']

    def test_a_role_that_is_not_there(self, conn: Conn) -> None:
        with pytest.raises(NotFound, match="there is no role 'nobody-here'"):
            grants.grant(conn, "nobody-here", "read")
        with pytest.raises(UsageError, match="--as='king' is unknown"):
            grants.statements(conn, "postgres", "king")  # type: ignore[arg-type]
