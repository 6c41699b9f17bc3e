"""Why has this job not run? Each predicate of the claim, one at a time and together."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given

from rota.control import service
from rota.control.explain import Explanation, why
from rota.errors import NotFound
from rota.model.ids import new_id

Conn = psycopg.Connection
AConn = psycopg.AsyncConnection


@pytest.fixture(autouse=True)
def _tasks(conn: Conn) -> None:
    given.declare(conn, "work")


def codes(explanation: Explanation) -> list[str]:
    return [reason.code for reason in explanation.reasons]


async def test_a_ready_job_is_about_to_be_taken(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    explanation = await why(aconn, given.enqueue(conn))
    assert (codes(explanation), explanation.state) == (["ready"], "queued")
    assert explanation.verdict.startswith("Nothing holds it")


async def test_it_waits_for_its_parents_by_name(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    done, running, queued = given.enqueue(conn), given.enqueue(conn), given.enqueue(conn)
    job = given.enqueue(conn, parents=[done, running, queued])
    [(_, token)] = given.claim(conn, worker)
    given.finish(conn, done, token, worker, "completed")
    given.claim(conn, worker)
    explanation = await why(aconn, job)
    assert (codes(explanation), explanation.state) == (["waiting_for_parents"], "waiting")
    assert explanation.verdict == (f"It waits for 2 parents to complete: {running} (work, running), {queued} (work, queued).")


async def test_a_fan_in_names_some_parents_and_counts_the_rest(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    parents = [given.enqueue(conn) for _ in range(12)]
    explanation = await why(aconn, given.enqueue(conn, parents=parents))
    assert "It waits for 12 parents" in explanation.verdict
    assert explanation.verdict.endswith("and 2 more.")


async def test_it_is_not_due(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    explanation = await why(aconn, given.enqueue(conn, delay=timedelta(hours=3)))
    assert (codes(explanation), explanation.state) == (["not_due"], "queued")
    assert "in 3h" in explanation.verdict or "in 2h 59m" in explanation.verdict


async def test_it_is_in_backoff_after_an_error(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    [(_, token)] = given.claim(conn, worker)
    given.finish(conn, job, token, worker, "failed", error="no route to host", delay=timedelta(minutes=10))
    explanation = await why(aconn, job)
    assert codes(explanation) == ["backoff"]
    assert "Attempt 1 ended with ValueError: no route to host; the next one is due" in explanation.verdict
    assert f"`rota jobs retry {job}`" in explanation.verdict


async def test_a_due_job_that_is_not_promoted_yet_is_in_line(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    job = given.enqueue(conn, delay=timedelta(minutes=1))
    given.move_clock(conn, timedelta(minutes=1, seconds=1))
    assert codes(await why(aconn, job)) == ["ready"]


async def test_its_queue_is_paused(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    job = given.enqueue(conn)
    await service.pause_queue(aconn, "default", reason="mail server is down")
    explanation = await why(aconn, job)
    assert codes(explanation) == ["queue_paused"]
    assert "Queue 'default' is paused since" in explanation.verdict
    assert "(mail server is down): `rota queues resume default`" in explanation.verdict


async def test_no_worker_is_live(conn: Conn, aconn: AConn) -> None:
    job = given.enqueue(conn)
    assert codes(await why(aconn, job)) == ["no_worker"]
    given.start_worker(conn, seen_ago=timedelta(minutes=5))
    explanation = await why(aconn, job)
    assert codes(explanation) == ["no_worker"]
    assert "1 worker not heard of for more than 90 s" in explanation.verdict


async def test_no_worker_works_its_queue(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn, queues=("mail", "images"))
    explanation = await why(aconn, given.enqueue(conn))
    assert codes(explanation) == ["no_worker_for_queue"]
    assert "No live worker works queue 'default'; 1 live worker on: images, mail." in explanation.verdict


async def test_no_worker_knows_its_task(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn, tasks=("other",))
    given.start_worker(conn, queues=("mail",), tasks=("work",))
    explanation = await why(aconn, given.enqueue(conn))
    assert codes(explanation) == ["task_unknown"]
    assert "of queue 'default' knows task 'work'; workers that know it serve mail only" in explanation.verdict


async def test_all_slots_are_busy(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn, slots=2)
    busy = [given.enqueue(conn) for _ in range(2)]
    given.claim(conn, worker, limit=2)
    first, second, job = (given.enqueue(conn, priority=priority) for priority in (-1, 0, 0))
    explanation = await why(aconn, job)
    assert codes(explanation) == ["slots_busy"]
    assert "in queue 'default' it comes after 2 jobs, and all 2 slots of the 1 live worker are busy" in explanation.verdict
    assert all(str(each) in explanation.verdict for each in busy)
    assert "in queue 'default' it comes first" in (await why(aconn, first)).verdict
    assert "after 1 job," in (await why(aconn, second)).verdict


async def test_others_are_before_it(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    given.enqueue(conn)
    explanation = await why(aconn, given.enqueue(conn))
    assert codes(explanation) == ["behind"]


@pytest.mark.req("S09")
async def test_it_is_held_by_the_limit_of_its_task(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    conn.execute("UPDATE rota.task SET max_concurrency = 1")
    holder, job = given.enqueue(conn), given.enqueue(conn)
    assert "the next poll of a worker gives it one" in (await why(aconn, job)).verdict
    conn.execute("SELECT rota.admit_held()")
    explanation = await why(aconn, job)
    assert (codes(explanation), explanation.state) == (["held"], "queued")
    assert f"by the limit of 1 running job of this task: held by job {holder}, which comes next." in explanation.verdict
    given.claim(conn, worker)
    assert f"held by job {holder}, running on worker {worker} since " in (await why(aconn, job)).verdict
    await service.pause_queue(aconn, "default")
    assert codes(await why(aconn, job)) == ["queue_paused", "held"]


async def test_it_is_held_by_many(conn: Conn, aconn: AConn) -> None:
    given.start_worker(conn)
    conn.execute("UPDATE rota.task SET max_concurrency = 15")
    jobs = [given.enqueue(conn) for _ in range(16)]
    conn.execute("SELECT rota.admit_held()")
    assert (await why(aconn, jobs[-1])).verdict.endswith(", and up to 5 more.")


async def test_it_runs(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    given.claim(conn, worker)
    explanation = await why(aconn, job)
    assert (codes(explanation), explanation.state) == (["running"], "running")
    assert "attempt 1, for" in explanation.verdict
    assert f"worker {worker} (host-1, process 4711)" in explanation.verdict
    assert "its lease is until" in explanation.verdict


async def test_it_was_asked_to_stop(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    given.claim(conn, worker)
    await service.cancel_job(aconn, job)
    assert codes(await why(aconn, job)) == ["cancel_requested", "running"]


async def test_its_worker_is_gone(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    given.claim(conn, worker)
    conn.execute("UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = 'died'")
    explanation = await why(aconn, job)
    assert codes(explanation) == ["worker_gone", "running"]
    assert "is dead: any live worker takes the job back" in explanation.verdict
    conn.execute("DELETE FROM rota.worker")
    assert "is not known any more" in (await why(aconn, job)).verdict


async def test_its_lease_has_run_out(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    given.claim(conn, worker, lease_s=60)
    given.move_clock(conn, timedelta(seconds=90))
    conn.execute("UPDATE rota.worker SET seen_at = rota.now()")
    explanation = await why(aconn, job)
    assert codes(explanation) == ["lease_expired", "running"]
    assert "Its lease ran out 30s ago" in explanation.verdict


async def test_it_is_in_quarantine(conn: Conn, aconn: AConn) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    given.claim(conn, worker)
    conn.execute("SELECT rota.rescue_runs(%s)", [[worker]])
    explanation = await why(aconn, job)
    assert codes(explanation) == ["ready", "quarantine"]
    assert "its worker has died under it and it is a suspect" in explanation.reasons[1].sentence


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("completed", "It has run: attempt 1 completed at"),
        ("failed", "It failed for good at"),
        ("canceled", "It was canceled at"),
    ],
)
async def test_it_has_finished(conn: Conn, aconn: AConn, outcome: str, words: str) -> None:
    worker = given.start_worker(conn)
    job = given.enqueue(conn)
    [(_, token)] = given.claim(conn, worker)
    given.finish(conn, job, token, worker, outcome, error="boom", can_retry=False)
    explanation = await why(aconn, job)
    assert (codes(explanation), explanation.state) == ([outcome], outcome)
    assert explanation.verdict.startswith(words)
    assert ("ValueError: boom" in explanation.verdict) == (outcome != "completed")


async def test_everything_that_holds_is_said(conn: Conn, aconn: AConn) -> None:
    parent = given.enqueue(conn)
    job = given.enqueue(conn, parents=[parent], delay=timedelta(hours=1))
    await service.pause_queue(aconn, "default")
    assert codes(await why(aconn, job)) == ["waiting_for_parents", "not_due", "queue_paused", "no_worker"]


async def test_there_is_no_such_job(aconn: AConn) -> None:
    id: UUID = new_id()
    with pytest.raises(NotFound, match=str(id)):
        await why(aconn, id)
