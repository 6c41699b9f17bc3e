"""Recurring rows: one per task and key, never two jobs at once, and never left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from tests.support import jobs as given
from tests.support.recurring import HOUR, POLICY, WORKER, Rows
from tests.support.wait import PATIENCE_S, wait_until

from rota import Context, Rota, Secret
from rota.contrib.testing.clock import Clock
from rota.control import service
from rota.errors import InvalidTransition, NotFound, PayloadError, UsageError
from rota.model import secret
from rota.model.filters import JobFilter
from rota.model.ids import new_id
from rota.store import runs, schedules

START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock(conn: psycopg.Connection[Any]) -> Clock:
    clock = Clock(conn)
    clock.freeze(START)
    return clock


@pytest.fixture
def rows(conn: psycopg.Connection[Any], clock: Clock) -> Rows:
    return Rows(conn)


@pytest.fixture
def app(dsn: str) -> Iterator[Rota]:
    with Rota(dsn) as app:
        yield app


@pytest.fixture
def feed(app: Rota) -> Any:
    @app.recurring(key="feed:{feed_id}")
    async def fetch(ctx: Context, feed_id: int, name: str = "") -> timedelta: ...

    return fetch


@pytest.mark.req("R01")
class TestEnsure:
    def test_there_is_one_row_per_task_and_key(self, app: Rota, feed: Any, conn: psycopg.Connection[Any]) -> None:
        @app.recurring(key="feed:{feed_id}")
        def other(feed_id: int) -> None: ...

        first, again, second = feed.ensure(feed_id=1), feed.ensure(feed_id=1, name="x"), feed.ensure(feed_id=2)
        elsewhere = other.ensure(1)
        assert [each.created for each in (first, again, second, elsewhere)] == [True, False, True, True]
        assert first.id == again.id
        assert len({first.id, second.id, elsewhere.id}) == 3
        stored = conn.execute("SELECT key, payload FROM rota.schedule WHERE task = 'fetch' ORDER BY key").fetchall()
        assert stored == [("feed:1", {"feed_id": 1, "name": "x"}), ("feed:2", {"feed_id": 2})]

    def test_many_at_once_make_one(self, feed: Any, conn: psycopg.Connection[Any], dsn: str) -> None:
        barrier, made = threading.Barrier(64), []

        def ensure() -> None:
            with psycopg.connect(dsn, autocommit=True) as own:
                barrier.wait(PATIENCE_S)
                made.append(feed.using(conn=own).ensure(7))

        threads = [threading.Thread(target=ensure) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 64
        assert len({each.id for each in made}) == 1
        assert sum(each.created for each in made) == 1
        assert conn.execute("SELECT count(*) FROM rota.schedule").fetchone() == (1,)

    def test_it_runs_first_at_once_or_when_told(self, feed: Any, clock: Clock) -> None:
        assert feed.ensure(1).next_run_at == START
        assert feed.using(first_run_at=START + HOUR).ensure(2).next_run_at == START + HOUR

    def test_again_it_enables_what_was_disabled(self, feed: Any, clock: Clock) -> None:
        feed.using(first_run_at=START + HOUR).ensure(1)
        feed.disable(1)
        assert feed.ensure(1).next_run_at == START + HOUR
        feed.disable(1)
        clock.move(2 * HOUR)
        assert feed.ensure(1).next_run_at == START + HOUR  # that has passed: it is due

    def test_again_it_leaves_a_live_job_alone(self, rows: Rows) -> None:
        rows.ensure()
        held = rows.run()
        rows.ensure()
        assert (rows.row().job_id, rows.row().next_run_at, rows.fire()) == (held.id, None, 0)

    def test_what_came_in_through_sql_is_as_good(self, rows: Rows) -> None:
        rows.conn.execute("SELECT rota.ensure_recurring('fetch', 'a')")
        held = rows.run()
        rows.complete(held)
        assert rows.row().next_run_at == START + HOUR

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
    def test_payloads_that_cannot_be_stored_are_refused(self, feed: Any, bad: str, conn: psycopg.Connection[Any]) -> None:
        with pytest.raises(PayloadError, match="name="):
            feed.ensure(1, name=bad)
        with pytest.raises(PayloadError, match="name="):
            feed.ensure_many([{"feed_id": 1}, {"feed_id": 2, "name": bad}])
        assert conn.execute("SELECT count(*) FROM rota.schedule").fetchone() == (0,)

    def test_in_the_callers_transaction(self, feed: Any, dsn: str, conn: psycopg.Connection[Any]) -> None:
        with psycopg.connect(dsn) as own:
            feed.using(conn=own).ensure(1)
            feed.using(conn=own).ensure_many([{"feed_id": 2}])
            own.rollback()
        assert conn.execute("SELECT count(*) FROM rota.schedule").fetchone() == (0,)


@pytest.mark.req("R01")
class TestEnsureMany:
    def test_the_answers_are_in_order(self, feed: Any) -> None:
        known = feed.ensure(3)
        made = feed.ensure_many({"feed_id": number} for number in (5, 3, 4))
        assert [each.created for each in made] == [True, False, True]
        assert made[1].id == known.id
        assert [each.id for each in feed.ensure_many([{"feed_id": 4}, {"feed_id": 5}])] == [made[2].id, made[0].id]
        assert feed.ensure_many([]) == []

    def test_the_same_key_twice_is_one_row_and_the_last_payload(self, feed: Any, conn: psycopg.Connection[Any]) -> None:
        first, second = feed.ensure_many([{"feed_id": 1, "name": "x"}, {"feed_id": 1, "name": "y"}])
        assert first.id == second.id
        assert conn.execute("SELECT payload ->> 'name' FROM rota.schedule").fetchall() == [("y",)]

    def test_a_hundred_thousand_take_seconds(self, feed: Any, conn: psycopg.Connection[Any]) -> None:
        arguments = [{"feed_id": number} for number in range(100_000)]
        assert sum(each.created for each in feed.ensure_many(arguments)) == len(arguments)
        assert conn.execute("SELECT count(*) FROM rota.schedule").fetchone() == (len(arguments),)

    def test_two_who_make_the_same_rows_do_not_deadlock(self, feed: Any, dsn: str) -> None:
        errors: list[BaseException] = []

        def ensure(numbers: list[int]) -> None:
            try:
                with psycopg.connect(dsn, autocommit=True) as own:
                    for _ in range(20):
                        feed.using(conn=own).ensure_many([{"feed_id": number} for number in numbers])
            except BaseException as error:
                errors.append(error)

        numbers = list(range(100))
        threads = [threading.Thread(target=ensure, args=[order]) for order in (numbers, numbers[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []


class TestKeys:
    @pytest.mark.parametrize(
        ("key", "said"),
        [
            ("feed:{", "is not a template"),
            ("feed:{}", "only plain names"),
            ("feed:{0}", "only plain names"),
            ("feed:{feed_id!r}", "only plain names"),
            ("feed:{feed_id:>9}", "only plain names"),
            ("feed:{feed_id.real}", "only plain names"),
            ("feed:{fed_id}", "names fed_id: its parameters are feed_id"),
            ("feed\0:{feed_id}", "only printable"),
        ],
    )
    def test_templates_that_make_no_sense_are_refused(self, app: Rota, key: str, said: str) -> None:
        with pytest.raises(UsageError, match=said):

            @app.recurring(key=key)
            def fetch(feed_id: int) -> None: ...

    @pytest.mark.req("T07")
    def test_a_secret_is_in_no_key_and_no_condition(self, app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(secret, "_keys", ("k" * 40,))
        with pytest.raises(UsageError, match="names token, a secret: keys are shown"):

            @app.recurring(key="feed:{token}")
            def fetch(token: Secret) -> None: ...

        @app.recurring(key="all")
        def renew(token: Secret) -> None: ...

        with pytest.raises(UsageError, match="names token: a secret cannot be compared"):
            renew.sync_enabled("%(token)s = 'x'", token=SecretStr("x"))

    def test_keys_that_are_too_long_are_refused(self, app: Rota) -> None:
        @app.recurring(key="{name}")
        def fetch(name: str) -> None: ...

        with pytest.raises(UsageError, match="has 600 bytes: from 1 to 512"):
            fetch.ensure("é" * 300)
        with pytest.raises(UsageError, match="has 0 bytes: from 1 to 512"):
            fetch.ensure("")

    def test_a_key_without_names_is_one_row(self, app: Rota) -> None:
        @app.recurring(key="all")
        def renew() -> None: ...

        assert renew.ensure().created
        assert not renew.ensure().created


@pytest.mark.req("R02")
class TestOutcomes:
    @pytest.mark.parametrize("lane", ["one", "many"])
    @pytest.mark.parametrize(
        ("asked", "expected", "every"),
        [
            ({"delay": 5 * MINUTE}, 5 * MINUTE, 5 * MINUTE),
            ({"delay": timedelta(0)}, SECOND, SECOND),  # else it would run without end
            ({"next_at": START + 3 * HOUR}, 3 * HOUR, HOUR),
            ({"next_at": START - 3 * HOUR}, SECOND, HOUR),
            ({}, HOUR, HOUR),
        ],
    )
    def test_the_result_sets_the_next_run(self, rows: Rows, asked: Any, expected: timedelta, every: timedelta, lane: str) -> None:
        rows.ensure()
        held = rows.run()
        if lane == "one":
            assert rows.finish(held, **asked) == "completed"
        else:
            assert rows.complete(held, **asked) == 1
        row = rows.row()
        assert (row.next_run_at, row.every, row.job_id, row.last_run_at) == (START + expected, every, None, START)
        assert (row.successes, row.failures, rows.history(), rows.live()) == (1, 0, [], [])

    def test_failures_back_off_to_the_cap_and_success_resets(self, rows: Rows, clock: Clock) -> None:
        rows.ensure()
        rests = []
        for number in range(1, 9):
            clock.freeze(rows.row().next_run_at)
            assert rows.finish(rows.run(), "failed", error=f"no {number}") == "failed"
            row = rows.row()
            rests.append((row.next_run_at - clock.now()) // MINUTE)
            assert (row.consecutive_failures, row.failures, row.last_error) == (number, number, {"message": f"no {number}"})
        assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
        clock.freeze(rows.row().next_run_at)
        rows.complete(rows.run())
        row = rows.row()
        assert (row.consecutive_failures, row.failures, row.successes, row.last_error) == (0, 8, 1, None)
        assert row.next_run_at == clock.now() + HOUR
        assert rows.history() == ["failed"] * 8

    def test_the_jitter_is_added(self, rows: Rows) -> None:
        rows.ensure(retry=POLICY | {"jitter": 30})
        rows.finish(rows.run(), "failed")
        assert START + MINUTE <= rows.row().next_run_at <= START + MINUTE + 30 * SECOND

    def test_a_failure_may_say_itself_when_to_try_again(self, rows: Rows) -> None:
        rows.ensure()
        rows.finish(rows.run(), "failed", delay=5 * HOUR)
        assert (rows.row().next_run_at, rows.row().failing_since) == (START + 5 * HOUR, None)

    def test_canceled_it_goes_on_at_its_interval(self, rows: Rows) -> None:
        rows.ensure()
        rows.finish(rows.run(), "canceled")
        assert (rows.row().next_run_at, rows.row().failures, rows.history()) == (START + HOUR, 0, ["canceled"])

    def test_canceled_in_the_queue_it_goes_on_too(self, rows: Rows) -> None:
        rows.ensure()
        rows.fire()
        rows.conn.execute("SELECT rota.cancel_job(%s)", [rows.row().job_id])
        assert (rows.row().next_run_at, rows.row().job_id, rows.live()) == (START + HOUR, None, [])

    def test_a_row_that_is_always_on_takes_no_arguments(self, rows: Rows) -> None:
        app = Rota("postgresql://nowhere/")

        def fetch(feed_id: int) -> None: ...

        with pytest.raises(UsageError, match="with always=True there is one row"):
            app.recurring(key="feed:{feed_id}", always=True)(fetch)
        with pytest.raises(PayloadError, match="feed_id"):
            app.recurring(key="all", always=True, name="another")(fetch)

    def test_with_history_successes_are_kept(self, rows: Rows) -> None:
        rows.ensure("a", history=True)
        rows.ensure("b")
        rows.fire()
        assert rows.complete(rows.claim("a"), rows.claim("b")) == 2
        assert rows.history() == ["completed"]

    def test_snoozes_do_not_pile_up(self, rows: Rows, clock: Clock) -> None:
        rows.ensure("a")
        rows.ensure("b", history=True)
        rows.fire()
        for key in ("a", "b"):
            assert rows.finish(rows.claim(key), "snoozed", delay=MINUTE) == "queued"
            assert rows.row(key).job_id == rows.live(key)[0].id
        assert rows.history() == ["snoozed"]

    def test_a_late_word_changes_nothing(self, rows: Rows) -> None:
        rows.ensure()
        held = rows.run()
        rows.complete(held)
        assert (rows.complete(held), rows.finish(held, "failed")) == (0, None)
        assert (rows.row().successes, rows.row().failures) == (1, 0)

    def test_a_row_that_was_deleted_takes_nobody_down(self, rows: Rows) -> None:
        rows.ensure()
        held = rows.run()
        rows.conn.execute("DELETE FROM rota.schedule")
        assert rows.complete(held) == 1
        assert rows.history() == ["completed"]

    async def test_one_that_keeps_failing_is_told_once(self, rows: Rows, clock: Clock, aconn: Any) -> None:
        async def fail_at_cap() -> None:
            for _ in range(7):
                clock.freeze(rows.row().next_run_at)
                rows.finish(rows.run(), "failed", error="boom")

        rows.ensure()
        rows.finish(rows.run(), "failed", error="boom")
        assert await schedules.newly_failing(aconn) == []
        await fail_at_cap()
        since = rows.row().failing_since
        assert since is not None
        assert await schedules.newly_failing(aconn) == [("fetch/a", "fetch", 8, "boom")]
        await fail_at_cap()
        assert rows.row().failing_since == since
        assert await schedules.newly_failing(aconn) == []
        clock.freeze(rows.row().next_run_at)
        rows.complete(rows.run())
        assert rows.row().failing_since is None
        await fail_at_cap()
        assert len(await schedules.newly_failing(aconn)) == 1


class TestSwitching:
    @pytest.mark.req("R04")
    def test_disabled_it_keeps_its_time(self, rows: Rows, clock: Clock) -> None:
        rows.ensure(first_run_at=START + HOUR)
        assert rows.set("a", False) == START + HOUR
        clock.freeze(START + 30 * MINUTE)
        assert rows.set("a", True) == START + HOUR
        rows.set("a", False)
        clock.freeze(START + 2 * HOUR)
        assert rows.fire() == 0
        assert rows.set("a", True) <= clock.now()
        assert rows.fire() == 1

    @pytest.mark.req("R05")
    def test_disabled_while_running_it_ends_normally(self, rows: Rows, clock: Clock) -> None:
        rows.ensure()
        held = rows.run()
        assert rows.set("a", False) is None
        assert rows.complete(held, delay=MINUTE) == 1
        assert (rows.row().successes, rows.row().next_run_at, rows.row().enabled) == (1, START + MINUTE, False)
        clock.move(HOUR)
        assert rows.fire() == 0
        rows.set("a", True)
        assert rows.fire() == 1

    @pytest.mark.req("R05")
    @pytest.mark.parametrize("state", ["queued", "snoozed"])
    def test_disabled_before_it_has_begun_it_does_not_begin(self, rows: Rows, clock: Clock, state: str) -> None:
        rows.ensure()
        due = START
        rows.fire()
        if state == "snoozed":
            rows.finish(rows.claim(), "snoozed", delay=MINUTE)
            due = START + MINUTE
        assert rows.set("a", False) == due
        assert rows.live() == []
        clock.move(HOUR)
        assert rows.fire() == 0
        assert rows.set("a", True) == due
        assert rows.fire() == 1

    @pytest.mark.req("R05", "R03")
    @pytest.mark.parametrize("how", ["snoozed", "released", "lost"])
    def test_disabled_while_running_it_is_not_begun_again(self, rows: Rows, clock: Clock, how: str) -> None:
        rows.ensure()
        rows.fire()
        held = rows.claim(lease_s=-1)
        rows.set("a", False)
        if how == "lost":
            assert rows.conn.execute("SELECT state FROM rota.rescue_runs('{}')").fetchall() == [("canceled",)]
        else:
            assert rows.finish(held, how, delay=MINUTE) == "canceled"
        assert rows.live() == []
        assert START < rows.row().next_run_at <= START + MINUTE
        clock.move(HOUR)
        assert rows.fire() == 0
        rows.set("a", True)
        assert rows.fire() == 1

    @pytest.mark.req("R05")
    async def test_disabled_it_is_not_begun_by_another_worker(self, rows: Rows, aconn: Any) -> None:
        rows.ensure()
        held = rows.run()
        rows.set("a", False)
        assert await runs.release_unknown(aconn, worker=held.worker, known=[], older_than_s=0) == 1
        assert (rows.live(), rows.row().job_id, rows.row().last_error) == ([], None, None)

    @pytest.mark.req("R05")
    def test_who_waits_for_a_job_that_does_not_begin_is_told(self, rows: Rows) -> None:
        rows.ensure()
        rows.fire()
        given.declare(rows.conn, "work")
        child = given.enqueue(rows.conn, parents=[rows.row().job_id])
        rows.set("a", False)
        assert rows.conn.execute("SELECT state FROM rota.jobs WHERE id = %s", [child]).fetchone() == ("canceled",)

    @pytest.mark.req("R05")
    def test_a_job_that_somebody_has_locked_is_not_waited_for(self, rows: Rows, dsn: str) -> None:
        """Who ends a job locks it before its row: waiting the other way round would be a deadlock."""
        rows.ensure()
        held = rows.run()
        rows.finish(held, "snoozed", delay=timedelta(0))
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.job FOR UPDATE")
            rows.conn.execute(f"SET statement_timeout = '{PATIENCE_S}s'")  # not for ever
            assert rows.set("a", False) is None
        rows.complete(rows.claim())
        assert (rows.row().enabled, rows.fire()) == (False, 0)

    def test_what_is_not_there_is_said(self, feed: Any) -> None:
        for switch in (feed.enable, feed.disable):
            with pytest.raises(NotFound, match=r"task 'fetch' has no row with key 'feed:1': make it with ensure"):
                switch(1)
        with pytest.raises(NotFound, match="has no row with key 'feed:1'"):
            feed.sync_enabled("true", 1)

    def test_the_condition_may_name_arguments_and_nothing_else(self, feed: Any) -> None:
        feed.ensure(1)
        assert not feed.sync_enabled("%(feed_id)s > 1", 1).enabled
        assert not feed.sync_enabled("NULL", 1).enabled
        assert feed.sync_enabled("%(feed_id)s = 1 AND %(name)s = 'x'", 1, name="x").enabled
        with pytest.raises(UsageError, match="names nothing"):
            feed.sync_enabled("%(nothing)s = 1", 1)
        with pytest.raises(UsageError, match="has a % that names no argument"):
            feed.sync_enabled("'abc' LIKE 'a%'", 1)


class TestRetry:
    def fail(self, rows: Rows) -> Any:
        rows.ensure()
        held = rows.run()
        rows.finish(held, "failed", error="boom")
        return held.id

    async def test_it_takes_the_rows_place(self, rows: Rows, aconn: Any) -> None:
        id = self.fail(rows)
        assert (await service.retry_job(aconn, id)).state == "queued"
        assert (rows.row().job_id, rows.row().next_run_at) == (id, None)
        rows.complete(rows.claim(), delay=MINUTE)
        assert (rows.row().next_run_at, rows.row().consecutive_failures) == (START + MINUTE, 0)

    async def test_not_beside_another_job_of_its_row(self, rows: Rows, clock: Clock, aconn: Any) -> None:
        id = self.fail(rows)
        clock.move(HOUR)
        rows.fire()
        now = rows.row().job_id
        with pytest.raises(InvalidTransition, match=f"its row fetch/a runs one job at a time, now {now}; wait for its end"):
            await service.retry_job(aconn, id)
        assert [job.id for job in rows.live()] == [now]
        bulk = await service.retry_jobs(aconn, JobFilter(task="fetch"))
        assert (bulk.changed, bulk.skipped) == (0, 1)

    async def test_not_of_a_row_that_is_disabled(self, rows: Rows, aconn: Any) -> None:
        id = self.fail(rows)
        rows.set("a", False)
        with pytest.raises(InvalidTransition, match="its row fetch/a is disabled; enable that first"):
            await service.retry_job(aconn, id)
        assert rows.live() == []

    async def test_of_a_row_that_is_gone_it_is_a_job_like_any_other(self, rows: Rows, aconn: Any) -> None:
        id = self.fail(rows)
        rows.conn.execute("DELETE FROM rota.schedule")
        assert (await service.retry_job(aconn, id)).state == "queued"

    async def test_an_init_task_is_done_when_its_retried_job_is(self, rows: Rows, aconn: Any) -> None:
        rows.conn.execute(
            "INSERT INTO rota.schedule (name, task, strategy, job_id) VALUES ('once', 'once', 'init', %s)", [id := new_id()]
        )
        rows.conn.execute(
            """INSERT INTO rota.job (id, task, schedule_id, state, worker_id, claimed_at, lease_until, attempt, token, max_attempts)
               SELECT %s, 'once', id, 'running', %s, now(), now(), 1, 1, 1 FROM rota.schedule""",
            [id, WORKER],
        )
        rows.conn.execute("SELECT rota.finish_run(%s, 1, %s, 'failed', 0, 0)", [id, WORKER])
        await service.retry_job(aconn, id)
        assert rows.conn.execute("SELECT job_id FROM rota.schedule").fetchone() == (id,)


class TestGoingOn:
    @pytest.mark.req("R03")
    def test_a_row_whose_workers_all_crash_backs_off(self, rows: Rows) -> None:
        rows.ensure()
        rows.fire()
        crashes = 0
        while rows.live():
            rows.claim(lease_s=-1)
            crashes += 1
            assert rows.conn.execute("SELECT count(*) FROM rota.rescue_runs('{}')").fetchone() == (1,)
        assert crashes == 4  # three are forgiven, as they may be a neighbour's
        row = rows.row()
        assert (row.job_id, row.consecutive_failures, row.next_run_at) == (None, 1, START + MINUTE)
        assert row.last_error["type"] == "WorkerCrashed"

    def test_a_job_that_was_deleted_by_hand_is_missed(self, rows: Rows) -> None:
        rows.ensure("a")
        rows.ensure("b")
        rows.fire()
        assert rows.heal() == 0
        rows.conn.execute("DELETE FROM rota.job WHERE id = %s", [rows.row("a").job_id])
        assert rows.heal() == 1
        assert (rows.row("a").job_id, rows.row("a").next_run_at) == (None, START)
        assert rows.fire() == 1

    def test_a_locked_row_is_fired_later_and_keeps_nobody_else(self, rows: Rows, dsn: str) -> None:
        for key in ("a", "b"):
            rows.ensure(key)
        with psycopg.connect(dsn) as user:
            user.execute("SELECT rota.lock_recurring('fetch', 'a')")
            assert rows.fire() == 1
        assert rows.fire() == 1

    async def test_a_worker_can_tell_whose_row_is_locked(self, rows: Rows, dsn: str, aconn: Any) -> None:
        for key in ("a", "b"):
            rows.ensure(key)
        rows.fire()
        ended: list[Any] = [SimpleNamespace(id=str(rows.claim(key).id)) for key in ("a", "b")]
        with psycopg.connect(dsn) as user:
            user.execute("SELECT rota.lock_recurring('fetch', 'a')")
            assert await runs.locked(aconn, runs=ended) == {ended[0].id}
        assert await runs.locked(aconn, runs=ended) == set()

    @pytest.mark.req("R03")
    def test_a_locked_row_keeps_nobody_else_from_being_rescued(self, rows: Rows, dsn: str) -> None:
        for key in ("a", "b"):
            rows.ensure(key)
        rows.fire()
        rows.conn.execute("UPDATE rota.job SET attempt = 3, token = 3, crashes = 3")
        for key in ("a", "b"):
            rows.claim(key, lease_s=-1)
        with psycopg.connect(dsn) as user:
            user.execute("SELECT rota.lock_recurring('fetch', 'a')")
            rows.conn.execute(f"SET lock_timeout = '{PATIENCE_S}s'")
            assert rows.conn.execute("SELECT state FROM rota.rescue_runs('{}')").fetchall() == [("failed",)]
            assert (rows.row("a").failures, rows.row("b").failures) == (0, 1)
        assert rows.conn.execute("SELECT state FROM rota.rescue_runs('{}')").fetchall() == [("failed",)]
        assert rows.row("a").next_run_at == START + MINUTE


def test_disabling_and_ending_at_once_do_not_deadlock(rows: Rows, dsn: str) -> None:
    """One locks the row and then the job, the other the job and then the row."""
    rows.ensure()
    stop, errors = threading.Event(), []

    def switch() -> None:
        with psycopg.connect(dsn, autocommit=True) as own:
            mine = Rows(own)
            while not stop.wait(0.001):  # for the other to have a job now and then
                try:
                    mine.set("a", False)
                    mine.set("a", True)
                except BaseException as error:
                    errors.append(error)
                    return

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=500ms") as own:
            worker = Rows(own)
            ended = 0
            deadline = time.monotonic() + 30
            while ended < 25 and time.monotonic() < deadline:
                worker.fire()
                rows.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() WHERE job_id IS NULL")
                for job in worker.live():
                    if own.execute("SELECT rota.cancel_job(%s)", [job.id]).fetchone() != (None,):
                        ended += 1
    finally:
        stop.set()
        thread.join()
    assert errors == []
    assert ended >= 20
    wait_until(lambda: rows.row().job_id is None or rows.live())
