"""`rota calendars`, as somebody types it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.calendars.conftest import KEY, Office
from tests.calendars.events import Files, event
from tests.calendars.servers import PASSWORD, USER, Dav
from tests.server.test_calendar_jobs import sign_in
from tests.support.invoke import Rota
from tests.support.serving import serving, settings_for

from rota import Rota as Application

pytestmark = pytest.mark.req("Y03")


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    variables = {"ROTA_SECRETS_KEY": KEY, "ROTA_HTTP_ALLOW": "127.0.0.1", "ENV": "local", "PASSWORD": PASSWORD}
    command = Rota(dsn, tmp_path, monkeypatch, capsys, ROTA_APP_APPS="rota.apps.calendars", **variables)
    assert command("migrate", "up").code == 0
    return command


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Files, Files]:
    return Files(tmp_path / "first"), Files(tmp_path / "second")


def added(rota: Rota, folders: tuple[Files, Files], *more: object) -> None:
    """Add a pair of folders."""
    answer = rota(
        "calendars", "pairs", "add", "team", "--first", f"folder={folders[0].path}", "--second", f"folder={folders[1].path}", *more
    )
    assert answer.code == 0, answer.err


def drain(rota: Rota, office: Office) -> None:
    """Let a worker do what there is; what it says is not what the command says."""
    office.rota.drain_sync()
    rota.capsys.readouterr()


def test_it_works(rota: Rota, folders: tuple[Files, Files], office: Office) -> None:
    added(rota, folders)
    [pair] = rota("calendars", "pairs", "list", "--json").data
    assert (pair["id"], pair["direction"], pair["first_connector"]) == ("team", "both", "folder")
    assert "folder" in rota("calendars", "pairs", "list").out
    folders[0].put(event("a"))
    job = rota("calendars", "sync", "team", "--start", "2030-01-01", "--end", "2030-12-31", "--json").data
    drain(rota, office)
    [summary] = rota("calendars", "log", "team", "--json").data
    assert (summary["job_id"], summary["outcome"], summary["processed"], summary["failed"]) == (job["id"], "completed", 1, 0)
    assert "completed" in rota("calendars", "log", "team").out
    [told] = rota("calendars", "jobs", "team", "--json").data
    assert (told["id"], told["state"]) == (job["id"], "completed")
    shown = rota("calendars", "pairs", "show", "team", "--json").data
    assert shown["events"] == {"alike": 1, "first": 1, "second": 1}
    assert "1 events" in rota("calendars", "pairs", "show", "team").out


def test_conflicts_with_what_has_lost(rota: Rota, folders: tuple[Files, Files], office: Office) -> None:
    added(rota, folders)
    folders[0].put(event("a", "Mine"))
    folders[1].put(event("a", "Theirs", changed="20290601T000000Z"))
    rota("calendars", "sync", "team", "--start", "2030-01-01", "--end", "2030-12-31")
    drain(rota, office)
    [conflict] = rota("calendars", "conflicts", "team", "--json").data
    assert (conflict["kind"], conflict["winner"]) == ("both_edited", "second")
    assert "SUMMARY:Mine" in rota("calendars", "conflicts", "team", "--show", conflict["id"]).out
    assert rota("calendars", "conflicts", "team", "--show", 999).code == 3


def test_a_password_comes_from_a_variable_and_is_never_shown(
    rota: Rota, folders: tuple[Files, Files], make_dav: Callable[[], Dav], conn: psycopg.Connection[Any]
) -> None:
    dav = make_dav()
    ends = ("--first", f"caldav={dav.url}", "--first-user", USER, "--second", f"folder={folders[1].path}")
    assert rota("calendars", "pairs", "add", "ann", *ends, "--first-password", "NOBODY").code == 2
    assert "variable" in rota("calendars", "pairs", "add", "ann", *ends).err
    assert rota("calendars", "pairs", "add", "ann", *ends, "--first-password", "PASSWORD").code == 0
    said = [rota("calendars", "pairs", *words) for words in (("list",), ("show", "ann"), ("show", "ann", "--json"))]
    assert [each for each in said if PASSWORD in each.out + each.err or each.code] == []
    stored = conn.execute("SELECT p::text FROM rota_calendars.pair p").fetchone()
    assert PASSWORD not in str(stored)
    assert rota("calendars", "pairs", "sign-in", "ann", "first", "--user", "bob", "--password", "PASSWORD").code == 0
    assert rota("calendars", "pairs", "sign-in", "ann", "third").code == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("pairs", "add", "x", "--first", "nonsense", "--second", "folder=/tmp"), 2, "CONNECTOR=LOCATION"),
        (("pairs", "add", "x", "--first", "caldev=https://a.example/", "--second", "folder=/tmp"), 2, "did you mean 'caldav'"),
        (("pairs", "add", "x", "--first", "folder=relative", "--second", "folder=/tmp"), 2, "absolute"),
        (("pairs", "add", "x", "--first", "caldav=https://u:p@a.example/", "--second", "folder=/tmp"), 2, "user or password"),
        (("pairs", "show", "nobody"), 3, "there is no pair"),
        (("sync", "nobody"), 3, "there is no pair"),
        (("log", "nobody"), 3, "there is no pair"),
        (("pairs", "remove", "nobody", "--yes"), 3, "there is no pair"),
    ],
)
def test_refusals(rota: Rota, words: tuple[str, ...], code: int, said: str) -> None:
    answer = rota("calendars", *words)
    assert (answer.code, said in answer.err) == (code, True), answer.err


def test_removed_with_what_synchronises_it_by_itself(
    rota: Rota, folders: tuple[Files, Files], conn: psycopg.Connection[Any]
) -> None:
    added(rota, folders, "--every", "15m")
    assert conn.execute("SELECT key FROM rota.schedule WHERE task = 'sync_pair_regularly'").fetchall() == [("team",)]
    assert rota("calendars", "pairs", "remove", "team", "--yes").code == 0
    assert conn.execute("SELECT count(*) FROM rota.schedule WHERE task = 'sync_pair_regularly'").fetchone() == (0,)
    assert rota("calendars", "pairs", "list", "--json").data == []


class TestSeed:
    """AC4: jobs to look at, by the same door that the API has."""

    def test_once(self, rota: Rota, office: Office) -> None:
        first = rota("calendars", "seed", "--json").data
        again = rota("calendars", "seed", "--json").data
        assert (len(first["jobs"]), again["jobs"]) == (3, first["jobs"])
        drain(rota, office)
        log = rota("calendars", "log", "seed:folders", "--json").data
        assert [each["outcome"] for each in log] == ["completed"] * 3
        assert len(list(Path(first["folders"][0]).glob("*.ics"))) >= 6

    @pytest.mark.req("Y02")
    async def test_over_the_route_of_the_api(self, rota: Rota, dsn: str, conn: psycopg.Connection[Any]) -> None:
        async with serving(Application(settings=settings_for(dsn))) as server:
            rota.variables["ROTA_SESSION"] = sign_in(conn, server).cookie
            answer = await asyncio.to_thread(rota, "calendars", "seed", "--server", server.url, "--json")
            rota.variables["ROTA_SESSION"] = "made-up"
            refused = await asyncio.to_thread(rota, "calendars", "seed", "--server", server.url)
        jobs = conn.execute("SELECT id::text, owner FROM rota.job WHERE task = 'sync_pair' ORDER BY id").fetchall()
        assert [id for id, _ in jobs] == json.loads(answer.out.splitlines()[-1])["data"]["jobs"], "before it the server has spoken"
        assert (refused.code, "401" in refused.err) == (6, True)
