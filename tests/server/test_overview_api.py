"""`/api/admin/overview` and `/auth/me` over HTTP: what a first page says, the worst first, and to whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support import people
from tests.support.counts import exactly
from tests.support.shop import Shop

import rota
from rota.control.access import DEFAULT, Actor
from rota.control.overview import about
from rota.model.capped import Capped

pytestmark = pytest.mark.req("D03")

Conn = psycopg.Connection[Any]


def late(conn: Conn, queue: str, by: timedelta) -> None:
    """Let the jobs of a queue have been due for so long."""
    conn.execute("UPDATE rota.job SET run_at = rota.now() - %s WHERE queue = %s", [by, queue])


def schedule(conn: Conn, name: str, *, due: timedelta, key: str | None = None) -> None:
    """Make a schedule, or a recurring row, that is due in so long."""
    conn.execute(
        """INSERT INTO rota.schedule (name, task, key, strategy, every, next_run_at)
           VALUES (%s, %s, %s, %s, '1 hour', rota.now() + %s)""",
        [None if key else name, name, key, "recurring" if key else "interval", due],
    )


def open_alert(conn: Conn, kind: str, severity: str) -> None:
    """Open an alert that nobody has acknowledged."""
    conn.execute(
        """INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at)
           VALUES (%s, 'x', %s, 'x', rota.now(), rota.now())""",
        [kind, severity],
    )


class TestSentence:
    async def test_a_new_one_has_not_run_anything(self, shop: Shop) -> None:
        found = await shop.get("/overview")
        assert (found["health"], found["sentence"], found["problems"]) == ("empty", "Nothing has run yet", [])
        assert found["queued"] == found["running"] == found["waiting"] == exactly(0)
        assert found["oldest"] is None
        assert found["workers"] == {"live": 0, "silent": 0, "dead": 0, "slots": 0, "busy": 0}
        assert (found["app"], found["environment"], found["version"]) == ("shop", "local", rota.__version__)

    async def test_all_is_well(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn, queues=("default", "mail"), tasks=("send", "count"), slots=4)
        given.enqueue(conn, "count", payload={"n": 1})
        given.enqueue(conn, "count", payload={"n": 1}, delay=timedelta(hours=1))
        given.claim(conn, worker)
        found = await shop.get("/overview")
        assert (found["health"], found["sentence"]) == ("ok", "All is well")
        assert [found[name]["count"] for name in ("queued", "delayed", "running")] == [1, 1, 1]
        assert found["workers"] == {"live": 1, "silent": 0, "dead": 0, "slots": 4, "busy": 1}
        assert found["next_run"]["name"] == "sweep"  # the only one that fires by itself
        assert (found["next_run"]["kind"], found["next_run"]["words"], found["next_run"]["late"]) == ("interval", "every 1h", False)

    async def test_the_worst_comes_first(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn, queues=("default", "mail"), tasks=("send", "count"))
        given.enqueue(conn, "count", payload={"n": 1})
        given.fail(conn, worker)
        given.enqueue(conn, "send", payload={"user_id": 1})
        late(conn, "mail", timedelta(minutes=4, seconds=30))
        found = await shop.get("/overview")
        assert found["sentence"] == "mail is 4 min behind; 1 job failed in the last hour"
        assert (found["health"], found["oldest"]["queue"], found["failed_1h"]["count"]) == ("warning", "mail", 1)
        conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() - interval '5 minutes'")
        found = await shop.get("/overview")
        assert found["sentence"] == "1 schedule is late; mail is 4 min behind; 1 job failed in the last hour"
        assert found["health"] == "error"
        assert found["next_run"]["late"] is True
        late(conn, "mail", timedelta(hours=3))
        for n in range(2):
            schedule(conn, "fetch", due=-timedelta(minutes=2), key=str(n))
        found = await shop.get("/overview")
        assert found["sentence"] == "mail is 3 h behind; 1 schedule is late; 2 recurring rows are late; and 1 more"
        assert [each["code"] for each in found["problems"]] == ["queue_behind", "schedule_late", "recurring_late", "jobs_failed"]
        assert found["problems"][0] == {
            "code": "queue_behind",
            "severity": "error",
            "sentence": "mail is 3 h behind",
            "queues": ["mail"],
        }

    async def test_what_nobody_works_and_what_is_paused(self, shop: Shop, conn: Conn) -> None:
        given.enqueue(conn, "send", payload={"user_id": 1})
        assert (await shop.get("/overview"))["sentence"] == "no worker is live, and jobs are due"
        given.start_worker(conn, queues=("default",), tasks=("count",))
        assert (await shop.get("/overview"))["sentence"] == "no live worker for mail"
        await shop.post("/queues/mail/pause", {"reason": "the mail server is down"})
        late(conn, "mail", timedelta(hours=3))
        found = await shop.get("/overview")
        assert (found["sentence"], found["health"]) == ("mail is paused", "warning")  # and not behind: it was meant to be

    async def test_many_queues_with_one_problem_are_one_problem_after_the_alerts(self, shop: Shop, conn: Conn) -> None:
        given.start_worker(conn, queues=("default",), tasks=("count",))
        for n in range(62):
            given.declare(conn, f"work{n:02}", queue=f"queue{n:02}")
            given.enqueue(conn, f"work{n:02}")
        open_alert(conn, "queue_stuck", "error")
        for n in range(2):
            schedule(conn, f"digest{n}", due=-timedelta(minutes=2))

        found = await shop.get("/overview")

        lonely = "no live worker for 62 queues: queue00, queue01, queue02 and 59 more"
        assert found["sentence"] == f"1 alert is open; {lonely}; 2 schedules are late"
        assert found["problems"][1]["queues"] == [f"queue{n:02}" for n in range(62)]

    async def test_an_alert_comes_first_even_before_what_is_worse(self, shop: Shop, conn: Conn) -> None:
        given.enqueue(conn, "send", payload={"user_id": 1})
        open_alert(conn, "worker_died", "warning")
        found = await shop.get("/overview")
        assert (found["sentence"], found["health"]) == ("1 alert is open; no worker is live, and jobs are due", "error")

    async def test_several_queues_behind_or_paused(self, shop: Shop, conn: Conn) -> None:
        given.start_worker(conn, queues=("default", *"abcde"), tasks=("count",))
        for n, name in enumerate("abcde", 1):
            given.declare(conn, f"work_{name}", queue=name)
            given.enqueue(conn, f"work_{name}")
            late(conn, name, timedelta(minutes=4 * n, seconds=30))
        sentence = "5 queues are behind: e 20 min, d 16 min, c 12 min and 2 more"
        assert (await shop.get("/overview"))["sentence"] == sentence
        for name in "abcd":
            await shop.post(f"/queues/{name}/pause", {})
        assert (await shop.get("/overview"))["sentence"] == "e is 20 min behind; 4 queues are paused: a, b, c and 1 more"

    @pytest.mark.parametrize("path", ["/overview", "/queues"])
    async def test_a_job_that_is_due_after_the_look_began_has_not_waited(self, shop: Shop, conn: Conn, path: str) -> None:
        given.start_worker(conn, queues=("default", "mail"), tasks=("send", "count"))
        given.enqueue(conn, "send", payload={"user_id": 1})
        late(conn, "mail", -timedelta(milliseconds=1500))  # as it looks to a transaction that began before the job was made
        conn.execute("UPDATE rota.job SET state = 'queued'")
        found = await shop.get(path)
        if path == "/queues":
            [age] = [each["oldest_age"] for each in found["items"] if each["name"] == "mail"]
        else:
            age = found["oldest"]["age"]
        assert age == "PT0S"

    async def test_workers_schedules_and_alerts(self, shop: Shop, conn: Conn) -> None:
        given.start_worker(conn, queues=("default", "mail"))
        given.start_worker(conn, seen_ago=timedelta(minutes=10))
        died = given.start_worker(conn)
        given.enqueue(conn, "count", payload={"n": 1})
        given.claim(conn, died)
        conn.execute("UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = 'died' WHERE id = %s", [died])
        conn.execute("UPDATE rota.schedule SET failing_since = rota.now()")
        for kind, severity in (("worker_died", "warning"), ("job_failed", "critical")):
            open_alert(conn, kind, severity)
        found = await shop.get("/overview")
        assert [each["sentence"] for each in found["problems"]] == [
            "2 alerts are open", "1 worker has died with 1 job in hand", "1 worker is silent", "1 schedule keeps failing",
        ]  # fmt: skip
        assert found["alerts"] == {"open": exactly(2), "worst": "critical"}
        assert found["workers"] == {"live": 1, "silent": 1, "dead": 1, "slots": 4, "busy": 0}

    async def test_failures_of_long_ago_and_of_others_do_not_count(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn, queues=("default", "mail"))
        given.enqueue(conn, "count", payload={"n": 1})
        given.fail(conn, worker)
        conn.execute("UPDATE rota.run SET finished_at = rota.now() - interval '61 minutes'")
        given.enqueue(conn, "count", payload={"n": 1})
        conn.execute("SELECT rota.cancel_job(id) FROM rota.job")
        found = await shop.get("/overview")
        assert (found["failed_1h"], found["sentence"]) == (exactly(0), "All is well")

    @pytest.mark.parametrize(
        ("seconds", "words"), [(-5, "0 s"), (90, "90 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d")]
    )
    def test_about(self, seconds: int, words: str) -> None:
        assert about(timedelta(seconds=seconds)) == words


class TestWho:
    async def test_readers_see_it_and_users_do_not(self, shop: Shop) -> None:
        for role, status in (("read_only", 200), ("operator", 200), ("user", 403)):
            await people.make(shop.server, f"{role}@example.org", role)
            headers = await people.jwt(shop.server, f"{role}@example.org")
            assert (await people.call(shop.server, headers, "GET", "/api/admin/overview"))[0] == status

    async def test_what_somebody_may_not_see_is_not_spoken_of(self, shop: Shop, conn: Conn) -> None:
        given.enqueue(conn, "send", payload={"user_id": 1})
        late(conn, "mail", timedelta(hours=3))
        conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() - interval '1 hour'")
        only = await people.api_token(shop.server, "ada@example.org", "jobs.read")
        _, found = await people.call(shop.server, only, "GET", "/api/admin/overview")
        assert (found["sentence"], found["queued"]["count"]) == ("All is well", 1)
        assert (found["workers"], found["alerts"], found["oldest"], found["next_run"]) == (None, None, None, None)

    async def test_me_has_what_a_page_needs(self, shop: Shop) -> None:
        await people.make(shop.server, "rita@example.org", "read_only")
        headers = await people.cookie(shop.server, "rita@example.org")
        _, me = await people.call(shop.server, headers, "GET", "/auth/me")
        assert (me["email"], me["role"], me["app"], me["environment"], me["version"]) == (
            "rita@example.org", "read_only", "shop", "local", rota.__version__,
        )  # fmt: skip
        assert me["may"] == [operation for operation, roles in DEFAULT.items() if "read_only" in roles]
        assert me["apps"] == sorted(shop.app.included)

    async def test_the_library_gives_the_same(self, shop: Shop) -> None:
        found = await shop.app.control.acting_as(Actor("rita", "read_only")).overview()
        assert (found.sentence, found.queued) == ("Nothing has run yet", Capped(0))
