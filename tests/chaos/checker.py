"""The rules. Each looks at the evidence and names what contradicts it; no finding means that the contract was kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.chaos.evidence import Evidence, Row
from tests.chaos.history import Line
from tests.chaos.load import INNOCENT, PAYING, POISON, Order

Finding = str
Rule = Callable[[Evidence], Iterator[Finding]]
RULES: dict[str, Rule] = {}

BLAMED_FROM = 4  # crashes of its workers until a job is taken for their cause, however little it had to do with them
SILENT = "silent"  # the one task without a history


def rule(name: str) -> Callable[[Rule], Rule]:
    """Add a rule under the name by which the report counts its findings."""

    def add(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return add


def check(evidence: Evidence) -> dict[str, list[Finding]]:
    """Apply all rules."""
    return {name: list(function(evidence)) for name, function in RULES.items()}


@rule("lost")
def nothing_lost(evidence: Evidence) -> Iterator[Finding]:
    """Whatever was acknowledged has ended, once; what nobody knows of has ended, or was never there, as a whole."""
    live = {id for id, *_ in evidence.live}
    acknowledged: dict[int, str] = {}
    for line in evidence.of("acknowledged"):
        acknowledged[line["n"]] = line["job"]
        if evidence.final(line["job"]) is None and line["job"] not in live:
            yield f"order {line['n']}: job {line['job']} was acknowledged and is nowhere"
    for delivery in evidence.deliveries:
        there = [order.n for order in delivery.orders if evidence.jobs_of.get(order.n)]
        missing = [order.n for order in delivery.orders if order.n not in acknowledged]
        if delivery.how == "copy" and missing and there and not live and len(there) < len(delivery.orders):
            yield f"orders {missing[0]}…: {len(there)} of {len(delivery.orders)} that were to be stored together are there"
        elif delivery.how != "copy" and missing:
            yield f"orders {missing}: their client was never told that they are stored"
    for n, job in evidence.shipments.items():
        if job not in live and evidence.final(job) is None:
            yield f"shipment {n}: its row was committed, its job {job} was not"


@rule("stuck")
def nothing_stuck(evidence: Evidence) -> Iterator[Finding]:
    """After the drain there is no live job."""
    for id, task, state, attempt in evidence.live:
        yield f"{task} {id} is still {state} at attempt {attempt}"


@rule("twice")
def one_job_per_key(evidence: Evidence) -> Iterator[Finding]:
    """A client that asks again gets the same job, and each job ends once."""
    for n, jobs in evidence.jobs_of.items():
        if len(jobs) > 1:
            yield f"order {n} has {len(jobs)} jobs: {', '.join(jobs)}"
    for line in evidence.of("acknowledged"):
        if (ran := evidence.jobs_of.get(line["n"])) and line["job"] not in ran:
            yield f"order {line['n']}: {line['job']} was acknowledged, {ran[0]} was run"
    live = {id for id, *_ in evidence.live}
    for job, rows in evidence.rows.items():
        if (finals := sum(row.final for row in rows)) != 1 and job not in live:
            yield f"{rows[0].task} {job} has {finals} ends"
    for id, task, *_ in evidence.live:
        if (final := evidence.final(id)) is not None:
            yield f"{task} {id} is live and has ended: {_show(final)}"
    for line in evidence.of("refused"):
        yield f"orders {line['orders']} were refused: {line['error']}"


@rule("beyond the contract")
def runs_are_recorded(evidence: Evidence) -> Iterator[Finding]:
    """Executions ≤ 1 + recorded retries + recorded losses: every one that began has a row of its own."""
    live = {id: attempt for id, _, _, attempt in evidence.live}
    recorded = {(job, row.attempt) for job, rows in evidence.rows.items() for row in rows}
    for (job, attempt), lines in evidence.starts.items():
        if len(lines) > 1:
            yield f"{lines[0]['task']} {job} began its attempt {attempt} {len(lines)} times"
        if (job, attempt) not in recorded and live.get(job) != attempt:
            yield f"{lines[0]['task']} {job} began attempt {attempt}, of which there is no record"
    for job, rows in evidence.rows.items():
        if [row.attempt for row in rows] != list(range(1, len(rows) + 1)):
            yield f"{rows[0].task} {job} has the attempts {[row.attempt for row in rows]}"


@rule("stale completions")
def completions_are_their_own(evidence: Evidence) -> Iterator[Finding]:
    """A completion is recorded for the attempt that reached its end, by the worker that held it, with its result."""
    for job, rows in evidence.rows.items():
        for row in rows:
            if row.outcome == "completed" and row.task != SILENT:
                yield from _foreign(evidence, job, row)
    for line in evidence.of("told"):
        final = evidence.final(line["job"])
        if line["state"] == "completed" and (final is None or (final.attempt, final.outcome) != (line["attempt"], "completed")):
            yield f"{line['job']}: a worker was told that attempt {line['attempt']} completed it; the record is {_show(final)}"
    for line in evidence.of("fenced"):
        final = evidence.final(line["job"])
        if final is None or (final.attempt, final.outcome) != (line["attempt"], "completed"):
            continue
        # What a worker claimed and did not begin goes back uncharged: that attempt is another's then.
        worker = evidence.worker_of({**line, "parent": line["pid"]})
        begun = {evidence.worker_of(start) for start in evidence.starts.get((line["job"], line["attempt"]), [])}
        if worker in {final.worker, *begun}:
            yield f"{line['job']}: a worker was told that it had lost attempt {line['attempt']}, which is recorded as completed"


def _foreign(evidence: Evidence, job: str, row: Row) -> Iterator[Finding]:
    starts, ends = evidence.starts.get((job, row.attempt), []), evidence.ends.get((job, row.attempt), [])
    # What commits in the middle of an attempt completes the job, even if the attempt never hears of it.
    if not starts or not (row.task in PAYING or any(line["how"] == "ok" for line in ends)):
        yield f"{row.task} {job} is completed by attempt {row.attempt}, which never reached its end"
    if row.result != {"job": job, "attempt": row.attempt}:
        yield f"{row.task} {job}: attempt {row.attempt} completed it with the result {row.result}"
    if starts and (worker := evidence.worker_of(starts[0])) != row.worker:
        yield f"{row.task} {job}: attempt {row.attempt} ran on {worker} and is recorded of {row.worker}"


@rule("wrong ends")
def ends_are_as_expected(evidence: Evidence) -> Iterator[Finding]:
    """Every job ends as it must, and nobody is charged for what others did."""
    for n, jobs in evidence.jobs_of.items():
        order, rows = evidence.orders[n], evidence.rows[jobs[0]]
        if blamed(rows):
            continue
        problem = _problem(evidence, order, rows)
        if problem:
            history = ", ".join(_show(row) for row in rows)
            yield f"{order.task} {jobs[0]} {order.arguments}: {problem}: {history}"


def blamed(rows: list[Row]) -> bool:
    """Whether its workers died so often that it may be charged for it."""
    return rows[0].task not in POISON and sum(row.died for row in rows) >= BLAMED_FROM


def _problem(evidence: Evidence, order: Order, rows: list[Row]) -> str | None:
    final, before = rows[-1], Counter(row.outcome for row in rows[:-1])
    own = before["failed"] + before["snoozed"] + before["canceled"] + before["completed"]
    if order.after and order.on_parent_failure != "ignore" and _parent_failed(evidence, order):
        expected = {"cancel": "canceled", "fail": "failed"}[order.on_parent_failure]
        return None if (final.outcome, len(rows)) == (expected, 1) else f"not {expected} with its parent"
    if order.task in INNOCENT:
        return None if final.outcome == "completed" and own == 0 else "innocent"
    if order.task in POISON:
        return _poison_problem(rows)
    match order.task:
        case "flaky":
            return None if final.outcome == "completed" and own <= order.arguments["failures"] else "fails at most so often"
        case "snoozing":
            snoozed = own == before["snoozed"] <= order.arguments["times"]
            return None if final.outcome == "completed" and snoozed else "only snoozes"
        case "hopeless":
            failed = sum(row.error_type == "Expected" for row in rows if row.outcome == "failed")
            return None if (final.outcome, failed) == ("failed", 3) else "fails exactly three times"
        case "overdue":
            return None if (final.outcome, final.error_type, own) == ("failed", "JobTimeout", 0) else "times out once"
    return None if final.outcome == "completed" else "completes in the end"


def _poison_problem(rows: list[Row]) -> str | None:
    final = rows[-1]
    charged = sum(row.outcome != "released" for row in rows)
    known = any(row.outcome == "failed" and not row.died for row in rows)
    if final.outcome != "failed" or final.error_type != "WorkerCrashed":
        return "poison fails with WorkerCrashed"
    return None if charged == 3 or (not known and charged == 6) else "poison fails after exactly its attempts"


def _parent_failed(evidence: Evidence, order: Order) -> bool:
    finals = [evidence.final(job) for parent in order.after for job in evidence.jobs_of.get(parent, ())]
    return any(final is not None and final.outcome != "completed" for final in finals)


@rule("effects")
def effects_are_exactly_once(evidence: Evidence) -> Iterator[Finding]:
    """What a handler writes with its completion is there if and only if the job completed by that attempt."""
    for job in {*evidence.payments, *(job for job, rows in evidence.rows.items() if rows[0].task in PAYING)}:
        final = evidence.final(job)
        expected = [final.attempt] if final is not None and final.outcome == "completed" else []
        if evidence.payments.get(job, []) != expected:
            yield f"{job} has payments of the attempts {evidence.payments.get(job, [])}; it ended as {_show(final)}"


@rule("order")
def parents_come_first(evidence: Evidence) -> Iterator[Finding]:
    """No child begins before its parents have ended."""
    parents = {line["job"]: line["parents"] for line in evidence.of("acknowledged") if line["parents"]}
    for order in evidence.orders.values():
        for child in evidence.jobs_of.get(order.n, ()):
            here = [job for parent in order.after for job in evidence.jobs_of.get(parent, ())]
            began = min((lines[0]["at"] for _, lines in _attempts(evidence, child)), default=None)
            for parent in [*here, *parents.get(child, ())]:
                final = evidence.final(parent)
                ends = evidence.ends.get((parent, final.attempt), []) if final else []
                if began is not None and ends and began < ends[-1]["at"]:
                    yield f"{child} began {ends[-1]['at'] - began:.3f} s before its parent {parent} ended"


def _attempts(evidence: Evidence, job: str) -> Iterator[tuple[tuple[str, int], list[Line]]]:
    for row in evidence.rows.get(job, ()):
        if lines := evidence.starts.get((job, row.attempt)):
            yield (job, row.attempt), lines


@rule("orphans")
def children_die_with_their_worker(evidence: Evidence) -> Iterator[Finding]:
    """A killed worker leaves no child that goes on running its handler."""
    killed = [(line["worker_pid"], line["at"]) for line in evidence.of("killed", "ended")]
    restarted = {line["worker_pid"]: line["at"] for line in evidence.of("started")}
    for key, lines in evidence.ends.items():
        for begun, ended in zip(evidence.starts.get(key, ()), lines, strict=False):
            for pid, at in killed:
                if begun["parent"] == pid and restarted.get(pid, 0) <= begun["at"] <= at and ended["at"] > at + 1.0:
                    yield f"{key[0]}: the child {ended['pid']} of worker {pid} lived {ended['at'] - at:.1f} s longer than it"


def _show(row: Row | None) -> str:
    if row is None:
        return "nothing"
    error = f" {row.error_type}: {row.error_text[:60]}" if row.error else ""
    return f"{row.attempt} {row.outcome}{error}"


def overlapping(evidence: Evidence) -> int:
    """Count attempts that began while the one before was still under way: paused workers, and why there is a fence."""
    found = 0
    for job in evidence.rows:
        attempts = sorted(_attempts(evidence, job))
        for (before, _), (_, later) in pairwise(attempts):
            ends = evidence.ends.get(before, [])
            found += bool(ends and later[0]["at"] < ends[-1]["at"])
    return found
