"""The schema goes up and down, in any order of processes, and ends the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support.wait import PATIENCE_S

from rota import Rota
from rota.db import migrations
from rota.errors import ConfigError, DatabaseError, MigrationError, NotMigrated, UsageError

NUMBERS = [migration.number for migration in migrations.available()]

# Everything that pg_dump would write about the schema, by the server's own words for it.
CATALOG = """
    WITH relation AS (
        SELECT oid, relname::text AS name, relkind, reloptions, relpartbound FROM pg_class
        WHERE relnamespace = to_regnamespace('rota') AND relname NOT LIKE 'migration%'
    )
    SELECT 'table' AS kind, name, concat(relkind, reloptions::text), pg_get_expr(relpartbound, oid) FROM relation
    UNION ALL
    SELECT 'column', c.name || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull,
           a.attnum || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    FROM relation c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (c.oid, a.attnum)
    UNION ALL
    SELECT 'constraint', c.name || '.' || k.conname, pg_get_constraintdef(k.oid), k.convalidated::text
    FROM relation c JOIN pg_constraint k ON k.conrelid = c.oid
    UNION ALL
    SELECT 'domain', t.typname::text, format_type(t.typbasetype, t.typtypmod), pg_get_constraintdef(k.oid)
    FROM pg_type t JOIN pg_constraint k ON k.contypid = t.oid WHERE t.typnamespace = to_regnamespace('rota')
    UNION ALL
    SELECT 'index', c.name, pg_get_indexdef(c.oid), i.indisvalid::text
    FROM relation c JOIN pg_index i ON i.indexrelid = c.oid
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), ''
    FROM pg_proc p WHERE p.pronamespace = to_regnamespace('rota')
    UNION ALL
    SELECT 'trigger', c.name || '.' || t.tgname, pg_get_triggerdef(t.oid), t.tgenabled::text
    FROM relation c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
    UNION ALL
    SELECT 'view', name, pg_get_viewdef(oid), '' FROM relation WHERE relkind = 'v'
    ORDER BY 1, 2, 3, 4
"""


@pytest.fixture
def empty(empty_dsn: str) -> Any:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        yield conn


def catalog(conn: psycopg.Connection[Any]) -> list[Any]:
    return conn.execute(CATALOG.encode()).fetchall()


def numbers(done: list[migrations.Migration]) -> list[int]:
    return [migration.number for migration in done]


@pytest.mark.req("F03")
def test_up_applies_everything_once(empty: psycopg.Connection[Any]) -> None:
    assert numbers(migrations.up(empty)) == NUMBERS
    before = catalog(empty)
    assert {kind for kind, *_ in before} == {"table", "column", "constraint", "domain", "index", "function", "trigger", "view"}
    assert migrations.up(empty) == []
    assert catalog(empty) == before


@pytest.mark.req("F03")
def test_down_removes_everything(empty: psycopg.Connection[Any]) -> None:
    migrations.up(empty)
    assert numbers(migrations.down(empty, to=0)) == NUMBERS[::-1]
    assert empty.execute("SELECT to_regnamespace('rota')").fetchone() == (None,)
    assert migrations.down(empty, to=0) == []


@pytest.mark.req("F03")
def test_up_down_up_gives_the_same_schema(empty: psycopg.Connection[Any], conn: psycopg.Connection[Any]) -> None:
    fresh = catalog(conn)
    migrations.up(empty)
    migrations.down(empty, to=0)
    migrations.up(empty)
    assert catalog(empty) == fresh


@pytest.mark.req("F03")
def test_each_step_rolls_back_to_what_was_before_it(empty: psycopg.Connection[Any]) -> None:
    for number in NUMBERS:
        before = catalog(empty)
        migrations.up(empty, to=number)
        after = catalog(empty)
        assert numbers(migrations.down(empty, to=number - 1)) == [number]
        assert catalog(empty) == before
        assert numbers(migrations.up(empty, to=number)) == [number]
        assert catalog(empty) == after


@pytest.mark.req("F03")
def test_a_changed_migration_is_refused(conn: psycopg.Connection[Any]) -> None:
    conn.execute("UPDATE rota.migration SET checksum = 'other' WHERE number = 1")
    with pytest.raises(MigrationError, match=r"0001 engine was applied on .* with another text"):
        migrations.up(conn)
    assert [state.number for state in migrations.status(conn) if state.changed] == [1]


@pytest.mark.req("F03")
def test_a_migration_of_a_later_version_is_left_alone(conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.migration (number, name, checksum) VALUES (9999, 'later', 'x')")
    before = catalog(conn)
    with pytest.raises(MigrationError, match="roll back 9999 later first"):
        migrations.down(conn, to=0)
    assert catalog(conn) == before
    assert [state.name for state in migrations.status(conn) if state.unknown] == ["later"]


@pytest.mark.req("F03")
def test_missing_migrations_are_named(empty: psycopg.Connection[Any]) -> None:
    migrations.up(empty, to=1)
    with pytest.raises(DatabaseError, match=r"the database lacks \d+ migrations: 0002 enqueue, .* more: run `rota migrate up`"):
        migrations.require_current(migrations.status(empty))
    migrations.up(empty)
    migrations.require_current(migrations.status(empty))


@pytest.mark.req("F03")
def test_processes_that_migrate_at_once_do_each_step_once(empty_dsn: str, tmp_path: Path) -> None:
    processes = [command.start("migrate", "up", cwd=tmp_path, dsn=empty_dsn) for _ in range(4)]
    said = tmp_path / "stderr"
    assert [process.wait(PATIENCE_S) for process in processes] == [0] * 4, said.read_text()
    applied = [line for line in said.read_text().splitlines() if line.startswith("applied")]
    assert sorted(applied) == [f"applied {each.number:04} {each.name}" for each in migrations.available()]


@pytest.mark.req("F03")
def test_a_migration_does_not_wait_long_for_a_locked_table(
    conn: psycopg.Connection[Any], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = catalog(conn)
    migrations.down(conn, to=1)
    with psycopg.connect(dsn) as reader, monkeypatch.context() as patience:
        patience.setattr(migrations, "LOCK_TIMEOUT", "100ms")  # for this only: the server's own clean-up may hold a table too
        reader.execute("SELECT count(*) FROM rota.jobs")  # its transaction stays open
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migrations.down(conn, to=0)
    migrations.up(conn)
    assert catalog(conn) == before


@pytest.mark.req("F03")
def test_a_step_that_fails_leaves_nothing_behind(empty: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = migrations.Migration(1, "broken", "CREATE TABLE rota.half (); SELECT 1 / 0", "")
    monkeypatch.setattr(migrations, "available", lambda *_: [broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrations.up(empty)
    assert empty.execute("SELECT to_regnamespace('rota')").fetchone() == (None,)


@pytest.mark.req("F03")
def test_the_search_path_does_not_matter(empty: psycopg.Connection[Any], conn: psycopg.Connection[Any]) -> None:
    for name in ("job", "run", "migration"):
        empty.execute(f"CREATE TABLE public.{name} (mine text)".encode())
    empty.execute("SET search_path = public")
    migrations.up(empty)
    assert catalog(empty) == catalog(conn)
    migrations.down(empty, to=0)
    assert empty.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (3,)


@pytest.mark.req("F03")
def test_an_old_server_is_refused(empty: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "OLDEST_POSTGRES", 99)
    with pytest.raises(DatabaseError, match=r"PostgreSQL \d+ is too old: Rota needs 99 or newer"):
        migrations.up(empty)
    assert empty.execute("SELECT to_regnamespace('rota')").fetchone() == (None,)


@pytest.mark.req("F03")
def test_migrating_while_another_process_holds_the_lock_waits_for_it(empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(empty_dsn) as other, psycopg.connect(empty_dsn, autocommit=True) as watcher:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [migrations.LOCK_KEY])
        process = command.start("migrate", "up", cwd=tmp_path, dsn=empty_dsn)
        while not watcher.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchall():
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        other.rollback()
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "stderr").read_text()


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> migrations.Folders:
    """Two migrations of a package outside Rota."""
    folder = tmp_path / "watch_app" / "tables"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    write(
        folder,
        "0001_page",
        "CREATE SCHEMA watch; CREATE TABLE watch.page (id int, at timestamptz DEFAULT rota.now())",
        "DROP SCHEMA watch CASCADE",
    )
    write(folder, "0002_note", "ALTER TABLE watch.page ADD note text", "ALTER TABLE watch.page DROP note")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "watch_app", raising=False)
    return {"watch": "watch_app:tables"}


def write(folder: Path, name: str, up: str, down: str) -> None:
    """Write a migration."""
    (folder / f"{name}.up.sql").write_text(up)
    (folder / f"{name}.down.sql").write_text(down)


def names(done: list[migrations.Migration]) -> list[str]:
    return [str(each) for each in done]


@pytest.mark.req("T05")
class TestIncludedApplications:
    def test_theirs_come_after_rotas_own_and_once(self, empty: psycopg.Connection[Any], watch: migrations.Folders) -> None:
        done = migrations.up(empty, watch)
        assert names(done[-2:]) == ["watch 0001 page", "watch 0002 note"]
        assert len(done) == len(NUMBERS) + 2
        assert migrations.up(empty, watch) == []
        assert [state.namespace for state in migrations.status(empty, watch)] == ["rota"] * len(NUMBERS) + ["watch"] * 2

    def test_one_namespace_goes_up_and_down_by_itself(self, conn: psycopg.Connection[Any], watch: migrations.Folders) -> None:
        assert names(migrations.up(conn, watch, of="watch", to=1)) == ["watch 0001 page"]
        with pytest.raises(NotMigrated, match=r"the database lacks 1 migration: watch 0002 note: run `rota migrate up`"):
            migrations.require_current(migrations.status(conn, watch))
        migrations.up(conn, watch)
        assert names(migrations.down(conn, watch, of="watch", to=0)) == ["watch 0002 note", "watch 0001 page"]
        assert conn.execute("SELECT to_regnamespace('watch')").fetchone() == (None,)
        migrations.require_current(migrations.status(conn))

    def test_rotas_own_come_first(self, empty: psycopg.Connection[Any], watch: migrations.Folders) -> None:
        with pytest.raises(NotMigrated, match="0001 engine"):
            migrations.up(empty, watch, of="watch")
        assert empty.execute("SELECT to_regnamespace('watch')").fetchone() == (None,)

    def test_removing_everything_removes_theirs_first(self, conn: psycopg.Connection[Any], watch: migrations.Folders) -> None:
        migrations.up(conn, watch)
        with pytest.raises(MigrationError, match=r"roll back watch 0001 page, watch 0002 note first, with .* the application"):
            migrations.down(conn, to=0)
        assert names(migrations.down(conn, watch, to=0))[:2] == ["watch 0002 note", "watch 0001 page"]
        assert conn.execute("SELECT to_regnamespace('rota'), to_regnamespace('watch')").fetchone() == (None, None)

    def test_what_theirs_stand_on_stays(self, conn: psycopg.Connection[Any], watch: migrations.Folders, tmp_path: Path) -> None:
        write(
            tmp_path / "watch_app/tables",
            "0003_look",
            "CREATE VIEW watch.looks AS SELECT id FROM rota.schedule",
            "DROP VIEW watch.looks",
        )
        migrations.up(conn, watch)
        with pytest.raises(MigrationError, match=r"0003 schedules cannot be rolled back: .*view watch.looks depends on"):
            migrations.down(conn, watch, to=2)
        migrations.require_current(migrations.status(conn, watch))  # nothing was rolled back
        assert conn.execute("SELECT count(*) FROM watch.looks").fetchone() == (0,)

    def test_a_changed_one_is_refused(self, conn: psycopg.Connection[Any], watch: migrations.Folders, tmp_path: Path) -> None:
        migrations.up(conn, watch)
        write(tmp_path / "watch_app/tables", "0002_note", "SELECT 1", "SELECT 1")
        with pytest.raises(MigrationError, match=r"watch 0002 note was applied on .* with another text"):
            migrations.up(conn, watch)
        assert [str(state) for state in migrations.status(conn, watch) if state.changed] == ["watch 0002 note"]

    @pytest.mark.parametrize(
        ("folders", "why"),
        [
            ({"watch": "no_such_package:tables"}, "are not found at 'no_such_package:tables'"),
            ({"watch": "watch_app:nowhere"}, "are not found at 'watch_app:nowhere'"),
            ({"watch": "watch_app"}, "has no migrations: their files are named 0001_name.up.sql"),
        ],
    )
    def test_a_folder_that_is_wrong(self, watch: migrations.Folders, folders: migrations.Folders, why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            migrations.collect(folders)

    @pytest.mark.parametrize("namespace", ["Watch", "watch me", "", "rota", 7])
    def test_a_namespace_is_a_name_of_its_own(self, namespace: Any) -> None:
        app = Rota("postgresql://nowhere/")
        with pytest.raises(UsageError, match="lowercase letters, digits and _, not 'rota'"):
            app.migrations[namespace] = "watch_app:tables"

    def test_a_namespace_belongs_to_one_application(self) -> None:
        app = Rota("postgresql://nowhere/")
        app.migrations["watch"] = "watch_app:tables"
        app.migrations["watch"] = "watch_app:tables"
        with pytest.raises(UsageError, match="'watch' of migrations belongs to 'watch_app:tables'"):
            app.migrations["watch"] = "another:tables"

    def test_each_has_a_way_back_and_a_number_of_its_own(self, watch: migrations.Folders, tmp_path: Path) -> None:
        folder = tmp_path / "watch_app/tables"
        write(folder, "0002_again", "SELECT 1", "SELECT 1")
        with pytest.raises(ConfigError, match=r"two migrations 0002: again and note"):
            migrations.collect(watch)
        (folder / "0002_again.down.sql").unlink()
        with pytest.raises(ConfigError, match=r"no 0002_again.down.sql"):
            migrations.collect(watch)

    @pytest.mark.parametrize("module", ["rota.apps.feeds", "rota.apps.calendars"])
    def test_those_that_come_with_rota_go_up_down_up(self, conn: psycopg.Connection[Any], dsn: str, module: str) -> None:
        app = Rota(dsn)
        app.include(module)
        [namespace] = app.migrations
        for _ in range(2):
            assert len(migrations.up(conn, app.migrations)) == len(migrations.down(conn, app.migrations, of=namespace, to=0)) > 0
        schemas = conn.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%feeds' OR nspname LIKE '%calendars'"
        ).fetchall()
        assert schemas == []
