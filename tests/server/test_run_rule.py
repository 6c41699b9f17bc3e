"""One rule for running a task: every way in, for every role and kind of task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.support import jobs as given
from tests.support import people
from tests.support.shop import ADMIN, API, Shop, open_shop

from rota import Rota
from rota.control.access import Access, Actor
from rota.errors import Forbidden

pytestmark = pytest.mark.req("T08")

Conn = psycopg.Connection[Any]

OPERATOR, READER, USER = "ole@example.org", "rita@example.org", "uma@example.org"
ROLES = {"admin": ADMIN, "operator": OPERATOR, "read_only": READER, "user": USER}
RUNS, OPERATES = {"admin"}, {"admin", "operator"}

KINDS: dict[str, dict[str, Any]] = {
    "count": {"n": 7},
    "http_call": {"url": "https://example.org/", "method": "GET"},
    "webhook_delivery_prune": {"retention_hours": 24},
    "rota.tick": {},
}


@dataclass
class Way:
    """A request that makes a task run, or keeps it from running, and who may send it."""

    method: str
    path: str
    body: Any
    roles: set[str]


def schedule_of(task: str) -> str:
    """Name the schedule of a task that a test uses: one cannot be called as Rota's own."""
    return task.replace(".", "-") + "-s"


def ways(task: str, payload: dict[str, Any], job: str) -> dict[str, Way]:
    """Give every way to run a task or to change what runs; `job` waits."""
    schedule = f"/schedules/{schedule_of(task)}"
    new = {"name": str(uuid4()), "task": task, "every": "1h", "payload": payload}
    return {
        "trigger": Way("POST", f"/tasks/{task}/trigger", {"payload": payload}, RUNS),
        "enqueue": Way("POST", "/jobs", {"task": task, "payload": payload}, RUNS),
        "edit and retry": Way("POST", f"/jobs/{job}/edit", {"payload": payload}, RUNS),
        "edit a member": Way("POST", f"/jobs/{job}/edit", {"changes": payload or {"a": 1}}, RUNS),
        "create a schedule": Way("POST", "/schedules", new, RUNS),
        "run a schedule": Way("POST", schedule + "/run", None, RUNS),
        "schedule another payload": Way("PUT", schedule, {"payload": payload}, RUNS),
        "schedule another task": Way("PATCH", schedule, {"task": task}, RUNS),
        "schedule another time": Way("PUT", schedule, {"every": "1s"}, RUNS),
        "lift a schedule's end": Way("PUT", schedule, {"ends_at": None}, RUNS),
        "another default payload": Way("PUT", f"/tasks/{task}/settings", {"default_payload": payload}, RUNS),
        "payload form": Way("GET", f"/forms/{task}", None, RUNS),
        # What an admin has let in may be stopped and go on as it is.
        "another priority": Way("PUT", schedule, {"priority": 3}, OPERATES),
        "disable a schedule": Way("POST", schedule + "/disable", None, OPERATES),
        "enable a schedule": Way("POST", schedule + "/enable", None, OPERATES),
        "reschedule": Way("POST", f"/jobs/{job}/reschedule", {"run_at": "2031-01-01T00:00:00Z"}, OPERATES),
        "cancel": Way("POST", f"/jobs/{job}/cancel", None, OPERATES),
        "retry": Way("POST", f"/jobs/{job}/retry", None, OPERATES),
        "retry many": Way("POST", "/jobs/bulk", {"action": "retry", "filter": {"task": [task]}}, OPERATES),
        "delete a schedule": Way("DELETE", schedule, None, OPERATES),
    }


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Shop]:
    async with open_shop(dsn, http_enabled=True) as shop:
        for role, email in ROLES.items():
            if role != "admin":
                await people.make(shop.server, email, role)
        yield shop


def count(conn: Conn) -> Any:
    """Count what a way in can leave behind."""
    return conn.execute(
        """SELECT (SELECT count(*) FROM rota.job), (SELECT count(*) FROM rota.job_edit),
                  (SELECT json_agg(s ORDER BY id)::text FROM rota.schedule s WHERE name LIKE '%-s')"""
    ).fetchone()


@pytest.mark.parametrize("task", KINDS)
async def test_every_way_in_asks_the_same_right(shop: Shop, conn: Conn, task: str) -> None:
    payload = KINDS[task]
    for role, email in ROLES.items():
        headers = await people.jwt(shop.server, email)
        conn.execute("DELETE FROM rota.schedule WHERE name = %s", [schedule_of(task)])
        await shop.post("/schedules", {"name": schedule_of(task), "task": task, "every": "1h", "payload": payload}, status=201)
        job = str(given.enqueue(conn, task, payload=payload))
        for name, way in ways(task, payload, job).items():
            before = count(conn)
            status, told = await people.call(shop.server, headers, way.method, API + way.path, way.body)
            if role in way.roles:
                assert status not in (401, 403), (role, name, told)
            else:
                assert (status, told["code"]) == (403, "forbidden"), (role, name, told)
                assert count(conn) == before, (role, name)


async def test_a_scope_for_schedules_runs_nothing(shop: Shop) -> None:
    """The right is asked of tokens too: an admin's token for schedules alone is no way around it."""
    await shop.post("/schedules", {"name": "count-s", "task": "count", "every": "1h"}, status=201)
    scopes = ("schedules.read", "schedules.change", "jobs.change", "tasks.change")
    headers = await people.api_token(shop.server, ADMIN, *scopes)
    for name, way in ways("count", {"n": 1}, str(uuid4())).items():
        status, _ = await people.call(shop.server, headers, way.method, API + way.path, way.body)
        assert (status == 403) is (way.roles == RUNS), (name, status)


async def test_recurring_rows_are_run_with_the_right_only(dsn: str, shop: Shop) -> None:
    async with Rota(dsn, name="feeds") as app:

        @app.recurring(key="feed:{id}", every="1h")
        def fetch(id: int) -> None: ...

        await app.control.sync_definitions()
        await fetch.aensure(id=1)
    operator = await people.jwt(shop.server, OPERATOR)
    path = f"{API}/schedules/fetch/feed:1"
    assert (await people.call(shop.server, operator, "POST", path + "/run"))[0] == 403
    assert (await people.call(shop.server, operator, "POST", path + "/disable"))[0] == 200
    assert (await people.call(shop.server, operator, "POST", path + "/enable"))[0] == 200


async def test_the_right_comes_before_what_does_not_fit_and_what_is_not_there(shop: Shop) -> None:
    """An unknown name, a known one and a body that does not fit are the same refusal to a caller without the right."""
    await shop.post("/schedules", {"name": "count-s", "task": "count", "every": "1h"}, status=201)
    operator = await people.jwt(shop.server, OPERATOR)
    wrong = {"cron": "nonsense", "payload": {"colour": "red"}}
    for method, path, body in (
        ("POST", "/schedules", {"nothing": "known"}),
        ("POST", "/schedules", {"name": "x", "task": "none", "cron": "nonsense"}),
        ("PUT", "/schedules/count-s", wrong),
        ("PUT", "/schedules/none", wrong),
        ("PATCH", f"/schedules/{uuid4()}", {"task": "none"}),
        ("POST", "/schedules/none/run", None),
        ("POST", "/tasks/none/trigger", {"nothing": "known"}),
        ("POST", f"/jobs/{uuid4()}/edit", {"nothing": "known"}),
        ("POST", "/jobs/nonsense/edit", None),
    ):
        assert (await people.call(shop.server, operator, method, API + path, body))[0] == 403, (method, path, body)
        assert (await people.call(shop.server, {}, method, API + path, body))[0] == 401, (method, path, body)
    for path in ("/schedules/none", f"/schedules/{uuid4()}"):
        assert await shop.refused("PUT", path, {"every": "1h"}) == (404, "not_found")


async def test_the_library_asks_the_same_right(shop: Shop) -> None:
    control = shop.app.control.acting_as(Actor("ole", "operator"))
    with pytest.raises(Forbidden, match=r"may not do tasks\.trigger"):
        await control.run_schedule("sweep")
    with pytest.raises(Forbidden, match=r"may not do tasks\.trigger"):
        await control.update_schedule("sweep", payload={})
    granted = Rota(settings=shop.app.settings, access=Access({"tasks.change": ["operator"]}))
    async with granted:
        with pytest.raises(Forbidden, match=r"may not do tasks\.trigger"):
            await granted.control.acting_as(Actor("ole", "operator")).update("count", default_payload={"n": 2})


class TestRunsForOperators:
    """Runs and logs are for admins, unless the application or the configuration lets operators see them."""

    async def test_the_preset_lets_operators_read_runs_and_logs(self, dsn: str) -> None:
        for access in (Access.operators_see_runs(), Access.operators_see_runs({"tasks.read": ["operator"]})):
            assert {each for each in ("runs.read", "logs.read") if access.allows(Actor("ole", "operator"), each)} == {
                "runs.read", "logs.read",
            }  # fmt: skip
            assert not access.allows(Actor("rita", "read_only"), "runs.read")
            assert not access.allows(Actor("ole", "operator"), "tasks.trigger")
            assert access.allows(Actor("ada", "admin"), "runs.read")

    @pytest.mark.parametrize("open_to_operators", [False, True])
    async def test_so_does_the_configuration(self, dsn: str, open_to_operators: bool) -> None:
        async with open_shop(dsn, auth_operators_see_runs=open_to_operators) as shop:
            await people.make(shop.server, OPERATOR, "operator")
            headers = await people.jwt(shop.server, OPERATOR)
            for path in ("/runs", "/errors", "/logs"):
                status, _ = await people.call(shop.server, headers, "GET", API + path)
                assert status == (200 if open_to_operators else 403), path
            assert shop.app.control.acting_as(Actor("ole", "operator")).may("logs.read") is open_to_operators
