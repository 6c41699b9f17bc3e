"""The rules themselves: a clean story passes, and each rule sees what it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.chaos import checker
from tests.chaos.evidence import Evidence, Row
from tests.chaos.history import Line
from tests.chaos.load import Delivery, Order

WORKER = {100: "worker-a", 200: "worker-b"}  # by process


class Story:
    """A run that went well, to be spoiled."""

    def __init__(self, *orders: Order, how: str = "many") -> None:
        self.deliveries = [Delivery(0.0, how, orders)]
        self.lines: list[Line] = [{"event": "worker", "at": 0.0, "pid": pid, "worker": name} for pid, name in WORKER.items()]
        self.rows: list[Row] = []
        self.live: list[tuple[str, str, str, int]] = []
        self.payments: dict[str, list[int]] = {}
        self.now = 1.0
        for order in orders:
            self.tell("acknowledged", n=order.n, job=job(order), parents=[], created=True, tries=1)

    def tell(self, event: str, pid: int = 100, **fields: Any) -> None:
        """Write a line of the history."""
        self.now += 0.1
        self.lines.append({"event": event, "at": self.now, "pid": pid, **fields})

    def attempt(self, order: Order, number: int, outcome: str, *, pid: int = 100, how: str | None = "ok", error: str = "") -> None:
        """Let an attempt begin, end if `how` says so, and be recorded."""
        this = {"job": job(order), "attempt": number}
        self.tell("start", pid, **this, task=order.task, parent=1)
        if how:
            self.tell("end", pid, **this, how=how)
        final = outcome in ("completed", "canceled") or (outcome == "failed" and error != "again")
        kind = "WorkerCrashed" if error.startswith("its ") else "Expected"
        described = {"type": kind, "message": error} if error else None
        result, n = this if outcome == "completed" else None, order.n if final else None
        self.rows.append(Row(job(order), number, order.task, outcome, final, WORKER[pid], described, result, n))
        if outcome == "completed":
            self.tell("told", pid, **this, state="completed")

    def found(self) -> set[str]:
        """Apply all rules and name those that were broken."""
        evidence = Evidence(sorted(self.lines, key=lambda line: line["at"]), self.rows, self.deliveries)
        evidence.live = self.live
        evidence.payments.update(self.payments)
        return {name for name, findings in checker.check(evidence).items() if findings}


def job(order: Order) -> str:
    """Name the job of an order."""
    return f"job-{order.n}"


WAIT = Order(1, "wait", {"seconds": 0.1})
PAY = Order(2, "pay", {"seconds": 0.1})
POISON = Order(3, "exit_process", {})
HOPELESS = Order(4, "hopeless", {})


@pytest.fixture
def story() -> Story:
    """A job that was lost once and completed by another worker."""
    story = Story(WAIT)
    story.attempt(WAIT, 1, "lost", how=None)
    story.attempt(WAIT, 2, "completed", pid=200)
    return story


def test_a_run_that_went_well_has_no_findings(story: Story) -> None:
    assert story.found() == set()


def test_a_job_that_is_nowhere_is_lost(story: Story) -> None:
    story.tell("acknowledged", n=1, job="job-9", parents=[], created=True, tries=1)
    assert "lost" in story.found()


def test_a_client_that_was_never_answered_is_lost() -> None:
    story = Story(WAIT, PAY)
    story.attempt(WAIT, 1, "completed")
    story.lines = [line for line in story.lines if line.get("n") != PAY.n]
    assert story.found() == {"lost"}


def test_half_of_a_batch_is_lost() -> None:
    story = Story(WAIT, PAY, how="copy")
    story.lines = [line for line in story.lines if line["event"] != "acknowledged"]
    assert story.found() == set(), "a batch that was never stored is nobody's loss"
    story.attempt(WAIT, 1, "completed")
    assert story.found() == {"lost"}


def test_a_live_job_is_stuck(story: Story) -> None:
    story.live.append(("job-7", "wait", "running", 1))
    assert story.found() == {"stuck"}


def test_a_second_job_of_a_key_is_seen(story: Story) -> None:
    story.rows.append(replace(story.rows[-1], job="job-8", attempt=1, result={"job": "job-8", "attempt": 1}))
    assert "twice" in story.found()


def test_a_job_that_ends_twice_is_seen(story: Story) -> None:
    story.attempt(WAIT, 3, "completed")
    assert "twice" in story.found()


def test_an_attempt_without_a_record_is_beyond_the_contract(story: Story) -> None:
    story.tell("start", job=job(WAIT), attempt=3, task="wait", parent=1)
    assert story.found() == {"beyond the contract"}


def test_an_attempt_that_begins_twice_is_beyond_the_contract(story: Story) -> None:
    story.tell("start", 200, job=job(WAIT), attempt=2, task="wait", parent=1)
    assert story.found() == {"beyond the contract"}


@pytest.mark.parametrize(
    "spoiled",
    [
        {"result": {"job": job(WAIT), "attempt": 1}},
        {"worker": WORKER[100]},
    ],
    ids=["the result of another attempt", "another worker"],
)
def test_a_stale_completion_is_seen(story: Story, spoiled: dict[str, Any]) -> None:
    story.rows[-1] = replace(story.rows[-1], **spoiled)
    assert story.found() == {"stale completions"}


def test_a_completion_of_what_never_ended_is_stale(story: Story) -> None:
    story.lines = [line for line in story.lines if line["event"] != "end"]
    assert story.found() == {"stale completions"}


@pytest.mark.parametrize(("pid", "found"), [(200, {"stale completions"}), (100, set())])
def test_a_loss_of_what_one_has_completed_is_stale(story: Story, pid: int, found: set[str]) -> None:
    """It is none for who had claimed it before, and had not begun it."""
    story.tell("fenced", pid, job=job(WAIT), attempt=2, outcome=None)
    assert story.found() == found


def test_a_completion_that_two_workers_are_told_of_is_stale(story: Story) -> None:
    story.tell("told", 100, job=job(WAIT), attempt=1, state="completed")
    assert story.found() == {"stale completions"}


def test_an_innocent_that_is_charged_is_seen() -> None:
    story = Story(WAIT)
    story.attempt(WAIT, 1, "failed", how=None, error="its worker x died while it held the job")
    assert story.found() == {"wrong ends"}


def test_whose_workers_die_all_the_time_may_be_charged() -> None:
    story = Story(WAIT)
    for number in (1, 2, 3):
        story.attempt(WAIT, number, "lost", how=None)
    story.attempt(WAIT, 4, "failed", how=None, error="its worker x died while it held the job")
    assert story.found() == set()


@pytest.mark.parametrize(("attempts", "broken"), [(2, {"wrong ends"}), (3, set()), (4, {"wrong ends"})])
def test_poison_fails_after_exactly_its_attempts(attempts: int, broken: set[str]) -> None:
    story = Story(POISON)
    story.attempt(POISON, 1, "lost", how=None)
    for number in range(2, attempts):
        story.attempt(POISON, number, "failed", how=None, error="again")
    story.attempt(POISON, attempts, "failed", how=None, error="its process exited with status 77")
    assert story.found() == broken


@pytest.mark.parametrize(("policy", "outcome"), [("cancel", "canceled"), ("fail", "failed"), ("ignore", "completed")])
def test_children_end_as_their_policy_says(policy: Any, outcome: str) -> None:
    child = Order(5, "wait", {"seconds": 0.0}, (HOPELESS.n,), policy)
    story = Story(HOPELESS, child)
    for number in (1, 2):
        story.attempt(HOPELESS, number, "failed", how="Expected", error="again")
    story.attempt(HOPELESS, 3, "failed", how="Expected", error="as always")
    if policy == "ignore":
        story.attempt(child, 1, "completed")
    else:
        story.rows.append(Row(job(child), 1, "wait", outcome, True, None, None, None, child.n))
    assert story.found() == set()
    story.rows[-1] = replace(story.rows[-1], outcome="failed" if outcome != "failed" else "canceled")
    assert "wrong ends" in story.found()


@pytest.mark.parametrize("payments", [[], [1], [1, 2], [2, 2]])
def test_effects_are_counted(payments: list[int]) -> None:
    story = Story(PAY)
    story.attempt(PAY, 1, "lost", how=None)
    story.attempt(PAY, 2, "completed")
    story.payments = {job(PAY): [2]}
    assert story.found() == set()
    story.payments = {job(PAY): payments}
    assert story.found() == {"effects"}


def test_a_child_that_begins_too_early_is_seen() -> None:
    child = Order(5, "wait", {"seconds": 0.0}, (WAIT.n,))
    story = Story(WAIT, child)
    story.attempt(child, 1, "completed")
    story.attempt(WAIT, 1, "completed")
    assert story.found() == {"order"}


def test_a_child_process_that_outlives_its_worker_is_seen(story: Story) -> None:
    for line in story.lines:
        if line["event"] == "start" and line["attempt"] == 2:
            line.update(pid=300, parent=200)
            story.lines.append({"event": "killed", "at": line["at"] + 0.01, "pid": 1, "worker_pid": 200, "default": True})
        elif line["event"] == "end":
            line["at"] += 2.0
    assert "orphans" in story.found()
