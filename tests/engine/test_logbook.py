"""What handlers say is kept: in order, bounded, fenced, and never at their expense."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
import structlog
from psycopg.rows import namedtuple_row
from tests.support import isolated
from tests.support.engine import Engine
from tests.support.processes import WorkerProcess
from tests.support.wait import until, wait_until

from rota.config import LogSettings
from rota.db import migrations
from rota.db.connection import connect_async
from rota.db.embedded import EmbeddedPostgres
from rota.engine import logbook
from rota.engine.context import Context
from rota.engine.logbook import Logbook, encode_fields
from rota.engine.options import LogOptions
from rota.events import DatabaseLost, Events, LinesRefused
from rota.log import configure_logging
from rota.model.run import Run, current_run

pytestmark = pytest.mark.req("C07")


@pytest.fixture(autouse=True)
def process_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(LogSettings(format="json", level="debug"))
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(engine: Engine, id: UUID) -> list[Any]:
    cursor = engine.conn.cursor(row_factory=namedtuple_row)
    return cursor.execute("SELECT * FROM rota.log WHERE job_id = %s ORDER BY attempt, sequence", [id]).fetchall()


def said(engine: Engine, id: UUID) -> list[str]:
    return [line.message for line in lines(engine, id)]


async def test_it_works(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context, user: int) -> None:
        log = ctx.log.bind(user=user)
        log.debug("not kept")
        log.info("begin", step=1)
        log.warning("slow by %d s", 5)
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("failed")
        log.log(logging.ERROR, "worse", fields={"a": [1, 2]})

    async with engine.worker():
        id = engine.enqueue(work, {"user": 7})
        await engine.ended(id)
        kept = await until(lambda: lines(engine, id))
    assert [(line.sequence, line.level, line.message) for line in kept] == [
        (1, 20, "begin"), (2, 30, "slow by 5 s"), (3, 40, "failed"), (4, 40, "worse"),
    ]  # fmt: skip
    assert (kept[0].fields, kept[0].task, kept[0].attempt) == ({"user": 7, "step": 1}, "work", 1)
    assert kept[2].fields["exception"].endswith("ValueError: no")
    assert kept[3].fields == {"user": 7, "fields": {"a": [1, 2]}}
    assert sorted(line.at for line in kept) == [line.at for line in kept]


async def test_anything_that_logs_is_heard(engine: Engine) -> None:
    async def part(number: int) -> None:
        await asyncio.sleep(0)
        logging.getLogger("shop").info("part %d", number)

    @engine.task
    async def work(ctx: Context) -> None:
        logging.getLogger("shop.orders").warning("late", extra={"order": 9})
        structlog.get_logger().info("sent", to="me")
        await asyncio.gather(part(1), part(2))
        await asyncio.to_thread(logging.getLogger("shop").info, "in a thread")
        ctx.log.info("last")

    @engine.task
    def in_thread() -> None:
        logging.getLogger("shop").error("from a thread")

    async with engine.worker():
        ids = [engine.enqueue(work), engine.enqueue(in_thread)]
        await engine.ended(*ids)
        await until(lambda: all(lines(engine, id) for id in ids))
    kept = lines(engine, ids[0])
    assert [line.message for line in kept] == ["late", "sent", "part 1", "part 2", "in a thread", "last"]
    assert kept[0].fields == {"logger": "shop.orders", "order": 9}
    assert kept[1].fields == {"to": "me"}
    assert said(engine, ids[1]) == ["from a thread"]


@pytest.mark.req("O01")
async def test_the_process_log_has_it_at_once(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="json"))
    go = asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        ctx.log.info("hello", n=1, password="hunter2")
        logging.getLogger("shop").info("token=abcdef")
        await go.wait()

    async with engine.worker():
        id = engine.enqueue(work)
        written = ""

        def arrived() -> bool:
            nonlocal written
            written += capfd.readouterr().err
            return "shop" in written

        await until(arrived)
        assert not lines(engine, id)
        go.set()
    ours, theirs = (json.loads(line) for line in written.splitlines() if '"job_id"' in line)
    identity = {"task": "work", "job_id": str(id), "attempt": 1, "correlation_id": str(id)}
    identity |= {"level": "info", "at": ours["at"]}
    assert ours == {"event": "hello", "n": 1, "password": "[redacted]", "component": "task"} | identity
    assert theirs == {"event": "token=[redacted]", "component": "shop"} | identity | {"at": theirs["at"]}


async def test_lines_go_in_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred lines or the end of the run, whichever comes first."""
    monkeypatch.setattr(logbook, "FLUSH_S", 600.0)
    go = asyncio.Event()

    @engine.task
    async def work(ctx: Context, count: int) -> None:
        for number in range(count):
            ctx.log.info(f"line {number}")
        await go.wait()

    async with engine.worker():
        many = engine.enqueue(work, {"count": 100})
        await until(lambda: len(lines(engine, many)) == 100)
        go.set()
        few = engine.enqueue(work, {"count": 5})
        await until(lambda: len(lines(engine, few)) == 5)
    assert [line.sequence for line in lines(engine, many)] == list(range(1, 101))


class MovedClock:
    """The time as the logbook reads it, moved by the test."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


@pytest.mark.parametrize(
    ("count", "ended", "quiet_s", "due_s"),
    [
        pytest.param(1, False, 4.99, 5.0, id="five seconds after the first line"),
        pytest.param(99, False, 4.99, 5.0, id="99 lines wait as one does"),
        pytest.param(100, False, None, 0.0, id="at once when there are 100 lines"),
        pytest.param(1, True, 0.09, 0.1, id="a tenth of a second after the end of the run"),
    ],
)
async def test_when_lines_are_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, count: int, ended: bool, quiet_s: float | None, due_s: float
) -> None:
    clock = MovedClock()
    monkeypatch.setattr(logbook, "monotonic", clock)

    @engine.task
    async def work() -> None: ...

    hold = engine.hold(engine.enqueue(work))
    run = Run(str(hold.id), hold.token, "work", "default", 0, None, "{}", 1, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]
    book = Logbook(hold.worker, LogOptions(), Events())
    async with await connect_async(engine.dsn, "test") as conn:
        for number in range(count):
            book.write(run, 20, f"line {number}", {})
        if ended:
            book.close(run)
        serving = asyncio.create_task(book.serve(conn))
        if quiet_s is not None:
            clock.now = 1000.0 + quiet_s
            seen = clock.reads
            await until(lambda: lines(engine, hold.id) or clock.reads > seen + 5, what="the logbook to look at the clock again")
            assert lines(engine, hold.id) == []
        clock.now = 1000.0 + due_s
        await until(lambda: len(lines(engine, hold.id)) == count, what="the lines to be written")
        serving.cancel()


async def test_a_run_is_bounded(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context) -> None:
        for number in range(250):
            ctx.log.info("x" * 1000, number=number, blob="y" * 5000)

    async with engine.worker(logs=LogOptions(lines_per_run=100, line_bytes=256)):
        id = engine.enqueue(work)
        await engine.ended(id)
        await until(lambda: len(lines(engine, id)) == 101)
    *kept, last = lines(engine, id)
    assert (last.sequence, last.message, last.fields) == (101, "150 more lines were dropped", {"dropped": 150})
    assert kept[0].message == "x" * 256 + "… (744 more characters)"
    assert kept[0].fields["truncated"] is True
    assert all(len(json.dumps(line.fields)) < 300 for line in kept)


async def test_levels(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context) -> None:
        for level in ("debug", "info", "warning", "error", "critical"):
            getattr(ctx.log, level)(level)

    for least, expected in (("debug", 5), ("warning", 3)):
        async with engine.worker(logs=LogOptions(level=least)):
            id = engine.enqueue(work)
            await engine.ended(id)
        assert len(lines(engine, id)) == expected
    async with engine.worker(logs=LogOptions(enabled=False)):
        id = engine.enqueue(work)
        await engine.ended(id)
    assert lines(engine, id) == []


@pytest.mark.fault(11)
async def test_no_line_harms_its_handler(engine: Engine) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

        __repr__ = __str__

    ring: dict[str, Any] = {}
    ring["ring"] = ring
    odd = [2**70, "\ud800", "a\0b", float("nan"), b"\xff", object(), {1: {2: 3}}, ring, {Broken: 1}, Broken()]

    @engine.task
    async def work(ctx: Context) -> None:
        for value in odd:
            ctx.log.info("odd \0 \ud800", value=value)
        ctx.log.info("%d", "not a number")
        ctx.log.info(Broken())
        ctx.log.info("event", event="twice")
        with contextlib.suppress(TypeError):  # pytest's own ears make an error of it
            logging.getLogger("shop").info("%d", "not a number")

    async with engine.worker():
        id = engine.enqueue(work, max_attempts=1)
        await engine.ended(id)
        await until(lambda: lines(engine, id))
    kept = lines(engine, id)
    assert [line.sequence for line in kept] == list(range(1, len(kept) + 1))
    assert len(kept) >= len(odd) + 3
    assert kept[0].fields == {"value": 2**70}
    assert kept[1].fields == {"value": "'\\ud800'"}
    assert all(isinstance(line.fields, dict | None) for line in kept)
    assert kept[2].fields == {"value": "a\N{REPLACEMENT CHARACTER}b"}


async def test_retries_keep_their_own_lines(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context) -> None:
        ctx.log.info(f"attempt {ctx.attempt}")
        if ctx.attempt < 3:
            raise ValueError("again")

    async with engine.worker():
        id = engine.enqueue(work, retry=isolated.AT_ONCE)
        await engine.ended(id)
        await until(lambda: len(lines(engine, id)) == 3)
    assert [(line.attempt, line.sequence, line.message) for line in lines(engine, id)] == [
        (1, 1, "attempt 1"), (2, 1, "attempt 2"), (3, 1, "attempt 3"),
    ]  # fmt: skip


@pytest.mark.fault(1)
async def test_what_a_zombie_says_is_not_kept(engine: Engine) -> None:
    go = asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            ctx.log.info("mine")
            for _ in range(99):
                ctx.log.info("more")
            await go.wait()
            ctx.log.info("a zombie's")
        else:
            ctx.log.info("the other's")

    async with engine.worker(concurrency=2):
        id = engine.enqueue(work)
        await until(lambda: len(lines(engine, id)) == 100)
        with engine.conn.transaction():
            engine.take_away(id)
            engine.conn.execute("UPDATE rota.job SET crashes = 0")  # or it would run in a process of its own
        await engine.ended(id)
        go.set()
        await until(lambda: engine.seen(LinesRefused))
    assert said(engine, id)[100:] == ["the other's"]
    assert engine.seen(LinesRefused)[0].lines == 1


async def write(engine: Engine, run: Run, worker: UUID, events: Events | None = None) -> int:
    """Write one line for a run as its worker would, and tell how many of the job there are."""
    conn = await connect_async(engine.dsn, "test")
    book = Logbook(worker, LogOptions(), events or Events())
    book.write(run, 20, "hello", {})
    await book.run_once(conn)
    await conn.close()
    return len(lines(engine, run.job_id))


async def test_the_fence(engine: Engine) -> None:
    """While the job is held, after its end, and not once somebody else has it."""

    @engine.task
    async def work() -> None: ...

    def held(id: UUID) -> Any:
        return engine.hold(id)

    def run_of(hold: Any) -> Run:
        return Run(str(hold.id), hold.token, "work", "default", 0, None, "{}", hold.attempt, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]

    finish = "SELECT rota.finish_run(%s, %s, %s, %s, 0, 0, %s, NULL, %s::interval)"
    id = engine.enqueue(work)
    hold = held(id)
    run = run_of(hold)
    assert await write(engine, run, hold.worker) == 1
    engine.conn.execute(finish, [id, hold.token, hold.worker, "snoozed", None, "0"])
    assert await write(engine, run, hold.worker) == 2  # it ended, and nobody has it
    second = held(id)
    assert await write(engine, run, hold.worker) == 3  # somebody has, but this run is on record as ended
    assert await write(engine, run_of(second), second.worker) == 4
    engine.take_away(id)
    assert await write(engine, run_of(second), second.worker) == 4  # it was rescued from there
    third = held(id)
    assert await write(engine, run_of(second), second.worker) == 4
    crashed = json.dumps({"type": "WorkerCrashed", "message": "its process was killed"})
    engine.conn.execute(finish, [id, third.token, third.worker, "crashed", crashed, "0"])
    assert await write(engine, run_of(third), third.worker) == 5  # the handler's own process died; the worker is fine


@pytest.mark.parametrize("name", ["say_and_die", "say_lines"])
async def test_isolated_handlers(engine: Engine, name: str) -> None:
    """A process that dies takes nothing with it that was said."""
    engine.tasks.update(isolated.app.tasks)
    async with engine.worker():
        id = engine.enqueue(name, {"lines": 5}, max_attempts=1)
        await engine.ended(id, state="failed" if name == "say_and_die" else "completed")
        await until(lambda: len(lines(engine, id)) >= 10)
    kept = lines(engine, id)
    assert [line.message for line in kept] == [text for n in range(5) for text in (f"line {n}", f"logged {n}")]
    assert [line.sequence for line in kept] == list(range(1, 11))
    assert kept[0].fields == {"n": 0, "password": "[redacted]"}


async def test_isolated_handlers_are_bounded(engine: Engine) -> None:
    engine.tasks.update(isolated.app.tasks)
    async with engine.worker(logs=LogOptions(lines_per_run=7)):
        id = engine.enqueue("say_lines", {"lines": 5})
        await engine.ended(id)
        await until(lambda: len(lines(engine, id)) == 8)
    assert said(engine, id)[-1] == "3 more lines were dropped"


@pytest.mark.fault(3)
def test_a_crash_loses_at_most_the_buffer(engine: Engine, dsn: str) -> None:
    """Lines are written when there are so many of them, not only when one has waited for long enough; and in their order."""
    id = engine.enqueue("say_and_hang", {"lines": 250})
    with WorkerProcess("tests.support.isolated:app", dsn) as worker:
        wait_until(lambda: len(lines(engine, id)) >= 2 * logbook.FLUSH_LINES)
        waited = engine.conn.execute("SELECT extract(epoch FROM clock_timestamp() - max(at)) FROM rota.log").fetchone()
        worker.kill()
    assert waited is not None
    assert waited[0] < logbook.FLUSH_S - 1, "a crash would have lost more"
    kept = lines(engine, id)
    assert [line.sequence for line in kept] == list(range(1, len(kept) + 1))
    assert [line.message for line in kept] == [f"line {number}" for number in range(len(kept))]


@pytest.mark.fault(7)
async def test_the_database_is_away(own_postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers go on, what does not fit is counted, and the rest is there when the database is back: once, and in order."""
    monkeypatch.setattr(logbook, "FLUSH_S", 0.1)
    dsn = own_postgres.dsn()
    with psycopg.connect(dsn, autocommit=True) as conn:
        migrations.up(conn)
        engine = Engine(dsn, conn)
        go, said_all = asyncio.Event(), asyncio.Event()

        @engine.task
        async def work(ctx: Context) -> None:
            ctx.log.info("before")
            await go.wait()
            for number in range(500):
                ctx.log.info(f"line {number}")
            said_all.set()
            await until(lambda: engine.seen(DatabaseLost))

        async with engine.worker(logs=LogOptions(buffer_lines=300)):
            id = engine.enqueue(work)
            await until(lambda: lines(engine, id), what="it has a connection, which breaks when it writes the next ones")
            own_postgres.stop()
            go.set()
            await until(lambda: [event for event in engine.seen(DatabaseLost) if event.service == "logbook"])
            await until(said_all.is_set, what="for the handler, which does not wait for the database")
            own_postgres.start()
            engine.conn = conn = psycopg.connect(dsn, autocommit=True)
            await engine.ended(id)
            await until(lambda: len(lines(engine, id)) > 300)
        *kept, last = lines(engine, id)
        assert [line.sequence for line in (*kept, last)] == list(range(1, len(kept) + 2))
        assert [line.message for line in kept] == ["before", *(f"line {number}" for number in range(len(kept) - 1))]
        assert last.message == f"{501 - len(kept)} more lines were dropped"
        assert len(kept) == 301, "more than did not fit was lost"
        conn.close()


async def test_what_broke_off_is_written_by_the_next_connection(engine: Engine) -> None:
    """Although the handler has nothing more to say."""

    @engine.task
    async def work() -> None: ...

    hold = engine.hold(engine.enqueue(work))
    run = Run(str(hold.id), hold.token, "work", "default", 0, None, "{}", 1, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]
    book = Logbook(hold.worker, LogOptions(), Events())
    broken = await connect_async(engine.dsn, "test")
    await broken.close()
    book.write(run, 20, "one", {})
    book.close(run)
    with pytest.raises(psycopg.OperationalError):
        await book.run_once(broken)
    async with await connect_async(engine.dsn, "test") as conn:
        serving = asyncio.create_task(book.serve(conn))
        await until(lambda: [line.message for line in lines(engine, hold.id)] == ["one"])
        serving.cancel()


async def test_an_answer_that_was_lost(engine: Engine) -> None:
    """Written again on the next connection, lines are not there twice."""

    @engine.task
    async def work() -> None: ...

    hold = engine.hold(engine.enqueue(work))
    run = Run(str(hold.id), hold.token, "work", "default", 0, None, "{}", 1, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]
    book = Logbook(hold.worker, LogOptions(), Events())
    conn = await connect_async(engine.dsn, "test")
    book.write(run, 20, "one", {})
    kept = list(book._lines)
    await book.run_once(conn)
    book._lines.extend(kept)  # as if nobody had told us
    book._again = True
    book.write(run, 20, "two", {})
    await book.run_once(conn)
    await conn.close()
    assert said(engine, hold.id) == ["one", "two"]


async def test_a_worker_without_lines_needs_no_connection_for_them(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    connected = "pg_stat_activity WHERE datname = current_database() AND application_name = 'rota logbook'"
    async with engine.worker():
        await engine.ended(engine.enqueue(work))
        assert engine.count(connected) == 0


def test_threads_that_log_at_once() -> None:
    run = Run("0" * 8, 1, "work", "default", 0, None, "{}", 1, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]
    book = Logbook(UUID(int=1), LogOptions(lines_per_run=100_000), Events())
    threads = [threading.Thread(target=lambda: [book.write(run, 20, "x", {}) for _ in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line.sequence for line in book._lines) == list(range(1, 8001))


def test_fields_are_json() -> None:
    assert encode_fields({"a": 1, "b": "é"}, 100) == '{"a":1,"b":"é"}'.encode()
    assert json.loads(encode_fields({"a": "x" * 1000}, 100))["truncated"] is True


def test_nobody_is_heard_outside_a_run() -> None:
    assert current_run.get() is None
