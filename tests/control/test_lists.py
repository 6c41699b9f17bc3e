"""Lists of jobs, one job, dead letters: what operators can see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given

from rota.control import search, service
from rota.errors import NotFound, UsageError
from rota.model.filters import JobFilter
from rota.model.ids import new_id

Conn = psycopg.Connection
AConn = psycopg.AsyncConnection


class TestList:
    async def test_it_works(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        id = given.enqueue(conn, priority=3, key="k")
        page = await service.list_jobs(aconn)
        [job] = page.jobs
        assert (job.id, job.task, job.queue, job.priority, job.state, job.key) == (id, "work", "default", 3, "queued", "k")
        assert (job.attempt, job.max_attempts, job.error, page.next) == (0, 4, None, None)

    async def test_live_and_finished_jobs_are_one_list_newest_first(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        first = given.enqueue(conn)
        second = given.enqueue(conn, delay=timedelta(hours=1))
        given.fail(conn, worker)
        third = given.enqueue(conn)
        page = await service.list_jobs(aconn)
        assert [(job.id, job.state) for job in page.jobs] == [(third, "queued"), (second, "queued"), (first, "failed")]

    async def test_pages_meet_without_gap_or_overlap(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        made = [given.enqueue(conn) for _ in range(10)]
        for _ in range(4):
            given.fail(conn, worker)
        seen: list[UUID] = []
        before = None
        pages = 0
        while True:
            page = await service.list_jobs(aconn, before=before, limit=3)
            seen += [job.id for job in page.jobs]
            pages += 1
            if (before := page.next) is None:
                break
        assert seen == sorted(made, reverse=True)
        assert pages == 4

    async def test_each_filter(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "send_mail", "send_sms")
        given.declare(conn, "resize", queue="images")
        worker = given.start_worker(conn)
        mail = given.enqueue(conn, "send_mail", key="order:1")
        sms = given.enqueue(conn, "send_sms")
        image = given.enqueue(conn, "resize")
        assert given.fail(conn, worker, error="Mailbox FULL") == mail
        assert await given.list_ids(aconn, task="send_*") == [sms, mail]
        assert await given.list_ids(aconn, task="send_?ms") == [sms]
        assert await given.list_ids(aconn, task="send%") == []
        assert await given.list_ids(aconn, task="resize") == [image]
        assert await given.list_ids(aconn, queue="images") == [image]
        assert await given.list_ids(aconn, states=["failed"]) == [mail]
        assert await given.list_ids(aconn, states=["failed", "queued"], queue="default") == [sms, mail]
        assert await given.list_ids(aconn, text="mailbox full") == [mail]
        assert await given.list_ids(aconn, text="valueerror") == [mail]
        assert await given.list_ids(aconn, text="%") == []
        assert await given.list_ids(aconn, key="order:1") == [mail]
        assert await given.list_ids(aconn, states=["failed"], task="send_mail") == [mail]
        assert await given.list_ids(aconn, states=["failed"], task="send_sms") == []

    async def test_a_key_finds_its_live_job_and_its_old_ones(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        old = given.enqueue(conn, key="k")
        given.fail(conn, worker)
        given.move_clock(conn, timedelta(days=2))
        new = given.enqueue(conn, key="k")
        assert new != old
        assert await given.list_ids(aconn, key="k") == [new, old]

    async def test_since(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        given.move_clock(conn, -timedelta(hours=2))
        given.enqueue(conn)
        given.move_clock(conn, timedelta(0))
        new = given.enqueue(conn)
        assert await given.list_ids(aconn, since=timedelta(hours=1)) == [new]
        assert await given.list_ids(aconn, since=datetime.now(UTC) - timedelta(minutes=5)) == [new]
        assert len(await given.list_ids(aconn, since=timedelta(hours=3))) == 2
        assert len(await given.list_ids(aconn, since=datetime(1900, 1, 1, tzinfo=UTC))) == 2

    async def test_every_state_is_found_by_its_name(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        made = {}
        for state in ("completed", "failed", "canceled", "running"):
            made[state] = given.enqueue(conn)
            [(id, token)] = given.claim(conn, worker)
            if state != "running":
                assert given.finish(conn, id, token, worker, state, can_retry=False) == state
        made["waiting"] = given.enqueue(conn, parents=[made["running"]])
        made["queued"] = given.enqueue(conn)
        for state, id in made.items():
            assert await given.list_ids(aconn, states=[state]) == [id]
        assert len(await given.list_ids(aconn)) == 6

    async def test_a_search_for_the_rare_ends_and_says_how_far_it_got(
        self, conn: Conn, aconn: AConn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search, "SCAN_WINDOW", 10)
        monkeypatch.setattr(search, "SCAN_BUDGET", 20)
        given.declare(conn, "work", "rare")
        rare = given.enqueue(conn, "rare")
        others = [given.enqueue(conn) for _ in range(45)]
        page = await service.list_jobs(aconn, JobFilter(task="rare"))
        assert page.jobs == []
        assert page.next == others[25]
        steps = 0
        while not page.jobs:
            page = await service.list_jobs(aconn, JobFilter(task="rare"), before=page.next)
            steps += 1
        assert [job.id for job in page.jobs] == [rare]
        assert (steps, page.next) == (2, None)

    @pytest.mark.parametrize("limit", [0, -1, 1001])
    async def test_a_limit_out_of_range_is_refused(self, aconn: AConn, limit: int) -> None:
        with pytest.raises(UsageError, match="from 1 to 1000"):
            await service.list_jobs(aconn, limit=limit)

    def test_nonsense_filters_are_refused(self) -> None:
        with pytest.raises(UsageError, match="'gone' is not a state of jobs: one of waiting, queued"):
            JobFilter(states=["gone"])
        with pytest.raises(UsageError, match="time zone"):
            JobFilter(since=datetime(2030, 1, 1))  # noqa: DTZ001
        for text in ("a\0b", "\ud800"):
            with pytest.raises(UsageError, match="cannot store"):
                JobFilter(text=text)

    async def test_counts_are_capped_where_more_than_states_is_asked_for(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        for _ in range(5):
            given.enqueue(conn)
        assert str(await service.count_jobs(aconn, JobFilter())) == "5"
        assert str(await service.count_jobs(aconn, JobFilter(), cap=5)) == "5"
        assert str(await service.count_jobs(aconn, JobFilter(), cap=4)) == "5"
        assert str(await service.count_jobs(aconn, JobFilter(task="work"), cap=5)) == "5"
        assert str(await service.count_jobs(aconn, JobFilter(task="work"), cap=4)) == "4+"


class TestShow:
    async def test_it_shows_runs_and_relatives(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        parent = given.enqueue(conn, payload={"n": 1})
        child = given.enqueue(conn, parents=[parent])
        for error in ("first", "second"):
            [(id, token)] = given.claim(conn, worker)
            given.finish(conn, id, token, worker, "failed", error=error)
        detail = await service.get_job(aconn, parent)
        assert detail.job.payload == {"n": 1}
        assert [(run.attempt, run.outcome, run.error["message"]) for run in detail.runs if run.error] == [
            (2, "failed", "second"),
            (1, "failed", "first"),
        ]
        assert [(each.id, each.task, each.state) for each in detail.children] == [(child, "work", "waiting")]
        assert [each.id for each in (await service.get_job(aconn, child)).parents] == [parent]

    async def test_there_is_no_such_job(self, aconn: AConn) -> None:
        id = new_id()
        for operation in (service.get_job, service.retry_job, service.cancel_job):
            with pytest.raises(NotFound, match=f"there is no job {id}"):
                await operation(aconn, id)


@pytest.mark.req("Q18")
class TestDeadLetters:
    async def test_they_are_seen_looked_into_and_run_again(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", "other", max_attempts=2)
        worker = given.start_worker(conn)
        dead = given.enqueue(conn, payload={"n": 7})
        for _ in range(2):
            [(_, token)] = given.claim(conn, worker)
            given.finish(conn, dead, token, worker, "failed", error="no route to host")
        fine = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, fine, token, worker, "completed")
        await service.cancel_job(aconn, given.enqueue(conn))
        alive = given.enqueue(conn, "other")
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, alive, token, worker, "failed", error="will be retried")

        [letter] = (await service.list_dead_letters(aconn)).jobs
        assert (letter.id, letter.error, letter.attempt) == (dead, "no route to host", 2)
        assert (await service.list_dead_letters(aconn, task="other")).jobs == []
        detail = await service.get_job(aconn, dead)
        assert detail.job.payload == {"n": 7}
        assert len(detail.runs) == 2

        await service.retry_job(aconn, dead)
        assert (await service.list_dead_letters(aconn)).jobs == []
