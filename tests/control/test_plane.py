"""`app.control`: one object for all that operators see and do, and every method of it knows who may."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from tests.support import jobs as given

from rota import Rota, every
from rota.control.access import Access, Actor
from rota.control.plane import ControlPlane
from rota.errors import Forbidden, InvalidTransition, NotFound, PayloadError, UnknownTask
from rota.model.filters import JobFilter, RunFilter
from rota.model.ids import new_id

Conn = psycopg.Connection[Any]

ANN = Actor("ann", "admin")
OLE = Actor("ole", "operator")
RITA = Actor("rita", "read_only")


@pytest.fixture
async def app(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rota]:
    """An application with a task and a schedule, synced."""
    monkeypatch.setenv("ROTA_APP_ENV", "local")  # where webhooks need no key
    async with Rota(dsn, name="shop") as app:

        @app.task(queue="mail", tags=["post"])
        def send(user_id: int, lang: str = "en") -> None: ...

        @app.task(schedule=every("1h"))
        def sweep() -> None: ...

        await app.control.sync_definitions()
        yield app


def fail(conn: Conn, queue: str = "mail") -> UUID:
    worker = given.start_worker(conn, queues=(queue,), tasks=("send",))
    return given.fail(conn, worker, queue=queue)


@pytest.mark.req("C03")
class TestService:
    async def test_tasks_are_synced_listed_switched_and_triggered(self, app: Rota, conn: Conn) -> None:
        control = app.control.acting_as(ANN)
        assert [task.record.name for task in (await control.list()).tasks] == ["send", "sweep"]
        assert [task.record.name for task in (await control.list(tag="post")).tasks] == ["send"]
        assert any(task.record.name.startswith("rota.") for task in (await control.list(system=True)).tasks)
        off = await control.disable("send", reason="mail is down")
        assert (off.record.enabled, off.record.disabled_by, off.record.disable_reason) == (False, "ann", "mail is down")
        assert (await control.enable("send")).record.enabled is True
        assert (await control.update("send", max_concurrency=2, max_attempts=7)).record.max_attempts == 7
        assert (await control.reset("send")).record.max_attempts == 4
        assert (await control.plan()).changes == []

        id = await control.trigger("send", {"user_id": 7})
        assert conn.execute("SELECT payload, triggered_by FROM rota.job WHERE id = %s", [id]).fetchone() == (
            {"user_id": 7}, {"kind": "manual", "user": "ann"},
        )  # fmt: skip
        with pytest.raises(PayloadError, match="user_id"):
            await control.trigger("send", {"user_id": "x"})
        with pytest.raises(NotFound, match="did you mean 'send'"):
            await control.trigger("sent")

    async def test_jobs_are_retried_canceled_and_edited(self, app: Rota, conn: Conn) -> None:
        control = app.control.acting_as(OLE)
        ids = [await app.control.trigger("send", {"user_id": n}) for n in range(4)]
        assert fail(conn) == ids[0]
        assert (await control.retry(ids[0])).state == "queued"
        assert (await control.cancel(ids[0], reason="a mistake")).state == "canceled"
        editing = app.control.acting_as(ANN)
        assert (await editing.edit_and_retry(ids[0], changes={"user_id": "9"})).state == "queued"
        detail = await app.control.get_job(ids[0])
        assert (detail.job.payload, detail.edits[0].edited_by) == ({"user_id": 9}, {"kind": "manual", "user": "ann"})
        with pytest.raises(PayloadError, match="lang"):
            await editing.edit_and_retry(ids[0], changes={"lang": 7})
        assert (await control.cancel_many(JobFilter(task="send"))).changed == 4
        assert (await control.retry_many(JobFilter(task="send", states=["canceled"]), limit=3)).changed == 3
        assert len((await control.list_jobs(JobFilter(states=["queued"]))).jobs) == 3
        assert (await control.why(ids[3])).state in ("queued", "canceled")
        with pytest.raises(NotFound):
            await control.retry(new_id())

    async def test_what_has_happened_is_listed(self, app: Rota, conn: Conn) -> None:
        control = app.control
        id = await control.trigger("send", {"user_id": 1})
        fail(conn)
        assert [(run.job_id, run.status) for run in (await control.list_runs(RunFilter(task="send"))).runs] == [(id, "failed")]
        assert (await control.get_run(id)).status == "failed"
        [group] = await control.list_errors(task="send")
        assert (await control.get_error(group.fingerprint)).group.fingerprint == group.fingerprint
        assert (await control.list_logs()).lines == []
        assert await control.list_alerts() == []
        hook = await control.add_webhook("https://example.org/hook", kinds=["job_failed"])
        assert [each.id for each in await control.list_webhooks()] == [hook.id]
        assert await control.list_deliveries() == []
        await control.remove_webhook(hook.id)
        assert await control.task_stats("send")

    async def test_queues_workers_and_schedules(self, app: Rota, conn: Conn) -> None:
        control = app.control.acting_as(OLE)
        await control.pause_queue("mail", reason="x")
        assert {queue.name: queue.pause_reason for queue in await control.list_queues()}["mail"] == "x"
        await control.resume_queue("mail")
        await control.limit_queue("mail", max_concurrency=3)
        await control.unlimit_queue("mail")
        assert await control.list_workers() == []
        running = app.control.acting_as(ANN)
        made = await running.create_schedule("nightly", "send", every("1d"), payload={"user_id": 1})
        assert made.enabled
        with pytest.raises(UnknownTask):
            await running.create_schedule("other", "sent", every("1d"))
        assert (await running.update_schedule("sweep", every="2h")).timing.every.total_seconds() == 7200  # type: ignore[union-attr]
        assert (await control.get_schedule("sweep")).record.task == "sweep"
        assert (await control.disable_schedule("sweep")).enabled is False
        assert (await control.enable_schedule("sweep")).enabled is True
        assert {"nightly", "sweep"} <= {line.record.label for line in (await control.list_schedules()).schedules}
        id = await running.run_schedule("nightly")
        row = conn.execute("SELECT triggered_by ->> 'user' FROM rota.job WHERE id = %s", [id]).fetchone()
        assert row == ("ann",)


@pytest.mark.req("C10")
class TestWhoMay:
    async def test_by_default_tasks_runs_and_logs_are_for_admins(self, app: Rota, conn: Conn) -> None:
        for actor in (OLE, RITA):
            control = app.control.acting_as(actor)
            for refused in (
                control.list(), control.get("send"), control.trigger("send"), control.disable("send"), control.sync_definitions(),
                control.list_runs(), control.list_errors(), control.list_logs(), control.task_stats("send"),
            ):  # fmt: skip
                with pytest.raises(Forbidden, match=f"{actor.name}, who is {actor.role}, may not do"):
                    await refused
        assert conn.execute("SELECT enabled FROM rota.task WHERE name = 'send'").fetchone() == (True,)

    async def test_who_only_reads_changes_nothing(self, app: Rota, conn: Conn) -> None:
        id = await app.control.trigger("send", {"user_id": 1})
        control = app.control.acting_as(RITA)
        assert (await control.get_job(id)).job.state == "queued"
        for refused in (
            control.cancel(id), control.retry(id), control.edit_and_retry(id, {"user_id": 2}), control.pause_queue("mail"),
            control.cancel_many(JobFilter(task="send")), control.disable_schedule("sweep"), control.acknowledge_alert(1),
        ):  # fmt: skip
            with pytest.raises(Forbidden):
                await refused
        assert conn.execute("SELECT state, payload FROM rota.job").fetchall() == [("queued", {"user_id": 1})]

    async def test_attempts_are_shown_to_those_who_may_see_runs(self, app: Rota, conn: Conn) -> None:
        id = await app.control.trigger("send", {"user_id": 1})
        fail(conn)
        assert len((await app.control.get_job(id)).runs) == 1
        assert (await app.control.acting_as(OLE).get_job(id)).runs == []

    async def test_the_application_has_its_own_rules(self, dsn: str) -> None:
        class Friends:
            def allows(self, actor: Actor, operation: str) -> bool:
                return actor.name == "ole"

        async with Rota(dsn, access=Friends()) as app:
            await app.control.acting_as(OLE).list_runs()
            with pytest.raises(Forbidden):
                await app.control.acting_as(ANN).list_runs()
        async with Rota(dsn, access=Access({"runs.read": ["admin", "operator"]})) as app:
            await app.control.acting_as(OLE).list_runs()
            assert app.control.acting_as(OLE).may("runs.read")
            assert not app.control.acting_as(OLE).may("logs.read")

    async def test_what_the_databases_user_may_not_do(self, app: Rota, conn: Conn, dsn: str) -> None:
        """The last word is the database's: its refusal is Forbidden, too."""
        role = f"rota-{new_id()}"
        conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        try:
            async with Rota(dsn) as plain:
                async with plain._intake.aconnection() as own:
                    await own.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
                with pytest.raises(Forbidden, match="permission denied"):
                    await plain.control.pause_queue("mail")
        finally:
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

    async def test_every_method_asks_first(self, dsn: str) -> None:
        """With a policy that allows nothing, no method of the control plane gets as far as the database."""

        class Nothing:
            def allows(self, actor: Actor, operation: str) -> bool:
                return False

        class NoDatabase:
            def __getattr__(self, name: str) -> Any:
                raise AssertionError("the database was asked")

        app = Rota(dsn)
        app.task(_nothing)
        control = ControlPlane(app, NoDatabase(), Nothing(), ANN)  # type: ignore[arg-type]
        methods = {
            name: method
            for name, method in inspect.getmembers(control, inspect.iscoroutinefunction)
            # Everybody has those of their own; `record` is for those who have asked before.
            if not name.startswith("_") and "_own_" not in name and name != "record"
        }  # fmt: skip
        assert len(methods) > 30
        for name, method in methods.items():
            with pytest.raises(Forbidden):
                await _call(name, method)


def _nothing() -> None: ...


async def _call(name: str, method: Callable[..., Awaitable[Any]]) -> None:
    values: dict[str, Any] = {
        "id": 1 if "alert" in name or "webhook" in name or "token" in name else new_id(), "job": new_id(), "task": "_nothing",
        "name": "x", "fingerprint": "abcd", "filter": JobFilter(task="x"), "timing": every("1h"), "payload": {},
        "url": "https://example.org", "run_at": datetime.now(UTC), "enabled": True, "count": 5, "period": timedelta(hours=1),
        "who": "x@example.org", "email": "x@example.org", "owner": "x@example.org", "role": "user", "jobs": [],
        "begin": datetime.now(UTC), "end": datetime.now(UTC), "ids": [], "of": "task", "side": "parents",
    }  # fmt: skip
    needed = [
        parameter.name
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    await method(**{each: values[each] for each in needed})


@pytest.mark.req("C03")
async def test_a_running_job_is_not_edited(app: Rota, conn: Conn) -> None:
    id = await app.control.trigger("send", {"user_id": 1})
    given.claim(conn, given.start_worker(conn, queues=("mail",)), queue="mail")
    with pytest.raises(InvalidTransition, match="is running"):
        await app.control.edit_and_retry(id, {"user_id": 2})
