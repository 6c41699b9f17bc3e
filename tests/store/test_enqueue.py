"""Enqueue through the application's own connections: one job, many jobs, sync and async, by the same rules."""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import AdminShutdown
from psycopg.rows import dict_row
from tests.support.callers import CALLERS
from tests.support.wait import PATIENCE_S, wait_until

from rota import Enqueued, Retry, Rota
from rota.config import load_settings
from rota.contrib.testing.clock import Clock
from rota.errors import (
    CycleError,
    DatabaseError,
    DuplicateKey,
    KeyReused,
    ParentFailed,
    ParentNotFound,
    PayloadError,
    UnknownQueue,
    UsageError,
)
from rota.model.duration import parse_duration
from rota.model.ids import new_id
from rota.store import intake
from rota.store.jobs import COPY_FROM

MANY = COPY_FROM * 3
IN_2030 = datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def app(dsn: str) -> Iterator[Rota]:
    with Rota(dsn) as app:
        yield app


@pytest.fixture
def work(app: Rota) -> Any:
    @app.task
    def work(number: int = 0, text: str = "", value: Any = None) -> None: ...

    return work


def rows(conn: psycopg.Connection[Any], what: str = "*") -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT {what} FROM rota.job ORDER BY id").fetchall()


def count(conn: psycopg.Connection[Any], table: str = "job") -> int:
    return conn.execute(f"SELECT count(*) FROM rota.{table}").fetchone()[0]


def finish(conn: psycopg.Connection[Any], made: Enqueued, outcome: str) -> None:
    """End a job as a worker would have, in so far as an enqueue can see it."""
    conn.execute("DELETE FROM rota.job WHERE id = %s", [made.id])
    conn.execute(
        """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload)
           VALUES (%s, 1, 'work', 'default', %s, true, now(), '{}')""",
        [made.id, outcome],
    )


@pytest.mark.req("Q02")
def test_a_job_has_what_it_was_given(app, conn):
    app.queue("mail")

    @app.task(queue="mail", priority=3, retry=Retry(max_attempts=7, base="1m"), timeout="30s")
    def send(user_id: int) -> None: ...

    made = send.enqueue(7)
    (row,) = rows(conn)
    assert row["id"] == made.id
    assert row["created_at"] == row["updated_at"] == row["run_at"]
    wanted = {
        "task": "send",
        "queue": "mail",
        "priority": 3,
        "state": "queued",
        "payload": {"user_id": 7},
        "attempt": 0,
        "max_attempts": 7,
        "timeout": None,  # this and the next are the task's own, which may change while the job waits
        "retry": None,
        "key": None,
        "owner": None,
        "worker_id": None,
        "lease_until": None,
        "last_error": None,
        "schedule_id": None,
        "triggered_by": None,
    }
    assert {name: row[name] for name in wanted} == wanted


@pytest.mark.req("Q02", "Q03")
def test_every_option_is_stored(app, work, conn):
    app.queue("slow")
    work.using(
        run_at=IN_2030,
        priority=-7,
        queue="slow",
        key="k",
        retry=Retry(max_attempts=9, base=1, cap=2, jitter=0),
        timeout="1h30m",
        owner="ann",
        triggered_by={"kind": "manual", "user": "Zoë"},
        on_parent_failure="fail",
    ).enqueue(1)
    (row,) = rows(conn)
    wanted = {
        "run_at": IN_2030,
        "state": "delayed",
        "priority": -7,
        "queue": "slow",
        "key": "k",
        "max_attempts": 9,
        "retry": {"max_attempts": 9, "base": 1.0, "cap": 2.0, "jitter": 0.0},
        "timeout": timedelta(minutes=90),
        "owner": "ann",
        "triggered_by": {"kind": "manual", "user": "Zoë"},
        "on_parent_failure": "fail",
    }
    assert {name: row[name] for name in wanted} == wanted


OPTIONS = [
    {},
    {"delay": "5m"},
    {"delay": 0},
    {"delay": timedelta(microseconds=1)},
    {"run_at": IN_2030},
    {"run_at": datetime(2020, 1, 1, tzinfo=UTC)},
    {"priority": -32768, "max_attempts": 1, "timeout": 0.25},
    {"retry": Retry(max_attempts=2, base="1m", cap="2m")},
    {"owner": "\\N\t\n\\.", "triggered_by": {"a\t": ["\n", "\\", "é", None, 1.5]}},
]


@pytest.mark.req("Q03")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_and_many_have_the_same_rules(app, work, conn, dsn, options):
    """Through a single statement, through one for several, through COPY, and without COPY."""
    task = work.using(**options)
    arguments = {"number": 2**70, "text": 'é😀\\ \t\n\r"%s$1', "value": {"a": [1.0, None, True, "\\N"]}}
    task.enqueue(**arguments)
    app.enqueue_many([task.job(**arguments)] * 3)
    app.enqueue_many([task.job(**arguments)] * MANY)
    app.enqueue("work", arguments, **options)
    made = rows(conn, "*, payload::text AS text, run_at - created_at AS wait")
    assert len(made) == 1 + 3 + MANY + 1
    assert made[0]["text"] == task.job(**arguments).payload
    changing = {"id", "created_at", "updated_at", "run_at", *({"wait"} if "run_at" in options else ())}
    same = [{name: value for name, value in row.items() if name not in changing} for row in made]
    assert same == same[:1] * len(same)
    if "run_at" not in options:
        assert made[0]["wait"] == parse_duration(options.get("delay", 0))


@pytest.mark.parametrize("number", [3, MANY])
def test_the_order_of_a_call_is_the_order_of_the_jobs(app, work, conn, number):
    made = app.enqueue_many(work.job(n) for n in range(number))
    for n in range(number, number + 20):
        made.append(work.enqueue(n))
    assert [row["payload"]["number"] for row in rows(conn)] == list(range(number + 20))
    assert [row["id"] for row in rows(conn)] == [each.id for each in made]


def test_none_at_all(app, conn):
    assert app.enqueue_many([]) == []
    assert count(conn) == 0


@pytest.mark.parametrize("number", [3, MANY])
async def test_async(app, work, aconn, number):
    first = await work.aenqueue(1)
    again = await app.aenqueue("work", {"number": 2})
    made = await app.aenqueue_many([work.job(n) for n in range(number)])
    stored = await (await aconn.execute("SELECT id FROM rota.job ORDER BY id")).fetchall()
    assert [row[0] for row in stored] == [each.id for each in (first, again, *made)]
    await app.aclose()


async def test_many_at_once_share_the_pool(app, work, conn):
    import asyncio

    made = await asyncio.gather(*(work.aenqueue(n) for n in range(50)))
    assert len({each.id for each in made}) == count(conn) == 50
    await app.aclose()


def test_an_application_serves_one_event_loop_after_another(app, work, conn):
    import asyncio

    async def main() -> None:
        async with app:
            await work.aenqueue()

    asyncio.run(main())
    asyncio.run(main())
    work.enqueue()  # and threads
    assert count(conn) == 3


@pytest.mark.req("Q03")
class TestDue:
    def test_the_databases_clock_decides(self, app, work, conn):
        clock = Clock(conn)
        clock.move(timedelta(days=3650))  # 2030 is past there
        work.using(run_at=IN_2030).enqueue(0)
        work.using(delay="5m").enqueue(1)
        app.enqueue_many([work.using(run_at=IN_2030).job(2)] * MANY)
        app.enqueue_many([work.using(delay="5m").job(3)] * MANY)
        now = clock.now()
        for row in rows(conn):
            future = row["payload"]["number"] % 2 == 1
            assert row["state"] == ("delayed" if future else "queued")
            assert (timedelta(minutes=4) < row["run_at"] - now < timedelta(minutes=6)) if future else row["run_at"] == IN_2030


@pytest.mark.req("Q03")
class TestKey:
    def test_the_second_gets_the_first_back(self, work, conn):
        first = work.using(key="k").enqueue(1)
        second = work.using(key="k").enqueue(1)
        assert (first.created, second.created) == (True, False)
        assert first.id == second.id
        assert count(conn) == 1

    def test_another_payload_is_refused(self, work, conn):
        first = work.using(key="k").enqueue(1)
        with pytest.raises(KeyReused, match=f"work: the key 'k' belongs to job {first.id}, whose payload is another"):
            work.using(key="k").enqueue(2)
        assert count(conn) == 1

    def test_strict_raises(self, work, conn):
        first = work.using(key="k", strict=True).enqueue(1)
        with pytest.raises(DuplicateKey, match=f"work: job {first.id} has the key 'k' already, and strict=True"):
            work.using(key="k", strict=True).enqueue(1)
        assert count(conn) == 1

    def test_keys_are_of_a_task_and_an_owner(self, app, work, conn):
        @app.task
        def other(number: int) -> None: ...

        made = [
            work.using(key="k").enqueue(1),
            work.using(key="k", owner="ann").enqueue(1),
            work.using(key="k", owner="bob").enqueue(2),
            other.using(key="k").enqueue(3),
        ]
        assert all(each.created for each in made)
        assert work.using(key="k", owner="ann").enqueue(1) == Enqueued(made[1].id, created=False)

    def test_a_key_is_kept_after_its_job_and_free_after_its_time(self, work, conn):
        clock = Clock(conn)
        keyed = work.using(key="k", key_ttl="1h")
        first = keyed.enqueue(1)
        clock.move(timedelta(hours=2))
        assert not keyed.enqueue(1).created  # the job is live: whatever its age
        finish(conn, first, "completed")
        second = keyed.enqueue(2)
        assert second.created
        finish(conn, second, "completed")
        clock.move(timedelta(minutes=59))
        assert keyed.enqueue(2) == Enqueued(second.id, created=False)
        clock.move(timedelta(minutes=2))
        assert keyed.enqueue(3).created

    def test_many_with_keys(self, app, work, conn):
        first = work.using(key="a").enqueue(1)
        jobs = [work.using(key="b").job(2), work.using(key="a").job(1), work.using(key="b").job(2), work.job(3)]
        made = app.enqueue_many(jobs)
        assert [each.created for each in made] == [True, False, False, True]
        assert made[1].id == first.id
        assert made[2].id == made[0].id
        assert count(conn) == 3
        assert app.enqueue_many(jobs[:3])[0] == Enqueued(made[0].id, created=False)

    @pytest.mark.parametrize("strict", [False, True])
    def test_many_with_one_refused_store_none(self, app, work, conn, strict):
        work.using(key="a").enqueue(1)
        refused = work.using(key="a", strict=True).job(1) if strict else work.using(key="a").job(2)
        with pytest.raises(DuplicateKey if strict else KeyReused):
            app.enqueue_many([*[work.job()] * MANY, work.using(key="b").job(1), refused])
        assert count(conn) == 1
        assert count(conn, "job_key") == 1


@pytest.mark.req("Q19")
class TestParents:
    def test_it_waits_for_them(self, work, conn):
        first, second = work.enqueue(1), work.enqueue(2)
        third = work.using(parents=[first, second.id, str(first.id)]).enqueue(3)
        (child,) = (row for row in rows(conn) if row["id"] == third.id)
        assert (child["state"], child["pending_parents"]) == ("waiting", 2)
        assert {row["fanout"] for row in rows(conn) if row["id"] != third.id} == {True}

    def test_one_that_does_not_exist(self, work, conn):
        missing = new_id()
        with pytest.raises(ParentNotFound, match=f"work: parent {missing} does not exist"):
            work.using(parents=[work.enqueue(1), missing]).enqueue(2)
        assert count(conn) == 1

    def test_one_that_has_completed(self, work, conn):
        parent = work.enqueue(1)
        finish(conn, parent, "completed")
        work.using(parents=[parent]).enqueue(2)
        assert [row["state"] for row in rows(conn)] == ["queued"]

    @pytest.mark.parametrize("outcome", ["failed", "canceled"])
    def test_one_that_has_failed(self, work, conn, outcome):
        parent = work.enqueue(1)
        finish(conn, parent, outcome)
        with pytest.raises(ParentFailed, match=rf'work: parent {parent.id} has failed or was canceled.*on_parent_failure="ignore"'):
            work.using(parents=[parent]).enqueue(2)
        assert count(conn) == 0
        work.using(parents=[parent], on_parent_failure="ignore").enqueue(2)
        assert [row["state"] for row in rows(conn)] == ["queued"]

    @pytest.mark.req("Q03")
    @pytest.mark.fault(8)
    def test_who_asks_again_with_a_key_gets_the_job_whatever_became_of_its_parent(self, app, work, conn):
        parent = work.enqueue(1)
        child = work.using(parents=[parent], key="child")
        made = child.enqueue(2)
        finish(conn, parent, "failed")
        assert child.enqueue(2) == Enqueued(made.id, created=False)
        assert app.enqueue_many([child.job(2)]) == [Enqueued(made.id, created=False)]
        with pytest.raises(KeyReused):
            child.enqueue(3)

    def test_a_graph_in_one_call(self, app, work, conn):
        stored = work.enqueue(0)
        root = work.job(1)
        middle = [work.job(2).after(root, stored) for _ in range(MANY)]
        last = work.job(3).after(*middle)
        made = app.enqueue_many([last, *middle, root])
        assert len({each.id for each in made}) == MANY + 2
        pending = {row["id"]: row["pending_parents"] for row in rows(conn)}
        assert pending[made[0].id] == MANY
        assert {pending[each.id] for each in made[1:-1]} == {2}
        assert pending[made[-1].id] == 0
        assert count(conn, "job_edge") == 3 * MANY

    def test_a_cycle_stores_nothing(self, app, work, conn):
        a, b = work.job(1), work.job(2)
        with pytest.raises(CycleError, match="work waits for work"):
            app.enqueue_many([work.job(0), a.after(b), b.after(a)])
        assert count(conn) == 0

    def test_one_refused_stores_none(self, app, work, conn):
        a = work.job(1)
        with pytest.raises(ParentNotFound):
            app.enqueue_many([a, work.job(2).after(a), work.job(3).after(new_id())])
        assert count(conn) == 0


@pytest.mark.fault(11)
@pytest.mark.req("Q03")
@pytest.mark.parametrize("way", ["one", "many", "async"])
@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ({"number": "7"}, {}, PayloadError),
        ({"nummer": 7}, {}, PayloadError),
        ({"value": math.nan}, {}, PayloadError),
        ({"text": "a\0b"}, {}, PayloadError),
        ({"text": "\ud800"}, {}, PayloadError),
        ({"text": "x" * 10_000_000}, {}, PayloadError),
        ({"value": (1, 2)}, {}, PayloadError),
        ({}, {"queue": "elsewhere"}, UnknownQueue),
        ({}, {"queue": "NO SUCH"}, UsageError),
        ({}, {"parents": [new_id()]}, ParentNotFound),
        ({}, {"parents": ["x"]}, UsageError),
        ({"number": 2}, {"key": "taken"}, KeyReused),
        ({"number": 1}, {"key": "taken", "strict": True}, DuplicateKey),
        ({}, {"key": "x" * 1000}, UsageError),
        ({}, {"delay": "soon"}, UsageError),
        ({}, {"max_attempts": 0}, UsageError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, dict) else value.__name__,
)
async def test_bad_input_is_refused_and_nothing_is_enqueued(dsn, aconn, way, arguments, options, error):
    async with Rota(dsn) as app:

        @app.task
        def work(number: int = 0, text: str = "", value: Any = None) -> None: ...

        async def enqueue() -> None:
            if way == "one":
                with psycopg.connect(dsn) as own:
                    work.using(conn=own, **options).enqueue(**arguments)
            elif way == "many":
                await app.aenqueue_many([*[work.job()] * MANY, work.using(**options).job(**arguments)])
            else:
                await work.using(**options).aenqueue(**arguments)

        await work.using(key="taken").aenqueue(1)
        with pytest.raises(error):
            await enqueue()
    assert await (await aconn.execute("SELECT count(*) FROM rota.job")).fetchone() == (1,)


@pytest.mark.fault(11)
@pytest.mark.parametrize("number", [1, MANY])
def test_the_largest_payload_and_the_deepest(app, work, conn, number):
    deep: Any = None
    for _ in range(150):
        deep = [deep]
    large = "\\" * 500_000  # twice the size in JSON, four times in COPY
    app.enqueue_many([work.job(text=large), *[work.job(value=deep)] * number])
    stored = [row["payload"] for row in rows(conn)]
    assert stored[0]["text"] == large
    assert stored[1]["value"] == deep


class TestWake:
    """Idle workers are woken once for a call; when none is idle nobody is."""

    @pytest.mark.parametrize("number", [1, 3, MANY])
    @pytest.mark.parametrize("idle", [True, False])
    def test_notify(self, app, work, conn, dsn, number, idle):
        conn.execute(
            """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, wants_wake)
               VALUES (gen_random_uuid(), 'h', 1, '0', '{}', '{}', 1, %s)""",
            [idle],
        )
        conn.execute("LISTEN rota_wake")
        app.enqueue_many([work.job() for _ in range(number)])
        work.using(key="k").enqueue()
        work.enqueue()
        conn.execute("NOTIFY rota_wake, 'end'")
        heard = []
        for notify in conn.notifies(timeout=PATIENCE_S):
            heard.append(notify.payload)
            if notify.payload == "end":
                break
        assert heard == (["", "", ""] if idle else []) + ["end"]


class TestDatabaseAway:
    def test_it_is_said_why(self):
        app = Rota(settings=load_settings(database_url="postgresql://127.0.0.1:1/x", database_connect_timeout_s=1))

        @app.task
        def work() -> None: ...

        with app, pytest.raises(DatabaseError, match=r"PostgreSQL cannot be reached: .*refused"):
            work.enqueue()

    def test_without_an_address(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("ROTA_DATABASE_URL", raising=False)
        app = Rota()

        @app.task
        def work() -> None: ...

        with pytest.raises(Exception, match="no database is configured"):
            work.enqueue()

    def test_without_the_schema(self, empty_dsn):
        with Rota(empty_dsn) as app:

            @app.task
            def work() -> None: ...

            for enqueue in (work.enqueue, work.using(key="k").enqueue, lambda: app.enqueue_many([work.job()] * MANY)):
                with pytest.raises(DatabaseError, match="does not exist: run `rota migrate up`"):
                    enqueue()

    def test_a_pool_with_nothing_free(self, dsn, conn):
        settings = load_settings(database_url=dsn, database_connect_timeout_s=1, database_pool_max=1)
        with Rota(settings=settings) as app:

            @app.task
            def work() -> None: ...

            with app._intake._connections.connection(), pytest.raises(DatabaseError, match="the 1 of the pool are busy"):
                work.enqueue()

    @pytest.mark.parametrize("many", [1, 3, MANY])
    def test_an_enqueue_whose_session_ends_meanwhile_is_repeated(self, app, work, conn, dsn, many):
        def store() -> list[Enqueued]:
            return app.enqueue_many([work.job(n) for n in range(many)]) if many > 1 else [work.enqueue(0)]

        def astore() -> list[Enqueued]:
            async def store() -> list[Enqueued]:
                jobs = [work.job(n) for n in range(many)]
                done = await app.aenqueue_many(jobs) if many > 1 else [await work.aenqueue(0)]
                await app._intake._connections.aclose()
                return done

            return asyncio.run(store())

        for each in (store, astore):
            with psycopg.connect(dsn) as other, ThreadPoolExecutor() as threads:
                other.execute("LOCK TABLE rota.job")
                storing = threads.submit(each)
                waits = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'rota.job'::regclass"
                [(pid,)] = wait_until(lambda: conn.execute(waits).fetchall())  # noqa: B023
                conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
                other.commit()
                assert len({str(job.id) for job in storing.result(PATIENCE_S)}) == many
        assert count(conn) == 2 * many

    def test_what_was_stored_before_its_session_ended_is_not_stored_again(self, app, work, conn, monkeypatch):
        end = AdminShutdown("terminating connection due to administrator command")
        carry_out = intake.carry_out

        def store_and_fail(carrier, steps):
            monkeypatch.setattr(intake, "carry_out", carry_out)
            carry_out(carrier, steps)
            raise end

        monkeypatch.setattr(intake, "carry_out", store_and_fail)
        with pytest.raises(DatabaseError, match="terminating connection"):
            work.enqueue(0)
        assert count(conn) == 1

    def test_no_enqueue_fails_when_connections_were_cut(self, app, work, conn):
        for n in range(3):
            work.enqueue(n)
            conn.execute(
                """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE application_name = 'rota enqueue' AND datname = current_database()"""
            )
            assert work.enqueue(n + 10).created
        assert count(conn) == 6


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(app, work, conn):
    work.enqueue(0)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=lambda: [work.enqueue(n) for n in range(20)], daemon=True) for _ in range(2)]
    for child in children:
        child.start()
    for n in range(20):
        work.enqueue(n)
    for child in children:
        child.join(PATIENCE_S)
    assert [child.exitcode for child in children] == [0, 0]
    assert count(conn) == 61
    work.enqueue(0)  # the children have not taken the parent's connection with them


def test_without_copy_many_are_still_one_statement(app, work, conn, dsn):
    """As with psycopg2, which is not worth a COPY of its own."""
    with CALLERS["psycopg2"](dsn) as caller:
        caller.enqueue_many(app, [work.job(n) for n in range(MANY)])
        caller.commit()
    assert [row["payload"]["number"] for row in rows(conn)] == list(range(MANY))


def test_payloads_are_stored_as_they_were_written(app, work, conn):
    value = {"b": 1, "a": [1.0, 1e22, 0.1], "B": None}
    work.enqueue(value=value)
    app.enqueue_many([work.job(value=value)] * MANY)
    text = json.dumps({"value": value}, separators=(",", ":"))
    assert {row["text"].replace("1e+22", "1e22") for row in rows(conn, "payload::text AS text")} == {text.replace("1e+22", "1e22")}
