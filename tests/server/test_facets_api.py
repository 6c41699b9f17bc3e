"""Facets, names to search by, lineage and forms over HTTP: what a list of jobs and a job's page have beside them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as example
from hypothesis import strategies as st
from tests.support import jobs as given
from tests.support import people
from tests.support.counts import exactly
from tests.support.shop import Shop

from rota.control import facets as control
from rota.control.lineage import describe_origin
from rota.model.filters import FINISHED_STATES, JOB_STATES, JobFilter
from rota.store.jobs_read import JobRecord

pytestmark = pytest.mark.req("D01")

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]


def put(conn: Conn, task: str, queue: str, state: str) -> None:
    """Store a job in a state, as plain rows."""
    if state in FINISHED_STATES:
        conn.execute(
            """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, created_at)
               VALUES (rota.uuid7(), 1, %s, %s, %s, true, rota.now(), '{}', rota.now())""",
            [task, queue, state],
        )
    else:
        running, waiting = state == "running", state == "waiting"
        conn.execute(
            """INSERT INTO rota.job (id, task, queue, state, attempt, worker_id, claimed_at, lease_until, pending_parents)
               VALUES (rota.uuid7(), %s, %s, %s, %s, %s, CASE WHEN %s THEN rota.now() END, CASE WHEN %s THEN rota.now() END, %s)""",
            [task, queue, state, int(running), uuid4() if running else None, running, running, int(waiting)],
        )


class TestFacets:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @example(
        st.lists(
            st.tuples(
                st.sampled_from(["send", "send_all", "count", "rota.prune"]),
                st.sampled_from(["default", "mail"]),
                st.sampled_from([*JOB_STATES, "delayed"]),
            ),
            max_size=25,
        ),
        st.sets(st.sampled_from(JOB_STATES), max_size=3),
        st.sampled_from([None, "send", "send*", "rota.prune"]),
        st.sampled_from([None, "mail"]),
    )
    async def test_they_are_what_there_is(
        self, conn: Conn, aconn: AConn, jobs: list[Any], states: set[str], task: str | None, queue: str | None
    ) -> None:
        conn.execute("DELETE FROM rota.job")
        conn.execute("DELETE FROM rota.run")
        for job in jobs:
            put(conn, *job)
        named = [(name, of, "queued" if state == "delayed" else state) for name, of, state in jobs]
        fit = [
            each for each in named
            if ((task is None and each[0] != "rota.prune") or each[0] == task or (task == "send*" and each[0].startswith("send")))
            and queue in (None, each[1])
        ]  # fmt: skip
        async with aconn.transaction():
            found = await control.job_facets(aconn, JobFilter(states=tuple(states), task=task, queue=queue))
        assert {state: count.count for state, count in found.states.items()} == {
            state: sum(each[2] == state for each in fit) for state in JOB_STATES
        }
        chosen = [each for each in fit if not states or each[2] in states]
        for facets, place in ((found.tasks, 0), (found.queues, 1)):
            expected = {value: sum(each[place] == value for each in chosen) for value in {each[place] for each in chosen}}
            assert {each.value: each.count.count for each in facets} == expected
            assert [each.count.count for each in facets] == sorted(expected.values(), reverse=True)
        assert found.complete

    async def test_over_http_by_a_search_in_one_line(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn, queues=("default", "mail"))
        for n in range(3):
            given.enqueue(conn, "count", payload={"n": n})
        given.fail(conn, worker)
        given.enqueue(conn, "send", payload={"user_id": 1})
        found = await shop.get("/jobs/facets", q="state:queued")
        assert {state: count["count"] for state, count in found["states"].items() if count["count"]} == {"queued": 3, "failed": 1}
        assert found["tasks"] == [
            {"value": "count", "count": exactly(2)},
            {"value": "send", "count": exactly(1)},
        ]
        assert [each["value"] for each in found["queues"]] == ["default", "mail"]
        narrow = await shop.get("/jobs/facets", q="payload.n:1 task:c*")
        assert narrow["states"]["queued"] == exactly(1)
        assert narrow["states"]["failed"] == exactly(0)
        assert (await shop.get("/jobs/facets", text="boom"))["tasks"] == [{"value": "count", "count": exactly(1)}]
        assert await shop.refused("GET", "/jobs/facets", params={"q": "stat:failed"}) == (422, "query")
        assert (await shop.get("/jobs/facets", since="1s", until="2030-01-01"))["complete"] is True

    async def test_beyond_the_window_they_are_capped(self, shop: Shop, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(control, "WINDOW", 5)
        put(conn, "count", "default", "failed")  # the oldest: rare ones are found all the same
        for _ in range(9):
            put(conn, "count", "default", "completed")
        found = await shop.get("/jobs/facets", queue="default")
        assert (found["complete"], found["states"]["completed"]) == (False, {"count": 5, "capped": True, "estimated": False})
        assert found["states"]["failed"] == exactly(1)
        assert found["tasks"] == [{"value": "count", "count": {"count": 5, "capped": True, "estimated": False}}]
        everything = await shop.get("/jobs/facets")
        assert everything["states"]["completed"] == {
            "count": 9,
            "capped": False,
            "estimated": False,
        }  # which have indexes of their own


class TestValues:
    async def test_what_begins_with_it_comes_first(self, shop: Shop, conn: Conn) -> None:
        given.declare(conn, "resend", "send_all", "Zend%", queue="bulk-mail")
        values = (await shop.get("/jobs/values", of="task", text="END"))["items"]
        assert values == ["resend", "send", "send_all", "Zend%"]
        assert (await shop.get("/jobs/values", of="task", text="send"))["items"] == ["send", "send_all", "resend"]
        assert (await shop.get("/jobs/values", of="task", text="%"))["items"] == ["Zend%"]
        assert (await shop.get("/jobs/values", of="queue", text="mail"))["items"] == ["mail", "bulk-mail"]
        assert "rota.prune" not in (await shop.get("/jobs/values", of="task", limit=100))["items"]
        assert (await shop.get("/jobs/values", of="task", text="s", limit=1))["items"] == ["send"]
        for wrong in ({"of": "payload"}, {}, {"of": "task", "limit": "101"}, {"of": "task", "text": "a\0"}):
            assert await shop.refused("GET", "/jobs/values", params=wrong) == (422, "validation")


class TestLineage:
    async def test_parents_and_children_page_by_page(self, shop: Shop, conn: Conn) -> None:
        root = given.enqueue(conn, "count", payload={"n": 0})
        children = [given.enqueue(conn, "count", payload={"n": n}, parents=[root]) for n in range(5)]
        last = given.enqueue(conn, "count", payload={"n": 9}, parents=[children[0], root])
        found = await shop.get(f"/jobs/{root}/lineage")
        assert [each["id"] for each in found["children"]["items"]] == [str(each) for each in [*children, last]]
        assert found["children"]["next"] is None
        assert found["parents"]["items"] == []
        assert found["edits"] == []
        ids, cursor = [], None
        while True:
            page = await shop.get(f"/jobs/{root}/children", limit=2, **({"cursor": cursor} if cursor else {}))
            ids += [each["id"] for each in page["items"]]
            if (cursor := page["next"]) is None:
                break
        assert ids == [str(each) for each in [*children, last]]
        parents = await shop.get(f"/jobs/{last}/parents", limit=1)
        assert (parents["items"][0]["id"], parents["items"][0]["state"]) == (str(root), "queued")
        rest = await shop.get(f"/jobs/{last}/parents", cursor=parents["next"])
        assert [each["id"] for each in rest["items"]] == [str(children[0])]
        assert await shop.refused("GET", f"/jobs/{uuid4()}/lineage") == (404, "not_found")
        assert await shop.refused("GET", f"/jobs/{root}/children", params={"cursor": parents["next"]}) == (422, "cursor")
        assert (await shop.get(f"/jobs/{uuid4()}/children"))["items"] == []

    async def test_who_made_it(self, shop: Shop, conn: Conn) -> None:
        made = await shop.post(
            "/schedules", {"name": "nightly", "task": "send", "cron": "0 3 * * *", "payload": {"user_id": 1}}, status=201
        )
        by_hand = (await shop.post("/tasks/count/trigger", status=201))["id"]
        run_now = (await shop.post("/schedules/nightly/run"))["job_id"]
        by_sql = given.enqueue(conn, "count", payload={"n": 1})
        fired = given.enqueue(conn, "send", payload={"user_id": 1})
        conn.execute(
            """UPDATE rota.job SET schedule_id = %s, scheduled_for = '2030-01-01T03:00Z',
                                   triggered_by = '{"kind": "scheduler", "schedule": "nightly"}' WHERE id = %s""",
            [made["id"], fired],
        )

        async def origin(id: Any) -> Any:
            return (await shop.get(f"/jobs/{id}/lineage"))["origin"]

        assert (await origin(by_hand))["sentence"] == "Made by hand, by ada@example.org."
        assert (await origin(run_now))["sentence"] == "Made by schedule nightly, run by hand, by ada@example.org."
        assert (await origin(by_sql))["kind"] == "sql"
        assert await origin(fired) == {
            "kind": "schedule", "sentence": "Made by schedule nightly, for 2030-01-01 03:00:00 UTC.", "user": None,
            "schedule": {"id": made["id"], "name": "nightly"}, "scheduled_for": "2030-01-01T03:00:00Z",
        }  # fmt: skip
        await shop.ask("DELETE", "/schedules/nightly")
        gone = await origin(fired)
        assert gone["schedule"] == {"id": made["id"], "name": None}
        assert gone["sentence"] == "Made by schedule nightly, for 2030-01-01 03:00:00 UTC."

    @pytest.mark.parametrize(
        ("told", "kind", "sentence"),
        [
            (None, "code", "Made by the application's code."),
            ({"kind": "cli", "user": "ann"}, "cli", "Made on the command line, by ann."),
            ({"kind": "api", "user": "ann"}, "api", "Made over the API, by ann."),
            (
                {"kind": "hook", "hook": "paid", "operation": "insert", "table": "order"},
                "hook",
                "Made by hook paid (insert of order).",
            ),
            ({"kind": "scheduler", "schedule": "fetch/feed:1"}, "recurring", "Made by recurring row fetch/feed:1."),
            ({"kind": ["x"], "user": {"a": 1}}, "['x']", "Made by ['x'], by {'a': 1}."),
            ({"kind": "x" * 1000}, "x" * 199 + "…", f"Made by {'x' * 199}…."),
        ],
    )
    def test_in_words(self, told: Any, kind: str, sentence: str) -> None:
        job = JobRecord(**{**dict.fromkeys(JobRecord.__slots__), "triggered_by": told})  # type: ignore[arg-type]
        found = describe_origin(job, None)
        assert (found.kind, found.sentence) == (kind, sentence)

    async def test_edits_are_told(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn)
        given.enqueue(conn, "count", payload={"n": 1})
        id: UUID = given.fail(conn, worker)
        await shop.post(f"/jobs/{id}/edit", {"payload": {"n": 2}})
        [edit] = (await shop.get(f"/jobs/{id}/lineage"))["edits"]
        assert (edit["payload"], edit["edited_by"]["user"]) == ({"n": 1}, "ada@example.org")


class TestForms:
    async def test_callers_who_may_run_a_task_get_its_form(self, shop: Shop) -> None:
        runner = await people.api_token(shop.server, "ada@example.org", "tasks.trigger")
        status, form = await people.call(shop.server, runner, "GET", "/api/admin/forms/count")
        assert (status, form["task"], form["default_payload"]) == (200, "count", {"n": 1})
        assert form["payload_schema"]["properties"]["n"]["type"] == "integer"
        assert (await people.call(shop.server, runner, "GET", "/api/admin/tasks/count"))[0] == 403
        assert await shop.refused("GET", "/forms/cuont") == (404, "not_found")

    async def test_the_plan_without_a_look_at_payloads(self, shop: Shop, conn: Conn) -> None:
        given.enqueue(conn, "count", payload={"n": 1}, delay=timedelta(hours=1))
        assert (await shop.get("/plan"))["scanned"] > 0
        quick = await shop.get("/plan", scan=0)
        assert (quick["scanned"], quick["cut"]) == (0, True)
        assert await shop.refused("GET", "/plan", params={"scan": "20001"}) == (422, "validation")


class TestSelection:
    async def test_many_at_once_by_their_ids(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn)
        failed = []
        for n in range(4):
            given.enqueue(conn, "count", payload={"n": n})
            failed.append(given.fail(conn, worker))
        canceled = given.enqueue(conn, "count", payload={"n": 9})
        await shop.post(f"/jobs/{canceled}/cancel")
        chosen = {"id": [str(failed[0]), str(failed[2]), str(canceled), str(uuid4())]}
        counted = await shop.post("/jobs/bulk", {"action": "retry", "filter": chosen, "dry_run": True})
        assert counted["matched"] == exactly(3)
        done = await shop.post("/jobs/bulk", {"action": "retry", "filter": chosen})
        assert (done["changed"], done["skipped"], done["next"]) == (3, 0, None)
        assert {each["id"] for each in (await shop.get("/jobs", state="failed"))["items"]} == {str(failed[1]), str(failed[3])}
        only = {"action": "cancel", "filter": {**chosen, "state": ["queued"], "task": "send"}}
        assert (await shop.post("/jobs/bulk", only))["changed"] == 0  # all of it must hold
        listed = await shop.ask("GET", "/jobs", params=[("id", each) for each in chosen["id"]])
        assert len(listed.body["items"]) == 3
        facets = await shop.ask("GET", "/jobs/facets", params=[("id", each) for each in chosen["id"]])
        assert facets.body["states"]["queued"]["count"] == 3
        [(detail,)] = conn.execute("SELECT detail FROM rota.audit WHERE operation = 'jobs.retry_many'").fetchall()
        assert detail["filter"] == {"ids": "4 jobs"}
        many = {"action": "retry", "filter": {"id": [str(uuid4()) for _ in range(1001)]}}
        assert await shop.refused("POST", "/jobs/bulk", many) == (422, "validation")
        assert await shop.refused("POST", "/jobs/bulk", {"action": "retry", "filter": {"id": []}}) == (422, "usage")

    async def test_since_when_a_job_runs_and_when_an_attempt_was_due(self, shop: Shop, conn: Conn) -> None:
        worker = given.start_worker(conn)
        given.enqueue(conn, "count", payload={"n": 1})
        [(id, _)] = given.claim(conn, worker)
        [job] = (await shop.get("/jobs", state="running"))["items"]
        [run] = (await shop.get(f"/jobs/{id}/runs"))["items"]
        assert job["last_run_at"] == run["started_at"] is not None
        assert run["run_at"] == job["run_at"]
