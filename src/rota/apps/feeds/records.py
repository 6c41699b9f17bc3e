"""What is shown of feeds and their entries."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

Health = Literal["new", "ok", "failing", "gone", "off"]


class Feed(BaseModel):
    """A feed: how it does, and when it is fetched next."""

    id: int
    url: str
    host: str
    title: str | None
    site_url: str | None
    health: Health
    enabled: bool
    subscribers: int
    entries: int
    next_fetch_at: datetime | None
    interval_s: float | None
    last_fetched_at: datetime | None
    last_success_at: datetime | None
    last_new_at: datetime | None
    last_status: int | None
    last_error: str | None
    consecutive_failures: int
    websub: Literal["asked", "active", "denied", "ended"] | None
    websub_until: datetime | None
    created_at: datetime
    schedule: str  # its recurring row


class Subscriber(BaseModel):
    """Somebody who reads a feed."""

    subscriber: str
    created_at: datetime


class FeedDetail(Feed):
    """A feed with those who read it (the first hundred), and the addresses that it had before."""

    subscriptions: list[Subscriber]
    addresses: list[str]


class FeedEntry(BaseModel):
    """An entry of a feed, as plain text."""

    id: int
    feed_id: int
    feed_title: str | None
    uid: str
    url: str | None
    title: str
    author: str | None
    text: str
    published_at: datetime | None
    seen_at: datetime
    updated_at: datetime | None


class FullEntry(FeedEntry):
    """An entry with its content: HTML as it came, which is data and belongs into no page."""

    content: str
