"""Deploying tasks: what code defines is written to the database, and what that would change is shown before."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import Steps, atomically, carry_out_async
from rota.errors import PayloadError, UnknownTask, did_you_mean
from rota.model.definition import TaskRecord, define, define_timing, hash_definition, shown_override
from rota.model.limits import NO_LIMITS, QueueLimits
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import DEFAULT_APP, TaskSpec
from rota.model.vault import shown, stand_in
from rota.store import schedule_sync, task_sync, tasks_read, workers_read
from rota.store.task_sync import Synced

Result = TypeVar("Result")

SCAN_MOST = 20_000  # live jobs, and as many schedules, whose payloads a plan looks at
SCAN_BATCH = 1000
EXAMPLES = 5
NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Change:
    """What a sync would do to a task; `fields` are those of its definition that differ: what was said before, and now."""

    task: str
    kind: str  # new, changed, returned, gone; kept: gone from this code, but a live worker has it
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    system: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """Something that operators have set otherwise than code says; a sync leaves it so unless it is forced."""

    task: str
    setting: str
    code: Any
    database: Any


@dataclass(slots=True)
class Misfits:
    """Live jobs and schedules of a task that the code could not run: how many, and some of them with the reason."""

    task: str
    jobs: int = 0
    schedules: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)

    def add(self, label: str, reason: str, *, is_job: bool) -> None:
        """One more."""
        self.jobs, self.schedules = self.jobs + is_job, self.schedules + (not is_job)
        if len(self.examples) < EXAMPLES:
            self.examples.append((label, reason))


@dataclass(frozen=True, slots=True)
class Plan:
    """What deploying this code would mean."""

    changes: list[Change]
    drift: list[Drift]
    payloads: list[Misfits]  # that no longer fit the code
    orphans: list[Misfits]  # of tasks that no code has
    scanned: int
    cut: bool  # there were more live jobs or schedules than were looked at

    @property
    def compatible(self) -> bool:
        """Whether all jobs that are live or will be could be run by this code; schedules of tasks that are gone do not fire."""
        return not self.payloads and not any(each.jobs for each in self.orphans)


async def sync_definitions(
    conn: AsyncConn,
    specs: Iterable[TaskSpec],
    *,
    app: str = DEFAULT_APP,
    queues: Iterable[str] = (),
    limits: Mapping[str, QueueLimits] = NO_LIMITS,
    force: bool | Collection[str] = False,
) -> Synced:
    """Writes what code defines to the database, and marks what this application no longer has as gone from code.

    Operators' changes stay, but for all tasks or those named in `force`. Applications are told apart by their names. One that has
    none cannot be told from others without one: what a live worker has in its code is then not taken for gone.
    """
    specs = list(specs)
    forced = _read_force(specs, force)
    done = await _carry_out(conn, _sync(specs, app, list(queues), limits, forced, force is True))
    await _carry_out(conn, schedule_sync.sync(specs, app=app, force=forced))
    gone = [change.task for change in await _gone(conn, specs, app) if change.kind == "gone"]
    done.gone = await _carry_out(conn, task_sync.leave(app, gone)) if gone else []
    return done


async def plan(conn: AsyncConn, specs: Iterable[TaskSpec], *, app: str = DEFAULT_APP, scan: int = SCAN_MOST) -> Plan:
    """What a sync of this code would change, what operators have changed, and which live jobs the code could not run."""
    code = {spec.name: spec for spec in specs}
    known = await _carry_out(conn, task_sync.read_known(code))
    task_sync.check_owners([define(spec) for spec in code.values()], known, app=app)
    schedules = await tasks_read.schedules(conn, code)
    changes = [change for spec in code.values() if (change := _compare(spec, known.get(spec.name), app)) is not None]
    changes += await _gone(conn, code.values(), app)
    drift = [each for name, record in known.items() for each in _drift(code[name], record, schedules.get(name))]
    defaults = {name: _default_payload(spec, known.get(name)) for name, spec in code.items()}
    payloads, orphans, scanned, cut = await _scan(conn, code, defaults, app, scan)
    return Plan(sorted(changes, key=lambda change: change.task), drift, payloads, orphans, scanned, cut)


def _sync(
    specs: list[TaskSpec], app: str, queues: list[str], limits: Mapping[str, QueueLimits], forced: Collection[str], all_forced: bool
) -> Steps[Synced]:
    done = yield from task_sync.sync(specs, app=app, force=forced)
    yield from task_sync.declare_queues({*queues, *(spec.queue for spec in specs)}, limits, app=app, force=all_forced)
    return done


async def _carry_out(conn: AsyncConn, steps: Steps[Result]) -> Result:
    carrier = AsyncPsycopgCarrier(conn)
    return await carry_out_async(carrier, atomically(steps, autocommits=carrier.autocommits))


def _read_force(specs: list[TaskSpec], force: bool | Collection[str]) -> set[str]:
    names = {spec.name for spec in specs}
    if isinstance(force, bool):
        return names if force else set()
    for name in force:
        if name not in names:
            raise UnknownTask(f"there is no task {name!r} in the code: {did_you_mean(name, names, 'see `rota tasks list`')}")
    return set(force)


async def _gone(conn: AsyncConn, specs: Iterable[TaskSpec], app: str) -> list[Change]:
    names = {spec.name for spec in specs}
    missing = [name for name in await _carry_out(conn, task_sync.of_app(app)) if name not in names]
    elsewhere: set[str] = set()
    if missing and app == DEFAULT_APP:
        workers = await workers_read.read_all(conn, jobs=0)
        elsewhere = {task for worker in workers if worker.state == "live" for task in worker.tasks}
    return [Change(name, "kept" if name in elsewhere else "gone") for name in missing]


def _compare(spec: TaskSpec, record: TaskRecord | None, app: str) -> Change | None:
    definition = define(spec)
    if record is None:
        return Change(spec.name, "new", system=spec.system)
    if task_sync.is_current(record, hash_definition(definition), app):
        return None
    before = record.definition or {}
    fields = {name: (before.get(name), value) for name, value in shown(definition).items() if before.get(name) != value}
    return Change(spec.name, "returned" if record.deleted_from_code else "changed", fields, spec.system)


def _default_payload(spec: TaskSpec, record: TaskRecord | None) -> dict[str, Any]:
    own = (record and record.overrides) or {}
    payload: dict[str, Any] = own.get("default_payload", json.loads(spec.default_payload))
    return payload


def _drift(spec: TaskSpec, record: TaskRecord, schedule: ScheduleRecord | None) -> list[Drift]:
    definition = shown(define(spec))
    found = []
    if record.enabled != spec.enabled:
        found.append(Drift(spec.name, "enabled", spec.enabled, record.enabled))
    for name, value in (record.overrides or {}).items():
        part, _, inner = name.partition(".")
        said = definition[part][inner] if inner else definition.get(part)
        found.append(Drift(spec.name, shown_override(name), said, value))
    if schedule is None:
        if spec.schedule is not None and record.schedule_deleted_at is not None:
            found.append(Drift(spec.name, "schedule", spec.schedule.describe(), "deleted"))
        return found
    if spec.schedule is None:
        return [*found, Drift(spec.name, "schedule", None, schedule.timing.describe())]
    if schedule.definition != define_timing(schedule.timing):  # otherwise it is as code has it, or will follow it
        found.append(Drift(spec.name, "schedule", spec.schedule.describe(), schedule.timing.describe()))
    if not schedule.enabled:
        found.append(Drift(spec.name, "schedule.enabled", True, False))
    if schedule.payload:
        found.append(Drift(spec.name, "schedule.payload", {}, schedule.payload))
    return found


async def _scan(
    conn: AsyncConn, code: Mapping[str, TaskSpec], defaults: Mapping[str, dict[str, Any]], app: str, most: int
) -> tuple[list[Misfits], list[Misfits], int, bool]:
    """Looks at the payloads of what is live, the oldest first, as far as `most` goes of either kind."""
    payloads: dict[str, Misfits] = {}
    orphans: dict[str, Misfits] = {}

    def judge(task: str, label: str, payload: str, *, is_job: bool) -> None:
        spec = code.get(task)
        if spec is None:
            orphans.setdefault(task, Misfits(task)).add(label, "no code has its task", is_job=is_job)
            return
        if not is_job and "/" not in label and defaults[task]:  # a schedule's jobs have the task's default payload too
            payload = json.dumps({**defaults[task], **json.loads(payload)})
        try:
            spec.payload.decode(stand_in(payload))
        except PayloadError as error:
            payloads.setdefault(task, Misfits(task)).add(label, str(error), is_job=is_job)

    scanned, cut = 0, False
    for read in (tasks_read.live_payloads, tasks_read.schedule_payloads):
        last, seen = NO_ID, 0
        while seen < most and (rows := await read(conn, after=last, limit=min(SCAN_BATCH, most - seen))):
            for _, task, label, payload in rows:
                judge(task, label, payload, is_job=read is tasks_read.live_payloads)
            last, seen = rows[-1][0], seen + len(rows)
        scanned += seen
        cut = cut or (seen >= most and bool(await read(conn, after=last, limit=1)))
    others = {name for name, record in (await _carry_out(conn, task_sync.read_known(orphans))).items() if {*record.apps} - {app}}
    lost = [orphans[name] for name in sorted(orphans) if name not in others]
    return [payloads[name] for name in sorted(payloads)], lost, scanned, cut
