"""The work: live and dead workers, and jobs that nobody will finish."""

from __future__ import annotations

from datetime import timedelta

from rota.control.doctor.finding import Finding, fail, ok, warn
from rota.control.words import describe_unknown, number, span
from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.store import alerts, workers_read
from rota.store.workers_read import WorkerRecord

SQL = queries.load("doctor")

SHOWN = 10
RESCUE_GRACE = timedelta(seconds=30)  # a live worker looks for leases that have run out every few seconds
STRANDED_WALK = 10_000


async def workers(conn: AsyncConn) -> list[Finding]:
    """Whether somebody works, and who has died with jobs in hand."""
    known = await workers_read.read_all(conn, jobs=0)
    live = [worker for worker in known if worker.state == "live"]
    findings = [_judge(worker, bool(live)) for worker in known if worker.state == "dead" and worker.holds]
    findings += [
        warn(
            "workers",
            f"worker {_name(worker)} has not been heard of for {span(worker.seen_ago)} and holds "
            f"{number(worker.holds, 'job')}: its process is stopped, or cut off",
            f"look at process {worker.pid} on {worker.host}",
        )
        for worker in known
        if worker.state == "silent"
    ]
    row = await (await conn.execute(SQL["doctor_due"], {"cap": COUNT_CAP})).fetchone()
    assert row is not None
    due = Capped.at(row[0])
    if not live and due:
        findings.append(fail("workers", f"no worker is live, and {number(due, 'job')} due", "rota worker -a module:app"))
    dead = sum(worker.state == "dead" for worker in known)
    died = f"; {dead} died in the last day, their jobs are rescued" if dead else ""
    return findings or ok("workers", f"{number(len(live), 'worker')} live{died}")


async def unknown_tasks(conn: AsyncConn) -> list[Finding]:
    """Report jobs that wait because no live worker knows their task."""
    return [
        warn(
            "tasks",
            f"{describe_unknown(task, is_refused)}: jobs in queue {', '.join(queues)} have waited for {span(age)}",
            "deploy workers with the code that has it",
        )
        for task, is_refused, age, queues in await alerts.unknown_tasks(conn, age_s=0)
    ] or ok("tasks", "live workers know the tasks of all jobs that they have come across")


async def leases(conn: AsyncConn) -> list[Finding]:
    """Whether jobs are held beyond their lease, or by nobody that is known."""
    late = await (await conn.execute(SQL["doctor_past_lease"], {"grace": RESCUE_GRACE, "limit": SHOWN + 1})).fetchall()
    if late:
        id, task, worker_id, by = late[0]
        return [
            fail(
                "leases",
                f"{number(Capped.at(len(late), SHOWN), 'running job')} past the lease, and nobody comes to the rescue; "
                f"the first is {task} {id} of worker {worker_id}, {span(by)} late",
                "start a worker: rota worker -a module:app",
            )
        ]
    unowned = await (await conn.execute(SQL["doctor_unowned"], {"limit": SHOWN + 1})).fetchall()
    if unowned:
        id, task, worker_id = unowned[0]
        return [
            warn(
                "leases",
                f"{number(Capped.at(len(unowned), SHOWN), 'running job')} held by workers that are not known; the first is "
                f"{task} {id} of worker {worker_id}; the rescue comes when the lease ends",
                f"rota jobs why {id}",
            )
        ]
    return ok("leases", "every running job has a worker and a lease")


async def lineage(conn: AsyncConn) -> list[Finding]:
    """Whether every waiting job has a live parent that will release it."""
    limits = {"walk": STRANDED_WALK, "limit": SHOWN + 1}
    stranded = await (await conn.execute(SQL["doctor_stranded"], limits)).fetchall()
    if stranded:
        id, task = stranded[0]
        return [
            fail(
                "lineage",
                f"{number(Capped.at(len(stranded), SHOWN), 'job')} waiting for parents that have all ended; "
                f"the first is {task} {id}",
                f"rota jobs cancel {id}, then rota jobs retry {id}; and report it, for it is a bug",
            )
        ]
    return ok("lineage", "every waiting job has a live parent")


def _judge(worker: WorkerRecord, somebody_lives: bool) -> Finding:
    sentence = f"worker {_name(worker)} died {span(worker.seen_ago)} ago and still holds {number(worker.holds, 'job')}"
    if somebody_lives:
        return warn("workers", f"{sentence}; a live worker rescues them within seconds", "rota workers list")
    return fail("workers", f"{sentence}; there is no live worker to rescue them", "rota worker -a module:app")


def _name(worker: WorkerRecord) -> str:
    return f"{worker.id} ({worker.host}, process {worker.pid})"
