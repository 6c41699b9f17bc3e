"""What a deploy would do: changes, drift, and what is live and would not run any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.engine import spec

from rota.control import schedules, sync, tasks
from rota.control.sync import Drift, Plan
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import carry_out_async
from rota.model.schedule import cron, every
from rota.model.task import TaskSpec

Conn = psycopg.Connection[Any]


def work(n: int = 0) -> None:
    """Works."""


def narrower(n: int) -> None:
    """Works, and needs n."""


def renamed(number: int = 0) -> None:
    """Works, with another word for it."""


async def plan(aconn: AsyncConn, *specs: TaskSpec, **options: Any) -> Plan:
    return await sync.plan(aconn, specs, **options)


async def deploy(aconn: AsyncConn, *specs: TaskSpec, **options: Any) -> None:
    await sync.sync_definitions(aconn, specs, **options)


def snapshot(conn: Conn) -> list[Any]:
    statements = (
        "SELECT * FROM rota.task ORDER BY 1",
        "SELECT * FROM rota.schedule ORDER BY 1",
        "SELECT * FROM rota.job ORDER BY 1",
    )
    return [str(conn.execute(statement).fetchall()) for statement in statements]


@pytest.mark.req("C02")
async def test_nothing_to_do(aconn: AsyncConn) -> None:
    await deploy(aconn, spec(work, schedule=every("1h")))
    found = await plan(aconn, spec(work, schedule=every("1h")))
    assert (found.changes, found.drift, found.payloads, found.orphans, found.cut) == ([], [], [], [], False)
    assert found.compatible


@pytest.mark.req("C02")
async def test_what_a_sync_would_change(aconn: AsyncConn, conn: Conn) -> None:
    await deploy(aconn, spec(work, "kept"), spec(work, "changed"), spec(work, "gone"), app="shop")
    before = snapshot(conn)
    code = [spec(work, "kept"), spec(work, "changed", max_concurrency=3, description="New."), spec(work, "new")]
    found = await plan(aconn, *code, app="shop")
    assert [(change.task, change.kind) for change in found.changes] == [("changed", "changed"), ("gone", "gone"), ("new", "new")]
    assert found.changes[0].fields == {"max_concurrency": (None, 3), "description": ("", "New.")}
    assert found.compatible
    assert snapshot(conn) == before, "a plan changes nothing"
    await deploy(aconn, *code, app="shop")
    assert (await plan(aconn, *code, app="shop")).changes == [], "that was all"
    back = await plan(aconn, *code, spec(work, "gone"), app="shop")
    assert [(change.task, change.kind) for change in back.changes] == [("gone", "returned")]


@pytest.mark.req("B01", "T12")
async def test_a_deleted_schedule_shows_in_the_plan(aconn: AsyncConn) -> None:
    await deploy(aconn, spec(work, schedule=every("1h")))
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.delete("work"))
    found = await plan(aconn, spec(work, schedule=every("1h")))
    assert (found.drift, found.changes) == ([Drift("work", "schedule", "every 1h", "deleted")], [])
    assert (await plan(aconn, spec(work))).drift == []


@pytest.mark.req("C02")
async def test_what_a_nameless_application_cannot_know(aconn: AsyncConn, conn: Conn) -> None:
    await deploy(aconn, spec(work), spec(work, "other"))
    given.start_worker(conn, tasks=("other",))
    assert [(change.task, change.kind) for change in (await plan(aconn, spec(work))).changes] == [("other", "kept")]


@pytest.mark.req("C02")
async def test_drift(aconn: AsyncConn) -> None:
    task = spec(work, schedule=cron("0 9 * * *"), max_concurrency=2)
    await deploy(aconn, task)
    await tasks.disable_task(aconn, "work")
    await tasks.set_task(aconn, "work", {"max_concurrency": 9, "retry.base": "1m", "timeout": "5s"})
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.update("work", cron="0 10 * * *", payload={"n": 3}))
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.set_enabled("work", False))
    found = await plan(aconn, task)
    assert found.changes == []
    assert sorted(found.drift, key=lambda each: each.setting) == [
        Drift("work", "enabled", True, False),
        Drift("work", "max_concurrency", 2, 9),
        Drift("work", "retry.base", 5.0, 60.0),
        Drift("work", "schedule", "At 09:00 every day, UTC", "At 10:00 every day, UTC"),
        Drift("work", "schedule.enabled", True, False),
        Drift("work", "schedule.payload", {}, {"n": 3}),
        Drift("work", "timeout", None, 5.0),
    ]
    assert found.compatible
    await deploy(aconn, task, force=True)
    assert (await plan(aconn, task)).drift == []


@pytest.mark.req("C02")
async def test_a_schedule_that_code_no_longer_has(aconn: AsyncConn) -> None:
    await deploy(aconn, spec(work, schedule=every("1h")))
    assert (await plan(aconn, spec(work))).drift == [Drift("work", "schedule", None, "every 1h")]


@pytest.mark.req("C02")
async def test_payloads_that_would_break(aconn: AsyncConn, conn: Conn) -> None:
    await deploy(aconn, spec(work))
    fine = given.enqueue(conn, payload={"n": 1})
    bad = [given.enqueue(conn, payload={}), given.enqueue(conn, delay=timedelta(hours=1)), given.enqueue(conn, parents=[fine])]
    found = await plan(aconn, spec(narrower, "work"))
    assert not found.compatible
    [misfits] = found.payloads
    assert (misfits.task, misfits.jobs, misfits.schedules) == ("work", 3, 0)
    assert {UUID(label) for label, _ in misfits.examples} == set(bad), "queued, delayed and waiting ones"
    assert "n" in misfits.examples[0][1]
    found = await plan(aconn, spec(renamed, "work"))
    assert [(each.jobs, UUID(each.examples[0][0])) for each in found.payloads] == [(1, fine)]
    assert (await plan(aconn, spec(work))).compatible


@pytest.mark.req("C02")
async def test_schedules_whose_payload_would_break(aconn: AsyncConn, conn: Conn) -> None:
    await deploy(aconn, spec(work))
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.create("hourly", "work", every("1h")))
    conn.execute("SELECT rota.ensure_recurring('work', 'k:1', '{}')")
    [misfits] = (await plan(aconn, spec(narrower, "work"))).payloads
    assert (misfits.jobs, misfits.schedules) == (0, 2)
    assert {label for label, _ in misfits.examples} == {"hourly", "work/k:1"}
    [misfits] = (await plan(aconn, spec(narrower, "work", default_payload='{"n":1}'))).payloads
    assert [label for label, _ in misfits.examples] == ["work/k:1"], "a schedule has the default payload too"


@pytest.mark.req("C02")
async def test_live_jobs_without_a_task(aconn: AsyncConn, conn: Conn) -> None:
    await deploy(aconn, spec(work), app="shop")
    await deploy(aconn, spec(work, "theirs"), app="mail")
    job = given.enqueue(conn)
    given.enqueue(conn, "theirs")
    conn.execute("INSERT INTO rota.job (id, task) VALUES (rota.uuid7(), 'never_known')")
    found = await plan(aconn, app="shop")
    assert not found.compatible
    assert [(each.task, each.jobs) for each in found.orphans] == [("never_known", 1), ("work", 1)]
    assert found.orphans[1].examples[0][0] == str(job)
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.create("hourly", "work", every("1h")))
    conn.execute("DELETE FROM rota.job")
    found = await plan(aconn, app="shop")
    assert [(each.task, each.jobs, each.schedules) for each in found.orphans] == [("work", 0, 1)]
    assert found.compatible, "a schedule of a task that is gone does not fire"


@pytest.mark.req("C02")
async def test_a_look_that_was_cut_says_so(aconn: AsyncConn, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "SCAN_BATCH", 4)
    await deploy(aconn, spec(work))
    conn.execute("INSERT INTO rota.job (id, task) SELECT rota.uuid7(), 'work' FROM generate_series(1, 10)")
    found = await plan(aconn, spec(narrower, "work"), scan=10)
    assert (found.scanned, found.cut, found.payloads[0].jobs) == (10, False, 10)
    assert len(found.payloads[0].examples) == sync.EXAMPLES
    found = await plan(aconn, spec(narrower, "work"), scan=9)
    assert (found.scanned, found.cut, found.payloads[0].jobs) == (9, True, 9)
    found = await plan(aconn, spec(narrower, "work"), scan=0)
    assert (found.scanned, found.cut, found.payloads) == (0, True, [])
