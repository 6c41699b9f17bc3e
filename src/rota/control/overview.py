"""Everything at a glance: a sentence about how it goes, what is wrong (the worst first), and how much there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.control import calendar
from rota.control.calendar import NextRun
from rota.control.words import number
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.store import overview as store
from rota.store import schedule_reads, workers_read
from rota.store.overview import Counts, QueueAge, ScheduleTroubles
from rota.store.workers_read import WorkerRecord

BEHIND = timedelta(minutes=1)  # a queue whose oldest job has been due for longer is behind
FAR_BEHIND = timedelta(minutes=10)
CAP = 1000  # of schedules, alerts and failures: beyond it, one more says nothing
FAILED_WALK = 2 * CAP
EVER_WALK = 2000
SAID = 3  # problems in the sentence
SEVERITIES = ("critical", "error", "warning")

Severity = Literal["error", "warning"]
Health = Literal["ok", "warning", "error", "empty"]
May = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is not as it should be; `subject` is the queue that it is about, None for others."""

    code: str
    severity: Severity
    subject: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class OldestWait:
    """The job that has been due for longest."""

    queue: str
    age: timedelta


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Workers by state, the dead ones of the last day, and the slots of those that live."""

    live: int
    silent: int
    dead: int
    slots: int
    busy: int


@dataclass(frozen=True, slots=True)
class AlertCounts:
    """How many alerts are open that nobody has acknowledged, and how bad the worst of them is."""

    open: Capped
    worst: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """How it goes. What the actor may not see is None, and is not spoken of."""

    at: datetime
    health: Health  # empty: nothing has run yet, and nothing waits
    sentence: str
    problems: list[Trouble]
    queued: Capped  # due or not, and those that limits hold back
    delayed: Capped  # of these: not due yet
    running: Capped
    waiting: Capped  # for their parents
    oldest: OldestWait | None  # None: nothing is due
    failed_1h: Capped  # jobs that failed for good within the last hour
    workers: WorkerCounts | None
    alerts: AlertCounts | None
    next_run: NextRun | None


async def overview(conn: AsyncConn, may: May) -> Overview:
    """Looks at everything once, as far as the actor may."""
    at = await schedule_reads.now(conn)
    counts = await store.counts(conn, cap=COUNT_CAP)
    failures = await store.failed(conn, walk=FAILED_WALK)
    failed = Capped(min(failures.failed, CAP), failures.cut or failures.failed > CAP)
    queues = await store.queues(conn) if may("queues.read") else []
    workers = await workers_read.read_all(conn, jobs=0) if may("workers.read") else None
    troubles = await store.schedules(conn, cap=CAP) if may("schedules.read") else ScheduleTroubles(0, 0, 0)
    upcoming = await calendar.upcoming(conn, limit=1) if may("schedules.read") else []
    alerts = _alerts(await store.alerts(conn, cap=CAP + 1)) if may("alerts.read") else None
    is_new = counts == Counts(0, 0, 0, 0, 0) and not await store.has_run(conn, walk=EVER_WALK)
    problems = [
        *_queue_problems(queues, workers, is_new=is_new),
        *_worker_problems(workers or []),
        *_schedule_problems(troubles),
        *_other_problems(alerts, failed),
    ]
    problems.sort(key=lambda each: each.severity != "error")  # the order in which they were found stays
    health: Health = problems[0].severity if problems else "empty" if is_new else "ok"
    oldest = max((each for each in queues if each.age is not None), key=lambda each: each.age or timedelta(0), default=None)
    return Overview(
        at,
        health,
        _sentence(problems, health),
        problems,
        queued=_sum(counts.ready, counts.delayed, counts.held),
        delayed=Capped.at(counts.delayed),
        running=Capped.at(counts.running),
        waiting=Capped.at(counts.waiting),
        oldest=None if oldest is None or oldest.age is None else OldestWait(oldest.name, max(oldest.age, timedelta(0))),
        failed_1h=failed,
        workers=None if workers is None else _count_workers(workers),
        alerts=alerts,
        next_run=upcoming[0] if upcoming else None,
    )


def _queue_problems(queues: list[QueueAge], workers: list[WorkerRecord] | None, *, is_new: bool) -> Iterator[Trouble]:
    live = [worker for worker in workers or [] if worker.state == "live"]
    due = [each for each in queues if each.age is not None and each.paused_at is None]
    if workers is not None and not live and not is_new:
        if due:
            yield Trouble("no_worker", "error", None, "no worker is live, and jobs are due")
        else:
            yield Trouble("no_worker", "warning", None, "no worker is live")
    for each in sorted(due, key=lambda each: each.age or timedelta(0), reverse=True):
        assert each.age is not None
        if live and not any(each.name in worker.queues for worker in live):
            yield Trouble("no_worker_for_queue", "error", each.name, f"no live worker works {each.name}")
        elif each.age >= BEHIND:
            severity: Severity = "error" if each.age >= FAR_BEHIND else "warning"
            yield Trouble("queue_behind", severity, each.name, f"{each.name} is {about(each.age)} behind")
    for each in queues:
        if each.paused_at is not None:
            yield Trouble("queue_paused", "warning", each.name, f"{each.name} is paused")


def _worker_problems(workers: list[WorkerRecord]) -> Iterator[Trouble]:
    dead = [worker for worker in workers if worker.state == "dead" and worker.holds]
    if dead:
        held = number(sum(worker.holds for worker in dead), "job")
        died = "1 worker has" if len(dead) == 1 else f"{len(dead)} workers have"
        yield Trouble("worker_dead", "warning", None, f"{died} died with {held} in hand")
    if silent := sum(worker.state == "silent" for worker in workers):
        yield Trouble("worker_silent", "warning", None, _many(Capped(silent), "worker", "is silent", "are silent"))


def _schedule_problems(troubles: ScheduleTroubles) -> Iterator[Trouble]:
    if late := Capped.at(troubles.late, CAP):
        yield Trouble("schedule_late", "error", None, _many(late, "schedule", "is late", "are late"))
    if late := Capped.at(troubles.recurring_late, CAP):
        yield Trouble("recurring_late", "warning", None, _many(late, "recurring row", "is late", "are late"))
    if failing := Capped.at(troubles.failing, CAP):
        yield Trouble("schedule_failing", "warning", None, _many(failing, "schedule", "keeps failing", "keep failing"))


def _other_problems(alerts: AlertCounts | None, failed: Capped) -> Iterator[Trouble]:
    if alerts is not None and alerts.open:
        severity: Severity = "warning" if alerts.worst == "warning" else "error"
        yield Trouble("alert_open", severity, None, _many(alerts.open, "alert", "is open", "are open"))
    if failed:
        yield Trouble("jobs_failed", "warning", None, f"{number(failed, 'job')} failed in the last hour")


def _sentence(problems: list[Trouble], health: Health) -> str:
    if not problems:
        return "Nothing has run yet" if health == "empty" else "All is well"
    said = "; ".join(each.sentence for each in problems[:SAID])
    return said if len(problems) <= SAID else f"{said}; and {len(problems) - SAID} more"


def about(value: timedelta) -> str:
    """About how long, in one unit: `90 s`, `4 min`, `3 h`, `2 d`."""
    seconds = max(int(value.total_seconds()), 0)
    for unit, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {word}"
    return f"{seconds} s"


def _many(count: Capped, noun: str, one: str, many: str) -> str:
    return f"{number(count, noun)} {one if count == Capped(1) else many}"


def _sum(*counts: int) -> Capped:
    parts = [Capped.at(count) for count in counts]
    total = sum(part.count for part in parts)
    return Capped(min(total, COUNT_CAP), total > COUNT_CAP or any(part.capped for part in parts))


def _count_workers(workers: list[WorkerRecord]) -> WorkerCounts:
    live = [worker for worker in workers if worker.state == "live"]
    states = [worker.state for worker in workers]
    slots, busy = sum(worker.slots for worker in live), sum(worker.holds for worker in live)
    return WorkerCounts(len(live), states.count("silent"), states.count("dead"), slots, busy)


def _alerts(by_severity: dict[str, int]) -> AlertCounts:
    worst = next((each for each in SEVERITIES if by_severity.get(each)), None)
    return AlertCounts(Capped.at(sum(by_severity.values()), CAP), worst)
