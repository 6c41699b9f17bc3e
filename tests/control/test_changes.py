"""Retry and cancel: what operators can do to jobs."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest
from tests.support import jobs as given

from rota.control import service
from rota.errors import Conflict, InvalidTransition, UsageError
from rota.model.filters import JobFilter

Conn = psycopg.Connection
AConn = psycopg.AsyncConnection


@pytest.mark.req("Q10")
class TestRetry:
    async def test_a_failed_job_runs_again_with_its_history(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", max_attempts=2)
        worker = given.start_worker(conn)
        id = given.enqueue(conn, payload={"n": 1}, key="k", priority=5, timeout=timedelta(seconds=9), owner="me")
        for state in ("queued", "failed"):
            [(_, token)] = given.claim(conn, worker)
            assert given.finish(conn, id, token, worker, "failed", error="boom") == state
        before = (await service.get_job(aconn, id)).job

        assert (await service.retry_job(aconn, id)).state == "queued"

        detail = await service.get_job(aconn, id)
        assert [run.attempt for run in detail.runs] == [2, 1]
        for name in ("payload", "key", "priority", "timeout", "owner", "created_at", "triggered_by", "max_attempts", "queue"):
            assert getattr(detail.job, name) == getattr(before, name), name
        # All its attempts are before it again.
        for state in ("queued", "failed"):
            [(_, again)] = given.claim(conn, worker)
            assert again > token
            assert given.finish(conn, id, again, worker, "failed", error="boom") == state
        assert [run.attempt for run in (await service.get_job(aconn, id)).runs] == [4, 3, 2, 1]

    async def test_a_canceled_job_runs_again(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        id = given.enqueue(conn)
        await service.cancel_job(aconn, id)
        assert (await service.retry_job(aconn, id)).state == "queued"
        assert given.claim(conn, given.start_worker(conn)) != []

    async def test_a_job_in_backoff_runs_at_once(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, id, token, worker, "failed", delay=timedelta(hours=1))
        assert given.claim(conn, worker) == []
        await service.retry_job(aconn, id)
        assert [claimed for claimed, _ in given.claim(conn, worker)] == [id]

    async def test_other_states_are_refused_with_what_to_do(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        child = given.enqueue(conn, parents=[id])
        [(_, token)] = given.claim(conn, worker)
        with pytest.raises(InvalidTransition, match=f"is running: wait for its end, or `rota jobs cancel {id}`"):
            await service.retry_job(aconn, id)
        with pytest.raises(InvalidTransition, match=f"waiting for its parents: `rota jobs why {child}`"):
            await service.retry_job(aconn, child)
        given.finish(conn, id, token, worker, "completed")
        with pytest.raises(InvalidTransition, match="is completed and cannot be retried: enqueue"):
            await service.retry_job(aconn, id)

    async def test_many_at_once_put_it_back_once(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        id = given.enqueue(conn)
        given.fail(conn, given.start_worker(conn))
        together = threading.Barrier(8)
        answers = []

        def retry() -> None:
            with psycopg.connect(dsn, autocommit=True) as own:
                together.wait()
                answers.append(own.execute("SELECT rota.retry_job(%s)", [id]).fetchone())

        threads = [threading.Thread(target=retry) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [("failed",)] + [("queued",)] * 7
        assert [job.state for job in (await service.list_jobs(aconn)).jobs] == ["queued"]

    @pytest.mark.req("Q19")
    async def test_a_child_waits_again_for_parents_that_are_live(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        bad, slow = given.enqueue(conn), given.enqueue(conn, queue="default", priority=9)
        child = given.enqueue(conn, parents=[bad, slow], on_parent_failure="fail")
        assert given.fail(conn, worker) == bad
        assert (await service.get_job(aconn, child)).job.state == "failed"

        assert (await service.retry_job(aconn, child)).state == "waiting"
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, slow, token, worker, "completed")
        assert [id for id, _ in given.claim(conn, worker)] == [child]

    @pytest.mark.req("Q19")
    async def test_a_child_keeps_its_policy(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        parent = given.enqueue(conn)
        child = given.enqueue(conn, parents=[parent], on_parent_failure="fail")
        given.fail(conn, worker)
        await service.retry_job(aconn, parent)
        await service.retry_job(aconn, child)
        assert given.fail(conn, worker) == parent
        assert (await service.get_job(aconn, child)).job.state == "failed"

    @pytest.mark.req("Q19")
    async def test_a_child_that_was_retried_without_a_parent_does_not_fall_with_it(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        bad, slow = given.enqueue(conn), given.enqueue(conn, priority=9)
        child = given.enqueue(conn, parents=[bad, slow])
        given.fail(conn, worker)
        await service.retry_job(aconn, child)
        await service.retry_job(aconn, bad)
        other = given.enqueue(conn, parents=[bad])
        assert given.fail(conn, worker) == bad
        assert (await service.get_job(aconn, child)).job.state == "waiting"
        assert (await service.get_job(aconn, other)).job.state == "canceled"

    async def test_by_filter(self, conn: Conn, aconn: AConn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service, "BULK_BATCH", 2)
        given.declare(conn, "work", "other")
        worker = given.start_worker(conn)
        failed = [given.enqueue(conn) for _ in range(5)]
        other = given.enqueue(conn, "other")
        for _ in range(6):
            given.fail(conn, worker)
        steps: list[int] = []
        done = await service.retry_jobs(aconn, JobFilter(task="work"), progress=lambda bulk: steps.append(bulk.changed))
        assert (done.changed, done.skipped) == (5, 0)
        assert steps[:3] == [2, 4, 5]
        assert sorted(await given.list_ids(aconn, states=["queued"])) == sorted(failed)
        assert await given.list_ids(aconn, states=["failed"]) == [other]

    async def test_by_filter_up_to_a_limit(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        made = [given.enqueue(conn) for _ in range(5)]
        for _ in made:
            given.fail(conn, worker)
        assert (await service.retry_jobs(aconn, JobFilter(states=["failed"]), limit=2)).changed == 2
        assert await given.list_ids(aconn, states=["queued"]) == sorted(made)[:2:-1]

    async def test_a_filter_is_needed_and_must_make_sense(self, aconn: AConn) -> None:
        for operation in (service.retry_jobs, service.cancel_jobs):
            with pytest.raises(UsageError, match="needs a filter"):
                await operation(aconn, JobFilter())
        with pytest.raises(UsageError, match="state='completed' cannot be asked for: jobs to retry are failed, canceled"):
            await service.retry_jobs(aconn, JobFilter(states=["completed"]))
        with pytest.raises(UsageError, match="state='failed' cannot be asked for: jobs to cancel are waiting, queued"):
            await service.cancel_jobs(aconn, JobFilter(states=["failed"]))


@pytest.mark.req("Q09")
class TestCancel:
    @pytest.mark.parametrize("options", [{}, {"delay": timedelta(hours=1)}], ids=["ready", "delayed"])
    async def test_a_queued_job_ends(self, conn: Conn, aconn: AConn, options: dict[str, object]) -> None:
        given.declare(conn, "work")
        id = given.enqueue(conn, **options)
        job = await service.cancel_job(aconn, id, reason="no longer needed")
        assert (job.state, job.error) == ("canceled", "no longer needed")
        assert given.claim(conn, given.start_worker(conn)) == []
        assert (await service.get_job(aconn, id)).job.canceled_at is not None

    async def test_a_waiting_job_ends_and_its_children_with_it(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        parent = given.enqueue(conn)
        child = given.enqueue(conn, parents=[parent])
        grandchild = given.enqueue(conn, parents=[child])
        await service.cancel_job(aconn, child)
        assert await given.list_ids(aconn, states=["canceled"]) == [grandchild, child]
        assert await given.list_ids(aconn, states=["queued"]) == [parent]

    async def test_a_running_job_is_asked_to_stop(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        job = await service.cancel_job(aconn, id)
        assert job.state == "running"
        assert job.cancel_requested_at is not None
        assert given.finish(conn, id, token, worker, "canceled") == "canceled"

    @pytest.mark.parametrize("outcome", ["failed", "crashed", "snoozed", "released"])
    async def test_a_job_asked_to_stop_is_not_tried_again(self, conn: Conn, aconn: AConn, outcome: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        await service.cancel_job(aconn, id)
        assert given.finish(conn, id, token, worker, outcome, error="boom") == "canceled"

    async def test_a_job_asked_to_stop_whose_worker_dies_is_not_tried_again(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        given.claim(conn, worker)
        await service.cancel_job(aconn, id)
        assert conn.execute("SELECT state FROM rota.rescue_runs(%s)", [[worker]]).fetchall() == [("canceled",)]
        assert (await service.get_job(aconn, id)).job.state == "canceled"

    async def test_one_that_completes_all_the_same_is_completed(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        await service.cancel_job(aconn, id)
        assert given.finish(conn, id, token, worker, "completed") == "completed"
        with pytest.raises(InvalidTransition, match="is completed already"):
            await service.cancel_job(aconn, id)

    async def test_a_locked_job_is_a_conflict_and_others_are_not_held_up(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        made = [given.enqueue(conn) for _ in range(3)]
        await aconn.execute("SET lock_timeout = '50ms'")
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [made[1]])
            with pytest.raises(Conflict, match="locked by another transaction"):
                await service.cancel_job(aconn, made[1])
            done = await service.cancel_jobs(aconn, JobFilter(states=["queued"]))
        assert (done.changed, done.skipped) == (2, 1)
        assert await given.list_ids(aconn, states=["queued"]) == [made[1]]
