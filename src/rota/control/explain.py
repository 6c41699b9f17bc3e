"""Why has this job not run? Each predicate of the claim is evaluated and said in words."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from rota.control.explain_limits import explain_limits
from rota.control.service import get_job
from rota.control.words import moment, number, shorten, span
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.store import jobs_read, workers_read
from rota.store.jobs_read import JobRecord, LiveJob, RunningJob
from rota.store.workers_read import WorkerRecord

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from running, or that explains its state."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is where it is: the verdict is the reason that counts most, the others hold as well."""

    job_id: UUID
    state: str
    reasons: list[Reason]

    @property
    def verdict(self) -> str:
        return self.reasons[0].sentence


async def why(conn: AsyncConn, job_id: UUID) -> Explanation:
    """Says what a job waits for, in the order in which it would have to be resolved."""
    job = await jobs_read.live(conn, job_id)
    if job is None:
        finished = (await get_job(conn, job_id)).job
        return Explanation(job_id, finished.state, [_finished(finished)])
    workers = await workers_read.read_all(conn, jobs=0)
    if job.state == "running":
        return Explanation(job_id, "running", _running(job, workers))
    reasons = await _waiting(conn, job) + _not_due(job) + _cancel_requested(job) + _paused(job)
    reasons += _disabled(job) + _nobody(job, workers)
    if job.set_aside and (job.last_error or {}).get("refused_by"):
        reasons.append(Reason("payload_refused", _refused(job)))
    elif job.set_aside and not reasons:
        reasons.append(Reason("ready", f"A worker that knows task {job.task!r} has just started, and takes the job in a moment."))
    elif job.state == "held" and not job.disabled and not job.set_aside:
        reasons.append(Reason("held", await explain_limits(conn, job)))
    if not reasons:
        reasons = await _in_line(conn, job, workers)
    return Explanation(job_id, "waiting" if job.state == "waiting" else "queued", reasons + _quarantine(job))


def _finished(job: JobRecord) -> Reason:
    at = moment(job.finished_at) if job.finished_at else "an unknown time"
    error = f": {_error(job.last_error)}" if job.last_error else ""
    if job.state == "completed":
        return Reason("completed", f"It has run: attempt {job.attempt} completed at {at}.")
    again = f"`rota jobs retry {job.id}` runs it again"
    if job.state == "canceled":
        return Reason("canceled", f"It was canceled at {at}{error}; {again}.")
    return Reason("failed", f"It failed for good at {at}, after attempt {job.attempt}{error}; {again}.")


def _running(job: LiveJob, workers: list[WorkerRecord]) -> list[Reason]:
    assert job.claimed_at is not None
    assert job.lease_until is not None
    worker = next((each for each in workers if each.id == job.worker_id), None)
    who = f"worker {job.worker_id}" + (f" ({worker.host}, process {worker.pid})" if worker else "")
    reasons = [
        Reason(
            "running",
            f"It runs: attempt {job.attempt}, for {span(job.now - job.claimed_at)}, on {who}; "
            f"its lease is until {moment(job.lease_until)}.",
        )
    ]
    if job.cancel_requested_at is not None:
        ago = span(job.now - job.cancel_requested_at)
        reasons.insert(0, Reason("cancel_requested", f"It was asked to stop {ago} ago, and its handler has not ended yet."))
    if worker is None or worker.state in ("dead", "stopped"):
        what = f"is {worker.state}" if worker else "is not known any more"
        rescue = "any live worker takes the job back within seconds" if worker else "a live worker takes it when the lease ends"
        reasons.insert(0, Reason("worker_gone", f"It was being run, but {who} {what}: {rescue}."))
    elif job.lease_until < job.now:
        late = span(job.now - job.lease_until)
        reasons.insert(
            0,
            Reason("lease_expired", f"Its lease ran out {late} ago: a live worker rescues it; see `rota workers list`."),
        )
    return reasons


async def _waiting(conn: AsyncConn, job: LiveJob) -> list[Reason]:
    if job.state != "waiting":
        return []
    parents = [each for each in await jobs_read.parents(conn, job.id, limit=SHOWN) if not each.settled]
    names = ", ".join(f"{each.id} ({each.task or 'unknown'}, {each.state or 'pruned'})" for each in parents)
    rest = job.pending_parents - len(parents)
    more = f" and {rest:,} more" if rest > 0 else ""
    many = number(job.pending_parents, "parent")
    return [Reason("waiting_for_parents", f"It waits for {many} to complete: {names}{more}.")]


def _not_due(job: LiveJob) -> list[Reason]:
    if job.run_at <= job.now:
        return []
    due = f"{moment(job.run_at)}, in {span(job.run_at - job.now)}"
    if job.state != "waiting" and job.attempt and job.last_error:
        ended = f"Attempt {job.attempt} ended with {_error(job.last_error)}"
        sooner = f"`rota jobs retry {job.id}` runs it at once"
        return [Reason("backoff", f"{ended}; the next one is due at {due} ({sooner}).")]
    return [Reason("not_due", f"It is not due before {due}.")]


def _cancel_requested(job: LiveJob) -> list[Reason]:
    if job.cancel_requested_at is None:
        return []
    return [
        Reason(
            "cancel_requested",
            f"It was asked to stop at {moment(job.cancel_requested_at)} while it ran; `rota jobs cancel {job.id}` ends it now.",
        )
    ]


def _paused(job: LiveJob) -> list[Reason]:
    if job.paused_at is None:
        return []
    reason = f" ({shorten(job.pause_reason)})" if job.pause_reason else ""
    return [
        Reason(
            "queue_paused",
            f"Queue {job.queue!r} is paused since {moment(job.paused_at)}{reason}: `rota queues resume {job.queue}`.",
        )
    ]


def _disabled(job: LiveJob) -> list[Reason]:
    if not job.disabled:
        return []
    since = f" since {moment(job.disabled_at)}" if job.disabled_at else ""
    by = f", by {shorten(job.disabled_by)}" if job.disabled_by else ""
    reason = f" ({shorten(job.disable_reason)})" if job.disable_reason else ""
    return [Reason("task_disabled", f"Task {job.task!r} is disabled{since}{by}{reason}: `rota tasks enable {job.task}`.")]


def _nobody(job: LiveJob, workers: list[WorkerRecord]) -> list[Reason]:
    live = [worker for worker in workers if worker.state == "live"]
    there = [worker for worker in live if job.queue in worker.queues]
    if not live:
        silent = sum(worker.state == "silent" for worker in workers)
        heard = f"; {number(silent, 'worker')} not heard of for more than 90 s" if silent else ""
        return [Reason("no_worker", f"No worker is live{heard}: start one with `rota worker -a module:app`.")]
    if not there:
        worked = ", ".join(sorted({queue for worker in live for queue in worker.queues}))
        hint = "" if job.queue_exists else " (the queue is not declared either)"
        return [
            Reason(
                "no_worker_for_queue",
                f"No live worker works queue {job.queue!r}{hint}; {number(len(live), 'live worker')} on: {worked}. "
                f"Start one with `rota worker --queue {job.queue}`.",
            )
        ]
    if not any(job.task in worker.tasks for worker in there):
        elsewhere = sorted({queue for worker in live if job.task in worker.tasks for queue in worker.queues})
        known = f"; workers that know it serve {', '.join(elsewhere)} only" if elsewhere else ""
        of_queue = f" of queue {job.queue!r}" if elsewhere else ""
        remedy = f"serve queue {job.queue!r} with them" if elsewhere else "deploy workers with the code that has it"
        return [
            Reason(
                "task_unknown",
                f"No live worker{of_queue} knows task {job.task!r}{known}. The job waits, uncharged, for one that does: "
                f"{remedy}.{'' if elsewhere else ' After jobs.unknown_task_after without one it fails.'}",
            )
        ]
    return []


def _refused(job: LiveJob) -> str:
    assert job.last_error is not None
    return (
        f"Its payload does not fit the version of task {job.task!r} in the workers that have tried it ({_error(job.last_error)}). "
        "The job waits, uncharged, for a worker with another version. After jobs.unknown_task_after without one it fails."
    )


def _quarantine(job: LiveJob) -> list[Reason]:
    if job.crashes == 0:
        return []
    died = "its worker has died under it" if job.crashes == 1 else f"{job.crashes} workers have died under it"
    blame = "it is known to be the cause" if job.culprit else "it is a suspect"
    return [Reason("quarantine", f"It is in quarantine: {died} and {blame}, so it runs in a process of its own.")]


async def _in_line(conn: AsyncConn, job: LiveJob, workers: list[WorkerRecord]) -> list[Reason]:
    able = [worker for worker in workers if worker.state == "live" and job.queue in worker.queues]
    slots = sum(worker.slots for worker in able)
    held = sum(worker.holds for worker in able)
    ahead = Capped.at(await jobs_read.count_ahead(conn, job, limit=COUNT_CAP + 1))
    waited = span(job.now - job.run_at)
    line = f"in queue {job.queue!r} it comes " + (f"after {number(ahead, 'job')}" if ahead else "first")
    if held >= slots:
        busy = await jobs_read.running(conn, workers=[worker.id for worker in able], limit=SHOWN)
        return [
            Reason(
                "slots_busy",
                f"It has been ready for {waited}; {line}, and all {number(slots, 'slot')} of the "
                f"{number(len(able), 'live worker')} are busy: {_list_running(job, busy, held)}.",
            )
        ]
    if ahead:
        return [Reason("behind", f"It has been ready for {waited}; {line}, which workers are taking.")]
    return [Reason("ready", f"Nothing holds it: ready for {waited}, {line}, and the next poll of a worker takes it.")]


def _list_running(job: LiveJob, busy: list[RunningJob], held: int) -> str:
    names = ", ".join(f"{each.task} {each.id} for {span(job.now - each.claimed_at)}" for each in busy)
    return names + (f" and {held - len(busy):,} more" if held > len(busy) else "")


def _error(error: dict[str, object]) -> str:
    return shorten(f"{error.get('type', 'an error')}: {error.get('message', 'without a message')}")
