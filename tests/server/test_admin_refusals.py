"""What the admin API refuses, and how: one form, a stable code, the field, and nothing that was sent."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.shop import Shop

from rota.errors import InvalidCursor
from rota.server.paging import decode_cursor, encode_cursor

pytestmark = pytest.mark.req("A03")

LISTS = {
    "/jobs": ("jobs", UUID(int=7)),
    "/runs": ("runs", UUID(int=7), 1),
    "/logs": ("logs", datetime(2026, 1, 1, tzinfo=UTC), UUID(int=7), 1, 1),
    "/logs/follow": ("logs.follow", datetime(2026, 1, 1, tzinfo=UTC)),
    "/errors": ("errors", datetime(2026, 1, 1, tzinfo=UTC), "0123456789abcdef"),
    "/tasks": ("tasks", "send"),
    "/schedules": ("schedules", "nightly"),
    "/alerts": ("alerts", datetime(2026, 1, 1, tzinfo=UTC), 7),
    "/webhooks/deliveries": ("deliveries", UUID(int=7)),
}


texts = st.text(st.characters(codec="utf-8"))


def forged(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


class TestCursors:
    async def test_garbage_and_cursors_of_other_lists_are_refused(self, shop: Shop) -> None:
        for path in LISTS:
            await self.check(shop, path)

    async def check(self, shop: Shop, path: str) -> None:
        kind, *place = LISTS[path]
        mine = encode_cursor(str(kind), *place)
        assert (await shop.ask("GET", path, params={"cursor": mine})).status == 200
        others = [encode_cursor(str(other), *rest) for other, *rest in LISTS.values() if other != kind]
        wrong = [
            "x",
            "",
            "=",
            "ééé",
            "\0",
            mine + "A",
            mine[:-2],
            mine + "=",
            forged(kind),
            forged(kind, *[None] * len(place)),
            *others,
        ]
        wrong += [forged(kind, *["a\0b"] * len(place)), forged(kind, *[[]] * len(place)), forged(kind, *[1e99] * len(place))]
        for cursor in wrong:
            answer = await shop.ask("GET", path, params={"cursor": cursor})
            assert (answer.status, answer.body["code"], answer.body["errors"][0]["field"]) == (422, "cursor", "cursor"), cursor

    @given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")))
    def test_whatever_is_sent_is_a_place_or_refused(self, text: str) -> None:
        for kind, types in (("jobs", (UUID,)), ("alerts", (datetime, int)), ("tasks", (str,))):
            try:
                place = decode_cursor(kind, text, *types)
            except InvalidCursor:
                continue
            assert place is not None
            assert encode_cursor(kind, *place) == text

    @given(
        st.datetimes(timezones=st.just(UTC)), st.uuids(), st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8"))
    )
    def test_what_a_list_gives_comes_back(self, at: datetime, id: UUID, number: int, text: str) -> None:
        text = text.replace("\0", "")
        assert decode_cursor("x", encode_cursor("x", at, id, number, text), datetime, UUID, int, str) == (at, id, number, text)


WRONG = [
    ('{"task": "send", "payload": {"user_id": 1}, "priority": true}', "body.priority"),
    ('{"task": "send", "payload": {"user_id": 1}, "priority": "1"}', "body.priority"),
    ('{"task": "send", "payload": {"user_id": 1}, "priority": 1.0}', "body.priority"),
    ('{"task": "send", "payload": {"user_id": 1}, "priority": 40000}', "body.priority"),
    ('{"task": "send", "payload": {"user_id": 1}, "strict": 1}', "body.strict"),
    ('{"task": "send", "payload": {"user_id": 1}, "strict": "true"}', "body.strict"),
    ('{"task": "send", "payload": {"user_id": NaN}}', "body.payload"),
    ('{"task": "send", "payload": {"user_id": 1, "lang": "\\u0000"}}', "body.payload"),
    ('{"task": "send", "payload": {"user_id": 1, "lang": "\\ud800"}}', "body.payload"),
    ('{"task": "send", "payload": {"a\\u0000": 1}}', "body.payload"),
    ('{"task": "send", "payload": "{}"}', "body.payload"),
    ('{"task": "se\\u0000nd"}', "body.task"),
    ('{"task": "se\\ud800nd"}', "body.task"),
    ('{"task": 7}', "body.task"),
    ('{"task": ""}', "body.task"),
    ('{"task": "send", "parents": ["x"]}', "body.parents.0"),
    ('{"task": "send", "delay": -1}', "body.delay"),
    ('{"task": "send", "delay": true}', "body.delay"),
    ('{"task": "send", "delay": 1e300}', "body.delay"),
    ('{"task": "send", "run_at": 1700000000}', "body.run_at"),
    ('{"task": "send", "run_at": "2030-01-01"}', "body.run_at"),
    ('{"task": "send", "max_attempts": 0}', "body.max_attempts"),
    ('{"task": "send", "tusk": 1}', "body.tusk"),
    ("[]", "body"),
    ("null", "body"),
]


class TestBodies:
    async def test_what_does_not_fit_is_named(self, shop: Shop) -> None:
        for body, field in WRONG:
            answer = await shop.ask("POST", "/jobs", data=body)
            assert (answer.status, answer.body["code"]) == (422, "validation"), (body, answer.body)
            assert answer.body["errors"][0]["field"] == field, (body, answer.body)

    async def test_what_is_no_json_or_nested_without_end_is_refused(self, shop: Shop) -> None:
        deep = '{"task": "send", "payload": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}"
        for data in ("{", "", deep, '{"task": ' + "9" * 5000 + "}", b"\xff\xfe"):
            answer = await shop.ask("POST", "/jobs", data=data)
            assert answer.status in (400, 422), data[:20]
            assert answer.headers["content-type"] == "application/problem+json"

    async def test_a_payload_beyond_what_a_job_may_have_is_refused(self, shop: Shop) -> None:
        body = {"task": "send", "payload": {"user_id": 1, "lang": "x" * 1_048_600}}
        assert (await shop.ask("POST", "/jobs", data=BytesIO(json.dumps(body).encode()))).status in (413, 422)


async def test_paths_that_mean_nothing(shop: Shop) -> None:
    for path in ("/tasks/a%00b", "/schedules/a%00b", "/queues/a%00b", "/jobs/x", "/alerts/x", "/alerts/0", "/workers/x"):
        assert await shop.refused("GET", path) == (422, "validation"), path


async def test_what_is_refused_changes_nothing_and_is_not_written_down(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    before = conn.execute("SELECT count(*) FROM rota.audit").fetchone()
    await shop.refused("PUT", "/schedules/sweep", {"cron": "nonsense"})
    await shop.refused("PUT", "/tasks/send/settings", {"rate": "nonsense"})
    await shop.refused("POST", "/queues/none/pause")
    await shop.refused("POST", "/tasks/send/trigger", {"payload": {"user_id": "x"}})
    await shop.refused("POST", "/jobs/bulk", {"action": "retry", "filter": {}})
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == before
    assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (0,)


async def test_a_change_and_its_record_stand_or_fall_together(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    conn.execute("ALTER TABLE rota.audit ADD CONSTRAINT full_up CHECK (operation <> 'queues.pause')")
    answer = await shop.ask("POST", "/queues/mail/pause")
    assert answer.status >= 400
    assert (await shop.get("/queues/mail"))["paused_at"] is None


async def test_answers_that_have_not_changed_are_not_sent_again(shop: Shop) -> None:
    for path in ("/tasks", "/schedules", "/queues/mail", "/jobs/stats", "/webhooks"):
        first = await shop.ask("GET", path)
        for match in (first.etag, f'"x", {first.etag}', f"W/{first.etag}", "*"):
            again = await shop.ask("GET", path, headers={"If-None-Match": match})
            assert (again.status, again.body) == (304, None), (path, match)
        assert (await shop.ask("GET", path, headers={"If-None-Match": '"x"'})).status == 200
