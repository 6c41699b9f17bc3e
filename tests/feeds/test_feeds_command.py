"""`rota feeds`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.invoke import Rota

URL = "https://example.org/feed.xml"


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    """The command line in an empty folder; the tables are there."""
    command = Rota(dsn, tmp_path, monkeypatch, capsys)
    command.variables["ROTA_APP_APPS"] = "rota.apps.feeds"
    assert command("migrate", "up").code == 0
    return command


@pytest.mark.req("W01")
def test_add_list_and_remove(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    added = rota("feeds", "add", URL, "--as", "ann")
    assert (added.code, added.out, added.err) == (0, "1\n", f"subscribed to {URL}\n")
    assert "already" in rota("feeds", "add", URL, "--as", "ann").err
    assert rota("feeds", "add", URL, "--as", "bob", "--json").data == {
        "feed_id": 1, "url": URL, "created": False, "subscribed": True,
    }  # fmt: skip
    head, line = rota("feeds", "list").out.splitlines()
    assert head.split()[:3] == ["ID", "TITLE", "HEALTH"]
    assert line.split()[:3] == ["1", "-", "new"]
    assert [each["url"] for each in rota("feeds", "list", "--as", "bob", "--json").data] == [URL]
    assert rota("feeds", "list", "--as", "cid", "--json").data == []

    refused = rota("feeds", "remove", URL, "--as", "ann")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert "others read" in rota("feeds", "remove", URL, "--as", "ann", "--yes").err
    assert rota("feeds", "remove", "1", "--as", "bob", "-y", "--json").data == {"feed_id": 1, "enabled": False}
    assert conn.execute("SELECT enabled FROM rota.schedule WHERE task = 'fetch_feed'").fetchall() == [(False,)]
    assert rota("feeds", "remove", "1", "--as", "bob", "-y").code == 3
    assert rota("feeds", "remove", "https://example.org/other", "-y").code == 3


def test_entries_do_not_steer_the_terminal(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    rota("feeds", "add", URL)
    conn.execute(
        """INSERT INTO feeds.entry (feed_id, uid, title, content, summary, digest)
           SELECT 1, n::text, 'title ' || n || E'\\x1b[2J', '', '', '' FROM generate_series(1, 3) n"""
    )
    lines = rota("feeds", "entries").out.splitlines()
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)
    assert [each["id"] for each in rota("feeds", "entries", URL, "-n", "2", "--json").data] == [3, 2]
    assert rota("feeds", "entries", "7").code == 3


def test_import(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    outlines = "".join(f"<outline xmlUrl='https://example.org/{number}'/>" for number in range(230))
    (rota.folder / "all.opml").write_text(f"<opml><outline xmlUrl='ftp://example.org/'/>{outlines}</opml>")
    done = rota("feeds", "import", "all.opml", "--as", "ann")
    assert done.code == 0
    assert "left out: ftp://example.org/" in done.err
    assert "230 feeds, of which 230 were not known" in done.err
    again = rota("feeds", "import", "all.opml", "--as", "bob", "--json").data
    assert (again["feeds"], again["created"], len(again["refused"])) == (230, 0, 1)
    assert conn.execute("SELECT count(*) FROM rota.schedule WHERE task = 'fetch_feed'").fetchone() == (230,)
    assert conn.execute("SELECT count(*) FROM feeds.subscription").fetchone() == (460,)


@pytest.mark.parametrize("args", [("add", "ftp://example.org/"), ("import", "nothing.opml"), ("list", "--health", "fine")])
def test_what_is_wrong_is_said(rota: Rota, args: tuple[str, ...]) -> None:
    answer = rota("feeds", *args)
    assert (answer.code, answer.err.startswith("error: ")) == (2, True)


@pytest.mark.req("T05")
def test_missing_tables_are_named_with_the_command_that_creates_them(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Rota(dsn, tmp_path, monkeypatch, capsys)
    lacking = command("feeds", "list")
    assert (lacking.code, '"feeds.feeds" does not exist' in lacking.err, "rota migrate up" in lacking.err) == (6, True, True)
