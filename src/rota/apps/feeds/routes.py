"""Feeds over HTTP: `/api/admin/feeds` for operators, `/websub/…` for hubs. Loaded by servers only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, StrictStr

from rota.apps.feeds import websub
from rota.apps.feeds.opml import MAX_BYTES
from rota.apps.feeds.records import Feed, FeedDetail, FeedEntry, FullEntry, Health
from rota.apps.feeds.service import Feeds
from rota.errors import Conflict, NotFound
from rota.server.fields import Body, LongText, Number, Text
from rota.server.guard import allow, public
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.server.problem import problem
from rota.server.schemas import problems
from rota.server.scope import REQUEST_ID
from rota.server.state import State, state_of

router = APIRouter(tags=["feeds"])

MAX_CHALLENGE = 1000
MAX_TEXT = 4000

Server = Annotated[State, Depends(state_of)]
Reads = Annotated[Any, Depends(allow("schedules.read"))]
Changes = Annotated[Any, Depends(allow("schedules.change"))]
Token = Annotated[Text, Path(max_length=100)]


def feeds_of(server: Server) -> Feeds:
    """The feeds of the server's application."""
    feeds: Feeds = server.app.include("rota.apps.feeds")
    return feeds


Own = Annotated[Feeds, Depends(feeds_of)]


class FeedQuery(Body):
    """Which feeds are meant."""

    health: Health | None = Field(default=None, description="Those that do so.")
    q: Text | None = Field(default=None, description="Those with this in their address or title.")
    subscriber: Text | None = Field(default=None, description="Those that somebody reads.")
    cursor: CursorText = None
    limit: Limit = 50


class EntryQuery(Body):
    """Which entries are meant."""

    cursor: CursorText = None
    limit: Limit = 50


class NewSubscription(Body):
    """Somebody is to read a feed."""

    url: Annotated[StrictStr, Field(min_length=1, max_length=MAX_TEXT, examples=["https://example.org/feed.xml"])]
    subscriber: Text | None = Field(default=None, max_length=300, description="Who; whoever is signed in, if left out.")


class SubscribedFeed(BaseModel):
    """The feed, whether it was not known before, and whether they had not been subscribed to it."""

    feed: FeedDetail
    created: bool
    subscribed: bool


class Due(BaseModel):
    """A feed that is fetched as soon as a worker has time."""

    feed_id: int


class OpmlBody(Body):
    """A list of feeds."""

    opml: Annotated[StrictStr, Field(min_length=1, max_length=MAX_BYTES, description="The text of an OPML file.")]
    subscriber: Text | None = Field(default=None, max_length=300, description="Who reads them; else whoever is signed in.")


class RefusedAddress(BaseModel):
    """An address in a list that cannot be subscribed to."""

    url: str
    reason: str


class OpmlTaken(BaseModel):
    """The job that subscribes to the feeds of a list; its progress says how far it is."""

    job_id: UUID
    feeds: int
    refused: list[RefusedAddress]


class Counted(BaseModel):
    """How many there are; with `capped`, there are more than that."""

    count: int
    capped: bool


class Summary(BaseModel):
    """How many feeds do how, and how late the latest of them is."""

    new: Counted
    ok: Counted
    failing: Counted
    gone: Counted
    off: Counted
    oldest_due_at: datetime | None
    late_s: float


@router.get("/api/admin/feeds", operation_id="feeds_list", summary="List feeds")
async def list_feeds(_: Reads, server: Server, feeds: Own, query: Annotated[FeedQuery, Query()]) -> Page[Feed]:
    """Feeds by their numbers, each with how it does and when it is fetched next."""
    place = decode_cursor("feeds", query.cursor, int)
    filter = query.model_dump(exclude={"cursor", "limit"})
    async with server.connection() as conn:
        found = await feeds.list(conn, **filter, after=place[0] if place else 0, limit=query.limit + 1)
    return _page("feeds", found, query.limit)


@router.post("/api/admin/feeds", operation_id="feeds_subscribe", summary="Subscribe to a feed", status_code=201)
async def subscribe(control: Changes, server: Server, feeds: Own, body: NewSubscription) -> SubscribedFeed:
    """Subscribes somebody to a feed, which is fetched at once if it was not known; again is harmless."""
    subscriber = body.subscriber or control.actor.name
    async with server.connection() as conn, conn.transaction():
        done = await feeds.subscribe(conn, body.url, subscriber)
        if done.subscribed:
            await control.record(conn, "feeds.subscribe", done.feed_id, subscriber=subscriber)
        feed = await feeds.get(conn, done.feed_id)
    return SubscribedFeed(feed=feed, created=done.created, subscribed=done.subscribed)


@router.get("/api/admin/feeds/summary", operation_id="feeds_summary", summary="Count feeds by how they do")
async def summary(_: Reads, server: Server, feeds: Own) -> Summary:
    """How many feeds do how."""
    async with server.connection() as conn:
        return Summary(**await feeds.summary(conn))


@router.get("/api/admin/feeds/entries", operation_id="feeds_all_entries", summary="List entries of all feeds")
async def all_entries(_: Reads, server: Server, feeds: Own, query: Annotated[EntryQuery, Query()]) -> Page[FeedEntry]:
    """Entries of all feeds, those that were seen last first; their texts are plain."""
    return await _entries(server, feeds, None, query)


@router.get("/api/admin/feeds/entries/{id}", operation_id="feeds_entry", summary="Show an entry", responses=problems(404))
async def get_entry(_: Reads, server: Server, feeds: Own, id: Number) -> FullEntry:
    """One entry with its content: HTML of strangers, which belongs into no page as it is."""
    async with server.connection() as conn:
        return await feeds.entry(conn, id)


@router.post("/api/admin/feeds/import", operation_id="feeds_import", summary="Import a list of feeds", status_code=202)
async def import_opml(control: Changes, server: Server, feeds: Own, body: OpmlBody) -> OpmlTaken:
    """Has a job subscribe somebody to all feeds of an OPML file; addresses that cannot be are named, and left out."""
    subscriber = body.subscriber or control.actor.name
    async with server.connection() as conn, conn.transaction():
        job_id, opml = await feeds.take_opml(conn, body.opml.encode("utf-8", "replace"), subscriber)
        await control.record(conn, "feeds.import", job_id, subscriber=subscriber, feeds=len(opml.urls))
    refused = [RefusedAddress(url=each.url, reason=each.reason) for each in opml.refused[:1000]]
    return OpmlTaken(job_id=job_id, feeds=len(opml.urls), refused=refused)


@router.get("/api/admin/feeds/{id}", operation_id="feeds_get", summary="Show a feed", responses=problems(404))
async def get_feed(_: Reads, server: Server, feeds: Own, id: Number) -> FeedDetail:
    """One feed, with those who read it."""
    async with server.connection() as conn:
        return await feeds.get(conn, id)


@router.delete(
    "/api/admin/feeds/{id}", operation_id="feeds_unsubscribe", summary="Unsubscribe from a feed", responses=problems(404)
)
async def unsubscribe(
    control: Changes, server: Server, feeds: Own, id: Number,
    subscriber: Annotated[Text | None, Query(max_length=300, description="Who; whoever is signed in, if left out.")] = None,
) -> FeedDetail:  # fmt: skip
    """Ends a subscription; a feed that nobody reads is fetched no more, and its entries stay."""
    reader = subscriber or control.actor.name
    async with server.connection() as conn, conn.transaction():
        await feeds.unsubscribe(conn, id, reader)
        await control.record(conn, "feeds.unsubscribe", id, subscriber=reader)
        return await feeds.get(conn, id)


@router.post("/api/admin/feeds/{id}/fetch", operation_id="feeds_fetch", summary="Fetch a feed now", responses=problems(404, 409))
async def fetch_now(control: Changes, server: Server, feeds: Own, id: Number) -> Due:
    """Makes a feed due now; refused while it is being fetched, or is off."""
    async with server.connection() as conn:
        feed = await feeds.get(conn, id)
    if not feed.enabled:
        raise Conflict(f"feed {id} is {feed.health}: subscribe to it, or enable its schedule {feed.schedule}")
    await control.run_schedule(feed.schedule)
    return Due(feed_id=id)


@router.get(
    "/api/admin/feeds/{id}/entries", operation_id="feeds_entries", summary="List entries of a feed", responses=problems(404)
)
async def list_entries(_: Reads, server: Server, feeds: Own, id: Number, query: Annotated[EntryQuery, Query()]) -> Page[FeedEntry]:
    """Entries of a feed, those that were seen last first; their texts are plain."""
    async with server.connection() as conn:
        await feeds.get(conn, id)
    return await _entries(server, feeds, id, query)


@router.get(
    "/websub/{token}", operation_id="websub_verify", summary="Confirm a subscription to a hub", response_class=PlainTextResponse,
    dependencies=[Depends(public())], responses=problems(404),
)  # fmt: skip
async def verify(
    server: Server,
    token: Token,
    mode: Annotated[str, Query(alias="hub.mode", max_length=20)],
    topic: Annotated[LongText, Query(alias="hub.topic")],
    challenge: Annotated[str, Query(alias="hub.challenge", max_length=MAX_CHALLENGE)] = "",
    lease_seconds: Annotated[int | None, Query(alias="hub.lease_seconds", ge=0, le=10**9)] = None,
    reason: Annotated[LongText | None, Query(alias="hub.reason")] = None,
) -> Response:
    """For hubs: answers with their challenge what we have asked for, and with 404 what we have not."""
    async with server.connection() as conn:
        if not await websub.verify_intent(conn, token, mode, topic, lease_seconds, reason):
            raise NotFound("nobody here has asked for this")
    return PlainTextResponse(challenge if mode != "denied" else "")


@router.post(
    "/websub/{token}", operation_id="websub_deliver", summary="Take news from a hub", dependencies=[Depends(public())],
    status_code=202, response_class=Response, responses=problems(410),
)  # fmt: skip
async def deliver(
    server: Server, feeds: Own, token: Token, request: Request,
    x_hub_signature: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:  # fmt: skip
    """For hubs: keeps what is signed with the secret we gave them. What is not is passed over, which the sender is not told."""
    body = await request.body()
    async with server.connection() as conn:
        kind = request.headers.get("content-type", "")
        taken = await websub.take(feeds, conn, token, x_hub_signature, kind, body)
    if taken == "unknown":
        return problem(410, "gone", "there is no such subscription, or it has ended", request_id=request.scope.get(REQUEST_ID))
    if taken == "full":
        return problem(503, "busy", "earlier messages of this feed wait to be read", request_id=request.scope.get(REQUEST_ID))
    return Response(status_code=202)


async def _entries(server: State, feeds: Feeds, feed_id: int | None, query: EntryQuery) -> Page[FeedEntry]:
    place = decode_cursor("entries", query.cursor, int)
    before = place[0] if place else None
    async with server.connection() as conn:
        found = list(await feeds.entries(conn, feed_id=feed_id, before=before, limit=query.limit + 1))
    return _page("entries", found, query.limit)


def _page(kind: str, found: list[Any], limit: int) -> Page[Any]:
    items = found[:limit]
    return Page(items=items, next=encode_cursor(kind, items[-1].id) if len(found) > limit else None)
