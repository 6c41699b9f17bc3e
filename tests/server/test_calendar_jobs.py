"""`POST /jobs/schedule`: who may, what is stored, and that a repeated request makes nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.support.serving import Serving
from tests.support.wait import PATIENCE_S

from rota.apps import housekeeping
from rota.contrib.testing.clock import Clock
from rota.control.accounts import hash_of
from rota.model.calendar_job import RETRY
from rota.model.ids import new_id
from rota.model.retry import Retry

Conn = psycopg.Connection[Any]
Serve = Callable[..., AbstractAsyncContextManager[Serving]]

pytestmark = pytest.mark.req("Y02")

JOB: dict[str, Any] = {
    "calendar_pair_id": "team:rooms",
    "connector": "caldav",
    "window_start": "2030-01-01T00:00:00Z",
    "window_end": "2030-02-01T01:00:00+01:00",
}
STORED = {
    "calendar_pair_id": "team:rooms",
    "connector": "caldav",
    "window_start": "2030-01-01T00:00:00+00:00",
    "window_end": "2030-02-01T00:00:00+00:00",
    "payload": {},
}


class Admin:
    """Somebody who is signed in, and asks."""

    def __init__(self, server: Serving, cookie: str) -> None:
        self._client = server.client
        self.cookie = cookie

    async def ask(self, body: Any, *, key: str | None = None, **headers: str) -> tuple[int, Any]:
        """POST a body (text as it is, else as JSON); the status and the answer."""
        given = {"content-type": "application/json", "cookie": f"rota={self.cookie}", **headers}
        if key is not None:
            given["idempotency-key"] = key
        text = body if isinstance(body, str) else json.dumps(body)
        async with self._client.post("/jobs/schedule", data=text.encode("utf-8", "surrogatepass"), headers=given) as answer:
            return answer.status, await answer.json(content_type=None)

    async def schedule(self, *jobs: dict[str, Any], key: str | None = None) -> list[dict[str, Any]]:
        """Schedule these, and give the answer."""
        status, answer = await self.ask({"jobs": list(jobs)}, key=key)
        assert status == 202, answer
        return answer["jobs"]


def sign_in(conn: Conn, server: Serving, role: str = "admin", email: str = "ann@example.org") -> Admin:
    """Make an account with a session."""
    account, cookie = new_id(), f"cookie-of-{email}"
    conn.execute("INSERT INTO rota.account (id, email, role) VALUES (%s, %s, %s)", [account, email, role])
    conn.execute(
        "INSERT INTO rota.session (id, token_hash, account_id, expires_at) VALUES (%s, %s, %s, rota.now() + interval '1 h')",
        [new_id(), hash_of(cookie), account],
    )
    return Admin(server, cookie)


@pytest.fixture
def admin(conn: Conn, server: Serving) -> Admin:
    return sign_in(conn, server)


def stored(conn: Conn) -> list[dict[str, Any]]:
    """The jobs, in the order of their ids."""
    return conn.cursor(row_factory=dict_row).execute("SELECT * FROM rota.jobs WHERE task = 'sync_pair' ORDER BY id").fetchall()


class TestStored:
    async def test_it_works(self, conn: Conn, admin: Admin) -> None:
        [made] = await admin.schedule(JOB)
        [job] = stored(conn)
        assert (str(job["id"]), job["queue"], job["state"], job["payload"]) == (made["id"], "calendar", "queued", STORED)
        assert job["triggered_by"] == {"kind": "manual", "user": "ann@example.org"}
        assert (made["calendar_pair_id"], made["window_end"], made["run_at"]) == ("team:rooms", "2030-02-01T00:00:00Z", None)

    async def test_several_with_all_that_can_be_said(self, conn: Conn, admin: Admin) -> None:
        payload = {"calendars": ["a", "ü"], "deep": {"n": 1.5}}
        later = {**JOB, "priority": -5, "run_at": "2031-01-01T12:00:00+02:00", "payload": payload}
        made = await admin.schedule(JOB, later, JOB)
        jobs = {str(job["id"]): job for job in stored(conn)}
        assert [jobs[each["id"]]["priority"] for each in made] == [0, -5, 0]
        second = jobs[made[1]["id"]]
        assert second["payload"]["payload"] == payload
        assert second["run_at"].isoformat(timespec="minutes").startswith("2031-01-01T")
        assert [each["run_at"] for each in made] == [None, "2031-01-01T10:00:00Z", None]

    @pytest.mark.req("Q08")
    async def test_backoff_is_that_of_synchronisations(self, conn: Conn, admin: Admin) -> None:
        await admin.schedule(JOB)
        [job] = stored(conn)
        assert job["max_attempts"] == 6
        policy = Retry.from_json(job["retry"])
        assert policy == RETRY
        minutes = [int(policy.delay(attempt, Random(1)) / timedelta(minutes=1)) for attempt in (1, 2, 3, 4, 5, 6)]
        assert minutes == [1, 2, 4, 8, 16, 30]

    async def test_it_waits_for_a_worker_with_the_application_and_why_says_so(
        self, conn: Conn, admin: Admin, server: Serving
    ) -> None:
        [made] = await admin.schedule(JOB)
        async with asyncio.timeout(PATIENCE_S):
            running = server.app.worker(scheduler=False)
            task = asyncio.create_task(running.run())
            while not conn.execute("SELECT FROM rota.worker").fetchall():
                await asyncio.sleep(0.01)
            reasons = (await server.state.control.why(UUID(made["id"]))).reasons
            running.stop()
            await task
        assert [reason.code for reason in reasons] == ["no_worker_for_queue"]
        assert [job["state"] for job in stored(conn)] == ["queued"]

    async def test_limits_that_an_operator_has_set_hold(self, conn: Conn, admin: Admin, server: Serving) -> None:
        await admin.schedule(JOB)
        await server.state.control.limit_queue("calendar", max_concurrency=1)
        await admin.schedule(JOB)
        assert conn.execute("SELECT count(*) FROM rota.job WHERE limited").fetchone() == (1,)

    async def test_who_it_was_is_written_down(self, conn: Conn, admin: Admin) -> None:
        made = await admin.schedule(JOB, JOB)
        [(actor, operation, detail)] = conn.execute("SELECT actor, operation, detail FROM rota.audit").fetchall()
        assert (actor, operation, detail["jobs"]) == ("ann@example.org", "jobs.schedule", [each["id"] for each in made])


class TestWho:
    @pytest.mark.parametrize("role", ["operator", "read_only", "user"])
    async def test_others_than_admins_may_not(self, conn: Conn, server: Serving, role: str) -> None:
        status, answer = await sign_in(conn, server, role).ask({"jobs": [JOB]})
        assert (status, answer["code"], stored(conn)) == (403, "forbidden", [])

    async def test_nobody_without_a_session(self, conn: Conn, server: Serving) -> None:
        status, _ = await Admin(server, "made up").ask({"jobs": [JOB]})
        assert (status, stored(conn)) == (401, [])

    async def test_a_token_of_an_admin_will_not_do(self, conn: Conn, admin: Admin) -> None:
        conn.execute(
            """INSERT INTO rota.api_token (token_hash, hint, account_id, name, created_by)
               SELECT %s, 'x', id, 'ci', 'ann' FROM rota.account""",
            [hash_of("rota_" + "t" * 40)],
        )
        status, answer = await admin.ask({"jobs": [JOB]}, authorization="Bearer rota_" + "t" * 40)
        assert (status, "session cookie" in answer["detail"], stored(conn)) == (403, True, [])

    async def test_not_from_another_site(self, conn: Conn, admin: Admin) -> None:
        status, _ = await admin.ask({"jobs": [JOB]}, origin="https://elsewhere.example")
        assert (status, stored(conn)) == (403, [])


class TestRepeated:
    async def test_it_makes_no_second_jobs_and_is_answered_the_same(self, conn: Conn, admin: Admin) -> None:
        first = await admin.schedule(JOB, JOB, key="monday")
        again = await admin.schedule({**JOB, "window_end": "2030-02-01T00:00:00Z", "priority": 0}, JOB, key="monday")  # the same
        assert (again, len(stored(conn))) == (first, 2)

    @pytest.mark.parametrize("jobs", [[{**JOB, "priority": 1}], [JOB, JOB], [{**JOB, "payload": {"a": 1}}]])
    async def test_another_body_with_the_same_key_is_refused(self, conn: Conn, admin: Admin, jobs: list[Any]) -> None:
        await admin.schedule(JOB, key="monday")
        status, answer = await admin.ask({"jobs": jobs}, key="monday")
        assert (status, answer["code"], len(stored(conn))) == (409, "key_reused", 1)

    async def test_without_a_key_each_request_counts(self, conn: Conn, admin: Admin) -> None:
        await admin.schedule(JOB)
        await admin.schedule(JOB)
        assert len(stored(conn)) == 2

    async def test_keys_of_two_admins_have_nothing_to_do_with_each_other(self, conn: Conn, admin: Admin, server: Serving) -> None:
        other = sign_in(conn, server, email="bob@example.org")
        [[first], [second]] = [await each.schedule(JOB, key="monday") for each in (admin, other)]
        assert first["id"] != second["id"]

    async def test_many_at_once_make_one(self, conn: Conn, admin: Admin) -> None:
        answers = await asyncio.gather(*(admin.schedule(JOB, JOB, key="race") for _ in range(12)))
        assert len({json.dumps(answer) for answer in answers}) == 1
        assert len(stored(conn)) == 2

    async def test_a_request_that_failed_has_not_used_its_key(self, conn: Conn, admin: Admin) -> None:
        conn.execute("ALTER TABLE rota.job ADD CONSTRAINT none_for_now CHECK (task <> 'sync_pair' OR priority < 7)")
        status, _ = await admin.ask({"jobs": [JOB, {**JOB, "priority": 7}]}, key="monday")
        assert (status >= 500, stored(conn)) == (True, [])
        conn.execute("ALTER TABLE rota.job DROP CONSTRAINT none_for_now")
        assert len(await admin.schedule(JOB, {**JOB, "priority": 7}, key="monday")) == 2

    async def test_a_key_is_free_again_after_a_day_and_is_cleared_away(self, conn: Conn, admin: Admin) -> None:
        clock = Clock(conn)
        [first] = await admin.schedule(JOB, key="monday")
        clock.move(timedelta(hours=23))
        conn.execute("UPDATE rota.session SET expires_at = 'infinity'")
        assert await admin.schedule(JOB, key="monday") == [first]
        clock.move(timedelta(hours=2))
        [second] = await admin.schedule({**JOB, "priority": 3}, key="monday")
        assert first["id"] != second["id"]
        assert any(rule.table == "rota.request" for rule in housekeeping.OWN_RULES)

    @pytest.mark.parametrize("key", ["", " ", "x" * 256, "schlüssel"])
    async def test_keys_that_are_none(self, conn: Conn, admin: Admin, key: str) -> None:
        status, _ = await admin.ask({"jobs": [JOB]}, key=key)
        assert (status, stored(conn)) == (422, [])


WRONG: dict[str, Any] = {
    "no jobs": {"jobs": []},
    "too many": {"jobs": [JOB] * 101},
    "not a list": {"jobs": JOB},
    "nothing": {},
    "a list": [JOB],
    "something unknown beside": {"jobs": [JOB], "dry_run": True},
    "not JSON": "{",
    "a nested end": '{"jobs": [{"calendar_pair_id": "a", "payload": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}]}",
    **{
        f"{name}={str(value)[:30]!r}": {"jobs": [JOB, {**JOB, name: value}]}
        for name, values in {
            "calendar_pair_id": ["", None, 7, "a" * 201, "a b", "a\x00", "\ud800", "a\n"],
            "connector": ["", "CalDAV", "a/b", None],
            "window_start": ["2030-01-01T00:00:00", "2030-02-01T00:00:00Z", "2031-01-01T00:00:00Z", "soon", 0, "0", None,
                             "0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00Z", "99999-01-01T00:00:00Z"],
            "window_end": ["9999-12-31T23:59:59-14:00", "2030-13-01T00:00:00Z"],
            "payload": [None, [], "x", {"a": "\x00"}, {"\ud800": 1}, {"a": "x" * 70_000}],
            "priority": [32768, -32769, True, "1", 1.5, None],
            "run_at": ["tomorrow", "2030-01-01", 5, "1969-12-31T00:00:00Z"],
            "unknown": [1],
        }.items()
        for value in values
    },
}  # fmt: skip


async def test_bodies_that_do_not_fit_are_refused_and_nothing_is_stored(conn: Conn, admin: Admin) -> None:
    taken = {}
    for name, body in WRONG.items():
        status, answer = await admin.ask(body, key="k")
        if status not in (400, 413, 422) or "code" not in answer:
            taken[name] = (status, answer)
    assert taken == {}
    assert (stored(conn), conn.execute("SELECT count(*) FROM rota.request").fetchone()) == ([], (0,))
