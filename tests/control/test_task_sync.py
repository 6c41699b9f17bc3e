"""What code defines and what operators change: the rules by which the two meet in the database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.engine import spec

from rota import Rota
from rota.control import schedules, sync, tasks
from rota.db.carriers import AsyncPsycopgCarrier, PsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import atomically, carry_out, carry_out_async
from rota.errors import Conflict, NotFound, PayloadError, UnknownTask, UsageError
from rota.model.definition import TaskRecord, define, hash_definition
from rota.model.retry import Retry
from rota.model.schedule import cron, every, init
from rota.model.task import TaskSpec
from rota.store import task_sync

Conn = psycopg.Connection[Any]
HASH = """
from tests.support.engine import spec
from rota.model.definition import define, hash_definition
from rota.model.schedule import cron

def send(user_id: int, tags: set[str] = frozenset(), lang: str = "en") -> None:
    '''Sends it.

    And more.
    '''

task = spec(send, tags=("b", "a"), description="Sends it.", schedule=cron("0 9 * * *", tz="Europe/Berlin"), timeout_s=2.5)
print(hash_definition(define(task)))
"""


def work(n: int = 0) -> None:
    """Works."""


def strict(n: int) -> None:
    """Works on n."""


async def deploy(aconn: AsyncConn, *specs: TaskSpec, **options: Any) -> Any:
    return await sync.sync_definitions(aconn, specs, **options)


async def read(aconn: AsyncConn, name: str = "work") -> TaskRecord:
    return (await tasks.get_task(aconn, name)).record


class TestDefinition:
    @pytest.mark.req("C01")
    def test_meta_is_read_and_checked(self) -> None:
        app = Rota("dbname=none")

        @app.task(
            tags=["mail", "billing", "mail"], fields={"team": "billing", "sla_hours": 4, "paged": True},
            enabled=False, default_payload={"user_id": 7}, retention_days=3, retention_count=100,
            on="signed_up",
        )  # fmt: skip
        def send(user_id: int) -> None:
            """Sends a letter
            to a user.

            Not shown.
            """

        task = app.tasks["send"]
        assert (task.description, task.tags, task.enabled) == ("Sends a letter to a user.", ("billing", "mail"), False)
        assert task.fields == (("paged", True), ("sla_hours", 4), ("team", "billing"))
        assert (task.default_payload, task.retention_days, task.retention_count) == ('{"user_id":7}', 3, 100)
        assert (task.strategy, task.run_once, task.system) == ("event", False, False)

    @pytest.mark.req("C01")
    @pytest.mark.parametrize(
        ("meta", "message"),
        [
            ({"description": "x" * 1001}, "at most 1000"),
            ({"description": "a\0b"}, "cannot store"),
            ({"description": 7}, "description=7"),
            ({"tags": ["a b"]}, "tag 'a b'"),
            ({"tags": [7]}, "tag 7"),
            ({"tags": [f"t{n}" for n in range(21)]}, "at most 20"),
            ({"fields": ["team"]}, r"fields=\['team'\] must be a mapping"),
            ({"fields": {f"f{n}": n for n in range(21)}}, "at most 20"),
            ({"fields": {"the team": "x"}}, "field name 'the team'"),
            ({"fields": {"team": None}}, r"fields\['team'\]=None must be text, a finite number or a boolean"),
            ({"fields": {"team": float("nan")}}, "finite number"),
            ({"fields": {"team": "x" * 201}}, "201 characters: at most 200"),
            ({"fields": {"team": "a\0b"}}, "cannot store"),
            ({"enabled": "yes"}, "enabled='yes'"),
            ({"default_payload": {"n": "seven"}}, "default_payload of task 'strict'"),
            ({"default_payload": {}}, "default_payload of task 'strict'"),
            ({"default_payload": {"n": 1, "m": 2}}, "default_payload of task 'strict'"),
            ({"retention_days": 0}, "retention_days=0 is out of range"),
            ({"retention_days": True}, "retention_days=True"),
            ({"retention_count": 10**9}, "retention_count=1000000000"),
        ],
    )
    def test_meta_that_makes_no_sense(self, meta: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            Rota("dbname=none").task(**meta)(strict)

    def test_a_word_that_is_none(self) -> None:
        with pytest.raises(TypeError, match="descriptoin"):
            Rota("dbname=none").task(descriptoin="typo")(strict)  # type: ignore[call-overload]

    @pytest.mark.req("C01")
    @pytest.mark.parametrize(
        ("settings", "strategy"),
        [
            ({}, "on_demand"),
            ({"schedule": cron("0 9 * * *")}, "cron"),
            ({"schedule": every("1h")}, "interval"),
            ({"schedule": init}, "init"),
            ({"listens": ("paid",)}, "event"),
            ({"recurring": True}, "recurring"),
        ],
    )
    def test_strategies(self, settings: dict[str, Any], strategy: str) -> None:
        task = spec(work, **settings)
        assert (task.strategy, task.run_once) == (strategy, strategy == "init")

    @pytest.mark.req("C01")
    def test_a_default_payload_is_for_the_schedule_too(self) -> None:
        app = Rota("dbname=none")
        with pytest.raises(UsageError, match="default_payload"):
            app.task(schedule=every("1h"))(strict)
        app.task(schedule=every("1h"), default_payload={"n": 3})(strict)

    @pytest.mark.req("C02")
    def test_the_hash_is_the_same_everywhere(self) -> None:
        def look() -> str:
            command = [sys.executable, "-c", HASH]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

        assert look() == look(), "the seed of Python's own hashes has a part in it"
        one, two = spec(work, tags=("a",)), spec(work, tags=("b",))
        assert hash_definition(define(one)) != hash_definition(define(two))
        assert hash_definition(define(one)) == hash_definition(define(spec(work, tags=("a",))))

    @pytest.mark.req("C02")
    @pytest.mark.parametrize(
        "change",
        [
            {"description": "other"}, {"tags": ("x",)}, {"fields": (("team", "x"),)},
            {"queue": "mail"}, {"priority": 1}, {"retry": Retry(max_attempts=9)},
            {"timeout_s": 3.0}, {"max_concurrency": 3}, {"listens": ("paid",)}, {"schedule": every("1h")}, {"enabled": False},
            {"default_payload": '{"n":1}'}, {"retention_days": 3}, {"retention_count": 3}, {"recurring": True},
        ],
    )  # fmt: skip
    def test_everything_is_part_of_the_hash(self, change: dict[str, Any]) -> None:
        assert hash_definition(define(spec(work, **change))) != hash_definition(define(spec(work)))


class TestSync:
    @pytest.mark.req("C02")
    async def test_a_new_task_has_its_defaults(self, aconn: AsyncConn) -> None:
        task = spec(work, description="Works.", tags=("a", "b"), enabled=False, default_payload='{"n":2}', retention_days=9)
        done = await deploy(aconn, task)
        assert done.created == ["work"]
        record = await read(aconn)
        assert (record.description, record.tags, record.enabled, record.default_payload) == ("Works.", ["a", "b"], False, {"n": 2})
        assert (record.retention_days, record.strategy, record.apps) == (9, "on_demand", ["default"])
        assert not record.deleted_from_code
        assert (record.disabled_by, record.disabled_at is not None) == ("code", True)
        again = await deploy(aconn, task)
        assert (again.created, again.changed) == ([], [])
        assert await read(aconn) == record, "nothing is written again"

    @pytest.mark.req("C01", "T12")
    async def test_fields_of_the_users_own_are_stored_and_found(self, aconn: AsyncConn) -> None:
        """Source 004: "Extend fields (tags, team, SLAs, etc.)"."""
        await deploy(aconn, spec(work, "one", fields=(("sla_hours", 4), ("team", "billing"))), spec(work, "two"))
        assert (await read(aconn, "one")).fields == {"team": "billing", "sla_hours": 4}
        assert (await read(aconn, "two")).fields == {}
        done = await deploy(aconn, spec(work, "one", fields=(("paged", True), ("team", "billing"))), spec(work, "two"))
        assert done.changed == ["one"]
        assert (await read(aconn, "one")).fields == {"team": "billing", "paged": True}

        async def found(*fields: str) -> list[str]:
            return [view.record.name for view in (await tasks.list_tasks(aconn, fields=fields)).tasks]

        assert await found("team=billing") == await found("paged=true", "team=billing") == ["one"]
        assert await found("team=bill") == await found("team=billing", "paged=false") == await found("sla_hours=4") == []
        with pytest.raises(UsageError, match="field='team' must be a name and a value, such as team=billing"):
            await found("team")

    @pytest.mark.req("C02")
    async def test_what_operators_changed_stays(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, schedule=cron("0 9 * * *"), description="one"))
        await tasks.disable_task(aconn, "work", reason="broken", user="ann")
        await tasks.set_task(aconn, "work", {"max_concurrency": 5, "retry.base": "1m", "default_payload": {"n": 5}})
        await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.update("work", cron="0 10 * * *"))

        done = await deploy(
            aconn,
            spec(work, schedule=cron("0 8 * * *"), description="two", max_concurrency=2, timeout_s=4.0, tags=("x",),
                 retry=Retry(max_attempts=7, base="2s", cap="3m"), default_payload='{"n":1}'),
        )  # fmt: skip
        assert done.changed == ["work"]
        record = await read(aconn)
        assert (record.description, record.tags, record.timeout_s, record.max_attempts) == ("two", ["x"], 4.0, 7)
        assert (record.enabled, record.disabled_by, record.disable_reason) == (False, "ann", "broken")
        assert (record.max_concurrency, record.default_payload) == (5, {"n": 5})
        assert record.retry is not None
        assert (record.retry["base"], record.retry["cap"]) == (60, 180), "what was not changed follows the code"
        schedule = await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.get("work"))
        assert schedule.timing.cron == "0 10 * * *"

        done = await deploy(aconn, spec(work, schedule=cron("0 8 * * *"), max_concurrency=2), force=True)
        record = await read(aconn)
        assert (record.enabled, record.overrides, record.max_concurrency, record.default_payload) == (True, None, 2, {})
        schedule = await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.get("work"))
        assert schedule.timing.cron == "0 8 * * *"

    @pytest.mark.req("C02")
    async def test_force_by_name(self, aconn: AsyncConn) -> None:
        one, two = spec(work, "one"), spec(work, "two")
        await deploy(aconn, one, two)
        for name in ("one", "two"):
            await tasks.disable_task(aconn, name)
        await deploy(aconn, one, two, force=["one"])
        assert ((await read(aconn, "one")).enabled, (await read(aconn, "two")).enabled) == (True, False)
        with pytest.raises(UnknownTask, match="thre"):
            await deploy(aconn, one, two, force=["thre"])

    @pytest.mark.req("C02")
    async def test_force_removes_a_schedule_that_code_no_longer_has(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, schedule=every("1h")))
        await deploy(aconn, spec(work))
        await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.get("work"))
        await deploy(aconn, spec(work), force=True)
        with pytest.raises(NotFound):
            await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.get("work"))

    @pytest.mark.req("C02")
    async def test_gone_and_back(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work), spec(work, "other"), app="shop")
        await tasks.disable_task(aconn, "work")
        done = await deploy(aconn, spec(work, "other"), app="shop")
        assert done.gone == ["work"]
        assert (await read(aconn)).deleted_from_code
        with pytest.raises(Conflict, match="no code has it"):
            await tasks.trigger(aconn, "work")
        assert (await deploy(aconn, spec(work, "other"), app="shop")).gone == [], "told once"
        done = await deploy(aconn, spec(work), spec(work, "other"), app="shop")
        assert done.returned == ["work"]
        record = await read(aconn)
        assert (record.deleted_from_code, record.enabled) == (False, False), "what operators changed has outlived that too"

    @pytest.mark.req("C02")
    async def test_applications_do_not_mark_each_others_tasks(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, "a"), spec(work, "both"), app="one")
        assert (await deploy(aconn, spec(work, "b"), spec(work, "both"), app="two")).gone == []
        assert (await deploy(aconn, app="two")).gone == ["b"]
        assert not (await read(aconn, "both")).deleted_from_code, "the other application still has it"
        assert sorted((await deploy(aconn, app="one")).gone) == ["a", "both"]

    @pytest.mark.req("C02")
    async def test_an_application_without_a_name_spares_what_a_live_worker_has(self, aconn: AsyncConn, conn: Conn) -> None:
        await deploy(aconn, spec(work), spec(work, "other"))
        worker = given.start_worker(conn, tasks=("work",))
        assert (await deploy(aconn, spec(work, "other"))).gone == []
        conn.execute("UPDATE rota.worker SET stopped_at = rota.now() WHERE id = %s", [worker])
        assert (await deploy(aconn, spec(work, "other"))).gone == ["work"]

    @pytest.mark.req("C02")
    def test_the_start_of_a_worker_marks_nothing(self, conn: Conn) -> None:
        def start(*specs: TaskSpec) -> Any:
            return carry_out(PsycopgCarrier(conn), atomically(task_sync.sync(specs), autocommits=True))

        start(spec(work, "a"), spec(work, "b"))
        assert start(spec(work, "b")).gone == []
        assert conn.execute("SELECT count(*) FROM rota.task WHERE deleted_from_code_at IS NOT NULL").fetchone() == (0,)
        conn.execute("UPDATE rota.task SET deleted_from_code_at = rota.now(), apps = '{}'")
        assert start(spec(work, "b")).returned == ["b"], "but what it has is not gone"

    async def test_a_start_while_somebody_holds_a_row(self, aconn: AsyncConn, conn: Conn) -> None:
        await deploy(aconn, spec(work))
        await aconn.execute("SET lock_timeout = '100ms'")
        with conn.transaction():
            conn.execute("SELECT FROM rota.task FOR UPDATE")
            await deploy(aconn, spec(work))

    async def test_two_that_sync_at_once(self, aconn: AsyncConn, dsn: str) -> None:
        specs = [spec(work, f"t{n}", max_concurrency=n + 1) for n in range(20)]
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
            both = await asyncio.gather(deploy(aconn, *specs), deploy(other, *reversed(specs)))
        assert sorted(both[0].created + both[1].created) == sorted(each.name for each in specs)


class TestOverrides:
    @pytest.mark.req("C03")
    async def test_set_and_unset(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, max_concurrency=3, timeout_s=10.0))
        view = await tasks.set_task(
            aconn, "work",
            {"max_concurrency": None, "retry.max_attempts": 9, "timeout": "1m", "retention_days": 7, "retention_count": 50},
        )  # fmt: skip
        record = view.record
        assert (record.max_concurrency, record.max_attempts, record.timeout_s) == (None, 9, 60)
        assert (record.retention_days, record.retention_count) == (7, 50)
        assert record.retry is not None
        assert record.retry["max_attempts"] == 9
        record = (await tasks.unset_task(aconn, "work", ["timeout", "max_attempts"])).record
        assert (record.timeout_s, record.max_attempts, record.max_concurrency) == (10, 4, None)
        record = (await tasks.unset_task(aconn, "work")).record
        assert (record.max_concurrency, record.retention_days, record.overrides) == (3, None, None)

    @pytest.mark.req("C03")
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "nothing to set"),
            ({"max_concurency": 5}, "max_concurency.*did you mean max_concurrency|max_concurrency"),
            ({"max_concurrency": 0}, "max_concurrency=0"),
            ({"max_concurrency": "five"}, "max_concurrency='five'"),
            ({"max_attempts": 1001}, "max_attempts=1001"),
            ({"max_attempts": None}, "max_attempts"),
            ({"timeout": 0}, "timeout=0"),
            ({"retry.base": "soon"}, "retry.base='soon'"),
            ({"retry.cap": None}, "retry.cap=None"),
            ({"retention_days": -1}, "retention_days=-1"),
            ({"default_payload": [1]}, "default_payload"),
            ({"default_payload": {"m": 1}}, "has no parameter m"),
            ({"queue": "mail"}, "queue"),
        ],
    )
    async def test_settings_that_make_no_sense(self, aconn: AsyncConn, settings: dict[str, Any], message: str) -> None:
        await deploy(aconn, spec(work))
        with pytest.raises(UsageError, match=message):
            await tasks.set_task(aconn, "work", settings)
        assert (await read(aconn)).overrides is None

    async def test_limits_of_keys_need_a_key(self, aconn: AsyncConn) -> None:
        keyed = spec(work, concurrency_key="{n}", key_concurrency=2)
        await deploy(aconn, keyed)
        assert (await tasks.set_task(aconn, "work", {"key_concurrency": 5})).record.key_concurrency == 5
        await deploy(aconn, spec(work))
        record = await read(aconn)
        assert (record.concurrency_key, record.key_concurrency) == (None, None), "code has taken the key back"
        with pytest.raises(UsageError, match="has no concurrency_key"):
            await tasks.set_task(aconn, "work", {"key_concurrency": 3})
        await deploy(aconn, keyed)
        assert (await read(aconn)).key_concurrency == 5, "the operator's number has outlived that"
        record = (await tasks.set_task(aconn, "work", {"key_concurrency": None})).record
        assert (record.concurrency_key, record.key_concurrency) == (None, None)
        record = (await tasks.unset_task(aconn, "work")).record
        assert (record.concurrency_key, record.key_concurrency) == ("{n}", 2)

    async def test_attempts_of_a_recurring_task(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, recurring=True))
        with pytest.raises(UsageError, match="means nothing for a recurring task"):
            await tasks.set_task(aconn, "work", {"max_attempts": 3})

    async def test_a_task_that_is_not_there(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work))
        for change in (
            tasks.set_task(aconn, "wrok", {"max_attempts": 3}), tasks.unset_task(aconn, "wrok"), tasks.enable_task(aconn, "wrok"),
            tasks.disable_task(aconn, "wrok"), tasks.get_task(aconn, "wrok"), tasks.trigger(aconn, "wrok"),
        ):  # fmt: skip
            with pytest.raises(NotFound, match=r"wrok.*work"):
                await change

    @pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
    async def test_text_that_cannot_be_stored(self, aconn: AsyncConn, text: str) -> None:
        await deploy(aconn, spec(work))
        with pytest.raises(UsageError, match="cannot store"):
            await tasks.disable_task(aconn, "work", reason=text)
        with pytest.raises(UsageError, match="cannot store"):
            await tasks.get_task(aconn, text)
        with pytest.raises(UsageError, match="too long"):
            await tasks.disable_task(aconn, "work", reason="x" * 501)


class TestTrigger:
    @pytest.mark.req("C03")
    async def test_the_default_payload_and_what_is_given(self, aconn: AsyncConn, conn: Conn) -> None:
        def send(user_id: int, lang: str = "en") -> None:
            pass

        task = spec(send, default_payload='{"user_id":1}')
        await deploy(aconn, task)
        id = await tasks.trigger(aconn, "send", {"lang": "de"}, user="ann", tasks={"send": task})
        row = conn.execute("SELECT payload, triggered_by FROM rota.job WHERE id = %s", [id]).fetchone()
        assert row == ({"user_id": 1, "lang": "de"}, {"kind": "manual", "user": "ann"})
        with pytest.raises(PayloadError, match="user_id"):
            await tasks.trigger(aconn, "send", {"user_id": "seven"}, tasks={"send": task})
        with pytest.raises(PayloadError, match="no parameter"):
            await tasks.trigger(aconn, "send", {"colour": "red"})

    @pytest.mark.req("C11")
    async def test_system_tasks_are_hidden(self, aconn: AsyncConn) -> None:
        await deploy(aconn, spec(work, tags=("x",)), spec(work, "rota.own"), spec(work, "third"))
        assert [view.record.name for view in (await tasks.list_tasks(aconn)).tasks] == ["third", "work"]
        assert [view.record.name for view in (await tasks.list_tasks(aconn, system=True)).tasks] == ["rota.own", "third", "work"]
        assert [view.record.name for view in (await tasks.list_tasks(aconn, tag="x")).tasks] == ["work"]
        page = await tasks.list_tasks(aconn, system=True, limit=2)
        assert page.next == "third"
        assert [view.record.name for view in (await tasks.list_tasks(aconn, system=True, after="third")).tasks] == ["work"]

    @pytest.mark.req("C03")
    async def test_whether_a_live_worker_knows_it(self, aconn: AsyncConn, conn: Conn) -> None:
        await deploy(aconn, spec(work))
        assert (await tasks.get_task(aconn, "work")).unknown_to_workers
        given.start_worker(conn, tasks=("work",))
        assert (await tasks.get_task(aconn, "work")).workers == 1
