"""Alerts, and the webhooks that are told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.control.plane_base import Plane
from rota.control.versions import check_version
from rota.lazy import Lazy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from rota.control import alerts, webhooks
    from rota.control.webhooks import Added
    from rota.db.connection import AsyncConn
    from rota.store.alerts import AlertRecord
    from rota.store.webhooks import DeliveryRecord, WebhookRecord
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    alerts = Lazy("rota.control.alerts")
    webhooks = Lazy("rota.control.webhooks")


class AlertPlane(Plane):
    """What operators see and do of alerts and webhooks."""

    async def list_alerts(
        self, *, all: bool = False, kind: str | None = None, before: tuple[datetime, int] | None = None, limit: int = 100
    ) -> Sequence[AlertRecord]:
        """The open alerts, or all of them."""
        async with self._for("alerts.read") as conn:
            return await alerts.list_alerts(conn, all=all, kind=kind, before=before, limit=limit)

    async def get_alert(self, id: int) -> AlertRecord:
        """One alert."""
        async with self._for("alerts.read") as conn:
            return await alerts.get_alert(conn, id)

    async def acknowledge_alert(self, id: int, *, note: str | None = None) -> AlertRecord:
        """Says that the actor knows of it."""
        async with self._changing("alerts.change") as conn:
            alert = await alerts.acknowledge(conn, id, by=self.actor.name, note=note)
            await self._record(conn, "alerts.acknowledge", id, note=note)
            return alert

    async def list_webhooks(self) -> Sequence[WebhookRecord]:
        """Who is told of alerts."""
        async with self._for("webhooks.read") as conn:
            return await webhooks.list_webhooks(conn)

    async def get_webhook(self, id: int) -> WebhookRecord:
        """One of them."""
        async with self._for("webhooks.read") as conn:
            return await webhooks.get_webhook(conn, id)

    async def add_webhook(self, url: str, *, kinds: Sequence[str] = ()) -> Added:
        """Makes a webhook for alerts of some kinds, or of all; its secret is shown this once."""
        async with self._changing("webhooks.change") as conn:
            added = await webhooks.add(conn, self._app.settings, url, kinds=kinds)
            await self._record(conn, "webhooks.add", added.id, url=webhooks.shown_url(url), kinds=list(kinds))
            return added

    async def set_webhook_enabled(self, id: int, enabled: bool, *, expect: str | None = None) -> WebhookRecord:
        """Switches a webhook on or off; what waits to be sent waits no longer."""
        async with self._changing("webhooks.change") as conn:
            await self._expect_webhook(conn, id, expect)
            await webhooks.set_enabled(conn, id, enabled=enabled)
            await self._record(conn, "webhooks.enable" if enabled else "webhooks.disable", id)
            return await webhooks.get_webhook(conn, id)

    async def test_webhook(self, id: int) -> UUID:
        """Enqueues a message that says nothing, to see whether it arrives; its number."""
        async with self._changing("webhooks.change") as conn:
            delivery = await webhooks.test(conn, id)
            await self._record(conn, "webhooks.test", id, delivery=str(delivery))
            return delivery

    async def remove_webhook(self, id: int, *, expect: str | None = None) -> None:
        """Removes a webhook, with the record of what was sent to it."""
        async with self._changing("webhooks.change") as conn:
            await self._expect_webhook(conn, id, expect)
            await webhooks.remove(conn, id)
            await self._record(conn, "webhooks.remove", id)

    async def list_deliveries(
        self, *, webhook: int | None = None, before: UUID | None = None, limit: int = 50
    ) -> Sequence[DeliveryRecord]:
        """The newest messages to webhooks and what became of them."""
        async with self._for("webhooks.read") as conn:
            return await webhooks.list_deliveries(conn, webhook=webhook, before=before, limit=limit)

    async def _expect_webhook(self, conn: AsyncConn, id: int, expect: str | None) -> None:
        if expect is not None:
            check_version(await webhooks.get_webhook(conn, id, lock=True), expect, f"webhook {id}")
