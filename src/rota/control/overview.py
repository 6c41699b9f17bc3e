"""System health: one sentence, the problems behind it (alerts and the worst first), and counts of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.control import calendar
from rota.control.calendar import NextRun
from rota.control.words import number
from rota.db.connection import AsyncConn
from rota.model.capped import Capped
from rota.store import job_counts, schedule_reads, workers_read
from rota.store import overview as store
from rota.store.overview import QueueAge, ScheduleTroubles
from rota.store.workers_read import WorkerRecord

BEHIND = timedelta(minutes=1)  # a queue whose oldest job has been due for longer is behind
FAR_BEHIND = timedelta(minutes=10)
CAP = 1000  # of schedules, alerts and failures: beyond it, one more says nothing
FAILED_WALK = 2 * CAP
EVER_WALK = 2000
SAID = 3  # problems in the sentence, and queues named in a problem
MAX_QUEUES = 100  # that a problem lists
SEVERITIES = ("critical", "error", "warning")

Severity = Literal["error", "warning"]
Health = Literal["ok", "warning", "error", "empty"]
May = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of problem. Queues with the same problem are one Trouble, so that the list stays short however many there are."""

    code: str
    severity: Severity
    sentence: str
    queues: list[str]  # the first 100 that it is about, the worst first; empty if it is not about queues


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
    counts = await job_counts.with_estimates(conn, await job_counts.live(conn))
    failures = await store.failed(conn, walk=FAILED_WALK)
    failed = Capped(min(failures.failed, CAP), failures.cut or failures.failed > CAP)
    queues = await store.queues(conn) if may("queues.read") else []
    workers = await workers_read.read_all(conn, jobs=0) if may("workers.read") else None
    troubles = await store.schedules(conn, cap=CAP) if may("schedules.read") else ScheduleTroubles(0, 0, 0)
    upcoming = await calendar.upcoming(conn, limit=1) if may("schedules.read") else []
    alerts = _alerts(await store.alerts(conn, cap=CAP + 1)) if may("alerts.read") else None
    is_new = not any(counts.values()) and not await store.has_run(conn, walk=EVER_WALK)
    problems = [
        *_queue_problems(queues, workers, is_new=is_new),
        *_worker_problems(workers or []),
        *_schedule_problems(troubles),
        *_failure_problems(failed),
    ]
    # Alerts first: operators have said that these matter. Then the worst; within a severity the order above stays.
    problems = [*_alert_problems(alerts), *sorted(problems, key=lambda each: each.severity != "error")]
    is_broken = any(each.severity == "error" for each in problems)
    health: Health = "error" if is_broken else "warning" if problems else "empty" if is_new else "ok"
    oldest = max((each for each in queues if each.age is not None), key=lambda each: each.age or timedelta(0), default=None)
    return Overview(
        at,
        health,
        _sentence(problems, health),
        problems,
        queued=Capped.sum(counts[state] for state in job_counts.QUEUED),
        delayed=counts["delayed"],
        running=counts["running"],
        waiting=counts["waiting"],
        oldest=None if oldest is None or oldest.age is None else OldestWait(oldest.name, oldest.age),
        failed_1h=failed,
        workers=None if workers is None else _count_workers(workers),
        alerts=alerts,
        next_run=upcoming[0] if upcoming else None,
    )


def _queue_problems(queues: list[QueueAge], workers: list[WorkerRecord] | None, *, is_new: bool) -> Iterator[Trouble]:
    live = [worker for worker in workers or [] if worker.state == "live"]
    due = [each for each in queues if each.age is not None and each.paused_at is None]
    due.sort(key=lambda each: each.age or timedelta(0), reverse=True)
    if workers is not None and not live and not is_new:
        if due:
            yield Trouble("no_worker", "error", "no worker is live, and jobs are due", [])
        else:
            yield Trouble("no_worker", "warning", "no worker is live", [])
    lonely = [each.name for each in due if live and not any(each.name in worker.queues for worker in live)]
    if lonely:
        which = lonely[0] if len(lonely) == 1 else f"{len(lonely):,} queues: {_name_some(lonely)}"
        yield Trouble("no_worker_for_queue", "error", f"no live worker for {which}", lonely[:MAX_QUEUES])
    behind = [(each.name, each.age) for each in due if each.age is not None and each.age >= BEHIND and each.name not in lonely]
    if behind:
        severity: Severity = "error" if behind[0][1] >= FAR_BEHIND else "warning"
        names = [name for name, _ in behind]
        if len(behind) == 1:
            sentence = f"{names[0]} is {about(behind[0][1])} behind"
        else:
            sentence = f"{len(behind):,} queues are behind: {_name_some([f'{name} {about(age)}' for name, age in behind])}"
        yield Trouble("queue_behind", severity, sentence, names[:MAX_QUEUES])
    paused = [each.name for each in queues if each.paused_at is not None]
    if paused:
        sentence = f"{paused[0]} is paused" if len(paused) == 1 else f"{len(paused):,} queues are paused: {_name_some(paused)}"
        yield Trouble("queue_paused", "warning", sentence, paused[:MAX_QUEUES])


def _name_some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SAID])
    return shown if len(names) <= SAID else f"{shown} and {len(names) - SAID:,} more"


def _worker_problems(workers: list[WorkerRecord]) -> Iterator[Trouble]:
    dead = [worker for worker in workers if worker.state == "dead" and worker.holds]
    if dead:
        held = number(sum(worker.holds for worker in dead), "job")
        died = "1 worker has" if len(dead) == 1 else f"{len(dead)} workers have"
        yield Trouble("worker_dead", "warning", f"{died} died with {held} in hand", [])
    if silent := sum(worker.state == "silent" for worker in workers):
        yield Trouble("worker_silent", "warning", _many(Capped(silent), "worker", "is silent", "are silent"), [])


def _schedule_problems(troubles: ScheduleTroubles) -> Iterator[Trouble]:
    if late := Capped.at(troubles.late, CAP):
        yield Trouble("schedule_late", "error", _many(late, "schedule", "is late", "are late"), [])
    if late := Capped.at(troubles.recurring_late, CAP):
        yield Trouble("recurring_late", "warning", _many(late, "recurring row", "is late", "are late"), [])
    if failing := Capped.at(troubles.failing, CAP):
        yield Trouble("schedule_failing", "warning", _many(failing, "schedule", "keeps failing", "keep failing"), [])


def _alert_problems(alerts: AlertCounts | None) -> Iterator[Trouble]:
    if alerts is not None and alerts.open:
        severity: Severity = "warning" if alerts.worst == "warning" else "error"
        yield Trouble("alert_open", severity, _many(alerts.open, "alert", "is open", "are open"), [])


def _failure_problems(failed: Capped) -> Iterator[Trouble]:
    if failed:
        yield Trouble("jobs_failed", "warning", f"{number(failed, 'job')} failed in the last hour", [])


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


def _count_workers(workers: list[WorkerRecord]) -> WorkerCounts:
    live = [worker for worker in workers if worker.state == "live"]
    states = [worker.state for worker in workers]
    slots, busy = sum(worker.slots for worker in live), sum(worker.holds for worker in live)
    return WorkerCounts(len(live), states.count("silent"), states.count("dead"), slots, busy)


def _alerts(by_severity: dict[str, int]) -> AlertCounts:
    worst = next((each for each in SEVERITIES if by_severity.get(each)), None)
    return AlertCounts(Capped.at(sum(by_severity.values()), CAP), worst)
