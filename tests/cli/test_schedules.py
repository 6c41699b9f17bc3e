"""`rota schedules`."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota

from rota.contrib.testing.clock import Clock

Conn = psycopg.Connection[Any]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
MONDAY = datetime(2030, 3, 25, 8, 59, 30, tzinfo=UTC)

APPLICATION = """
from rota import Rota

app = Rota()

@app.task
def send(user_id: int, lang: str = "en") -> None: ...
"""


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    """The command line without a database: what is refused by it, is refused before any request."""
    return Rota(NOWHERE, tmp_path, monkeypatch, capsys)


@pytest.fixture
def clock(conn: Conn) -> Clock:
    """A clock that stands still, half a minute before nine on a Monday."""
    clock = Clock(conn)
    clock.freeze(MONDAY)
    return clock


@pytest.fixture(autouse=True)
def _tasks(conn: Conn) -> None:
    given.declare(conn, "work", "fetch")


def ensure(conn: Conn, key: str, task: str = "fetch") -> None:
    conn.execute("SELECT rota.ensure_recurring(%s, %s)", [task, key])


@pytest.mark.req("K01", "S01")
class TestCreate:
    def test_it_works(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        answer = rota(
            *("schedules", "create", "digest", "work", "--cron", "0 9 * * mon-fri", "--tz", "Europe/Berlin"),
            *("--payload", '{"big": 123456789012345678901234567890}', "--priority", 5, "--max-attempts", 2),
            *("--misfire", "all", "--catch-up", 7, "--overlap", "queue_one", "--jitter", "30s"),
            *("--starts-at", "2030-01-01T00:00+00:00", "--ends-at", "2031-01-01T00:00+00:00"),
            *("--start-within", "5m", "--finish-within", "1h", "--json"),
        )
        assert answer.code == 0, answer.err
        made = answer.data
        assert (made["name"], made["task"], made["words"]) == ("digest", "work", "At 09:00, Monday through Friday")
        assert (made["strategy"], made["tz"], made["enabled"]) == ("cron", "Europe/Berlin", True)
        assert made["payload"] == {"big": 123456789012345678901234567890}
        assert (made["priority"], made["max_attempts"], made["queue"]) == (5, 2, None)
        assert (made["misfire"], made["catch_up"], made["overlap"], made["jitter"]) == ("all", 7, "queue_one", 30)
        assert (made["starts_at"], made["ends_at"]) == ("2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z")
        assert (made["start_within"], made["finish_within"]) == (300, 3600)
        assert made["next_run_at"] == "2030-03-26T08:00:00Z"

    def test_an_interval_in_words(self, rota: Rota, clock: Clock) -> None:
        answer = rota("schedules", "create", "poll", "work", "--every", "5m")
        assert (answer.code, answer.out) == (0, "")
        assert answer.err.startswith("schedule poll is made: every 5m, next 2030-03-25 ")

    def test_disabled(self, rota: Rota) -> None:
        assert rota("schedules", "create", "poll", "work", "--every", "5m", "--enabled", "false", "--json").data["enabled"] is False

    def test_a_name_that_is_taken(self, rota: Rota) -> None:
        rota("schedules", "create", "poll", "work", "--every", "5m")
        answer = rota("schedules", "create", "poll", "work", "--every", "5m")
        assert answer.code == 4
        assert "`rota schedules update poll`" in answer.err

    def test_the_database_knows_the_tasks_when_there_is_no_application(self, rota: Rota, conn: Conn) -> None:
        conn.execute(
            """UPDATE rota.task SET payload_schema = '{"properties": {"user_id": {}}, "required": ["user_id"],
               "additionalProperties": false}' WHERE name = 'work'"""
        )
        unknown = rota("schedules", "create", "poll", "wrok", "--every", "5m")
        assert unknown.code == 2
        assert "there is no task 'wrok': did you mean 'work'?" in unknown.err
        assert "lacks user_id" in rota("schedules", "create", "poll", "work", "--every", "5m").err
        other = rota("schedules", "create", "poll", "work", "--every", "5m", "--payload", '{"user_id": 1, "x": 2}')
        assert "no parameter x" in other.err
        assert rota("schedules", "create", "poll", "work", "--every", "5m", "--payload", '{"user_id": 1}').code == 0

    def test_the_application_knows_its_tasks(self, rota: Rota, tmp_path: Path) -> None:
        (tmp_path / "shop_with_schedules.py").write_text(APPLICATION)
        where = ("-a", "shop_with_schedules", "--every", "5m")
        wrong = rota("schedules", "create", "poll", "send", *where, "--payload", '{"user_id": "x"}')
        assert wrong.code == 2
        assert "user_id" in wrong.err
        assert "there is no task 'nothing'" in rota("schedules", "create", "poll", "nothing", *where).err
        assert rota("schedules", "create", "poll", "send", *where, "--payload", '{"user_id": 7}').code == 0


@pytest.mark.req("K01", "S04")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--cron", "0 25 * * *"], "hour"),
        (["--cron", "0 9 30 2 *"], "never"),
        (["--cron", "0 9 * * *", "--tz", "Berlin"], "tz='Berlin' is not a time zone: did you mean Europe/Berlin?"),
        (["--every", "5 minutes"], "every='5 minutes' is not a duration"),
        (["--every", "5m", "--tz", "Europe/Berlin"], "--tz='Europe/Berlin' has no meaning with --every"),
        (["--every", "5m", "--cron", "* * * * *"], "either --cron"),
        ([], "either --cron"),
        (["--every", "5m", "--misfire", "never"], "misfire='never' is unknown: give one of latest, skip, all"),
        (["--every", "5m", "--overlap", "no"], "overlap='no' is unknown: give one of allow, skip, queue_one"),
        (["--every", "5m", "--catch-up", "0"], "catch_up=0 is out of range: from 1 to 10000"),
        (["--every", "5m", "--starts-at", "soon"], "--starts-at='soon' is not a time"),
        (["--every", "5m", "--payload", "{user_id: 7}"], "the payload is not JSON"),
        (["--every", "5m", "--payload", "[1]"], "the payload must be a JSON object"),
    ],
)
def test_what_is_wrong_is_refused_before_any_request(nowhere: Rota, options: list[str], complaint: str) -> None:
    answer = nowhere("schedules", "create", "poll", "work", *options)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err


@pytest.mark.req("K01")
@pytest.mark.parametrize("value", ["yes", "1", "True", "", "nope"])
def test_a_bad_boolean_is_refused_before_any_request(nowhere: Rota, value: str) -> None:
    answer = nowhere("schedules", "update", "poll", "--enabled", value)
    assert answer.code == 2
    assert f"--enabled={value!r} is not a boolean: write true or false" in answer.err


@pytest.mark.req("K01")
def test_bad_json_in_an_update_is_refused_before_any_request(nowhere: Rota) -> None:
    assert "the payload is not JSON" in nowhere("schedules", "update", "poll", "--payload", "{").err
    assert "nothing to change" in nowhere("schedules", "update", "poll").err


@pytest.mark.req("K01", "S05")
class TestChanges:
    def test_update(self, rota: Rota, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--every", "5m", "--queue", "default")
        changed = rota(
            *("schedules", "update", "poll", "--cron", "30 9 * * *", "--tz", "Asia/Tokyo", "--payload", '{"a": 1}'),
            *("--overlap", "skip", "--json"),
        ).data
        assert (changed["strategy"], changed["cron"], changed["every"]) == ("cron", "30 9 * * *", None)
        assert (changed["next_run_at"], changed["payload"], changed["overlap"]) == ("2030-03-26T00:30:00Z", {"a": 1}, "skip")
        assert changed["queue"] == "default"
        answer = rota("schedules", "update", "poll", "--enabled", "false")
        assert answer.err == "schedule poll is changed: At 09:30 every day, when it is enabled\n"
        assert rota("schedules", "update", "other", "--every", "1m").code == 3

    def test_disable_and_enable(self, rota: Rota, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--every", "1m")
        assert rota("schedules", "disable", "poll", "--json").data["enabled"] is False
        clock.move(timedelta(hours=1))
        assert rota("scheduler", "tick").out == "0 jobs enqueued\n"
        enabled = rota("schedules", "enable", "poll", "--json").data
        assert (enabled["enabled"], enabled["next_run_at"]) == (True, "2030-03-25T10:00:30Z")
        [line] = rota("schedules", "show", "poll", "--json").data["ledger"]
        assert (line["outcome"], line["reason"], line["instant"]) == ("skipped", "disabled", "2030-03-25T09:00:30Z")

    def test_a_recurring_row(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        ensure(conn, "feed:1")
        assert rota("schedules", "disable", "fetch/feed:1", "--json").data["enabled"] is False
        refused = rota("schedules", "run", "fetch/feed:1")
        assert refused.code == 4
        assert "it is disabled: `rota schedules enable fetch/feed:1`" in refused.err
        assert rota("schedules", "enable", "fetch/feed:1").code == 0
        assert rota("schedules", "run", "fetch/feed:1").err == "fetch/feed:1 is due now\n"
        assert rota("scheduler", "tick").out == "1 jobs enqueued\n"
        assert "its job is live already" in rota("schedules", "run", "fetch/feed:1").err
        for verb in ("enable", "disable", "run", "show", "next"):
            assert rota("schedules", verb, "fetch/feed:2").code == 3

    def test_delete_asks_at_a_terminal_only(self, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
        rota("schedules", "create", "poll", "work", "--every", "1m")
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", Terminal("n\n"))
            asked = rota("schedules", "delete", "poll")
        assert asked.code == 1
        assert "This will remove the schedule poll and its ledger. Continue?" in asked.err
        assert rota("schedules", "delete", "poll").err == "schedule poll is removed\n"
        assert rota("schedules", "delete", "poll", "--yes").code == 3

    def test_a_recurring_row_is_not_deleted(self, rota: Rota, conn: Conn) -> None:
        ensure(conn, "feed:1")
        assert "`rota schedules disable fetch/feed:1`" in rota("schedules", "delete", "fetch/feed:1", "--yes").err

    def test_run(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--every", "1m", "--payload", '{"a": 1}')
        job = rota("schedules", "run", "poll").out.strip()
        row = conn.execute("SELECT task, payload, triggered_by ->> 'kind' FROM rota.job WHERE id = %s", [UUID(job)]).fetchone()
        assert row == ("work", {"a": 1}, "manual")
        assert UUID(rota("schedules", "run", "poll", "--json").data["job_id"])
        assert rota("schedules", "run", "pool").code == 3


@pytest.mark.req("K01")
class TestList:
    def test_it_works(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        rota("schedules", "create", "digest", "work", "--cron", "0 9 * * *", "--tz", "UTC")
        rota("schedules", "create", "archive", "work", "--every", "1h", "--enabled", "false")
        ensure(conn, "feed:1")
        clock.move(timedelta(minutes=1))
        assert rota("scheduler", "tick").out == "2 jobs enqueued\n"
        answer = rota("schedules", "list")
        head, archive, digest = answer.out.splitlines()
        assert (answer.code, answer.err) == (0, "")
        assert re.split(r"  +", head) == ["NAME", "TASK", "WHEN", "ZONE", "ENABLED", "LAST", "NEXT", "LAST FIRING"]
        assert re.split(r"  +", archive)[:5] == ["archive", "work", "every 1h", "-", "no"]
        assert re.split(r"  +", digest)[:5] == ["digest", "work", "At 09:00 every day", "UTC", "yes"]
        assert digest.endswith("queued")

    def test_recurring_rows_are_shown_on_demand(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        rota("schedules", "create", "digest", "fetch", "--cron", "0 9 * * *")
        for key in ("b", "a"):
            ensure(conn, key)
        ensure(conn, "a", task="work")

        def labels(*options: object) -> list[str]:
            return [each["label"] for each in rota("schedules", "list", *options, "--json").data["schedules"]]

        assert labels() == ["digest"]
        assert labels("--recurring") == ["fetch/a", "fetch/b", "work/a"]
        assert labels("--task", "fetch") == ["digest", "fetch/a", "fetch/b"]
        assert labels("--task", "f*") == ["digest", "fetch/a", "fetch/b"]
        assert labels("--task", "%") == []
        assert labels("--failing") == []

    def test_pages(self, rota: Rota, conn: Conn) -> None:
        for name in ("c", "a", "b"):
            rota("schedules", "create", name, "fetch", "--every", "1h")
        for key in ("x/y", "z"):
            ensure(conn, key)
        seen, after = [], ()
        while True:
            page = rota("schedules", "list", "--task", "fetch", "-n", 2, *after, "--json").data
            assert len(page["schedules"]) <= 2
            seen += [each["label"] for each in page["schedules"]]
            if page["next"] is None:
                break
            after = ("--after", page["next"])
        assert seen == ["a", "b", "c", "fetch/x/y", "fetch/z"]
        assert "add --after b" in rota("schedules", "list", "-n", 2).err

    def test_nothing(self, rota: Rota) -> None:
        assert "`rota schedules create`" in rota("schedules", "list").err
        assert rota("schedules", "list", "--failing").err == "no schedule matches\n"


@pytest.mark.req("K01", "S10", "S11")
class TestShow:
    def test_the_story_of_the_last_instants(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--cron", "* * * * *", "--overlap", "skip", "--start-within", "10s")
        worker = given.start_worker(conn)
        clock.move(timedelta(seconds=30))
        rota("scheduler", "tick")
        given.fail(conn, worker, error="no route to host")
        clock.move(timedelta(minutes=1))
        rota("scheduler", "tick")
        clock.move(timedelta(minutes=1))
        rota("scheduler", "tick")  # the job before still waits
        clock.move(timedelta(days=8))
        conn.execute("UPDATE rota.schedule SET overlap = 'allow'")
        rota("scheduler", "tick")

        shown = rota("schedules", "show", "poll").out
        assert "when:           Every minute" in shown
        assert "overlap:        allow" in shown
        fired, passed, overlapped, waiting, failed = shown.rpartition("\n\n")[2].splitlines()[1:]
        assert "… queued" in fired
        assert "– skipped, outage" in passed
        assert "11,519 instants until 2030-04-02" in passed
        assert "– skipped, overlap" in overlapped
        assert "… queued" in waiting
        assert "missed its start deadline" in waiting
        assert "✗ failed" in failed
        assert "ValueError: no route to host" in failed
        data = rota("schedules", "show", "poll", "--json").data
        assert [line["outcome"] for line in data["ledger"]] == ["fired", "skipped", "skipped", "fired", "fired"]
        assert [line["state"] for line in data["ledger"]] == ["queued", None, None, "queued", "failed"]
        assert len(data["next"]) == 5

    def test_counted_instants(self, rota: Rota, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--cron", "0 * * * *")
        clock.move(timedelta(hours=3))
        rota("scheduler", "tick")
        assert "2 instants until" in rota("schedules", "show", "poll").out

    @pytest.mark.req("R02")
    def test_a_recurring_row_that_keeps_failing(self, rota: Rota, conn: Conn, clock: Clock) -> None:
        conn.execute("SELECT rota.ensure_recurring('fetch', 'feed:1', new_retry => %s)", ['{"base": 60, "cap": 120, "jitter": 0}'])
        worker = given.start_worker(conn, tasks=("fetch",))
        for _ in range(3):
            rota("scheduler", "tick")
            [(job, token)] = given.claim(conn, worker)
            given.finish(conn, job, token, worker, "failed", error="no route to host", delay=None, can_retry=False)
            clock.move(timedelta(minutes=5))
        shown = rota("schedules", "show", "fetch/feed:1").out
        assert re.search(r"^failures: +3, 3 of them in a row$", shown, re.M)
        assert re.search(r"^last error: +ValueError: no route to host$", shown, re.M)
        assert re.search(r"^failing since: +2030-", shown, re.M)
        [failing] = rota("schedules", "list", "--failing", "--json").data["schedules"]
        assert (failing["label"], failing["last_state"]) == ("fetch/feed:1", "failed, 3 in a row")

    def test_a_schedule_that_makes_no_sense_is_shown_all_the_same(self, rota: Rota, conn: Conn) -> None:
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, cron) VALUES ('odd', 'work', 'cron', '61 * * * *')")
        assert "61 * * * *" in rota("schedules", "list").out
        tick = rota("scheduler", "tick")
        assert "odd was switched off" in tick.err
        shown = rota("schedules", "show", "odd").out
        assert re.search(r"^last error: .*minute", shown, re.M)

    def test_an_unknown_one(self, rota: Rota) -> None:
        answer = rota("schedules", "show", "poll")
        assert (answer.code, answer.out) == (3, "")
        assert "there is no schedule 'poll': `rota schedules list` shows them" in answer.err


@pytest.mark.req("S04", "K01")
class TestTimes:
    def test_next(self, rota: Rota, clock: Clock) -> None:
        rota("schedules", "create", "night", "work", "--cron", "30 2 * * *", "--tz", "Europe/Berlin")
        lines = rota("schedules", "next", "night", "-n", 7).out.splitlines()
        assert len(lines) == 8
        assert lines[1].split() == ["Tue", "2030-03-26", "02:30:00", "CET", "2030-03-26", "01:30:00"]
        gap = next(line for line in lines if "2030-03-31" in line)
        assert "clocks go forward: 02:30 does not exist, runs at 03:00" in gap
        times = rota("schedules", "next", "night", "--json").data["next"]
        assert len(times) == 10
        assert times[0] == {"at": "2030-03-26T01:30:00Z", "local": "2030-03-26T02:30:00+01:00", "note": None}

    def test_next_of_an_interval_ends_with_it(self, rota: Rota, clock: Clock) -> None:
        rota("schedules", "create", "poll", "work", "--every", "1h", "--ends-at", "2030-03-25T11:00+00:00")
        times = rota("schedules", "next", "poll", "--json").data["next"]
        assert [each["at"] for each in times] == ["2030-03-25T09:59:30Z", "2030-03-25T10:59:30Z"]
        rota("schedules", "disable", "poll")
        assert "poll does not fire" in rota("schedules", "next", "poll").err

    def test_explain_needs_no_database(self, nowhere: Rota) -> None:
        answer = nowhere(
            "schedules", "explain", "*/30 * * * *", "--tz", "Europe/Berlin", "--from", "2030-10-27T00:10+00:00", "-n", 3
        )
        assert answer.code == 0
        words, _, _, *times = answer.out.splitlines()
        assert words == "Every 30 minutes, Europe/Berlin"
        assert "02:30 comes twice, runs both times, this is the first" in times[0]
        assert "02:00 comes twice, runs both times, this is the second" in times[1]
        data = json.loads(nowhere("schedules", "explain", "@daily", "--json").out)["data"]
        assert (data["words"], len(data["next"])) == ("At 00:00 every day, UTC", 5)

    def test_explain_says_what_is_wrong(self, nowhere: Rota) -> None:
        answer = nowhere("schedules", "explain", "* * *")
        assert answer.code == 2
        assert "CRON='* * *'" in answer.err
