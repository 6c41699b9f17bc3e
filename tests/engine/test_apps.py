"""Several applications on one database: each has its own tasks and schedules, and leaves those of the others alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.plans import Session
from tests.support.recurring import Rows
from tests.support.wait import PATIENCE_S, until

from rota.control.sync import sync_definitions
from rota.db.connection import AsyncConn, connect
from rota.engine.scheduler import Scheduler
from rota.engine.system import TICK, system_tasks
from rota.errors import OwnedElsewhere
from rota.events import Events
from rota.model.limits import QueueLimits
from rota.model.schedule import every
from rota.store import tasks_read
from rota.store.schedules import SQL

QUICK: dict[str, Any] = {"poll_interval_s": 0.05}


@pytest.fixture
def shop(engine: Engine) -> Engine:
    @engine.task
    async def send(user_id: int) -> None:
        """Send it."""

    return engine


@pytest.fixture
def billing(engine: Engine) -> Engine:
    other = Engine(engine.dsn, engine.conn)

    @other.task
    async def send(address: str) -> None: ...

    return other


async def sync(conn: AsyncConn, engine: Engine, app: str, **options: Any) -> None:
    await sync_definitions(conn, engine.tasks.values(), app=app, queues=["default"], **options)


async def apps_of(conn: AsyncConn, name: str) -> list[str]:
    task = await tasks_read.get(conn, name)
    assert task is not None
    return task.record.apps


class TestOwners:
    @pytest.mark.req("T02")
    async def test_the_same_name_with_other_arguments_is_refused(self, shop: Engine, billing: Engine, aconn: AsyncConn) -> None:
        await sync(aconn, shop, "shop")
        with pytest.raises(OwnedElsewhere) as refused:
            await sync(aconn, billing, "billing")
        text = str(refused.value)
        assert "'shop', as send(user_id: integer)" in text
        assert "'billing' has a task of the same name, send(address: string)" in text
        assert "rota tasks sync --force send" in text
        assert await apps_of(aconn, "send") == ["shop"]

    @pytest.mark.req("T02")
    async def test_a_forced_sync_takes_the_name_over(self, shop: Engine, billing: Engine, aconn: AsyncConn) -> None:
        await sync(aconn, shop, "shop")
        await sync(aconn, billing, "billing", force=["send"])
        assert await apps_of(aconn, "send") == ["billing"]
        with pytest.raises(OwnedElsewhere, match="belongs to app 'billing'"):
            await sync(aconn, shop, "shop")

    @pytest.mark.req("T02")
    async def test_the_same_arguments_are_shared_and_the_first_application_defines_the_task(
        self, shop: Engine, engine: Engine, aconn: AsyncConn
    ) -> None:
        copy = Engine(engine.dsn, engine.conn)

        @copy.task(priority=9)
        async def send(user_id: int) -> None:
            """Send it."""

        await sync(aconn, shop, "shop")
        await sync(aconn, copy, "copy")
        await sync(aconn, copy, "copy")
        task = await tasks_read.get(aconn, "send")
        assert task is not None
        assert (task.record.apps, task.record.priority) == (["shop", "copy"], 0)
        shop.tasks.clear()
        await sync(aconn, shop, "shop")
        await sync(aconn, copy, "copy")
        task = await tasks_read.get(aconn, "send")
        assert task is not None
        assert (task.record.apps, task.record.priority) == (["copy"], 9), "the one that is left defines it"

    @pytest.mark.req("T02")
    async def test_an_application_may_change_its_own_tasks(self, shop: Engine, billing: Engine, aconn: AsyncConn) -> None:
        await sync(aconn, shop, "shop")
        await sync(aconn, billing, "shop")

    @pytest.mark.req("T02")
    async def test_a_worker_whose_task_belongs_to_another_application_does_not_start(
        self, shop: Engine, billing: Engine, aconn: AsyncConn
    ) -> None:
        await sync(aconn, shop, "shop")
        with pytest.raises(OwnedElsewhere, match="Rename one of them"):
            await asyncio.wait_for(billing.make_worker(app="billing").run(), PATIENCE_S)
        assert billing.count("rota.worker") == 0


class TestQueues:
    @pytest.mark.req("T02")
    async def test_limits_belong_to_the_application_that_sets_them_first(self, shop: Engine, aconn: AsyncConn) -> None:
        async def limit(app: str, most: int | None, **options: Any) -> int | None:
            await sync_definitions(aconn, [], app=app, limits={"mail": QueueLimits(most)}, **options)
            row = await (await aconn.execute("SELECT max_concurrency FROM rota.queue WHERE name = 'mail'")).fetchone()
            assert row is not None
            return row[0]

        assert await limit("shop", 4) == 4
        assert await limit("billing", None) == 4, "who sets none has nothing against it"
        assert await limit("billing", 4) == 4
        with pytest.raises(
            OwnedElsewhere, match=r"'shop' sets .* to max_concurrency=4; app 'billing' sets them to max_concurrency=9"
        ):
            await limit("billing", 9)
        assert await limit("shop", 5) == 5
        assert await limit("billing", 9, force=True) == 9
        assert await limit("shop", None) == 9
        assert await limit("billing", None) is None
        assert await limit("shop", 5) == 5


class TestSchedules:
    @pytest.mark.req("T02", "S02")
    async def test_a_scheduler_fires_its_own_applications_schedules_only(self, shop: Engine, aconn: AsyncConn) -> None:
        @shop.task(schedule=every("1h"))
        async def report() -> None: ...

        await sync(aconn, shop, "shop")
        rows = Rows(shop.conn, "send")
        rows.ensure()
        shop.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now()")
        assert await Scheduler(Events(), apps=["billing"]).tick(aconn) == 0
        assert shop.count() == 0
        assert await Scheduler(Events(), apps=["shop"]).tick(aconn) == 2

    @pytest.mark.req("T02", "R07")
    async def test_due_rows_of_another_application_are_not_read(self, shop: Engine, aconn: AsyncConn) -> None:
        await sync(aconn, shop, "shop")
        shop.conn.execute(
            """INSERT INTO rota.schedule (task, key, strategy, every, next_run_at)
               SELECT 'send', n::text, 'recurring', '1h', rota.now() FROM generate_series(1, 20000) n"""
        )
        for name, parameters in (("next", {}), ("fire_recurring", {"limit": 500, "id_time": "01a1e0ca-1f89-7"})):
            with connect(shop.dsn, "test") as conn:
                pages, _, _ = Session(conn).read(SQL[f"schedules_{name}"], {"apps": ["billing"], **parameters})
            assert pages < 300, (name, pages)

    @pytest.mark.req("T02", "S12")
    async def test_a_tick_by_a_job_is_for_all_applications_that_have_a_live_worker(self, shop: Engine, aconn: AsyncConn) -> None:
        """Only one of them gets the job."""

        @shop.task(schedule=every("1h"))
        async def report() -> None: ...

        await sync(aconn, shop, "shop")
        shop.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now()")
        billing = Engine(shop.dsn, shop.conn)
        billing.tasks = dict(system_tasks(tick_cron=""))
        async with billing.worker(app="billing", scheduler=False, **QUICK):
            await billing.ended(billing.enqueue(TICK))
            assert shop.count("rota.jobs WHERE task = 'report'") == 0
            async with shop.worker(app="shop", scheduler=False, **QUICK):
                id = billing.enqueue(TICK, delay=timedelta(milliseconds=1))
                await billing.ended(id)
                await until(lambda: shop.count("rota.jobs WHERE task = 'report' AND state = 'completed'") == 1)
