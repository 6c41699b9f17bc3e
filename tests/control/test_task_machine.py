"""Deploys of two applications, starts of their workers, and operators: the rules of a sync, against a model in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.support.engine import spec
from tests.support.thorough import examples

from rota.control import schedules
from rota.db.carriers import PsycopgCarrier
from rota.db.steps import atomically, carry_out
from rota.model.definition import define, hash_definition
from rota.model.schedule import Timing, cron
from rota.model.task import TaskSpec
from rota.store import schedule_sync, task_sync


def work(n: int = 0) -> None:
    """Works."""


NAMES = ("a", "b", "c")
APPS = ("one", "two")
VERSIONS: tuple[dict[str, Any], ...] = (
    {"description": "v1", "max_concurrency": None, "schedule": cron("0 1 * * *"), "enabled": True, "default_payload": '{"n":1}'},
    {"description": "v2", "max_concurrency": 2, "schedule": cron("0 2 * * *"), "enabled": False, "default_payload": '{"n":2}'},
    {"description": "v3", "max_concurrency": 3, "schedule": None, "enabled": True, "default_payload": "{}"},
)
OVERRIDES = st.sampled_from(
    [
        {},
        {"max_concurrency": 7},
        {"max_concurrency": None, "retention_days": 5},
        {"default_payload": {"n": 9}, "max_concurrency": 7},
    ]
)
CODE = st.one_of(st.none(), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), min_size=1), st.just({}))  # None: as it was


@dataclass
class Expected:
    """What a task must be like."""

    code: dict[str, Any]
    enabled: bool
    apps: list[str] = field(default_factory=list)  # the first one defines it
    overrides: dict[str, Any] = field(default_factory=dict)
    gone: bool = False
    cron: str | None = None
    code_cron: str | None = None  # what code said of the schedule when it was last written
    schedule_enabled: bool = True

    def changed(self, code: dict[str, Any]) -> bool:
        """Whether a forced deploy of this code would change what operators have done."""
        timing: Timing | None = code["schedule"]
        planned = None if self.cron is None else (self.cron, self.schedule_enabled)
        return bool(self.overrides) or self.enabled != code["enabled"] or planned != (timing and (timing.cron, True))


class DeploysAndOperators(RuleBasedStateMachine):
    """Deploys of two applications, starts of their workers, and operators, in any order."""

    conn: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.conn.execute("TRUNCATE rota.task, rota.schedule CASCADE")
        self.model: dict[str, Expected] = {}
        self.code: dict[str, dict[str, int]] = {app: {} for app in APPS}

    def specs(self, app: str) -> list[TaskSpec]:
        return [spec(work, name, **VERSIONS[version]) for name, version in self.code[app].items()]

    def do(self, steps: Any) -> Any:
        return carry_out(PsycopgCarrier(self.conn), atomically(steps, autocommits=True))

    @rule(app=st.sampled_from(APPS), code=CODE)
    def start_worker(self, app: str, code: dict[str, int] | None) -> None:
        self._write(app, code)
        self.do(task_sync.sync(self.specs(app), app=app))
        self.do(schedule_sync.sync(self.specs(app), app=app))
        self._expect(app, set())

    @rule(app=st.sampled_from(APPS), code=CODE, force=st.sampled_from([set(), set(NAMES), {"a", "b"}]))
    def deploy(self, app: str, code: dict[str, int] | None, force: set[str]) -> None:
        self._write(app, code)
        forced = force & self.code[app].keys()
        self.do(task_sync.sync(self.specs(app), app=app, force=forced))
        self.do(schedule_sync.sync(self.specs(app), app=app, force=forced))
        gone = [name for name in self.do(task_sync.of_app(app)) if name not in self.code[app]]
        self.do(task_sync.leave(app, gone))
        self._expect(app, forced)
        for name, task in self.model.items():
            if app in task.apps and name not in self.code[app]:
                task.apps.remove(app)
                task.gone = task.gone or not task.apps

    @precondition(lambda self: self._changed())
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """What operators have changed is forced back to what code says; by chance the two seldom meet."""
        app, name = data.draw(st.sampled_from(self._changed()))
        self.deploy(app, None, {name})

    def _changed(self) -> list[tuple[str, str]]:
        return [
            (app, name)
            for app in APPS
            for name, version in self.code[app].items()
            if (task := self.model.get(name)) and task.changed(VERSIONS[version])
        ]

    def _write(self, app: str, code: dict[str, int] | None) -> None:
        self.code[app] = self.code[app] if code is None else code

    def _expect(self, app: str, forced: set[str]) -> None:
        for name, version in self.code[app].items():
            code = VERSIONS[version]
            task = self.model.get(name)
            timing: Timing | None = code["schedule"]
            if task is None:
                task = self.model[name] = Expected(code, code["enabled"])
            task.gone = False
            if name in forced:
                task.apps = [app]
            elif app not in task.apps:
                task.apps.append(app)
            if task.apps[0] != app:
                continue
            task.code = code
            if name in forced:
                task.enabled, task.overrides = code["enabled"], {}
                task.cron = task.code_cron = None if timing is None else timing.cron
                task.schedule_enabled = True
            elif timing is not None:
                if task.cron is None:
                    task.cron, task.schedule_enabled = timing.cron, True
                elif task.cron == task.code_cron:
                    task.cron = timing.cron
                task.code_cron = timing.cron

    @precondition(lambda self: self.model)
    @rule(data=st.data(), change=st.one_of(st.booleans(), OVERRIDES, st.sampled_from(["cron", "pause", "resume"])))
    def operate(self, data: st.DataObject, change: bool | str | dict[str, Any]) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        task = self.model[name]
        if isinstance(change, bool):
            assert self.do(task_sync.set_enabled(name, change, by="ann", reason="why"))
            task.enabled = change
        elif isinstance(change, dict):
            self.do(task_sync.override(self.do(task_sync.get_for_change(name)), change))
            task.overrides = change
        elif task.cron is not None and change == "cron":
            self.do(schedules.update(name, cron="0 23 * * *"))
            task.cron = "0 23 * * *"
        elif task.cron is not None:
            self.do(schedules.set_enabled(name, change == "resume"))
            task.schedule_enabled = change == "resume"

    @invariant()
    def the_database_is_as_it_must_be(self) -> None:
        found = self.do(task_sync.read_known(NAMES))
        assert found.keys() == self.model.keys()
        planned = self.conn.execute("SELECT name, cron, enabled FROM rota.schedule").fetchall()
        assert {name: (timing, enabled) for name, timing, enabled in planned} == {
            name: (task.cron, task.schedule_enabled) for name, task in self.model.items() if task.cron is not None
        }
        for name, task in self.model.items():
            record = found[name]
            code = task.code
            assert (record.description, record.enabled, record.deleted_from_code) == (code["description"], task.enabled, task.gone)
            assert record.apps == task.apps
            assert record.max_concurrency == task.overrides.get("max_concurrency", code["max_concurrency"])
            assert record.default_payload == task.overrides.get("default_payload", json.loads(code["default_payload"]))
            assert record.retention_days == task.overrides.get("retention_days")
            assert (record.overrides or {}) == task.overrides
            assert (record.disabled_at is None) == task.enabled
            assert record.definition_hash == hash_definition(define(spec(work, name, **code)))


@pytest.mark.req("C02")
def test_deploys_and_operators_in_any_order(conn: psycopg.Connection[Any]) -> None:
    limits = settings(
        max_examples=examples(50), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
    )
    DeploysAndOperators.conn = conn
    run_state_machine_as_test(DeploysAndOperators, settings=limits)
