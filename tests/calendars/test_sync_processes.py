"""Workers in processes of their own: two that want the same job, and one after the other that is killed in the middle of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest
from tests.calendars.conftest import Office, dav_end, folder_end
from tests.calendars.events import Files, event
from tests.calendars.kills import ENVIRONMENT, play
from tests.calendars.servers import Dav
from tests.support.processes import WorkerProcess
from tests.support.wait import until

APP = "tests.calendars.office:app"


@pytest.mark.req("Y06", "Y04")
async def test_two_workers_one_job_one_summary(
    office: Office, dsn: str, make_dav: Callable[[], Dav], files: Callable[[str], Files]
) -> None:
    first, second = files("first"), make_dav()
    await office.pair(folder_end(first), dav_end(second))
    for n in range(60):
        first.put(event(f"e{n}"))
    with (
        WorkerProcess(APP, dsn, env=ENVIRONMENT, queues={"calendar": 1}) as one,
        WorkerProcess(APP, dsn, env=ENVIRONMENT, queues={"calendar": 1}) as two,
    ):
        workers = {one.wait_ready().worker_id, two.wait_ready().worker_id}
        job = await office.enqueue()
        await until(lambda: office.rota.jobs("sync_pair")[0].state == "completed", what="for the job to complete")
        runs = office.conn.execute("SELECT worker_id, outcome FROM rota.run WHERE job_id = %s", [job]).fetchall()
    assert len(runs) == 1
    assert (runs[0][0] in workers, runs[0][1]) == (True, "completed")
    [summary] = office.summaries()
    assert (summary["job_id"], summary["attempt"], summary["outcome"], summary["processed"]) == (job, 1, "completed", 60)
    assert len(second.titles()) == 60


@pytest.mark.req("Y06")
async def test_two_jobs_of_a_pair_run_one_after_the_other(office: Office, dsn: str, files: Callable[[str], Files]) -> None:
    first, second = files("first"), files("second")
    await office.pair(folder_end(first), folder_end(second))
    for n in range(100):
        first.put(event(f"e{n}"))
    with (
        WorkerProcess(APP, dsn, env=ENVIRONMENT, queues={"calendar": 1}) as one,
        WorkerProcess(APP, dsn, env=ENVIRONMENT, queues={"calendar": 1}) as two,
    ):
        one.wait_ready()
        two.wait_ready()
        for _ in range(4):
            await office.enqueue()
        await until(lambda: len(office.rota.jobs("sync_pair", "completed")) == 4, what="for four jobs to complete")
    told = sorted(office.summaries(), key=lambda each: each["started_at"])
    assert [each["outcome"] for each in told] == ["completed"] * 4
    assert all(a["finished_at"] <= b["started_at"] for a, b in itertools.pairwise(told)), "none overlap"
    assert len(second.titles()) == 100


@pytest.mark.req("Y03")
async def test_killed_again_and_again_nothing_is_lost_and_nothing_is_doubled(dsn: str, dav_port: int) -> None:
    async with asyncio.timeout(150):
        figures = await play(dsn, dav_port, kills=5, events=40, seed=11, rests=2)
    assert figures.kills == 5, str(figures)
