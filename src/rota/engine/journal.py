"""Events as log lines: what an operator wants to read, and no more than that."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from rota import events as e
from rota.lean import structlog
from rota.model.run import Run

OUTAGE_LINE_EVERY_S = 5.0  # per process, however many services are away


class Journal:
    """Subscribes to everything that is worth a line."""

    def __init__(self, events: e.Events, worker_id: object = None) -> None:
        owner = {"component": "scheduler"} if worker_id is None else {"component": "worker", "worker_id": str(worker_id)}
        self._log: Any = structlog.get_logger().bind(**owner)
        self._away: set[str] = set()
        self._said_at = 0.0
        self._lock = threading.Lock()  # the heartbeat reports from its own thread
        subscribers: dict[type[e.Event], e.Subscriber] = {
            e.RunsFinished: self._finished,
            e.RunInterrupted: self._interrupted,
            e.RunLeaseLost: self._lease_lost,
            e.RunsReleased: self._released,
            e.RunRefused: self._refused,
            e.RunRescued: self._rescued,
            e.UnknownFailed: self._unknown_failed,
            e.ThreadStuck: self._thread_stuck,
            e.WorkerStarted: self._started,
            e.WorkerBroken: self._broken,
            e.WorkerStopping: self._stopping,
            e.WorkerStopped: self._stopped,
            e.WorkerDied: self._died,
            e.SchedulesFired: self._schedules_fired,
            e.ScheduleRefused: self._schedule_refused,
            e.DeadlineMissed: self._deadline_missed,
            e.ScheduleFailing: self._schedule_failing,
            e.LinesRefused: self._lines_refused,
            e.DatabaseLost: self._database_lost,
            e.DatabaseBack: self._database_back,
        }
        for kind, subscriber in subscribers.items():
            events.subscribe(kind, subscriber)

    def _finished(self, event: e.RunsFinished) -> None:
        for run in event.runs:
            if run.outcome == "completed":
                continue
            log = self._log.warning if run.outcome in ("failed", "crashed") else self._log.info
            error = run.error or {}
            log(
                f"run.{run.outcome}",
                **_of(run),
                state=run.state,
                error=f"{error['type']}: {error['message']}" if error else None,
                again_in_s=round(run.delay_s or 0.0, 3) if run.state == "queued" else None,
            )

    def _interrupted(self, event: e.RunInterrupted) -> None:
        self._log.info(event.name, **_of(event.run), reason=event.reason)

    def _lease_lost(self, event: e.RunLeaseLost) -> None:
        self._log.warning(event.name, **_of(event.run), note="another worker has the job; what this one did about it was refused")

    def _released(self, event: e.RunsReleased) -> None:
        self._log.info(event.name, count=event.count, reason=event.reason)

    def _rescued(self, event: e.RunRescued) -> None:
        self._log.warning(
            event.name,
            task=event.task,
            job_id=str(event.job_id),
            attempt=event.attempt,
            state=event.state,
            from_worker=str(event.worker_id),
        )

    def _refused(self, event: e.RunRefused) -> None:
        error = event.run.error or {}
        self._log.info(
            event.name, **_of(event.run), error=error.get("message"), note="the job waits for another version of its task"
        )

    def _unknown_failed(self, event: e.UnknownFailed) -> None:
        self._log.error(event.name, task=event.task, queue=event.queue, failed=event.count)

    def _thread_stuck(self, event: e.ThreadStuck) -> None:
        self._log.warning(event.name, **_of(event.run), note="a thread cannot be stopped; isolate=True handlers can")

    def _started(self, event: e.WorkerStarted) -> None:
        self._log.info(event.name, queues=list(event.queues), slots=event.slots)

    def _broken(self, event: e.WorkerBroken) -> None:
        self._log.error(event.name, part=event.part, error=_first_line(event.error) if event.error else "it was cancelled")

    def _stopping(self, event: e.WorkerStopping) -> None:
        self._log.info(event.name, running=event.running)

    def _stopped(self, event: e.WorkerStopped) -> None:
        self._log.info(event.name)

    def _died(self, event: e.WorkerDied) -> None:
        self._log.warning(event.name, dead_worker=str(event.worker_id), rescued=event.rescued)

    def _schedules_fired(self, event: e.SchedulesFired) -> None:
        self._log.debug(event.name, schedules=event.schedules, jobs=event.jobs, skipped=event.skipped)

    def _schedule_refused(self, event: e.ScheduleRefused) -> None:
        self._log.error(event.name, schedule=event.schedule, why=event.why, note="it is switched off; mend it, then enable it")

    def _deadline_missed(self, event: e.DeadlineMissed) -> None:
        self._log.warning(
            event.name,
            schedule=event.schedule,
            task=event.task,
            instant=event.instant.isoformat(),
            job_id=str(event.job_id),
            deadline=event.deadline,
            due=event.due.isoformat(),
        )

    def _schedule_failing(self, event: e.ScheduleFailing) -> None:
        self._log.warning(event.name, schedule=event.schedule, task=event.task, failures=event.failures, error=event.error)

    def _lines_refused(self, event: e.LinesRefused) -> None:
        self._log.warning(event.name, lines=event.lines, note="another worker has the job; what was said here is not kept")

    def _database_lost(self, event: e.DatabaseLost) -> None:
        with self._lock:
            first = not self._away
            self._away.add(event.service)
            if not first and monotonic() - self._said_at < OUTAGE_LINE_EVERY_S:
                return
            self._said_at = monotonic()
        self._log.warning(event.name, service=event.service, error=_first_line(event.error), retry_in_s=round(event.retry_in_s, 2))

    def _database_back(self, event: e.DatabaseBack) -> None:
        with self._lock:
            self._away.discard(event.service)
            if self._away:
                return
        self._log.info(event.name, away_s=round(event.away_s, 2))


def _of(run: Run) -> dict[str, Any]:
    return {"task": run.task, "job_id": run.id, "attempt": run.attempt}


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
