"""What every installation clears away: the tasks, their schedules, and the rules behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from rota import Rota
from rota.apps import housekeeping
from rota.apps.housekeeping import SCHEDULES
from rota.config import load_settings
from rota.contrib.testing.harness import Harness, harness
from rota.control.retention import prune_deliveries
from rota.errors import ConfigError, PayloadError
from rota.model.ids import new_id
from rota.store.jobs_read import JobRecord

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

pytestmark = pytest.mark.req("B01")

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ACCOUNT = UUID(int=7)
BREAKOUT = "true) LIMIT 0)); DROP TABLE oauth_code; DELETE FROM oauth_token WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE (false"


@asynccontextmanager
async def keeping(dsn: str, *rules: dict[str, Any], **settings: Any) -> AsyncIterator[Harness]:
    """An application with these rules, on this database."""
    chosen = load_settings(database_url=dsn, housekeeping_enabled=True, housekeeping_rules=list(rules), **settings)
    async with Rota(settings=chosen) as app:
        with harness(app, dsn) as rota:
            yield rota


async def run(rota: Harness, task: str, **payload: Any) -> JobRecord:
    """Let one of the tasks run, once."""
    made = await rota.app.aenqueue(task, payload, max_attempts=1)
    await rota.drain()
    return next(job for job in rota.jobs(task) if job.id == made.id)


async def tidy(dsn: str, *rules: dict[str, Any], task: str = "expired_oauth_cleanup") -> JobRecord:
    """Run a task with these rules of a configuration."""
    async with keeping(dsn, *({"task": task, **rule} for rule in rules)) as rota:
        return await run(rota, task)


def left(conn: Conn, table: str, column: str = "name") -> list[Any]:
    """What is left of a table."""
    statement = sql.SQL("SELECT {0} FROM {1} ORDER BY 1").format(sql.Identifier(column), sql.Identifier(*table.split(".")))
    return [value for (value,) in conn.execute(statement).fetchall()]


class TestSchedules:
    @pytest.fixture
    async def app(self, dsn: str) -> AsyncIterator[Rota]:
        async with Rota(settings=load_settings(database_url=dsn, housekeeping_enabled=True)) as app:
            await app.control.sync_definitions()
            yield app

    async def test_each_task_has_its_own(self, app: Rota) -> None:
        for name, expression in SCHEDULES.items():
            record = (await app.control.get_schedule(name)).record
            assert (record.task, record.timing.cron, record.timing.tz, record.enabled) == (name, expression, "UTC", True)
        assert SCHEDULES["stale_session_cleanup"] == "0 * * * *"
        assert [SCHEDULES[f"{name}"].split()[1] for name in list(SCHEDULES)[1:]] == ["3", "4", "5"]

    @pytest.mark.req("C11")
    async def test_lists_leave_them_out_unless_they_are_asked(self, app: Rota) -> None:
        assert (await app.control.list()).tasks == []
        assert {view.record.name for view in (await app.control.list(system=True)).tasks} >= SCHEDULES.keys()
        assert (await app.control.list_schedules()).schedules == []
        named = {line.record.name for line in (await app.control.list_schedules(system=True)).schedules}
        assert named >= SCHEDULES.keys()

    async def test_what_an_operator_has_changed_stays(self, app: Rota, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        await app.control.update_schedule("stale_session_cleanup", cron="30 2 * * *", payload={})
        await app.control.disable_schedule("expired_auth_cleanup")
        await app.control.update_schedule("webhook_delivery_prune", payload={"retention_hours": 24})
        await app.control.update("webhook_delivery_prune", max_attempts=9)
        for hour in ("4", "6"):  # another worker that starts, and a version that has other times
            for name in SCHEDULES:
                monkeypatch.setitem(SCHEDULES, name, SCHEDULES[name].replace(" 4 ", f" {hour} ").replace("0 * ", "7 * "))
            async with Rota(settings=load_settings(database_url=dsn, housekeeping_enabled=True)) as again:
                await again.control.sync_definitions()
        changed = {name: (await app.control.get_schedule(name)).record for name in SCHEDULES}
        assert changed["stale_session_cleanup"].timing.cron == "30 2 * * *"
        assert not changed["expired_auth_cleanup"].enabled
        assert changed["webhook_delivery_prune"].payload == {"retention_hours": 24}
        assert (await app.control.get("webhook_delivery_prune")).record.max_attempts == 9
        assert changed["expired_oauth_cleanup"].timing.cron == "0 6 * * *", "nobody had a hand in it: it follows the code"

    async def test_switched_off_there_are_none(self, dsn: str) -> None:
        async with Rota(settings=load_settings(database_url=dsn, housekeeping_enabled=False)) as app:
            assert not app.tasks.keys() & SCHEDULES.keys()

    async def test_queue_and_hours_are_settings(self, dsn: str) -> None:
        async with keeping(dsn, housekeeping_queue="chores", housekeeping_deliveries_hours=24) as rota:
            assert {rota.app.tasks[name].queue for name in SCHEDULES} == {"chores"}
            assert rota.app.tasks["webhook_delivery_prune"].default_payload == '{"retention_hours":24}'


class TestOwnTables:
    @pytest.fixture(autouse=True)
    def account(self, conn: Conn) -> None:
        conn.execute("INSERT INTO rota.account (id, email) VALUES (%s, 'ann@example.org')", [ACCOUNT])

    async def test_sessions_that_are_over_go(self, conn: Conn, dsn: str) -> None:
        for number, left_for in enumerate((-DAY, -timedelta(seconds=1), HOUR)):
            conn.execute(
                "INSERT INTO rota.session (id, account_id, expires_at) VALUES (%s, %s, rota.now() + %s)",
                [UUID(int=number), ACCOUNT, left_for],
            )
            conn.execute(
                "INSERT INTO rota.request VALUES ('ann', 'o', %s, sha256('x'), '{}', rota.now() + %s)", [str(number), left_for]
            )
        async with keeping(dsn) as rota:
            job = await run(rota, "stale_session_cleanup")
        assert job.result == {"removed": {"rota.session": 2, "rota.request": 2, "rota.allowance": 0}}
        assert left(conn, "rota.session", "id") == [UUID(int=2)]
        assert left(conn, "rota.request", "key") == ["2"]

    async def test_links_that_have_expired_go_and_used_ones_with_them(self, conn: Conn, dsn: str) -> None:
        for name, expires_in, used in (("old", -DAY, None), ("used", -HOUR, -2 * HOUR), ("new", HOUR, None)):
            conn.execute(
                """INSERT INTO rota.magic_link (token_hash, email, created_at, expires_at, used_at)
                   VALUES (sha256(%s::bytea), %s, rota.now() - interval '2 days', rota.now() + %s, rota.now() + %s)""",
                [name, name, expires_in, used],
            )
        async with keeping(dsn) as rota:
            assert (await run(rota, "expired_auth_cleanup")).result == {"removed": {"rota.magic_link": 2, "rota.sign_in_source": 0}}
        assert left(conn, "rota.magic_link", "email") == ["new"]

    async def test_tokens_go_a_day_after_they_expired_or_were_revoked(self, conn: Conn, dsn: str) -> None:
        rows = {
            "for ever": (None, None), "expired": (-25 * HOUR, None), "just expired": (-23 * HOUR, None),
            "revoked": (DAY, -25 * HOUR), "just revoked": (None, -23 * HOUR),
        }  # fmt: skip
        for name, (expires_in, revoked) in rows.items():
            conn.execute(
                """INSERT INTO rota.api_token (token_hash, hint, account_id, name, created_by, expires_at, revoked_at)
                   VALUES (sha256(%s::bytea), 'x', %s, %s, 'ann', rota.now() + %s, rota.now() + %s)""",
                [name, ACCOUNT, name, expires_in, revoked],
            )
        async with keeping(dsn) as rota:
            assert (await run(rota, "expired_oauth_cleanup")).result == {"removed": {"rota.api_token": 2}}
        assert left(conn, "rota.api_token") == ["for ever", "just expired", "just revoked"]


@pytest.mark.req("B02")
class TestDeliveries:
    @pytest.fixture(autouse=True)
    def webhook(self, conn: Conn) -> None:
        conn.execute("INSERT INTO rota.webhook (url, secret, kinds) VALUES ('http://127.0.0.1/', repeat('s', 32), '{}')")

    def send(self, conn: Conn, *ages_h: int, state: str = "delivered") -> None:
        conn.cursor().executemany(
            """INSERT INTO rota.webhook_delivery (id, webhook_id, body, state, created_at)
               SELECT %s, id, '{}', %s, rota.now() - %s FROM rota.webhook""",
            [(new_id(), state, timedelta(hours=age)) for age in ages_h],
        )

    def ages(self, conn: Conn) -> list[int]:
        rows = conn.execute("SELECT extract(epoch FROM rota.now() - created_at)::int / 3600 FROM rota.webhook_delivery ORDER BY 1")
        return [hours for (hours,) in rows.fetchall()]

    async def test_a_week_is_kept_unless_the_payload_says_otherwise(self, conn: Conn, dsn: str) -> None:
        self.send(conn, 1, 30, 167, 169)
        async with keeping(dsn) as rota:
            assert (await run(rota, "webhook_delivery_prune")).result == {"removed": {"rota.webhook_delivery": 1}}
            assert self.ages(conn) == [1, 30, 167]
            assert (await run(rota, "webhook_delivery_prune", retention_hours=24)).result == {
                "removed": {"rota.webhook_delivery": 2}
            }
            assert self.ages(conn) == [1]

    @pytest.mark.parametrize("hours", [0, -1, 876_001, "a week"])
    async def test_hours_that_mean_nothing_are_refused(self, dsn: str, hours: Any) -> None:
        async with keeping(dsn) as rota:
            with pytest.raises(PayloadError, match="retention_hours"):
                rota.app.job("webhook_delivery_prune", {"retention_hours": hours})

    async def test_what_is_still_to_be_delivered_is_kept_for_a_week(self, conn: Conn, aconn: AConn) -> None:
        self.send(conn, 3, 170, state="pending")
        self.send(conn, 3, state="failed")
        assert await prune_deliveries(aconn, hours=2) == 2
        assert self.ages(conn) == [3]

    async def test_piece_by_piece_also_where_nothing_commits_by_itself(
        self, conn: Conn, dsn: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.control.retention.BATCH", 10)
        self.send(conn, *[200] * 35, 1)
        _watch_deletes(conn, "rota.webhook_delivery")
        async with await psycopg.AsyncConnection.connect(dsn) as plain:
            assert await prune_deliveries(plain) == 35
            await plain.rollback()
        assert self.ages(conn) == [1]
        assert _pieces(conn) == [5, 10, 10, 10]


class TestRules:
    """`[[housekeeping.rules]]`: the same for tables of the operator's own."""

    @pytest.fixture(autouse=True)
    def tables(self, conn: Conn) -> None:
        conn.execute(
            """CREATE TABLE oauth_token (name text, expires_at timestamptz, revoked_at timestamptz);
               CREATE TABLE oauth_code (name text, expires_at timestamptz, used_at timestamptz);
               CREATE TABLE password_reset (name text, expires_at timestamptz)"""
        )

    async def test_tokens_codes_and_resets(self, conn: Conn, dsn: str) -> None:
        conn.execute(
            """INSERT INTO oauth_token VALUES ('good', now() + interval '1 h', NULL), ('expired', now() - interval '25 h', NULL),
                   ('just', now() - interval '23 h', NULL), ('revoked', now() + interval '1 h', now() - interval '25 h');
               INSERT INTO oauth_code VALUES ('good', now() + interval '1 h', NULL), ('expired', now() - interval '1 s', NULL),
                   ('used', now() + interval '1 h', now() - interval '25 h');
               INSERT INTO password_reset VALUES ('good', now() + interval '1 h'), ('expired', now() - interval '1 s')"""
        )
        rules = [
            {"task": "expired_oauth_cleanup", "table": "oauth_token",
             "where": "expires_at < now() - interval '1 day' OR revoked_at < now() - interval '1 day'"},
            {"task": "expired_oauth_cleanup", "table": "public.oauth_code",
             "where": "expires_at < now() OR used_at < now() - interval '1 day'"},
            {"task": "expired_auth_cleanup", "table": "password_reset", "where": "expires_at < now()"},
        ]  # fmt: skip
        async with keeping(dsn, *rules) as rota:
            done = await run(rota, "expired_oauth_cleanup")
            assert done.result["removed"] == {"rota.api_token": 0, "oauth_token": 2, "public.oauth_code": 2}
            assert left(conn, "password_reset") == ["expired", "good"]
            await run(rota, "expired_auth_cleanup")
        assert (left(conn, "oauth_token"), left(conn, "oauth_code")) == (["good", "just"], ["good"])
        assert left(conn, "password_reset") == ["good"]

    async def test_a_table_that_is_absent_is_told_and_keeps_nobody_from_the_others(self, conn: Conn, dsn: str) -> None:
        conn.execute("INSERT INTO oauth_code VALUES ('old', now(), NULL)")
        done = await tidy(
            dsn,
            {"table": "nowhere.oauth_token", "where": "true"},
            {"table": "oauth_token", "where": "forgotten_at < now()"},
            {"table": "oauth_code", "where": "name = 'old'"},
        )
        assert done.state == "completed"
        assert done.result["removed"]["oauth_code"] == 1
        assert done.result["absent"] == [
            "nowhere.oauth_token (there is no such table)",
            'oauth_token (column "forgotten_at" does not exist)',
        ]
        lines = conn.execute("SELECT level, message, fields ->> 'rule' FROM rota.log WHERE job_id = %s", [done.id]).fetchall()
        assert [(level, message) for level, message, _ in lines] == [(30, "housekeeping.absent")] * 2
        assert [rule for _, _, rule in lines] == done.result["absent"]

    async def test_each_batch_is_a_transaction_of_its_own(self, conn: Conn, dsn: str) -> None:
        conn.execute("INSERT INTO oauth_token SELECT n FROM generate_series(1, 35) n")
        _watch_deletes(conn, "oauth_token")
        done = await tidy(dsn, {"table": "oauth_token", "where": "name <> '7'", "batch": 10})
        assert done.result["removed"]["oauth_token"] == 34
        assert left(conn, "oauth_token") == ["7"]
        assert _pieces(conn) == [4, 10, 10, 10]

    async def test_rows_that_somebody_has_locked_are_passed_over(self, conn: Conn, dsn: str) -> None:
        conn.execute("INSERT INTO oauth_token SELECT n FROM generate_series(1, 5) n")
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM oauth_token WHERE name = '3' FOR UPDATE")
            assert (await tidy(dsn, {"table": "oauth_token", "where": "true", "batch": 2})).result["removed"]["oauth_token"] == 4
        assert left(conn, "oauth_token") == ["3"]

    async def test_a_table_that_somebody_has_locked_is_for_the_next_time(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(housekeeping, "LOCK_MS", 50)
        with psycopg.connect(dsn) as other:
            other.execute("LOCK TABLE oauth_token")
            done = await tidy(dsn, {"table": "oauth_token", "where": "true"}, {"table": "oauth_code", "where": "true"})
        assert done.result["unfinished"] == ["oauth_token (somebody has locked it)"]
        assert "oauth_code" in done.result["removed"]

    async def test_rows_of_other_partitions_stay(self, conn: Conn, dsn: str) -> None:
        """Rows of two partitions may be at the same place, each in its own."""
        conn.execute(
            """CREATE TABLE grants (name text, region text) PARTITION BY LIST (region);
               CREATE TABLE grants_a PARTITION OF grants FOR VALUES IN ('a');
               CREATE TABLE grants_b PARTITION OF grants FOR VALUES IN ('b');
               INSERT INTO grants SELECT region || n, region FROM generate_series(1, 3) n, (VALUES ('a'), ('b')) r (region)"""
        )
        done = await tidy(dsn, {"table": "grants", "where": "name IN ('a1', 'b3')", "batch": 1})
        assert done.result["removed"]["grants"] == 2
        assert left(conn, "grants") == ["a2", "a3", "b1", "b2"]

    async def test_names_are_quoted_and_conditions_taken_as_they_are(self, conn: Conn, dsn: str) -> None:
        conn.execute("""CREATE SCHEMA "Shop"; CREATE TABLE "Shop"."Order" (name text);
                        INSERT INTO "Shop"."Order" VALUES ('50%'), ('{}'), ('%s'), ('kept')""")
        where = "name LIKE '%\\%' OR name = '{}' OR name = '%s' -- a condition may end with a comment"
        done = await tidy(dsn, {"table": "Shop.Order", "where": where})
        assert done.result["removed"]["Shop.Order"] == 3
        assert left(conn, "Shop.Order") == ["kept"]

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            ({"table": "oauth_token", "where": "name ="}, "syntax error"),
            ({"table": "oauth_token", "where": BREAKOUT}, "multiple commands"),
            ({"table": "a_view", "where": "true"}, "not a table"),
            ({"table": "oauth_token", "where": "name::int > 0"}, "invalid input syntax"),
            ({"table": "oauth_token", "where": "pg_sleep(20) IS NULL"}, "took longer than 0.2 s"),
        ],
    )
    async def test_a_rule_that_is_wrong_fails_and_the_others_are_followed(
        self, conn: Conn, dsn: str, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any], message: str
    ) -> None:
        monkeypatch.setattr(housekeeping, "STATEMENT_MS", 200)
        conn.execute("CREATE VIEW a_view AS SELECT 1; INSERT INTO oauth_token VALUES ('x'); INSERT INTO oauth_code VALUES ('x')")
        done = await tidy(dsn, rule, {"table": "oauth_code", "where": "true"})
        assert done.state == "failed"
        assert done.last_error is not None
        assert (done.last_error["type"], message in done.last_error["message"]) == ("HousekeepingFailed", True)
        assert (left(conn, "oauth_token"), left(conn, "oauth_code")) == (["x"], [])

    async def test_a_run_takes_a_bounded_time_and_the_next_one_goes_on(
        self, conn: Conn, dsn: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(housekeeping, "TURN_S", 0.0)
        conn.execute("INSERT INTO oauth_token SELECT n FROM generate_series(1, 5) n")
        rule = {"table": "oauth_token", "where": "true", "batch": 2}
        for removed, unfinished in ((2, ["oauth_token"]), (2, ["oauth_token"]), (1, None)):
            done = await tidy(dsn, rule)
            assert (done.result["removed"]["oauth_token"], done.result.get("unfinished")) == (removed, unfinished)

    @pytest.mark.parametrize(
        "rule",
        [
            {"task": "another", "table": "t", "where": "true"},
            {"task": "expired_oauth_cleanup", "table": 't"; --', "where": "true"},
            {"task": "expired_oauth_cleanup", "table": "a.b.c", "where": "true"},
            {"task": "expired_oauth_cleanup", "table": "t", "where": ""},
            {"task": "expired_oauth_cleanup", "table": "t", "where": "true", "batch": 0},
            {"task": "expired_oauth_cleanup", "table": "t"},
            {"task": "expired_oauth_cleanup", "table": "t", "where": "true", "limit": 5},
        ],
    )
    def test_rules_are_checked_when_they_are_read(self, rule: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match="housekeeping"):
            load_settings(housekeeping_rules=[rule])


def _watch_deletes(conn: Conn, table: str) -> None:
    conn.execute(
        sql.SQL(
            """CREATE TABLE watched (txid bigint);
               CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
               BEGIN INSERT INTO watched VALUES (txid_current()); RETURN OLD; END $$;
               CREATE TRIGGER watch BEFORE DELETE ON {} FOR EACH ROW EXECUTE FUNCTION watch()"""
        ).format(sql.Identifier(*table.split(".")))
    )


def _pieces(conn: Conn) -> list[int]:
    """How many rows each transaction has removed."""
    return sorted(count for (count,) in conn.execute("SELECT count(*) FROM watched GROUP BY txid").fetchall())
