"""What every connector has to hold: a class of tests to be inherited, with a fixture `there` that makes an empty calendar."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.calendars.events import event, summary_in

from rota.apps.calendars.connectors import Calendar
from rota.apps.calendars.errors import Changed

Open = Callable[[], Calendar]


class Contract:
    """An empty calendar that can be written, opened as often as one likes."""

    async def test_what_is_created_is_listed_and_read(self, there: Open) -> None:
        stored = await there().create("a", "a", event("a"))
        changes = await there().changes(None, {})
        assert (list(changes.changed), changes.gone, changes.problems) == ([stored.href], set(), {})
        fetched = await there().fetch([stored.href])
        assert summary_in(fetched[stored.href].text) == "Talk"
        assert fetched[stored.href].etag == changes.changed[stored.href]
        assert stored.etag in (None, fetched[stored.href].etag)

    async def test_nothing_is_created_over_another(self, there: Open) -> None:
        stored = await there().create("a", "a", event("a"))
        with pytest.raises(Changed) as refused:
            await there().create("a", "a", event("a", "Again"))
        assert refused.value.href == stored.href
        assert summary_in((await there().fetch([stored.href]))[stored.href].text) == "Talk"

    async def test_an_edit_gets_another_etag_and_is_told(self, there: Open) -> None:
        stored = await there().create("a", "a", event("a"))
        before = await there().changes(None, {})
        known = dict(before.changed)
        edited = await there().update(stored.href, known[stored.href], event("a", "Edited"))
        after = await there().changes(before.cursor, known)
        assert after.changed[stored.href] != known[stored.href]
        assert edited.etag in (None, after.changed[stored.href])
        assert summary_in((await there().fetch([stored.href]))[stored.href].text) == "Edited"

    async def test_what_has_changed_is_not_overwritten(self, there: Open) -> None:
        stored = await there().create("a", "a", event("a"))
        old = (await there().fetch([stored.href]))[stored.href].etag
        await there().update(stored.href, old, event("a", "Somebody else's"))
        for attempt in (there().update(stored.href, old, event("a", "Ours")), there().delete(stored.href, old)):
            with pytest.raises(Changed):
                await attempt
        assert summary_in((await there().fetch([stored.href]))[stored.href].text) == "Somebody else's"

    async def test_what_is_deleted_is_gone_and_told(self, there: Open) -> None:
        one = await there().create("a", "a", event("a"))
        two = await there().create("b", "b", event("b"))
        before = await there().changes(None, {})
        known = dict(before.changed)
        await there().delete(one.href, known[one.href])
        after = await there().changes(before.cursor, known)
        assert after.gone == {one.href}
        assert after.changed.get(two.href, known[two.href]) == known[two.href]
        assert list(await there().fetch([one.href, two.href])) == [two.href]

    async def test_what_is_gone_already_is_as_good_as_deleted_and_cannot_be_edited(self, there: Open) -> None:
        stored = await there().create("a", "a", event("a"))
        etag = (await there().fetch([stored.href]))[stored.href].etag
        await there().delete(stored.href, etag)
        await there().delete(stored.href, etag)
        with pytest.raises(Changed):
            await there().update(stored.href, etag, event("a", "Back"))

    async def test_nothing_new_is_nothing(self, there: Open) -> None:
        await there().create("a", "a", event("a"))
        before = await there().changes(None, {})
        known = dict(before.changed)
        after = await there().changes(before.cursor, known)
        assert {href: etag for href, etag in after.changed.items() if known.get(href) != etag} == {}
        assert (after.gone, after.problems) == (set(), {})

    async def test_many(self, there: Open) -> None:
        stored = [await there().create(f"e{n}", f"e{n}", event(f"e{n}")) for n in range(130)]
        assert len((await there().changes(None, {})).changed) == 130
        assert len(await there().fetch([each.href for each in stored])) == 130
