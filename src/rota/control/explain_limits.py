"""Which limit holds a job, who has the places, and when the rate has room again."""

from __future__ import annotations

from rota.control.words import moment, number, span
from rota.db.connection import AsyncConn
from rota.model.limits import rate_parts
from rota.store import jobs_read
from rota.store.jobs_read import AdmittedJob, LimitState, LiveJob


async def explain_limits(conn: AsyncConn, job: LiveJob) -> str:
    """One sentence about the limit that a held job waits for."""
    gates = await jobs_read.limits(conn, job.id)
    here = [gate for gate in gates if gate.waits_here] or gates
    for gate in here:
        if gate.most is not None and gate.taken >= gate.most:
            return await _full(conn, gate)
        if gate.rate is not None and gate.begun is not None and gate.begun >= rate_parts(gate.rate)[0]:
            return _used_up(job, gate)
    where = _of(here[0], this="task " + repr(here[0].name)) if here else f"of task {job.task!r}"
    return f"There is a place for it within the limit {where}: the next poll of a worker gives it one."


async def _full(conn: AsyncConn, gate: LimitState) -> str:
    assert gate.most is not None
    holders = await jobs_read.admitted(conn, gate.holders or [])
    names = ", ".join(_describe_holder(each) for each in holders)
    more = f", and up to {gate.most - len(holders):,} more" if gate.most > len(holders) else ""
    return f"It is held by the limit of {number(gate.most, 'running job')} {_of(gate)}: held by {names}{more}."


def _used_up(job: LiveJob, gate: LimitState) -> str:
    assert gate.rate is not None
    starts, period = rate_parts(gate.rate)
    when = "when those that are ready have begun"
    if gate.free_at is not None:
        when = f"at {moment(gate.free_at)}, in {span(max(gate.free_at, job.now) - job.now)}"
    return f"It is held by the rate of {number(starts, 'start')} per {period} {_of(gate)}: there is room again {when}."


def _of(gate: LimitState, this: str = "this task") -> str:
    match gate.gate:
        case "key":
            return f"of key {gate.key!r} of {this}"
        case "task":
            return f"of {this}"
    return f"of queue {gate.name!r}"


def _describe_holder(job: AdmittedJob) -> str:
    if job.claimed_at is None:
        return f"job {job.id}, which comes next"
    return f"job {job.id}, running on worker {job.worker_id} since {moment(job.claimed_at)}"
