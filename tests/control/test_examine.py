"""The doctor: what is wrong is found, its culprit named, and the way out said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.pooler import pooler
from tests.support.postgres import Databases, migrate
from tests.support.postgres import server as run_server

from rota.control import doctor
from rota.control.doctor import Finding, database, server
from rota.control.doctor.database import Holder
from rota.model.ids import new_id

Conn = psycopg.Connection


async def examine(dsn: str, **options: Any) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    async for finding in doctor.examine(dsn, **options):
        found.setdefault(finding.check, []).append(finding)
    return found


async def only(dsn: str, check: str, **options: Any) -> Finding:
    [finding] = (await examine(dsn, **options))[check]
    return finding


@pytest.fixture(scope="module")
def careless() -> Iterator[str]:
    """A database on a server whose settings are all wrong."""
    settings = {
        "fsync": "off",
        "synchronous_commit": "off",
        "autovacuum": "off",
        "track_counts": "off",
        "max_prepared_transactions": "2",
    }
    with run_server(**settings) as postgres:
        migrate(postgres.dsn())
        yield postgres.dsn()


async def test_a_healthy_database(dsn: str, conn: Conn) -> None:
    given.start_worker(conn)
    found = await examine(dsn)
    levels = {check: {finding.level for finding in findings} for check, findings in found.items()}
    durability = levels.pop("durability")
    assert durability == {"warn"}  # the tests' own server has no fsync
    assert set(levels) == {
        "server", "migrations", "notifications", "clock", "autovacuum", "snapshots", "bloat", "indexes", "partitions",
        "workers", "tasks", "leases", "lineage", "secrets",
    }  # fmt: skip
    assert all(level == {"ok"} for level in levels.values())


async def test_the_server_cannot_be_reached() -> None:
    finding = await only("postgresql://nobody@127.0.0.1:1/none", "connection", connect_timeout_s=2)
    assert finding.level == "fail"
    assert "cannot be reached" in finding.sentence


async def test_the_schema_is_missing(empty_dsn: str) -> None:
    found = await examine(empty_dsn)
    [finding] = found["migrations"]
    assert (finding.level, finding.next) == ("fail", "rota migrate up")
    assert "workers" not in found


async def test_the_schema_is_another(dsn: str, conn: Conn) -> None:
    conn.execute("INSERT INTO rota.migration (number, name, checksum) VALUES (9999, 'later', '')")
    assert (await only(dsn, "migrations")).level == "warn"
    conn.execute("UPDATE rota.migration SET checksum = '' WHERE number = 1")
    finding = await only(dsn, "migrations")
    assert finding.level == "fail"
    assert "0001 engine was applied with another text" in finding.sentence


async def test_careless_settings(careless: str) -> None:
    found = await examine(careless)
    [durability] = found["durability"]
    assert durability.level == "warn"
    assert "fsync and synchronous_commit off" in durability.sentence
    autovacuum = {finding.sentence.partition(" ")[0]: finding for finding in found["autovacuum"]}
    assert set(autovacuum) == {"autovacuum", "track_counts"}
    assert all(finding.level == "fail" for finding in autovacuum.values())
    assert "ALTER SYSTEM SET autovacuum = on" in str(autovacuum["autovacuum"].next)


async def test_autovacuum_is_off_for_a_table(dsn: str, conn: Conn) -> None:
    conn.execute("ALTER TABLE rota.job SET (autovacuum_enabled = false)")
    finding = await only(dsn, "autovacuum")
    assert (finding.level, finding.next) == ("fail", "ALTER TABLE rota.job RESET (autovacuum_enabled)")


async def test_autovacuum_is_locked_out(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OLD", timedelta(0))
    with psycopg.connect(dsn, application_name="a deploy script") as culprit:
        culprit.execute("LOCK TABLE rota.job IN SHARE MODE")
        pid = culprit.info.backend_pid
        finding = await only(dsn, "autovacuum")
    assert finding.level == "warn"
    assert f"process {pid} (a deploy script, user" in finding.sentence
    assert "LOCK TABLE rota.job IN SHARE MODE" in finding.sentence
    assert finding.next == f"SELECT pg_terminate_backend({pid})"


class TestSnapshots:
    @pytest.mark.fault(9)
    async def test_the_session_that_pins_them_is_named(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with psycopg.connect(dsn, application_name="nightly report") as culprit:
            culprit.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            culprit.execute("SELECT count(*) /* the report */ FROM rota.run")
            assert (await only(dsn, "snapshots")).level == "ok"  # it is young
            monkeypatch.setattr(database, "OLD", timedelta(0))
            finding = await only(dsn, "snapshots")
            assert finding.level == "warn"
            pid = culprit.info.backend_pid
            assert f"process {pid} (nightly report, user postgres, idle in transaction)" in finding.sentence
            assert "/* the report */" in finding.sentence
            assert finding.next == f"SELECT pg_terminate_backend({pid})"
            monkeypatch.setattr(database, "TOO_OLD", timedelta(0))
            assert (await only(dsn, "snapshots")).level == "fail"

    async def test_one_that_has_written_and_sleeps_is_named_too(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "OLD", timedelta(0))
        with psycopg.connect(dsn) as culprit:
            culprit.execute("INSERT INTO rota.queue (name) VALUES ('x')")
            assert f"process {culprit.info.backend_pid}" in (await only(dsn, "snapshots")).sentence

    async def test_a_session_of_another_database_is_innocent(
        self, dsn: str, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "OLD", timedelta(0))
        with psycopg.connect(empty_dsn) as other:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.execute("SELECT 1")
            assert (await only(dsn, "snapshots")).level == "ok"

    async def test_a_prepared_transaction_is_named(self, careless: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "OLD", timedelta(0))
        with psycopg.connect(careless, autocommit=True) as conn:
            conn.execute("BEGIN")
            conn.execute("INSERT INTO rota.queue (name) VALUES ('x')")
            conn.execute("PREPARE TRANSACTION 'it''s forgotten'")
            try:
                finding = await only(careless, "snapshots")
            finally:
                conn.execute("ROLLBACK PREPARED 'it''s forgotten'")
        assert 'prepared transaction "it\'s forgotten" of postgres' in finding.sentence
        assert "ROLLBACK PREPARED 'it''s forgotten'" in str(finding.next)

    @pytest.mark.parametrize(
        ("kind", "words", "todo"),
        [
            ("slot", "replication slot 's1' (inactive)", "SELECT pg_drop_replication_slot('s1')"),
            ("standby", "a query on standby 'replica'", "end the long query on that standby"),
        ],
    )
    def test_slots_and_standbys_are_judged_by_transactions(self, kind: str, words: str, todo: str) -> None:
        def judge(transactions: int) -> Finding | None:
            return database.judge_holder(Holder(kind, "s1", None, "replica", "inactive", None, transactions, None))

        assert judge(1000) is None
        old, too_old = judge(200_000), judge(20_000_000)
        assert old is not None
        assert too_old is not None
        assert (old.level, too_old.level) == ("warn", "fail")
        assert words in old.sentence
        assert todo in str(old.next)


async def test_dead_rows_and_lost_room(dsn: str, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MANY_DEAD", 10)
    monkeypatch.setattr(database, "BLOATED_BYTES", 8192)
    conn.execute("ALTER TABLE rota.job SET (autovacuum_vacuum_threshold = 1000000)")
    conn.execute("INSERT INTO rota.job (id, task) SELECT rota.uuid7(), 'work' FROM generate_series(1, 500)")
    conn.execute("DELETE FROM rota.job")
    conn.close()  # which sends what it has counted
    deadline = time.monotonic() + 10
    while len(findings := (await examine(dsn))["bloat"]) < 3 and time.monotonic() < deadline:
        pass
    assert [finding.level for finding in findings] == ["warn"] * 3
    assert "rota.job has 500 dead rows beside 0 live ones, never vacuumed" in findings[0].sentence
    assert "REINDEX TABLE CONCURRENTLY rota.job" in str(findings[2].next)


async def test_an_invalid_index(dsn: str, conn: Conn) -> None:
    conn.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rota.job_ready'::regclass")
    finding = await only(dsn, "indexes")
    assert (finding.level, finding.next) == ("fail", "REINDEX INDEX CONCURRENTLY rota.job_ready")


async def test_a_partition_is_missing(dsn: str, conn: Conn) -> None:
    week = datetime.now(UTC) - timedelta(days=datetime.now(UTC).weekday()) + timedelta(weeks=1)
    conn.execute(f"DROP TABLE rota.run_{week:%Y%m%d}")
    finding = await only(dsn, "partitions")
    assert (finding.level, finding.next) == ("warn", "SELECT rota.make_run_partitions()")
    assert f"{week:%Y-%m-%d}" in finding.sentence
    conn.execute("SELECT rota.make_run_partitions()")
    assert (await only(dsn, "partitions")).level == "ok"


class TestClock:
    async def test_this_machine_is_ahead(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        class Ahead(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return datetime.now(tz) + timedelta(hours=1)

        monkeypatch.setattr(server, "datetime", Ahead)
        finding = await only(dsn, "clock")
        assert finding.level == "warn"
        assert "this machine's clock is 1h ahead of the database's" in finding.sentence

    async def test_a_test_has_left_its_clock(self, dsn: str, conn: Conn) -> None:
        given.move_clock(conn, timedelta(days=-3))
        finding = await only(dsn, "clock")
        assert finding.level == "warn"
        assert "rota.now() is 3d behind the server" in finding.sentence
        conn.execute(str(finding.next))
        assert (await only(dsn, "clock")).level == "ok"


class TestPooler:
    async def test_it_is_noticed(self, dsn: str, postgres: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "NOTIFY_WITHIN_S", 0.1)
        async with pooler(postgres.tcp_dsn(dsn.partition("?")[0].rpartition("/")[2])) as through:
            finding = await only(through, "notifications")
            assert finding.level == "fail"
            assert "a pooler stands before PostgreSQL (LISTEN does not work)" in finding.sentence
            assert "database.pooled = true" in str(finding.next)
            assert (await only(through, "notifications", pooled=True)).level == "ok"


class TestWork:
    async def test_nobody_works(self, dsn: str, conn: Conn) -> None:
        given.declare(conn, "work")
        given.enqueue(conn)
        finding = await only(dsn, "workers")
        assert (finding.level, finding.next) == ("fail", "rota worker -a module:app")
        assert "no worker is live, and 1 job due" in finding.sentence

    async def test_a_dead_worker_holds_jobs(self, dsn: str, conn: Conn) -> None:
        given.declare(conn, "work")
        dead = given.start_worker(conn)
        given.enqueue(conn)
        given.claim(conn, dead)
        conn.execute("UPDATE rota.worker SET backend_pid = 0, seen_at = rota.now() - interval '1 hour'")
        finding = await only(dsn, "workers")
        assert finding.level == "fail"
        assert f"worker {dead} (host-1, process 4711) died 1h ago and still holds 1 job; there is no live" in finding.sentence
        given.start_worker(conn)
        assert (await only(dsn, "workers")).level == "warn"

    async def test_a_silent_worker(self, dsn: str, conn: Conn) -> None:
        given.start_worker(conn)
        silent = given.start_worker(conn, seen_ago=timedelta(minutes=5))
        finding = await only(dsn, "workers")
        assert finding.level == "warn"
        assert f"worker {silent} (host-1, process 4711) has not been heard of for 5m" in finding.sentence

    async def test_a_job_is_past_its_lease(self, dsn: str, conn: Conn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        job = given.enqueue(conn)
        given.claim(conn, worker, lease_s=1)
        conn.execute("UPDATE rota.job SET lease_until = rota.now() - interval '2 minutes'")
        finding = await only(dsn, "leases")
        assert finding.level == "fail"
        assert f"the first is work {job} of worker {worker}, 2m late" in finding.sentence

    async def test_a_job_of_nobody(self, dsn: str, conn: Conn) -> None:
        given.declare(conn, "work")
        given.enqueue(conn)
        given.claim(conn, new_id())
        assert (await only(dsn, "leases")).level == "warn"

    async def test_a_stranded_job(self, dsn: str, conn: Conn) -> None:
        given.declare(conn, "work")
        parent = given.enqueue(conn)
        child = given.enqueue(conn, parents=[parent])
        assert (await only(dsn, "lineage")).level == "ok"
        conn.execute("DELETE FROM rota.job WHERE id = %s", [parent])
        finding = await only(dsn, "lineage")
        assert finding.level == "fail"
        assert f"the first is work {child}" in finding.sentence
