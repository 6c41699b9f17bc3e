"""The rooms: what all connectors hold, and what is particular to each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.calendars.contract import Contract, Open
from tests.calendars.events import BERLIN, Files, calendar, event, vevent
from tests.calendars.servers import PASSWORD, USER, Between, Dav
from tests.support.outside import Outside

from rota.apps.calendars import connectors
from rota.apps.calendars.connectors import Place, connector, skeleton
from rota.apps.calendars.errors import Busy, NotACalendar, SignInFailed, Unavailable
from rota.config import load_settings
from rota.errors import UsageError

pytestmark = pytest.mark.req("Y03")

SETTINGS = load_settings(database_url="postgresql://nowhere/", http_allow="127.0.0.1")


class TestFolder(Contract):
    @pytest.fixture
    def there(self, tmp_path: Path) -> Open:
        return lambda: connector("folder")(Place(str(tmp_path)), SETTINGS)

    async def test_a_folder_that_is_not_there_is_not_empty(self, tmp_path: Path) -> None:
        with pytest.raises(NotACalendar, match="cannot be read"):
            await connector("folder")(Place(str(tmp_path / "unmounted")), SETTINGS).changes(None, {})

    def test_a_relative_path_is_refused(self) -> None:
        with pytest.raises(UsageError, match="absolute"):
            connector("folder")(Place("calendars"), SETTINGS)

    async def test_several_events_in_one_file(self, tmp_path: Path, there: Open) -> None:
        todo = "BEGIN:VTODO\nUID:t\nSUMMARY:Buy milk\nEND:VTODO\n"
        (tmp_path / "all.ics").write_text(calendar(BERLIN, vevent("a"), vevent("b"), todo))
        known = (await there().changes(None, {})).changed
        assert list(known) == ["all.ics#a", "all.ics#b"]
        stored = await there().update("all.ics#a", known["all.ics#a"], event("a", "Edited"))
        await there().delete("all.ics#b", known["all.ics#b"])
        text = (tmp_path / "all.ics").read_text()
        assert ("SUMMARY:Edited" in text, "UID:b" in text, "Buy milk" in text, text.count("BEGIN:VEVENT")) == (True, False, True, 1)
        assert (await there().changes(None, {})).changed == {"all.ics#a": stored.etag}
        await there().delete("all.ics#a", stored.etag or "")
        assert "Buy milk" in (tmp_path / "all.ics").read_text(), "tasks are not ours to remove"

    async def test_a_broken_file_leaves_its_events_as_they_are_known(self, tmp_path: Path, there: Open) -> None:
        Files(tmp_path).put(event("a"), "a.ics")
        known = (await there().changes(None, {})).changed
        (tmp_path / "a.ics").write_bytes(b"\xff\xfe half of somethi")
        (tmp_path / "new.ics").write_text("nonsense")
        changes = await there().changes(None, known)
        assert (changes.changed, changes.gone) == ({}, set())
        assert changes.problems.keys() == {"a.ics#", "a.ics#a", "new.ics#"}

    async def test_other_files_are_left_alone_and_leftovers_cleared(self, tmp_path: Path, there: Open) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        (tmp_path / "below.ics").mkdir()
        (tmp_path / "elsewhere.ics").symlink_to("/etc/passwd")
        for name, age_s in ((".rota-old", 7200), (".rota-new", 0)):
            (tmp_path / name).write_text("half")
            os.utime(tmp_path / name, (time.time() - age_s,) * 2)
        assert (await there().changes(None, {})).changed == {}
        assert sorted(os.listdir(tmp_path)) == [".rota-new", "below.ics", "elsewhere.ics", "notes.txt"]


class TestSkeleton(Contract):
    @pytest.fixture
    def there(self) -> Open:
        skeleton.SERVERS.clear()
        return lambda: skeleton.connect(Place("somewhere"), SETTINGS)

    def test_others_are_made_known_and_unknown_ones_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connectors, "_registered", {})
        connectors.register("example", skeleton.connect)
        assert connector("example") is skeleton.connect
        with pytest.raises(UsageError, match="did you mean 'caldav'"):
            connector("caldev")


class TestCalDav(Contract):
    @pytest.fixture
    def dav(self, make_dav: Callable[[], Dav]) -> Dav:
        return make_dav()

    @pytest.fixture
    def there(self, dav: Dav) -> Open:
        return lambda: connector("caldav")(Place(dav.url, USER, SecretStr(PASSWORD)), SETTINGS)

    @pytest.fixture
    def behind(self, dav: Dav, proxy: Between) -> Open:
        return lambda: connector("caldav")(Place(proxy.url(dav), USER, SecretStr(PASSWORD)), SETTINGS)

    @pytest.mark.parametrize("status", [400, 403, 409, 410, 412, 415, 501, 507])
    async def test_a_refused_token_means_that_everything_is_listed(
        self, there: Open, behind: Open, proxy: Between, status: int
    ) -> None:
        one = await there().create("a", "a", event("a"))
        before = await behind().changes(None, {})
        two = await there().create("b", "b", event("b"))
        await there().delete(one.href, before.changed[one.href])
        proxy.answers("REPORT", status, times=1, body="<error xmlns='DAV:'><valid-sync-token/></error>")
        after = await behind().changes(before.cursor, before.changed)
        assert (after.full, list(after.changed), after.gone) == (True, [two.href], {one.href})

    async def test_without_tokens_the_ctag_says_whether_to_list(self, there: Open, behind: Open, proxy: Between) -> None:
        await there().create("a", "a", event("a"))
        before = await behind().changes(None, {})
        assert before.cursor is not None
        only_ctag = before.cursor.replace('"token"', '"old"')
        proxy.asked.clear()
        assert (await behind().changes(only_ctag, before.changed)).full
        assert [method for method, _ in proxy.asked] == ["PROPFIND", "PROPFIND"]

    @pytest.mark.parametrize(
        ("status", "headers", "error"),
        [
            (401, {}, SignInFailed), (429, {"Retry_After": "7"}, Busy), (503, {"Retry_After": "7"}, Busy), (503, {}, Unavailable),
            (500, {}, Unavailable), (404, {}, NotACalendar), (403, {}, NotACalendar),
            (301, {"Location": "/elsewhere/"}, NotACalendar),
        ],
    )  # fmt: skip
    async def test_what_answers_mean(
        self, behind: Open, proxy: Between, status: int, headers: dict[str, str], error: type[Exception]
    ) -> None:
        proxy.answers("PROPFIND", status, **headers)
        with pytest.raises(error, match=str(status)) as raised:
            await behind().changes(None, {})
        assert PASSWORD not in str(raised.value)
        if isinstance(raised.value, Busy):
            assert raised.value.retry_after_s == 7

    @pytest.mark.parametrize("body", ["", "hello", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "<a/>"])
    async def test_answers_that_make_no_sense(self, behind: Open, proxy: Between, body: str) -> None:
        proxy.answers("PROPFIND", 207, body=body)
        with pytest.raises(NotACalendar):
            await behind().changes(None, {})

    async def test_something_else_than_a_calendar_is_told(self, dav: Dav) -> None:
        above = dav.url.rpartition(dav.path)[0] + f"/{USER}/"
        with pytest.raises(NotACalendar, match="not a calendar"):
            await connector("caldav")(Place(above, USER, SecretStr(PASSWORD)), SETTINGS).changes(None, {})

    async def test_a_server_cannot_lead_us_elsewhere(self, behind: Open, proxy: Between) -> None:
        found = "<status>HTTP/1.1 200 OK</status></propstat></response>"
        response = f"<response><href>{{}}</href><propstat><prop><getetag>1</getetag></prop>{found}"
        hrefs = ["/other/x.ics", "http://elsewhere.example/x.ics", "../x.ics", "x/../../y.ics"]
        listed = "".join(response.format(href) for href in hrefs)
        about = (
            "<multistatus xmlns='DAV:'><response><href>/</href><propstat><prop><resourcetype><collection/>"
            f"<calendar xmlns='urn:ietf:params:xml:ns:caldav'/></resourcetype></prop>{found}"
            f"{listed}</multistatus>"
        )
        proxy.answers("PROPFIND", 207, body=about)
        assert (await behind().changes(None, {})).changed == {}

    async def test_names_with_spaces_and_letters_beyond_ascii(self, dav: Dav, there: Open) -> None:
        dav.put(event("a"), "a%20b%C3%BC.ics")
        [href] = (await there().changes(None, {})).changed
        assert list(await there().fetch([href])) == [href]


class TestIcs:
    async def test_problems_of_single_events_do_not_hide_the_others(self, web_server: Outside) -> None:
        web_server.answers(200, calendar(vevent("a"), vevent("b").replace("UID:b\n", "")), "text/calendar")
        changes = await connector("ics")(Place(web_server.url), SETTINGS).changes(None, {})
        assert (list(changes.changed), len(changes.problems)) == (["a"], 1)

    @pytest.mark.parametrize(("status", "text"), [(200, "<html>Sign in</html>"), (200, ""), (404, ""), (410, "")])
    async def test_what_is_not_a_calendar_is_not_an_empty_one(self, web_server: Outside, status: int, text: str) -> None:
        web_server.answers(status, text)
        with pytest.raises(NotACalendar) as raised:
            await connector("ics")(Place(web_server.url), SETTINGS).changes(None, {})
        assert "/hook" not in str(raised.value), "the path of a private feed is its password"

    def test_webcal_is_https(self) -> None:
        assert connector("ics")(Place("webcal://example.org/private-123/basic.ics"), SETTINGS).shown == "example.org"
