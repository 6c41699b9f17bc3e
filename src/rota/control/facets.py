"""What jobs a search could be narrowed down to: how many by state, task and queue, and the names that there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import FINISHED_STATES, JOB_STATES, JobFilter, check_text
from rota.store import facets as store
from rota.store import job_counts
from rota.store.facets import Kind

WINDOW = COUNT_CAP  # jobs of each kind that are looked at
PAYLOAD_WINDOW = 300  # where their payloads are: one may be as long as a megabyte
SHOWN = 50
MAX_VALUES = 100

# Which states are counted in which walk: a rare one in that of its own index.
WALKS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("running", ("running",)),
    ("live", ("waiting", "queued")),
    ("failed", ("failed", "canceled")),
    ("finished", ("completed",)),
)


@dataclass(frozen=True, slots=True)
class Facet:
    """A task or queue, and how many of the jobs are of it."""

    value: str
    count: Capped


@dataclass(frozen=True, slots=True)
class JobFacets:
    """How many jobs match by state (whatever state is asked for), and by task and queue, the most first.

    Where there are too many to look at all, the newest of each kind are counted, and the counts are capped. Live jobs are estimated
    instead if nothing but a state, a task and a queue is asked for.
    """

    states: dict[str, Capped]
    tasks: list[Facet]
    queues: list[Facet]
    complete: bool  # all jobs in the states asked for were looked at


async def job_facets(conn: AsyncConn, filter: JobFilter | None = None) -> JobFacets:
    """Counts the jobs that match by state, task and queue."""
    filter = filter or JobFilter()
    anywhere = replace(filter, states=())
    asked = [state for state in JOB_STATES if not filter.states or state in filter.states]
    window = PAYLOAD_WINDOW if filter.payload else WINDOW
    states: dict[str, Capped] = {}
    tasks, queues = Counter[str](), Counter[str]()
    is_plain = anywhere == JobFilter(task=anywhere.exact_task, queue=anywhere.queue)
    is_complete, is_cut, is_estimated = True, False, False
    for kind, counted in WALKS:
        of_these = _named(kind, counted, asked)
        found = await store.jobs(conn, kind, anywhere, states=of_these, window=window, shown=SHOWN)
        states |= {state: Capped(found.states.get(state, 0), found.scanned >= window) for state in counted}
        of_tasks, of_queues = Counter(found.tasks), Counter(found.queues)
        if found.scanned >= window and of_these:
            is_complete = False
            known = await job_counts.by_names(conn, of_these, task=anywhere.task, queue=anywhere.queue) if is_plain else None
            if known is not None and known[0]:
                of_tasks, of_queues, is_estimated = of_tasks | known[0], of_queues | known[1], True
            else:
                is_cut = True
        tasks += of_tasks
        queues += of_queues
    if not anywhere.narrows:
        states = await job_counts.by_state(conn)
    elif is_plain:
        states = await job_counts.with_estimates(conn, states, task=anywhere.task, queue=anywhere.queue)
    kind_of_count = Capped(0, is_cut, is_estimated and not is_cut)
    return JobFacets(states, _top(tasks, kind_of_count), _top(queues, kind_of_count), is_complete)


async def list_values(conn: AsyncConn, of: Literal["task", "queue"], *, text: str = "", limit: int = 20) -> list[str]:
    """The names that there are, to complete what somebody types: those that begin with it first."""
    check_text("text", text)
    if not 1 <= limit <= MAX_VALUES:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_VALUES}")
    match of:
        case "task":
            return await store.task_names(conn, text=text, limit=limit)
        case "queue":
            return await store.queue_names(conn, text=text, limit=limit)
    raise UsageError(f"of={of!r} is unknown: one of task, queue")


def _named(kind: Kind, counted: tuple[str, ...], asked: list[str]) -> list[str]:
    """The states whose tasks and queues a walk counts: no job in two walks."""
    if kind == "failed" and "completed" in asked:
        return []  # the walk through all that have finished sees them, too, and as many of them as there are of others
    if kind == "finished" and "completed" in asked:
        return [state for state in FINISHED_STATES if state in asked]
    return [state for state in counted if state in asked]


def _top(counts: Counter[str], like: Capped) -> list[Facet]:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [Facet(value, replace(like, count=count)) for value, count in ranked[:SHOWN]]
