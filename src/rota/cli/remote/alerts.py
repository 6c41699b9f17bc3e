"""Alerts and webhooks, over the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from rota.cli.remote.base import Remote, given, read
from rota.control.webhooks import Added
from rota.store.alerts import AlertRecord
from rota.store.webhooks import DeliveryRecord, WebhookRecord


class RemoteAlerts(Remote):
    """What operators see and do of alerts and webhooks."""

    async def list_alerts(self, *, all: bool = False, kind: str | None = None, limit: int = 100) -> Sequence[AlertRecord]:
        """The open alerts, or all of them."""
        return self._page(AlertRecord, "alerts", query={"all": all, "kind": kind, "limit": limit})[0]

    async def get_alert(self, id: int) -> AlertRecord:
        """One alert."""
        return self._get(AlertRecord, "alerts", id)

    async def acknowledge_alert(self, id: int, *, note: str | None = None) -> AlertRecord:
        """Says that the actor knows of it."""
        return self._post(AlertRecord, "alerts", id, "acknowledge", body=given(note=note))

    async def list_webhooks(self) -> Sequence[WebhookRecord]:
        """Who is told of alerts."""
        return self._page(WebhookRecord, "webhooks", query={})[0]

    async def add_webhook(self, url: str, *, kinds: Sequence[str] = ()) -> Added:
        """Makes a webhook for alerts of some kinds, or of all."""
        return self._post(Added, "webhooks", body={"url": url, "kinds": list(kinds)})

    async def set_webhook_enabled(self, id: int, enabled: bool) -> WebhookRecord:
        """Switches a webhook on or off."""
        return self._post(WebhookRecord, "webhooks", id, "enable" if enabled else "disable")

    async def test_webhook(self, id: int) -> UUID:
        """Enqueues a message that says nothing; its number."""
        return read(UUID, self._post(dict[str, Any], "webhooks", id, "test").get("delivery_id"))

    async def remove_webhook(self, id: int) -> None:
        """Removes a webhook, with the record of what was sent to it."""
        self._delete(Any, "webhooks", id)

    async def list_deliveries(self, *, webhook: int | None = None, limit: int = 50) -> Sequence[DeliveryRecord]:
        """The newest messages to webhooks and what became of them."""
        return self._page(DeliveryRecord, "webhooks", "deliveries", query={"webhook": webhook, "limit": limit})[0]
