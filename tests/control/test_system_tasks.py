"""Tasks that say of themselves that they are of the system's: lists leave them out, unless they are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given

from rota import Rota, every
from rota.control import stats
from rota.control.plane import ControlPlane
from rota.errors import UnknownTask, UsageError
from rota.model.filters import JobFilter, RunFilter

Conn = psycopg.Connection[Any]

pytestmark = pytest.mark.req("C01", "C11")


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[Rota]:
    async with Rota(dsn, name="shop") as app:

        @app.task(system=True, schedule=every("1h"))
        def sweep() -> None: ...

        @app.task(schedule=every("1h"))
        def send() -> None: ...

        await app.control.sync_definitions()
        yield app


@pytest.fixture
def control(app: Rota) -> ControlPlane:
    return app.control


async def test_tasks_and_schedules(control: ControlPlane) -> None:
    assert [view.record.name for view in (await control.list()).tasks] == ["send"]
    everything = {view.record.name: view.record.system for view in (await control.list(system=True)).tasks}
    assert everything.items() >= {("send", False), ("sweep", True), ("rota.tick", True)}
    assert [line.record.name for line in (await control.list_schedules()).schedules] == ["send"]
    assert {"send", "sweep"} <= {line.record.name for line in (await control.list_schedules(system=True)).schedules}
    assert [line.record.name for line in (await control.list_schedules(task="sweep")).schedules] == ["sweep"]


async def test_jobs_runs_errors_and_figures(control: ControlPlane, conn: Conn, aconn: psycopg.AsyncConnection[Any]) -> None:
    worker = given.start_worker(conn, tasks=("send", "sweep"))
    for task in ("send", "sweep"):
        given.enqueue(conn, task)
        given.fail(conn, worker)
        given.enqueue(conn, task)
        conn.execute("UPDATE rota.job SET priority = 1 WHERE task = %s", [task])  # the next to fail is the other's
    conn.execute("INSERT INTO rota.job (id, task) VALUES (rota.uuid7(), 'rota.unheard_of')")  # nobody has made it known yet
    assert {job.task for job in (await control.list_jobs()).jobs} == {"send"}
    assert [job.task for job in (await control.list_jobs(JobFilter(task="sweep"))).jobs] == ["sweep", "sweep"]
    assert {run.task for run in (await control.list_runs()).runs} == {"send"}
    assert {run.task for run in (await control.list_runs(RunFilter(task="sweep"))).runs} == {"sweep"}
    assert {task for group in await control.list_errors() for task in group.tasks} <= {"send"}
    assert {each.task for each in await stats.list_stats(aconn, period=timedelta(hours=1))} <= {"send"}


async def test_hints_do_not_name_them(app: Rota, conn: Conn) -> None:
    with pytest.raises(UnknownTask, match=r"defined are send$"):
        app.job("nothing like it")
    with pytest.raises(psycopg.errors.DatabaseError) as refused:
        conn.execute("SELECT rota.enqueue('nothing like it')")
    assert refused.value.diag.message_hint == "A worker makes its tasks known when it starts. Known: send."


async def test_a_task_that_becomes_one_is_hidden_from_the_next_sync_on(dsn: str) -> None:
    for system, shown in ((False, ["work"]), (True, []), (False, ["work"])):
        async with Rota(dsn) as app:
            app.task(name="work", system=system)(_work)
            await app.control.sync_definitions()
            assert [view.record.name for view in (await app.control.list()).tasks] == shown


def test_it_is_yes_or_no() -> None:
    with pytest.raises(UsageError, match="system='no' of task 'work' is not a boolean"):
        Rota("postgresql://nowhere/").task(name="work", system="no")(_work)  # type: ignore[call-overload]


def _work() -> None: ...
