"""What the decisions say is so in the code and in the database, not only on paper."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib.metadata import requires
from itertools import product

import psycopg
import pytest
from tests.docs.test_pages import text_of
from tests.store.test_states import ALLOWED

from rota import cron, every
from rota.db import migrations
from rota.errors import DISTRIBUTION, UsageError
from rota.model.cron import Cron
from rota.model.filters import JOB_STATES

pytestmark = pytest.mark.req("X02")


def decision(number: str) -> str:
    """The text of a decision on one line, so that line ends do not matter."""
    [title] = re.findall(rf"\]\(({number}-[^)]+)\)", text_of("decisions/README.md"))
    return " ".join(text_of(f"decisions/{title}").split())


def installed() -> set[str]:
    """What comes with Rota, without extras."""
    return {re.split(r"[<>=;\[ ]", each)[0] for each in requires(DISTRIBUTION) or [] if "extra ==" not in each}


@pytest.mark.parametrize("number", ["0001", "0012", "0026", "0027"])
def test_what_lost_is_named(number: str) -> None:
    assert len(re.findall(r"\*[^*]+\*:", decision(number).partition("**What lost.**")[2])) >= 3


class TestPostgresAndNothingElse:
    def test_no_broker_and_no_other_database_is_installed(self) -> None:
        assert "Redis or a broker beside it" in decision("0001")
        assert installed().isdisjoint({"redis", "pika", "kombu", "celery", "aiokafka", "nats-py", "sqlalchemy", "pymongo"})

    def test_no_extension_and_no_superuser_is_needed(self, empty_dsn: str) -> None:
        assert "No extension is needed, and no superuser." in decision("0001")
        with psycopg.connect(empty_dsn, autocommit=True) as conn:
            role = f"plain_{conn.info.dbname}"
            try:
                conn.execute(f"CREATE ROLE {role} NOSUPERUSER NOCREATEDB NOCREATEROLE".encode())
                conn.execute(f"GRANT CREATE ON DATABASE {conn.info.dbname} TO {role}".encode())
                conn.execute(f"SET ROLE {role}".encode())
                migrations.up(conn)
                assert conn.execute("SELECT extname FROM pg_extension").fetchall() == [("plpgsql",)]
                owners = "SELECT DISTINCT tableowner, schemaname FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
                assert conn.execute(owners).fetchall() == [(role, "rota")]
            finally:
                conn.execute(f"RESET ROLE; DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


class TestCron:
    def test_the_library_is_the_one_that_won(self) -> None:
        assert "cronsim says what an expression means" in decision("0012")
        assert "cronsim" in installed()
        assert installed().isdisjoint({"croniter", "apscheduler", "aiocron"})

    def test_a_fixed_time_comes_once_where_what_lost_came_twice(self) -> None:
        assert "ran a fixed daily job twice in autumn" in decision("0012")
        autumn = datetime(2025, 10, 25, 12, tzinfo=UTC)
        times = [each.at_utc for each in Cron("30 2 * * *", "Europe/Berlin").upcoming(autumn, 2)]
        assert times == [datetime(2025, 10, 26, 0, 30, tzinfo=UTC), datetime(2025, 10, 27, 1, 30, tzinfo=UTC)]

    @pytest.mark.parametrize("expression", ["0 0 * * * *", "0 0 * * * * 2030", "*/90 * * * *", "0 0 30 2 *", "@reboot"])
    def test_what_is_refused_on_purpose_is_refused(self, expression: str) -> None:
        assert "Refused on purpose" in decision("0012")
        with pytest.raises(UsageError):
            cron(expression)


class TestStateMachine:
    def test_its_states_are_those_of_the_code(self) -> None:
        named = re.findall(r"`(\w+)`", decision("0027").partition("**Decision.**")[2].partition(".")[0])
        assert sorted(named) == sorted(JOB_STATES)

    def test_its_picture_is_what_the_database_allows(self) -> None:
        """`delayed` and `held` are `queued` to everybody outside; `test_states` tries every transition of live jobs."""
        picture = set(re.findall(r"^    (\w+) --> (\w+)", text_of("architecture.md"), re.M))
        outside = {"delayed": "queued", "held": "queued"}
        allowed = {(outside.get(before, before), outside.get(after, after)) for before, after in ALLOWED} - {("queued", "queued")}
        live = {"waiting", "queued", "running"}
        assert {(before, after) for before, after in picture if {before, after} <= live} == allowed
        ends = set(product(live, {"completed", "failed", "canceled"})) & picture
        assert ends == {("running", "completed"), ("running", "failed"), *((state, "canceled") for state in live)}
        assert picture - allowed - ends == {("failed", "queued"), ("canceled", "queued")}


def test_what_makes_one_of_repetitions_is_a_key_of_its_table(conn: psycopg.Connection[tuple[str, list[str]]]) -> None:
    keys = {
        table: set(columns)
        for table, columns in conn.execute(
            """SELECT t.relname, array_agg(a.attname) FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
               JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (c.conkey)
               WHERE c.contype = 'p' AND t.relnamespace = 'rota'::regnamespace GROUP BY t.relname"""
        )
    }
    text = decision("0026")
    for words, table, columns in (
        ("`key`: unique per task and owner", "job_key", {"key", "task", "owner"}),
        ("`Idempotency-Key`: who asked, for what", "request", {"key", "operation", "owner"}),
        ("`(schedule, instant)` is the key of the ledger", "occurrence", {"schedule_id", "instant"}),
    ):
        assert words in text
        assert f"`rota.{table}`" in text
        assert keys[table] == columns


def test_what_is_not_promised_is_not_offered() -> None:
    """Exactly-once execution: `test_patterns` shows that a handler without a pattern has its effect twice."""
    named = re.findall(r"- \*\*([^*]+)\.\*\*", decision("0011"))
    assert named == ["Exactly-once execution", "Order", "Sub-second schedules", "Stopping a thread"]
    with pytest.raises(UsageError, match="at least a second"):
        every("500ms")
