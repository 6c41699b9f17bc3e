"""Alerts: what somebody should look at, in words, without secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rota.model.redact import redact, redact_text

Severity = Literal["warning", "error", "critical"]

KINDS = {
    "job_failed": "A job has failed for good: it is past its retries, or its error allows none.",
    "deadline_missed": "A scheduled job did not start, or end, within the time its schedule allows.",
    "schedule_failing": "Recurring rows of a task keep failing although they back off as far as they may.",
    "schedule_refused": "A schedule that cannot be fired was switched off.",
    "queue_stuck": "The oldest ready job of a queue has waited longer than alerts.queue_age_s; paused queues do not count.",
    "task_unknown": "Jobs have waited for a minute or longer because no live worker knows their task.",
    "worker_died": "A worker is gone without a word, and its jobs were taken from it.",
    "snapshot_held": "A session, slot or standby keeps dead rows from being removed: every claim gets slower.",
}
STATES = ("open", "acknowledged", "resolved")

MAX_SUMMARY_CHARS = 800
MAX_SUBJECT_CHARS = 240


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that has happened, so many times since it was last told."""

    kind: str
    subject: str
    severity: Severity
    summary: str
    details: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    count: int = 1
    first_at: datetime | None = None  # None: now
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """What has been told of one trouble since the last look: how often, and the details of the last time."""

    kind: str
    subject: str
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
    details: dict[str, Any]

    def alert(self) -> Alert:
        """The alert that they are counted into."""
        severity, summary = _describe(self.kind, self.subject, self.details)
        return make_alert(
            self.kind, self.subject, severity, summary, self.details, fingerprint=self.fingerprint,
            count=self.count, first_at=self.first_at, last_at=self.last_at,
        )  # fmt: skip


def make_alert(
    kind: str, subject: str, severity: Severity, summary: str, details: dict[str, Any] | None = None, **more: Any
) -> Alert:
    """An alert whose words are short, in one line, and without secrets."""
    line = " ".join(redact_text(summary).split())
    short = line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"
    return Alert(kind, redact_text(subject)[:MAX_SUBJECT_CHARS], severity, short, redact(details or {}), **more)


def _describe(kind: str, subject: str, details: dict[str, Any]) -> tuple[Severity, str]:
    match kind:
        case "job_failed":
            error = ": ".join(filter(None, (details.get("type"), details.get("message")))) or "no error was recorded"
            return "error", f"job {details.get('job_id')} of {subject} failed for good at attempt {details.get('attempt')}: {error}"
        case "deadline_missed":
            return "error", (
                f"schedule {subject}: job {details.get('job_id')} for {details.get('instant')} "
                f"did not {details.get('deadline')} by {details.get('due')}"
            )
        case "schedule_failing":
            return "error", (
                f"recurring rows of {subject} keep failing; {details.get('schedule')} "
                f"{details.get('failures')} times in a row: {details.get('error') or 'no error was recorded'}"
            )
        case "schedule_refused":
            return "error", f"schedule {subject} was switched off: {details.get('why')}"
        case "worker_died":
            return "warning", (
                f"worker {details.get('worker_id')} (process {details.get('pid')} on {subject}) died; its jobs were taken from it"
            )
    return "warning", f"{kind} {subject}"
